//! Kernels and their launches.

use std::borrow::Cow;

use crate::WARP_SIZE;

/// Bytes of shared memory that a block may use on every device without opting in.
pub const MAX_SHARED_BYTES: u32 = 48 << 10;

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
    /// capability 9.0 and above.
    pub(crate) min_blocks: u32,
}

impl Specialization {
    /// The `.minnctapersm` for devices of a compute capability. Code for capabilities below 9.0 takes more registers.
    pub const fn min_blocks_on(&self, (major, _): (u32, u32)) -> u32 {
        if major >= 9 || self.min_blocks == 1 { self.min_blocks } else { self.min_blocks * 2 / 3 }
    }
}

/// A kernel, or one of a family, which the value selects. A launch with the arguments of another kernel does not
/// compile.
pub trait Kernel {
    /// The one parameter of the entry point, `#[repr(C)]`: device and host compile the same type.
    type Args: Copy + Send + Sync + 'static;

    /// The name of the entry point in the PTX.
    fn entry_point(&self) -> Cow<'static, str>;

    /// Grid, block and shared memory for these arguments.
    fn launch_config(&self, args: &Self::Args) -> LaunchConfig;

    /// The constants patched into the PTX before JIT compilation, if any.
    fn specialization(&self) -> Option<Specialization> {
        None
    }

    /// The kernel as a function, for the emulator.
    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(Self::Args);
}

/// Declares kernels of one entry point each: `Kernel(Args) = module::function, |args| launch;`.
macro_rules! kernels {
    ($($(#[$doc:meta])* $Kernel:ident($Args:ty) = $module:ident::$entry:ident, |$args:ident| $launch:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $Kernel;

        impl $crate::Kernel for $Kernel {
            type Args = $Args;

            fn entry_point(&self) -> std::borrow::Cow<'static, str> {
                stringify!($entry).into()
            }

            fn launch_config(&self, $args: &$Args) -> $crate::LaunchConfig {
                $launch
            }

            #[cfg(feature = "kernels")]
            fn body(&self) -> unsafe fn($Args) {
                $module::$entry
            }
        }
    )* };
}
pub(crate) use kernels;
