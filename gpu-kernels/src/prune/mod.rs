//! Robust prune, and the steps of a build or an update around it.
//!
//! Each kernel prunes the candidates of one vertex in one block, by RobustPrune of DiskANN on squared distances, in two
//! rounds: the first with an alpha of 1. The pseudo-code is in `crates/jasper-vamana/src/cpu/prune.rs`. Rows equal
//! those of the CPU; for floats, up to the rounding of sums. What differs from the pseudo-code, and why the rows stay
//! the same:
//!
//! 1. *Each pair is compared once.* When a candidate `c` is kept, it is compared with all candidates that are left,
//!    with an alpha of 1 and with the given one. What it occludes with the given alpha is dropped at once, since
//!    neither round would keep it; what it occludes with 1 only is *deferred* to the second round.
//! 2. *Candidates are split among the warps* of the block. Each warp compares its share with `c`, several rows per
//!    load. The next `c` is the nearest of the warps' first candidates. There is one block barrier per kept candidate
//!    (`robust_prune`, `remaining`).
//! 3. *Candidates kept before are not compared with each other.* A merge starts from a row that an earlier prune
//!    chose; none of its entries occludes another. The entries that each round kept are stored nearest first, which is
//!    how both parts are found again (`kept_before`). A flag marks them (`neighbor::kept_before`).
//! 4. *All pairs at once.* For at most 128 candidates of short rows, every pair that may be needed is compared up front
//!    and the two rounds run on bit sets (`all_pairs`). More distances are computed than the loop needs, but the extra
//!    ones are not counted.
//!
//! | module | holds |
//! | --- | --- |
//! | `pair_distances` | distances of one vertex to others, several per warp |
//! | `layout` | the layout of a block's shared memory |
//! | `sort` | sorts entries in shared memory and removes duplicates |
//! | `remaining` | the candidates still to be decided, split among the warps |
//! | `robust_prune` | a block that prunes: both rounds, and its shared memory |
//! | `all_pairs` | both rounds of a prune of few candidates |
//! | `bit_set` | sets of at most 128 candidates |
//! | `kept_before` | finds the entries of a row that an earlier prune kept |
//! | `rescore` | distances, by SQ8, of candidates that a search by SQ4 found |
//! | `find_duplicates` | new vertices whose vector is in the graph already |
//! | `find_peers` | candidates from the same batch |
//! | `prune_new` | prunes the candidates of a new vertex into its row |
//! | `merge` | adds reversed edges to the rows of their targets |
//! | `repair` | replaces deleted neighbors in a row |
//! | `fill` | both rounds of a prune around neighbors that stay |
//! | `reverse_and_publish` | reverses edges; writes rows into the graph |
//! | `update` | the arguments of the kernels that only updates use |
//! | `kernels` | the kernels |
//! | `launches` | selects a kernel and its grid |

mod kernels;
mod layout;
mod update;

cfg_if! { if #[cfg(feature = "kernels")] {
    mod all_pairs;
    mod kept_before;
    mod find_peers;
    mod bit_set;
    mod fill;
    mod find_duplicates;
    mod prune_new;
    mod merge;
    mod pair_distances;
    mod remaining;
    mod repair;
    mod rescore;
    mod reverse_and_publish;
    mod robust_prune;
    mod sort;
} }

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    mod launches;

    pub(crate) use launches::specializations;
    pub use launches::{FindPeers, PruneNew, Merge, Repair, Rescore};
    use crate::LaunchConfig;
    use crate::launch::{MAX_THREADS, kernels};
} }

pub use update::{FindDuplicatesArgs, FindPeersArgs, RepairArgs};

use crate::graph::{DistanceForm, GraphArgs};
use crate::{DevicePtr, DevicePtrMut};

/// Edges per thread of [`PublishRows`].
const EDGES_PER_THREAD: u32 = 4;

/// Arguments of every prune.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PruneArgs {
    /// The graph.
    pub graph: GraphArgs,
    /// How distances follow from sums.
    pub form: DistanceForm,
    /// The slack of the second round.
    pub alpha: f32,
    /// The maximum number of neighbors per vertex, at most the stride of the rows.
    pub max_degree: u32,
    /// Neighbors that a prune leaves at least, if there are as many candidates; a repair may leave fewer.
    pub min_degree: u32,
    /// The maximum number of candidates that a prune considers, nearest first; at least `max_degree`.
    pub max_candidates: u32,
    /// Counters of the cost, to which a launch adds.
    pub counters: DevicePtrMut<u64>,
}

