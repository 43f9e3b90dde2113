//! Robust prune, and the steps of a build or an update around it.
//!
//! A kernel here prunes the candidates of one vertex in one block. It is Algorithm 2 (RobustPrune) of the DiskANN paper on squared
//! distances, and leaves the same rows as the CPU executor, to the bit:
//!
//! ```text
//! robust_prune(p, candidates, alpha, R):
//!     candidates <- the nearest max_candidates of them, sorted by (distance to p, id)
//!     row <- []
//!     for a in [1, alpha]:                               two rounds, as in DiskANN's code
//!         for c in candidates, unless deferred:          in the second round none is deferred
//!             move c to row; stop once row has R entries
//!             for each d left in candidates:
//!                 if alpha * distance(c, d) <= distance(p, d): drop d        c occludes d
//!                 else if distance(c, d) <= distance(p, d):    defer d       to the second round
//! ```
//!
//! Deviations made for speed, and why the rows stay the same:
//!
//! 1. *One pass over distances.* Both tests are made when `c` is kept, so that no pair is compared twice. What the
//!    second round would drop is dropped at once: it is occluded with `alpha` whichever round `c` was kept in.
//! 2. *Candidates are split among the warps* of the block. Each warp compares its share with `c`, several rows per load,
//!    and offers its first candidate; the minimum over the warps is the next `c`. There is one block barrier per kept
//!    candidate (`robust_prune`, `remaining`).
//! 3. *Already pruned candidates are not compared with each other.* A merge starts from a row that an earlier prune
//!    chose; none of its entries occludes another. The parts of a row kept by each round ascend, which is how they are
//!    found again (`already_pruned`). Such an entry has the unvisited bit of its key cleared.
//! 4. *All pairs at once.* For at most 128 candidates of short rows, every pair that may be needed is compared up front
//!    and the two rounds run on bit sets (`all_pairs`). More distances are computed than the loop needs; those that it
//!    would not have asked for are not counted.
//!
//! | module | holds |
//! | --- | --- |
//! | `space` | distances of one vertex to others, several per warp |
//! | `layout` | the layout of a block's shared memory |
//! | `score` | scores vertices as keys in shared memory |
//! | `sort` | sorts keys in shared memory and removes duplicates |
//! | `remaining` | the candidates that are left, per warp |
//! | `robust_prune` | both rounds of a prune |
//! | `all_pairs` | the same for few candidates |
//! | `bit_set` | sets of at most 128 candidates |
//! | `already_pruned` | finds the entries of a row that an earlier prune kept |
//! | `find_duplicates` | new vertices whose vector is in the graph already |
//! | `batch_candidates` | candidates from the same batch |
//! | `link` | prunes the candidates of a new vertex into its row |
//! | `merge` | adds reversed edges to the rows of their targets |
//! | `repair` | replaces deleted neighbors in a row |
//! | `rows` | reverses edges; writes rows into the graph |
//! | `update` | the arguments of the kernels that only updates use |
//! | `entries` | the table of kernels |
//! | `plan` | selects a kernel and its grid |

#[cfg(feature = "kernels")]
mod all_pairs;
#[cfg(feature = "kernels")]
mod already_pruned;
#[cfg(feature = "kernels")]
mod batch_candidates;
#[cfg(feature = "kernels")]
mod bit_set;
#[cfg(feature = "kernels")]
mod entries;
#[cfg(feature = "kernels")]
mod find_duplicates;
mod layout;
#[cfg(feature = "kernels")]
mod link;
#[cfg(feature = "kernels")]
mod merge;
#[cfg(not(target_arch = "nvptx64"))]
mod plan;
#[cfg(feature = "kernels")]
mod remaining;
#[cfg(feature = "kernels")]
mod repair;
#[cfg(feature = "kernels")]
mod robust_prune;
#[cfg(feature = "kernels")]
mod rows;
#[cfg(feature = "kernels")]
mod score;
#[cfg(feature = "kernels")]
mod sort;
#[cfg(feature = "kernels")]
mod space;
mod update;

#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{BatchCandidates, FindDuplicates, Link, Merge, Publish, Repair, ReverseEdges};
pub use update::{BatchCandidatesArgs, FindDuplicatesArgs, RepairArgs};

use crate::graph::{DistanceForm, GraphArgs};
use crate::{DevicePtr, DevicePtrMut};

/// Threads per block of the kernels whose threads share nothing.
#[cfg(not(target_arch = "nvptx64"))]
const ROW_THREADS: u32 = 256;

/// `alpha` of the first round.
#[cfg(feature = "kernels")]
const FIRST_ALPHA: f32 = 1.0;

/// What every prune takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PruneArgs {
    /// The graph.
    pub graph: GraphArgs,
    /// How distances follow from sums.
    pub form: DistanceForm,
    /// The slack of the second round.
    pub alpha: f32,
    /// The most links per vertex, up to the stride of the graph's links.
    pub max_degree: u32,
    /// The most candidates that a prune considers, nearest first.
    pub max_candidates: u32,
    /// Counters of the cost, to which a launch adds.
    pub counters: DevicePtrMut<u64>,
}

