//! The grids of residuals and their rotation.

use std::borrow::Cow;

use jasper_core::ElementKind;

use super::{ResidualArgs, RotateArgs};
use crate::rows::warp_per_row;
use crate::{Kernel, Launch};

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

    fn launch(&self, args: &ResidualArgs) -> Launch {
        warp_per_row(args.chosen.len)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(ResidualArgs) {
        super::kernel::body(&self.entry())
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

/// The most rows per block in shared memory.
const SHARED_ROWS: u32 = 8;
/// Shared memory per block that every device has without opting in.
const SHARED_BYTES: u32 = 48 << 10;
/// Lanes of a warp.
const WARP: u32 = 32;

impl Rotate {
    /// The kernel for rows of `dimension` coordinates.
    pub const fn new(dimension: u32) -> Self {
        Self(if dimension * 4 <= SHARED_BYTES { RotateIn::Shared } else { RotateIn::Global })
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
    /// If the dimension is not a multiple of 64, or a row does not fit the shared memory it is to be in.
    fn launch(&self, args: &RotateArgs) -> Launch {
        assert!(args.dimension.is_multiple_of(64) && args.dimension > 0, "{} coordinates", args.dimension);
        match self.0 {
            RotateIn::Shared => {
                let row = args.dimension * 4;
                let rows = SHARED_ROWS.min(SHARED_BYTES / row);
                assert!(rows > 0, "rows of {row} bytes in {SHARED_BYTES} of shared memory");
                Launch::linear(args.rows.div_ceil(rows), rows * WARP).with_shared(rows * row)
            }
            RotateIn::Global => warp_per_row(args.rows),
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