/// Index in [`PruneArgs::counters`] of the number of vertices that searches expanded.
pub const HOPS: usize = 0;
/// Index of the number of distances computed by searches.
pub const DISTANCES: usize = 1;
/// Index of the number of distances computed by prunes.
pub const PRUNE_DISTANCES: usize = 2;
/// Index of the number of duplicates: vertices that were not linked because another has the same vector.
pub const DUPLICATES: usize = 3;
/// The number of counters.
pub const COUNTERS: usize = 4;

/// The candidates that searches found for the new vertices of a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CandidateArgs {
    /// `[vertices_len]`: the new vertices, distinct. May be null for
    /// [`FindRowWithRoom`](crate::edges::FindRowWithRoom).
    pub new_vertices: DevicePtr<u32>,
    /// `[vertices_len][stride]`: entries of the vertices that the search expanded, distinct, in any order; the vertex
    /// itself may be among them.
    pub entries: DevicePtr<u64>,
    /// `[vertices_len][2]`: the [`SearchArgs::costs`](crate::search::SearchArgs::costs) of the search for each vertex:
    /// how many vertices it expanded, which is the number of its `entries`, and how many distances it computed.
    /// [`FindDuplicates`], [`FindPeers`] and [`FindRowWithRoom`](crate::edges::FindRowWithRoom) read the first only.
    pub costs: DevicePtr<u32>,
    /// Number of vertices.
    pub vertices_len: u32,
    /// Maximum number of candidates per vertex.
    pub stride: u32,
}

#[cfg(feature = "kernels")]
impl CandidateArgs {
    /// The entries of a vertex of the batch.
    #[inline(always)]
    pub(crate) fn entries_of(&self, batch_index: usize) -> DevicePtr<u64> {
        self.entries.add(batch_index * self.stride as usize)
    }
}

/// Arguments of [`Rescore`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RescoreArgs {
    /// The graph, with SQ8 vectors.
    pub graph: GraphArgs,
    /// How distances follow from sums.
    pub form: DistanceForm,
    /// The candidates.
    pub candidates: CandidateArgs,
    /// Their [entries](CandidateArgs::entries) again: the distances are replaced.
    pub entries: DevicePtrMut<u64>,
}

/// Arguments of the kernels that prune the candidates of new vertices, each to a row of edges.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PruneNewArgs {
    /// Arguments of every prune.
    pub prune: PruneArgs,
    /// Those of the searches.
    pub candidates: CandidateArgs,
    /// `[vertices_len][max_degree]`: more candidates, from the same batch: [`FindPeersArgs::peers`]. Null if there are
    /// none.
    pub peers: DevicePtr<u64>,
    /// Whether the edges that the vertices have are candidates too; then there are no `peers`. 0 for vertices without
    /// edges.
    pub with_rows: u32,
    /// `[vertices_len]`: a candidate with the same vector, from [`FindDuplicatesArgs::duplicate_of`]. A vertex that has
    /// one gets no edges.
    pub duplicate_of: DevicePtr<u32>,
    /// `[vertices_len]`: the vertex, or [`NO_SLOT`](crate::graph::NO_SLOT) if it gets no edges.
    pub row_vertices: DevicePtrMut<u32>,
    /// `[vertices_len][edges_stride]`: the neighbors that the first round kept, nearest first, then those of the
    /// second, then [`NO_SLOT`](crate::graph::NO_SLOT).
    pub neighbors: DevicePtrMut<u32>,
    /// `[vertices_len][edges_stride]`: the distance of each neighbor from its own origin, as the upper half of an entry:
    /// bits that compare like distances.
    pub ordered_distances: DevicePtrMut<u32>,
}

impl PruneNewArgs {
    /// Places for candidates that the search did not find.
    fn others_len(&self) -> u32 {
        if self.peers.is_null() && self.with_rows == 0 { 0 } else { self.prune.max_degree }
    }
}

/// Arguments of the kernels that merge reversed edges into the rows of their targets.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MergeArgs {
    /// Arguments of every prune.
    pub prune: PruneArgs,
    /// `[edges]`, sorted: the target in the upper half, the upper half of the edge's entry in the lower. Edges to
    /// [`NO_SLOT`](crate::graph::NO_SLOT) are ignored.
    pub sort_keys: DevicePtr<u64>,
    /// `[edges]`: the source of each edge, ascending among equal sort keys.
    pub sources: DevicePtr<u32>,
    /// `[targets + 1]`: the edges to target `t` are `offsets[t]..offsets[t + 1]`.
    pub offsets: DevicePtr<u32>,
    /// `[targets]`: the target, or [`NO_SLOT`](crate::graph::NO_SLOT).
    pub row_vertices: DevicePtrMut<u32>,
    /// `[targets][edges_stride]`: the new row, then [`NO_SLOT`](crate::graph::NO_SLOT).
    pub neighbors: DevicePtrMut<u32>,
    /// Number of targets.
    pub targets_len: u32,
    /// The maximum number of neighbors that a prune of a full row keeps, at most [`PruneArgs::max_degree`]. If it is 0, no
    /// row is pruned: edges without room are dropped.
    pub max_kept: u32,
}

