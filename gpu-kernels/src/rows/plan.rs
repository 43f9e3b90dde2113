//! The kernels of rows, and their launches.

use std::borrow::Cow;

use super::{MoveArgs, ROWS_PER_BLOCK, RenameArgs, SaveArgs};
use crate::{Kernel, Launch, WARP};

/// The launch of a kernel with a warp per row.
pub(crate) const fn warp_per_row(rows: u32) -> Launch {
    Launch::linear(rows.div_ceil(ROWS_PER_BLOCK), ROWS_PER_BLOCK * WARP)
}

/// The kernel that copies rows of links. Arguments: [`SaveArgs`].
#[derive(Clone, Copy, Debug)]
pub struct SaveRows;

impl Kernel for SaveRows {
    type Args = SaveArgs;

    fn entry(&self) -> Cow<'static, str> {
        "save_rows".into()
    }

    fn launch(&self, args: &SaveArgs) -> Launch {
        warp_per_row(args.rows)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(SaveArgs) {
        super::kernel::save_rows
    }
}

/// The kernel that moves rows of a table to other slots. Arguments: [`MoveArgs`].
#[derive(Clone, Copy, Debug)]
pub struct MoveRows;

impl Kernel for MoveRows {
    type Args = MoveArgs;

    fn entry(&self) -> Cow<'static, str> {
        "move_rows".into()
    }

    fn launch(&self, args: &MoveArgs) -> Launch {
        warp_per_row(args.rows)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(MoveArgs) {
        super::kernel::move_rows
    }
}

/// The kernel that renames links after vertices were moved. Arguments: [`RenameArgs`].
#[derive(Clone, Copy, Debug)]
pub struct RenameLinks;

impl Kernel for RenameLinks {
    type Args = RenameArgs;

    fn entry(&self) -> Cow<'static, str> {
        "rename_links".into()
    }

    fn launch(&self, args: &RenameArgs) -> Launch {
        warp_per_row(args.kept)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(RenameArgs) {
        super::kernel::rename_links
    }
}