/// When a kept vertex occludes a candidate.
#[cfg(feature = "kernels")]
#[derive(Clone, Copy)]
struct OcclusionRule {
    alpha: f32,
    /// Added to distances before `alpha` scales them, which makes negated products positive.
    origin: f32,
}

#[cfg(feature = "kernels")]
impl OcclusionRule {
    #[inline(always)]
    fn new(args: &PruneArgs) -> Self {
        let origin =
            if args.form == DistanceForm::NegatedDot { args.graph.largest_squared_norm } else { 0.0 };
        Self { alpha: args.alpha, origin }
    }

    /// Whether a kept vertex occludes a candidate at `distance`, where `between` is the distance of the two. The same
    /// operations as on the CPU.
    #[inline(always)]
    fn occludes(self, between: f32, distance: f32) -> bool {
        if self.alpha == FIRST_ALPHA {
            return between <= distance;
        }
        self.alpha * (self.origin + between) <= self.origin + distance
    }
}

/// Index in [`PruneArgs::counters`]: vertices that searches expanded.
pub const HOPS: usize = 0;
/// Distances computed by searches.
pub const DISTANCES: usize = 1;
/// Distances computed by prunes.
pub const PRUNE_DISTANCES: usize = 2;
/// Vertices that were not linked because another has the same vector.
pub const IDENTICAL: usize = 3;
/// The number of counters.
pub const COUNTERS: usize = 4;

/// Arguments of the kernels that link new vertices.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LinkArgs {
    /// What every prune takes.
    pub prune: PruneArgs,
    /// `[lists]`: the new vertices.
    pub batch: DevicePtr<u32>,
    /// `[lists][candidates_stride]`: distinct keys in any order; the vertex itself may be among them.
    pub candidates: DevicePtr<u64>,
    /// `[lists][max_degree]`: more candidates: [`BatchCandidatesArgs::batch_candidates`]. Null if there are none.
    pub batch_candidates: DevicePtr<u64>,
    /// `[lists][2]`: the number of candidates, which is that of vertices that the search expanded, and the number of
    /// distances that it computed.
    pub work: DevicePtr<u32>,
    /// `[lists]`: a candidate with the same vector, from [`FindDuplicatesArgs::identical`]: then the vertex gets no links.
    pub identical: DevicePtr<u32>,
    /// `[lists]`: the vertex, or [`NO_ROW`](crate::graph::NO_ROW) if it gets no links.
    pub vertices: DevicePtrMut<u32>,
    /// `[lists][links_stride]`: links, nearest first, then [`NO_ROW`](crate::graph::NO_ROW).
    pub ids: DevicePtrMut<u32>,
    /// `[lists][links_stride]`: the upper half of each link's key.
    pub distances: DevicePtrMut<u32>,
    /// Vertices.
    pub lists: u32,
    /// Places for candidates of each.
    pub candidates_stride: u32,
}

/// Arguments of the kernels that merge reversed edges into the rows of their targets.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MergeArgs {
    /// What every prune takes.
    pub prune: PruneArgs,
    /// `[edges]`, sorted: the target in the upper half, the upper half of the edge's key in the lower. Edges to
    /// [`NO_ROW`](crate::graph::NO_ROW) are ignored.
    pub keys: DevicePtr<u64>,
    /// `[edges]`: the source of each edge, ascending among equal keys.
    pub sources: DevicePtr<u32>,
    /// `[targets + 1]`: where the edges to each target begin.
    pub begins: DevicePtr<u32>,
    /// `[targets]`: the target, or [`NO_ROW`](crate::graph::NO_ROW).
    pub vertices: DevicePtrMut<u32>,
    /// `[targets][links_stride]`: the new row, then [`NO_ROW`](crate::graph::NO_ROW).
    pub ids: DevicePtrMut<u32>,
    /// Targets.
    pub targets: u32,
}

/// Arguments of the kernel that reverses edges.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReverseEdgesArgs {
    /// `[lists]`, as [`LinkArgs::vertices`].
    pub vertices: DevicePtr<u32>,
    /// `[lists][links_stride]`, as [`LinkArgs::ids`].
    pub ids: DevicePtr<u32>,
    /// `[lists][links_stride]`, as [`LinkArgs::distances`].
    pub distances: DevicePtr<u32>,
    /// `[lists][links_stride]`: the sort key of each edge, as [`MergeArgs::keys`]; all ones where there is no link.
    pub keys: DevicePtrMut<u64>,
    /// `[lists][links_stride]`: the source of each edge.
    pub sources: DevicePtrMut<u32>,
    /// Vertices.
    pub lists: u32,
    /// Places for links of each.
    pub links_stride: u32,
}

/// Arguments of the kernel that writes rows into the graph.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PublishArgs {
    /// `[rows]`: the vertex of each row, distinct; rows of [`NO_ROW`](crate::graph::NO_ROW) are skipped.
    pub vertices: DevicePtr<u32>,
    /// `[rows][links_stride]`, at a multiple of 16.
    pub ids: DevicePtr<u32>,
    /// `[slots][links_stride]`: the links of the graph.
    pub links: DevicePtrMut<u32>,
    /// Rows to write.
    pub rows: u32,
    /// Places for links of each, a multiple of 32.
    pub links_stride: u32,
}
