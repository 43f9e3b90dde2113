//! The launches of residuals and their rotation: which kernel, and its grid.

use jasper_core::ElementKind;

#[cfg(feature = "kernels")]
use super::hadamard;
use super::{RESIDUALS, ResidualArgs, RotateArgs};
use crate::launch::MAX_SHARED_BYTES;
use crate::{Entry, Kernel, LaunchConfig, entry};

/// Residuals of rows. Arguments: [`ResidualArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Residuals {
    /// The element of the vectors.
    pub element: ElementKind,
}

// SAFETY: the entry points take these arguments, and the grid covers them.
unsafe impl Kernel for Residuals {
    type Args = ResidualArgs;

    fn entry(&self) -> Entry<ResidualArgs> {
        entry::find(RESIDUALS, &self.element)
    }

    fn launch_config(&self, args: &ResidualArgs) -> LaunchConfig {
        LaunchConfig::warp_per_row(args.rows_len)
    }
}

/// The fast rotation. Arguments: [`RotateArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rotate {
    /// In shared memory, which is several times faster.
    InShared,
    /// In global memory, for rows of any length.
    InGlobal,
}

impl Rotate {
    /// The kernel for rows of `dimension` coordinates.
    pub const fn new(dimension: u32) -> Self {
        if dimension * 4 <= MAX_SHARED_BYTES { Self::InShared } else { Self::InGlobal }
    }
}

// SAFETY: the entry points take these arguments, and the grid covers them.
unsafe impl Kernel for Rotate {
    type Args = RotateArgs;

    fn entry(&self) -> Entry<RotateArgs> {
        match self {
            Self::InShared => entry::entry!(hadamard::rotate_shared),
            Self::InGlobal => entry::entry!(hadamard::rotate_global),
        }
    }

    /// # Panics
    /// Panics if the dimension is not a multiple of 64, or a row that is rotated in shared memory does not fit there.
    fn launch_config(&self, args: &RotateArgs) -> LaunchConfig {
        assert!(args.dimension.is_multiple_of(64) && args.dimension > 0, "{} coordinates", args.dimension);
        match self {
            Self::InShared => LaunchConfig::warp_per_row_with_shared(args.rows_len, args.dimension * 4),
            Self::InGlobal => LaunchConfig::warp_per_row(args.rows_len),
        }
    }
}