/// Arguments of [`ReverseEdges`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReverseEdgesArgs {
    /// `[vertices_len]`, as [`PruneNewArgs::row_vertices`].
    pub row_vertices: DevicePtr<u32>,
    /// `[vertices_len][edges_stride]`, as [`PruneNewArgs::neighbors`].
    pub neighbors: DevicePtr<u32>,
    /// `[vertices_len][edges_stride]`, as [`PruneNewArgs::ordered_distances`].
    pub ordered_distances: DevicePtr<u32>,
    /// `[vertices_len][edges_stride]`: the sort key of each edge, as [`MergeArgs::sort_keys`]; all ones where there is
    /// no edge.
    pub sort_keys: DevicePtrMut<u64>,
    /// `[vertices_len][edges_stride]`: the source of each edge.
    pub sources: DevicePtrMut<u32>,
    /// Number of vertices.
    pub vertices_len: u32,
    /// Length of a row, with padding.
    pub edges_stride: u32,
}

/// Arguments of [`PublishRows`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PublishRowsArgs {
    /// `[rows]`: the vertex of each row, distinct; rows of [`NO_SLOT`](crate::graph::NO_SLOT) are skipped.
    pub row_vertices: DevicePtr<u32>,
    /// `[rows][edges_stride]`: the new rows. The address is a multiple of 16.
    pub neighbors: DevicePtr<u32>,
    /// `[slots][edges_stride]`: the adjacency table.
    pub edges: DevicePtrMut<u32>,
    /// Rows to write.
    pub rows_len: u32,
    /// Length of a row, with padding: a multiple of 32.
    pub edges_stride: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
impl PublishRowsArgs {
    /// Most rows of one launch.
    pub fn max_rows(edges_stride: u32) -> u32 {
        let rows = MAX_THREADS / u64::from(edges_stride / EDGES_PER_THREAD);
        rows.try_into().unwrap_or(u32::MAX)
    }
}

#[cfg(not(target_arch = "nvptx64"))]
kernels! {
    /// Finds vectors that are already in the graph. Reads the first 16 bytes of each candidate's vector, and all of
    /// those that agree.
    FindDuplicates(FindDuplicatesArgs) = find_duplicates::find_duplicates, |args| {
        LaunchConfig::warp_per_row(args.candidates.vertices_len)
    };
    /// Reverses edges.
    ReverseEdges(ReverseEdgesArgs) = reverse_and_publish::reverse_edges, |args| {
        LaunchConfig::thread_per_item(u64::from(args.vertices_len) * u64::from(args.edges_stride))
    };
    /// Writes rows into the graph.
    PublishRows(PublishRowsArgs) = reverse_and_publish::publish_rows, |args| {
        LaunchConfig::thread_per_item(u64::from(args.rows_len) * u64::from(args.edges_stride / EDGES_PER_THREAD))
    };
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;
    use crate::Kernel as _;

    fn publish(rows: u32, edges_stride: u32) -> LaunchConfig {
        let (pointer, output) = (DevicePtr::null(), DevicePtrMut::null());
        PublishRows.launch_config(&PublishRowsArgs {
            row_vertices: pointer,
            neighbors: pointer,
            edges: output,
            rows_len: rows,
            edges_stride,
        })
    }

    #[test]
    fn every_row_has_threads() {
        assert_eq!(publish(100, 64).grid, (7, 1));
        // 2^32 threads.
        assert_eq!(publish(1 << 28, 64).grid, (1 << 24, 1));
        assert_eq!(PublishRowsArgs::max_rows(64), 1 << 28);
        assert_eq!(PublishRowsArgs::max_rows(32 * 3), u32::MAX / 24);
        let edges = u64::from(PublishRowsArgs::max_rows(96)) * 96 / 4;
        assert_eq!(u64::from(publish(PublishRowsArgs::max_rows(96), 96).grid.0), edges.div_ceil(256));
    }

    #[test]
    #[should_panic(expected = "must be of at most 4294967296")]
    fn threads_beyond_their_numbers_are_refused() {
        publish((1 << 28) + 1, 64);
    }
}
