//! Kernels and their launches.

use std::hash::Hash;

use crate::{Entry, WARP_SIZE};

/// Bytes of shared memory that a block may use on every device without opting in.
pub const MAX_SHARED_BYTES: u32 = 48 << 10;

/// Most threads of a launch with a thread per item.
pub(crate) const MAX_THREADS: u64 = 1 << 32;
/// Threads per block of such a launch.
const ITEM_THREADS: u32 = 256;

/// Warps per block of launches with a warp per row.
const WARPS_PER_BLOCK: u32 = 8;

/// The threads of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in x and y. A launch without blocks does nothing.
    pub grid: (u32, u32),
    /// Threads of a block, all in x.
    pub block: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
}

impl LaunchConfig {
    /// A grid of `blocks` in x, of `block` threads each, without shared memory.
    pub const fn linear(blocks: u32, block: u32) -> Self {
        Self { grid: (blocks, 1), block, shared: 0 }
    }

    /// This launch with `shared` bytes of shared memory per block.
    #[must_use]
    pub const fn with_shared(self, shared: u32) -> Self {
        Self { shared, ..self }
    }

    /// A launch with one thread for each of `items`.
    ///
    /// # Panics
    /// Panics if there are more than [`MAX_THREADS`]: threads have numbers of 32 bits.
    pub(crate) fn thread_per_item(items: u64) -> Self {
        assert!(items <= MAX_THREADS, "a launch of {items} threads must be of at most {MAX_THREADS}");
        Self::linear(items.div_ceil(u64::from(ITEM_THREADS)) as u32, ITEM_THREADS)
    }

    /// A launch with one warp for each of `rows`.
    pub(crate) const fn warp_per_row(rows: u32) -> Self {
        Self::linear(rows.div_ceil(WARPS_PER_BLOCK), WARPS_PER_BLOCK * WARP_SIZE)
    }

    /// A launch with one warp for each of `rows`, and `bytes` of shared memory per warp.
    ///
    /// # Panics
    /// Panics if that is more than a block has without opting in.
    pub(crate) fn warp_per_row_with_shared(rows: u32, bytes: u32) -> Self {
        let warps = WARPS_PER_BLOCK.min(MAX_SHARED_BYTES / bytes);
        assert!(warps > 0, "rows of {bytes} bytes in {MAX_SHARED_BYTES} of shared memory");
        Self::linear(rows.div_ceil(warps), warps * WARP_SIZE).with_shared(warps * bytes)
    }
}

/// Constants that are patched into the PTX of a kernel before JIT compilation: see `jasper_ptx::specialize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Specialization {
    /// The values of its constants (`cuda_std::constant`): the shape of the rows that it reads.
    pub constants: [u32; 4],
    /// Minimum resident blocks per multiprocessor (`.minnctapersm`) at which `ptxas` does not spill, on compute
    /// capabilities 8.x, 9.0 and 10.x, and 12.x.
    pub(crate) min_blocks: [u32; 3],
}

impl Specialization {
    /// A specialization with `min_blocks` from compute capability 9.0 on. Code for capabilities below takes more
    /// registers.
    pub(crate) const fn new(constants: [u32; 4], min_blocks: u32) -> Self {
        let below = if min_blocks == 1 { 1 } else { min_blocks * 2 / 3 };
        Self { constants, min_blocks: [below, min_blocks, min_blocks] }
    }

    /// The `.minnctapersm` for devices of a compute capability: no more than [`max_blocks`].
    pub fn min_blocks_on(&self, capability: (u32, u32)) -> u32 {
        let generation = match capability.0 {
            ..9 => 0,
            9..12 => 1,
            12.. => 2,
        };
        self.min_blocks[generation].min(max_blocks(capability))
    }
}

/// Most resident blocks per multiprocessor on devices of a compute capability, from the table of technical
/// specifications in the CUDA programming guide.
pub const fn max_blocks(capability: (u32, u32)) -> u32 {
    match capability {
        (8, 6 | 7) => 16,
        (8, 9) | (12, _) => 24,
        _ => 32,
    }
}

/// A kernel, or one of a family, which the value selects. A launch with the arguments of another kernel does not
/// compile. Nor does a safe implementation, because launches trust what it says:
///
/// ```compile_fail,E0200
/// # use gpu_kernels::rows::{CopyRows, CopyRowsArgs};
/// # use gpu_kernels::{Entry, Kernel, LaunchConfig};
/// #[derive(Clone, Copy, PartialEq, Eq, Hash)]
/// struct Other;
///
/// impl Kernel for Other {
///     type Args = CopyRowsArgs;
///
///     fn entry(&self) -> Entry<CopyRowsArgs> {
///         CopyRows.entry()
///     }
///
///     fn launch_config(&self, args: &CopyRowsArgs) -> LaunchConfig {
///         CopyRows.launch_config(args)
///     }
/// }
/// ```
///
/// # Safety
/// - The entry point takes one parameter with the layout of `Args`. With the constants of the specialization, it is
///   the same function as the body of the entry.
/// - Equal values have the same entry and specialization.
/// - Launched as [`launch_config`](Self::launch_config) says, it accesses no more than what the arguments describe.
pub unsafe trait Kernel: Copy + Eq + Hash + Send + Sync + 'static {
    /// The one parameter of the entry point, `#[repr(C)]`: device and host compile the same type.
    type Args: Copy + Send + Sync + 'static;

    /// The entry point in the PTX, and for the emulator.
    fn entry(&self) -> Entry<Self::Args>;

    /// Grid, block and shared memory for these arguments.
    fn launch_config(&self, args: &Self::Args) -> LaunchConfig;

    /// The constants patched into the PTX before JIT compilation, if any.
    fn specialization(&self) -> Option<Specialization> {
        None
    }
}

/// Declares kernels of one entry point each: `Kernel(Args) = module::function, |args| launch;`.
macro_rules! kernels {
    ($($(#[$doc:meta])* $Kernel:ident($Args:ty) = $module:ident::$entry:ident, |$args:ident| $launch:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $Kernel;

        // SAFETY: the emulator's body has the type of the arguments, and the PTX is compiled from the same function;
        // the declaration gives its grid.
        unsafe impl $crate::Kernel for $Kernel {
            type Args = $Args;

            fn entry(&self) -> $crate::Entry<$Args> {
                $crate::entry::entry!($module::$entry)
            }

            fn launch_config(&self, $args: &$Args) -> $crate::LaunchConfig {
                $launch
            }
        }
    )* };
}
pub(crate) use kernels;
