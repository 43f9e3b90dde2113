//! Kernels and their launches.

use std::borrow::Cow;

/// The threads of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks in x and y. A launch without blocks does nothing.
    pub grid: (u32, u32),
    /// Threads of a block, all in x.
    pub block: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
}

impl Launch {
    /// A grid of `blocks` in x, of `block` threads each, without shared memory.
    pub const fn linear(blocks: u32, block: u32) -> Self {
        Self { grid: (blocks, 1), block, shared: 0 }
    }

    /// The same with `shared` bytes of shared memory per block.
    #[must_use]
    pub const fn with_shared(self, shared: u32) -> Self {
        Self { shared, ..self }
    }
}

/// A kernel, or one of a family, which the value selects. A launch with the arguments of another kernel does not compile.
pub trait Kernel {
    /// The one parameter of the entry, `#[repr(C)]`: device and host compile the same type.
    type Args: Copy + Send + Sync + 'static;

    /// The name of the entry in the PTX.
    fn entry(&self) -> Cow<'static, str>;

    /// Grid, block and shared memory for these arguments.
    fn launch(&self, args: &Self::Args) -> Launch;

    /// The kernel as a function, for the emulator.
    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(Self::Args);
}
