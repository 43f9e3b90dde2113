//! Robust prune and what a build does around it: from what searches expanded to the links of new vertices, and from
//! these, turned around, to the rows of the vertices that they lead to.
//!
//! Algorithm 3 of the paper on squared distances, step for step what the CPU executor does, so that both leave the same
//! rows. A block takes a list of candidates, sorts it in shared memory and goes on turn by turn: the first candidate that
//! is left is kept, and all others that it occludes towards are dropped, `alpha * d(kept, other) <= d(vertex, other)`. There
//! are two rounds of turns: those that a kept one occludes towards with a slack of 1 wait for the second.
//! Each warp owns a share of what is left, and compares it with the kept one many rows at a time; the warps meet once a
//! turn. So no two candidates are compared twice, and none that a nearer one has dropped before.
//!
//! | module | holds |
//! | --- | --- |
//! | `space` | distances of one vertex to others, many at once |
//! | `layout` | what is where in the shared memory of a block |
//! | `score` | distances of one vertex to others, as keys there |
//! | `sort` | keys sorted there, and made distinct |
//! | `left` | the candidates that a warp has left |
//! | `keep` | the turns of both rounds |
//! | `few` | the same for few candidates, all pairs compared at once |
//! | `set` | sets of them |
//! | `find_duplicates` | new vertices whose row is in the graph already |
//! | `join` | candidates from the batch itself |
//! | `link` | candidates of a new vertex to its links |
//! | `already_pruned` | what of an old row an earlier prune kept |
//! | `merge` | new edges into the row of their target |
//! | `bypass` | the row of a live vertex around its deleted neighbours |
//! | `rows` | links turned around; rows written into the graph |
//! | `update` | the arguments of what updates alone do |
//! | `entries` | the table of kernels |
//! | `plan` | which of them, and its grid |

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

/// Threads of a block that goes through rows without sharing anything.
#[cfg(not(target_arch = "nvptx64"))]
const ROW_THREADS: u32 = 256;

/// OcclusionRule of the first round, as on the CPU.
#[cfg(feature = "kernels")]
const FIRST_ALPHA: f32 = 1.0;

/// What every prune takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PruneArgs {
    /// Whose vertices are pruned.
    pub graph: GraphArgs,
    /// What is made of the sums: the form that rows are scored with against each other.
    pub form: DistanceForm,
    /// OcclusionRule of the rule.
    pub alpha: f32,
    /// Most links of a vertex, up to the stride of the graph's links.
    pub max_degree: u32,
    /// Candidates that are looked at, nearest first.
    pub max_candidates: u32,
    /// What it cost, added to what is there.
    pub counters: DevicePtrMut<u64>,
}

/// The rule of the last round.
#[cfg(feature = "kernels")]
#[derive(Clone, Copy)]
struct OcclusionRule {
    alpha: f32,
    /// Where distances are counted from: negated products from the least that there can be.
    origin: f32,
}

#[cfg(feature = "kernels")]
impl OcclusionRule {
    #[inline(always)]
    fn of(args: &PruneArgs) -> Self {
        let origin =
            if args.form == DistanceForm::NegatedDot { args.graph.largest_squared_norm } else { 0.0 };
        Self { alpha: args.alpha, origin }
    }

    /// Whether a kept vertex occludes towards another, which is at a `distance`: the steps of the CPU's prune.
    #[inline(always)]
    fn occludes(self, between: f32, distance: f32) -> bool {
        if self.alpha == FIRST_ALPHA {
            return between <= distance;
        }
        self.alpha * (self.origin + between) <= self.origin + distance
    }
}

/// Counters of [`PruneArgs::counters`]: vertices that searches expanded.
pub const HOPS: usize = 0;
/// Distances that searches worked out.
pub const DISTANCES: usize = 1;
/// Distances that prunes worked out.
pub const PRUNE_DISTANCES: usize = 2;
/// Vertices that were not linked because their row is that of another.
pub const IDENTICAL: usize = 3;
/// How many counters there are.
pub const COUNTERS: usize = 4;

/// Arguments of the kernels that link new vertices.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LinkArgs {
    /// What every prune takes.
    pub prune: PruneArgs,
    /// `[lists]`: the vertices.
    pub batch: DevicePtr<u32>,
    /// `[lists][candidates_stride]`: keys in any order, distinct; the vertex itself may be among them.
    pub candidates: DevicePtr<u64>,
    /// `[lists][max_degree]`: more of them, as [`BatchCandidatesArgs::batch_candidates`] has them. Nowhere if there are none.
    pub batch_candidates: DevicePtr<u64>,
    /// `[lists][2]`: how many candidates there are, which is the vertices that the search expanded, and the distances
    /// that it worked out.
    pub work: DevicePtr<u32>,
    /// `[lists]`: the candidate that has the very row of the vertex, as [`FindDuplicatesArgs::identical`] names it: then the
    /// vertex gets no links.
    pub identical: DevicePtr<u32>,
    /// `[lists]`: the vertex, or [`NO_ROW`](crate::graph::NO_ROW) if it gets no links.
    pub vertices: DevicePtrMut<u32>,
    /// `[lists][links_stride]`: links, nearest first, then [`NO_ROW`](crate::graph::NO_ROW).
    pub ids: DevicePtrMut<u32>,
    /// `[lists][links_stride]`: the upper half of the key of each link.
    pub distances: DevicePtrMut<u32>,
    /// Vertices.
    pub lists: u32,
    /// Places for candidates of each.
    pub candidates_stride: u32,
}

/// Arguments of the kernels that merge new edges into the rows of their targets.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MergeArgs {
    /// What every prune takes.
    pub prune: PruneArgs,
    /// `[edges]`, sorted: the target, above the upper half of the edge's key. Edges to
    /// [`NO_ROW`](crate::graph::NO_ROW) lead nowhere.
    pub keys: DevicePtr<u64>,
    /// `[edges]`: where each edge comes from, rising among equal keys.
    pub sources: DevicePtr<u32>,
    /// `[targets + 1]`: where the edges to each target begin.
    pub begins: DevicePtr<u32>,
    /// `[targets]`: the target, or [`NO_ROW`](crate::graph::NO_ROW).
    pub vertices: DevicePtrMut<u32>,
    /// `[targets][links_stride]`: what its row becomes, then [`NO_ROW`](crate::graph::NO_ROW).
    pub ids: DevicePtrMut<u32>,
    /// Targets.
    pub targets: u32,
}

/// Arguments of the kernel that turns links around.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReverseEdgesArgs {
    /// `[lists]`, as [`LinkArgs::vertices`].
    pub vertices: DevicePtr<u32>,
    /// `[lists][links_stride]`, as [`LinkArgs::ids`].
    pub ids: DevicePtr<u32>,
    /// `[lists][links_stride]`, as [`LinkArgs::distances`].
    pub distances: DevicePtr<u32>,
    /// `[lists][links_stride]`: what each link is sorted by, all ones where there is none: see [`MergeArgs::keys`].
    pub keys: DevicePtrMut<u64>,
    /// `[lists][links_stride]`: the vertex of each link.
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
    /// `[rows]`: whose row it is; none of [`NO_ROW`](crate::graph::NO_ROW). Distinct.
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
