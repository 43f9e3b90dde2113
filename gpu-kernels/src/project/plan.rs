//! The grid of a projection.

use std::borrow::Cow;

use super::{DEPTH, PANEL, ProjectArgs, THREADS, TILE};
use crate::{Kernel, Launch};

const _: () = assert!(PANEL as usize == jasper_quant::parts::PANEL);

/// The projection. Arguments: [`ProjectArgs`].
#[derive(Clone, Copy, Debug)]
pub struct Project;

impl Kernel for Project {
    type Args = ProjectArgs;

    fn entry(&self) -> Cow<'static, str> {
        "project".into()
    }

    /// # Panics
    /// If a stride is not a multiple of 64.
    fn launch(&self, args: &ProjectArgs) -> Launch {
        for stride in [args.stride, args.out_stride] {
            assert!(stride.is_multiple_of(TILE), "rows of {stride} floats must be a multiple of {TILE}");
        }
        let grid = (args.rows_len.div_ceil(TILE), args.out_stride / TILE);
        Launch { grid, block: THREADS, shared: 2 * DEPTH * TILE * size_of::<f32>() as u32 }
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(ProjectArgs) {
        super::kernel::project
    }
}
