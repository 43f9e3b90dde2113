//! The grids of residuals and their rotation.

use std::borrow::Cow;

use jasper_core::ElementKind;

use super::{ResidualArgs, RotateArgs};
use crate::launch::MAX_SHARED_BYTES;
use crate::{Kernel, LaunchConfig};

/// Residuals of rows. Arguments: [`ResidualArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Residuals {
    /// The element of the vectors.
    pub element: ElementKind,
}

impl Kernel for Residuals {
    type Args = ResidualArgs;

    fn entry(&self) -> Cow<'static, str> {
        format!("residuals_{}", self.element).into()
    }

    fn launch_config(&self, args: &ResidualArgs) -> LaunchConfig {
        LaunchConfig::warp_per_row(args.selection.len)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(ResidualArgs) {
        super::kernel::body(self.element)
    }
}

/// The memory that rows are rotated in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RotateIn {
    /// Shared memory, which is several times faster.
    Shared,
    /// Global memory, for rows of any length.
    Global,
}

/// The fast rotation. Arguments: [`RotateArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rotate(pub RotateIn);

impl Rotate {
    /// The kernel for rows of `dimension` coordinates.
    pub const fn new(dimension: u32) -> Self {
        Self(if dimension * 4 <= MAX_SHARED_BYTES { RotateIn::Shared } else { RotateIn::Global })
    }
}

impl Kernel for Rotate {
    type Args = RotateArgs;

    fn entry(&self) -> Cow<'static, str> {
        match self.0 {
            RotateIn::Shared => "rotate_shared".into(),
            RotateIn::Global => "rotate_global".into(),
        }
    }

    /// # Panics
    /// Panics if the dimension is not a multiple of 64, or a row that is rotated in shared memory does not fit there.
    fn launch_config(&self, args: &RotateArgs) -> LaunchConfig {
        assert!(args.dimension.is_multiple_of(64) && args.dimension > 0, "{} coordinates", args.dimension);
        match self.0 {
            RotateIn::Shared => LaunchConfig::warp_per_row_with_shared(args.rows, args.dimension * 4),
            RotateIn::Global => LaunchConfig::warp_per_row(args.rows),
        }
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(RotateArgs) {
        match self.0 {
            RotateIn::Shared => super::hadamard::rotate_shared,
            RotateIn::Global => super::hadamard::rotate_global,
        }
    }
}
