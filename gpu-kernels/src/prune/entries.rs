//! The kernels (PTX entries) of the [table](super::tables): four for each kind of rows.

use cuda_std::prelude::*;

use super::pair_distances::Rows;
use super::tables::pruned_rows;
use super::{BatchCandidatesArgs, LinkArgs, MergeArgs, RepairArgs};
use crate::coordinates::{Dot, F16, F32, I8, SquaredL2, U8};
use crate::search::shape::shape;

macro_rules! entry {
    ($rows:ident $family:ident($Args:ident) $blocks:tt $(#[$doc:meta])*) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments are as the fields of their type say, and the launch is the one planned for them.
        #[kernel(name = $family _ $rows, max_threads = 128, min_blocks = $blocks)]
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
    ($($element:ident $term:ident $bytes:literal $rows:ident $blocks:tt;)*) => {
        $(mod $rows {
            use super::*;

            type Distances = Rows<
                $element,
                $term,
                { shape($bytes).width },
                { $bytes / 16 },
                { shape($bytes).steps },
                { shape($bytes).rows },
            >;
            entry!($rows link(LinkArgs) $blocks
                /// Prunes the candidates of new vertices.
            );
            entry!($rows merge(MergeArgs) $blocks
                /// Merges back edges into rows.
            );
            entry!($rows batch_candidates(BatchCandidatesArgs) $blocks
                /// Compares new vertices with each other.
            );
            entry!($rows repair(RepairArgs) 3
                /// Repairs rows around deleted neighbors.
                ///
                /// Keeps more values live than the other families, and so gets more registers: 3 blocks per
                /// multiprocessor.
            );
        })*
        body!(link(LinkArgs): $($rows)*);
        body!(merge(MergeArgs): $($rows)*);
        body!(batch_candidates(BatchCandidatesArgs): $($rows)*);
        body!(repair(RepairArgs): $($rows)*);
    };
}
pruned_rows!(entries);
