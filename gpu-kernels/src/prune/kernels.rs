//! The kernels (PTX entry points): four for each [row kind](crate::row_kind).

use cuda_std::prelude::*;

use super::pair_distances::Rows;
use super::{FindPeersArgs, LinkArgs, MergeArgs, RepairArgs};
use crate::element::{Dot, F16, F32, I8, SquaredL2, U8};
use crate::row_kind::{body, row_kinds};

macro_rules! kernel_fn {
    ($kind_name:ident $family:ident($Args:ident) $(#[$doc:meta])*) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments are as the fields of their type say, and the launch is that of their `launch_config`.
        #[kernel(name = $family _ $kind_name, max_threads = 128, min_blocks = 3)]
        pub unsafe fn $family(args: $Args) {
            // SAFETY: the caller's promise.
            unsafe { super::super::$family::$family::<Distances>(args) }
        }
    };
}

macro_rules! kernels_of_rows {
    ($($element:ident $op:ident $kind_name:ident;)*) => {
        $(mod $kind_name {
            use super::*;

            type Distances = Rows<$element, $op>;
            kernel_fn!($kind_name link(LinkArgs)
                /// Prunes the candidates of new vertices.
            );
            kernel_fn!($kind_name merge(MergeArgs)
                /// Merges back edges into rows.
            );
            kernel_fn!($kind_name find_peers(FindPeersArgs)
                /// Compares new vertices with each other.
            );
            kernel_fn!($kind_name repair(RepairArgs)
                /// Repairs rows around deleted neighbors.
            );
        })*
        body!(link() -> LinkArgs { $($kind_name => $kind_name::link;)* });
        body!(merge() -> MergeArgs { $($kind_name => $kind_name::merge;)* });
        body!(find_peers() -> FindPeersArgs { $($kind_name => $kind_name::find_peers;)* });
        body!(repair() -> RepairArgs { $($kind_name => $kind_name::repair;)* });
    };
}
row_kinds!(kernels_of_rows);
