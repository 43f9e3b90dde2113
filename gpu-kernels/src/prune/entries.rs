//! The kernels (PTX entries) of the [table](super::tables): four for each row kind.

use cuda_std::prelude::*;

use super::pair_distances::Rows;
use super::tables::pruned_rows;
use super::{BatchCandidatesArgs, LinkArgs, MergeArgs, RepairArgs};
use crate::coordinates::{Dot, F16, F32, I8, SquaredL2, U8};

macro_rules! entry {
    ($rows:ident $family:ident($Args:ident) $(#[$doc:meta])*) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments are as the fields of their type say, and the launch is the one planned for them.
        #[kernel(name = $family _ $rows, max_threads = 128, min_blocks = 3)]
        pub unsafe fn $family(args: $Args) {
            // SAFETY: the caller's promise.
            unsafe { super::super::$family::$family::<Distances>(args) }
        }
    };
}

/// The functions of the entries of a family, for the emulator.
macro_rules! body {
    ($family:ident($Args:ident): $($rows:ident)*) => {
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) fn $family(rows: &str) -> unsafe fn($Args) {
            match rows {
                $(stringify!($rows) => $rows::$family,)*
                _ => unreachable!("the table holds every kernel of the family, that of {rows} too"),
            }
        }
    };
}

macro_rules! entries {
    ($($element:ident $term:ident $rows:ident;)*) => {
        $(mod $rows {
            use super::*;

            type Distances = Rows<$element, $term>;
            entry!($rows link(LinkArgs)
                /// Prunes the candidates of new vertices.
            );
            entry!($rows merge(MergeArgs)
                /// Merges back edges into rows.
            );
            entry!($rows batch_candidates(BatchCandidatesArgs)
                /// Compares new vertices with each other.
            );
            entry!($rows repair(RepairArgs)
                /// Repairs rows around deleted neighbors.
            );
        })*
        body!(link(LinkArgs): $($rows)*);
        body!(merge(MergeArgs): $($rows)*);
        body!(batch_candidates(BatchCandidatesArgs): $($rows)*);
        body!(repair(RepairArgs): $($rows)*);
    };
}
pruned_rows!(entries);
