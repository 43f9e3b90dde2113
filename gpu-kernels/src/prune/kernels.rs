//! The kernels (PTX entry points): four for each [row kind](crate::row_kind).

use cuda_std::prelude::*;

use super::pair_distances::Rows;
use super::{FindPeersArgs, MergeArgs, PruneNewArgs, RepairArgs};
use crate::element::{Dot, F16, F32, I8, SquaredL2, U8};
use crate::row_kind::{body, row_kinds};

/// A kernel of one family for one row kind. It calls the function of the family's name, in the module of that name.
/// When it is loaded for a length of rows, other launch bounds replace these (`specialization` in `launches`).
macro_rules! kernel_fn {
    ($(#[$doc:meta])* $kind_name:ident $family:ident($Args:ident)) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments are as the fields of their type say, and the launch is that of the kernel's `launch_config`
        /// for them.
        #[kernel(name = $family _ $kind_name, max_threads = 128, min_blocks = 3)]
        pub unsafe fn $family(args: $Args) {
            // SAFETY: upheld by the caller.
            unsafe { super::super::$family::$family::<Distances>(args) }
        }
    };
}

macro_rules! kernels_of_rows {
    ($($element:ident $op:ident $kind_name:ident;)*) => {
        $(mod $kind_name {
            use super::*;

            type Distances = Rows<$element, $op>;
            kernel_fn! {
                /// Prunes the candidates of new vertices.
                $kind_name prune_new(PruneNewArgs)
            }
            kernel_fn! {
                /// Merges back edges into rows.
                $kind_name merge(MergeArgs)
            }
            kernel_fn! {
                /// Compares new vertices with each other.
                $kind_name find_peers(FindPeersArgs)
            }
            kernel_fn! {
                /// Repairs rows around deleted neighbors.
                $kind_name repair(RepairArgs)
            }
        })*
        body!(prune_new() -> PruneNewArgs { $($kind_name => $kind_name::prune_new;)* });
        body!(merge() -> MergeArgs { $($kind_name => $kind_name::merge;)* });
        body!(find_peers() -> FindPeersArgs { $($kind_name => $kind_name::find_peers;)* });
        body!(repair() -> RepairArgs { $($kind_name => $kind_name::repair;)* });
    };
}
row_kinds!(kernels_of_rows);
