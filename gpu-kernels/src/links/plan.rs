//! The grids of the traversals.

use std::borrow::Cow;

use super::{ReachArgs, RoomArgs, RowsToRepairArgs};
use crate::bits::WORD;
use crate::rows::warp_per_row;
use crate::{Kernel, Launch};

/// The kernel of one step of a breadth-first search. Arguments: [`ReachArgs`].
#[derive(Clone, Copy, Debug)]
pub struct Reach;

impl Kernel for Reach {
    type Args = ReachArgs;

    fn entry(&self) -> Cow<'static, str> {
        "reach".into()
    }

    fn launch(&self, args: &ReachArgs) -> Launch {
        warp_per_row(args.frontier_len)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(ReachArgs) {
        super::reach::reach
    }
}

/// The kernel that finds live vertices with deleted neighbors: reads every row of a live vertex once. Arguments:
/// [`RowsToRepairArgs`].
#[derive(Clone, Copy, Debug)]
pub struct FindRowsToRepair;

impl Kernel for FindRowsToRepair {
    type Args = RowsToRepairArgs;

    fn entry(&self) -> Cow<'static, str> {
        "find_rows_to_repair".into()
    }

    fn launch(&self, args: &RowsToRepairArgs) -> Launch {
        warp_per_row(args.slots.div_ceil(WORD))
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(RowsToRepairArgs) {
        super::rows_to_repair::find_rows_to_repair
    }
}

/// The kernel that finds room for links to unreachable vertices: reads each candidate once, and a word of the row of most.
/// Arguments: [`RoomArgs`].
#[derive(Clone, Copy, Debug)]
pub struct FindRoom;

impl Kernel for FindRoom {
    type Args = RoomArgs;

    fn entry(&self) -> Cow<'static, str> {
        "find_room".into()
    }

    fn launch(&self, args: &RoomArgs) -> Launch {
        assert!(
            (1..=args.links_stride).contains(&args.max_degree),
            "max_degree ({}) must be 1 to {}",
            args.max_degree,
            args.links_stride
        );
        warp_per_row(args.lists)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(RoomArgs) {
        super::room::find_room
    }
}
