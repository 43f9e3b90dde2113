//! Traversals of the adjacency table: reachability, live vertices with deleted neighbors, rows with a free place, and
//! numbers of incoming edges.
//!
//! | module | holds |
//! | --- | --- |
//! | `reach` | one step of a breadth-first search |
//! | `incoming` | counts the edges that lead to each vertex |
//! | `detached` | finds vertices that lose the edge from their parent |
//! | `rows_to_repair` | finds live vertices with deleted neighbors |
//! | `row_with_room` | finds the nearest reachable candidate whose row has a free place |
//! | `reachable_set` | [`ReachableSet`]: the breadth-first search, one launch per step |

cfg_if! { if #[cfg(feature = "kernels")] {
    mod detached;
    mod incoming;
    mod reach;
    mod row_with_room;
    mod rows_to_repair;
} }

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    mod reachable_set;

    pub use reachable_set::ReachableSet;
    use crate::{LaunchConfig, bits::SLOTS_PER_WORD, launch::kernels};
} }

use crate::prune::CandidateArgs;
use crate::{DevicePtr, DevicePtrMut};

/// Arguments of [`Reach`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReachArgs {
    /// `[vertices][edges_stride]`: neighbors, then [`NO_SLOT`](crate::graph::NO_SLOT).
    pub edges: DevicePtr<u32>,
    /// `[vertices_len]`: the vertices that this step expands: those that the step before reached.
    pub vertices: DevicePtr<u32>,
    /// `[words]`: the set of reached slots, to which the neighbors are added.
    pub reached: DevicePtrMut<u32>,
    /// `[slots]`: the queue, to which new slots are appended. `vertices` may be a part of it.
    pub queue: DevicePtrMut<u32>,
    /// `[1]`: the length of the queue.
    pub queue_len: DevicePtrMut<u32>,
    /// `[slots]`: the vertex by which each slot was reached, written for new slots. Null to write none.
    pub parents: DevicePtrMut<u32>,
    /// Number of vertices.
    pub vertices_len: u32,
    /// Number of slots. Edges to other slots are ignored.
    pub slots: u32,
    /// Length of a row, with padding: a multiple of 32.
    pub edges_stride: u32,
}

/// Arguments of [`FindDetached`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FindDetachedArgs {
    /// `[slots][edges_stride]`: the old rows of all vertices: neighbors, then [`NO_SLOT`](crate::graph::NO_SLOT).
    pub edges: DevicePtr<u32>,
    /// `[slots]`: parents in a spanning tree of these edges.
    pub parents: DevicePtr<u32>,
    /// `[rows]`: distinct vertices that get new rows; [`NO_SLOT`](crate::graph::NO_SLOT) for none.
    pub row_vertices: DevicePtr<u32>,
    /// `[rows][edges_stride]`: the new rows.
    pub neighbors: DevicePtr<u32>,
    /// `[slots]`, or one per place in `neighbors`: vertices without an edge from their parent in the new rows, in any
    /// order.
    pub detached: DevicePtrMut<u32>,
    /// `[1]`: their number.
    pub detached_len: DevicePtrMut<u32>,
    /// Number of new rows.
    pub rows_len: u32,
    /// Length of a row, with padding: a multiple of 32.
    pub edges_stride: u32,
}

/// Arguments of [`FindRowsToRepair`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FindRowsToRepairArgs {
    /// `[slots][edges_stride]`: neighbors, then [`NO_SLOT`](crate::graph::NO_SLOT).
    pub edges: DevicePtr<u32>,
    /// `[words]`: a bit per slot: whether it is live.
    pub live: DevicePtr<u32>,
    /// `[words]`: a bit per slot: whether it is live and has a neighbor that is not.
    pub rows_to_repair: DevicePtrMut<u32>,
    /// Number of slots.
    pub slots: u32,
    /// Length of a row, with padding: a multiple of 32.
    pub edges_stride: u32,
}

/// Arguments of [`CountIncoming`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CountIncomingArgs {
    /// `[slots][edges_stride]`: neighbors, then [`NO_SLOT`](crate::graph::NO_SLOT).
    pub edges: DevicePtr<u32>,
    /// `[words]`: a bit per slot: whether it is live.
    pub live: DevicePtr<u32>,
    /// `[slots]`: zeros, to which the number of edges from live vertices is added.
    pub incoming: DevicePtrMut<u32>,
    /// Number of slots.
    pub slots: u32,
    /// Length of a row, with padding: a multiple of 32.
    pub edges_stride: u32,
}

/// Arguments of [`FindRowWithRoom`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FindRowWithRoomArgs {
    /// `[vertices][edges_stride]`: neighbors, then [`NO_SLOT`](crate::graph::NO_SLOT).
    pub edges: DevicePtr<u32>,
    /// `[words]`: a bit per slot: whether it is reachable.
    pub reached: DevicePtr<u32>,
    /// What searches for the unreachable vertices found; `new_vertices` is not read.
    pub candidates: CandidateArgs,
    /// `[vertices_len]`: [`NO_SLOT`](crate::graph::NO_SLOT), or any other value for a vertex to skip.
    pub duplicate_of: DevicePtr<u32>,
    /// `[vertices_len]`: the entry of the nearest candidate that is reachable and has fewer than `max_degree`
    /// neighbors, all ones if there is none.
    pub nearest: DevicePtrMut<u64>,
    /// Length of a row, with padding.
    pub edges_stride: u32,
    /// Maximum number of neighbors of a vertex, at most `edges_stride`.
    pub max_degree: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
kernels! {
    /// One step of a breadth-first search.
    Reach(ReachArgs) = reach::reach, |args| LaunchConfig::warp_per_row(args.vertices_len);
    /// Finds vertices that lose the edge from their parent. Reads the old rows and the parents of their neighbors.
    FindDetached(FindDetachedArgs) = detached::find_detached, |args| LaunchConfig::warp_per_row(args.rows_len);
    /// Finds live vertices with deleted neighbors. Reads every row of a live vertex once.
    FindRowsToRepair(FindRowsToRepairArgs) = rows_to_repair::find_rows_to_repair, |args| {
        LaunchConfig::warp_per_row(args.slots.div_ceil(SLOTS_PER_WORD))
    };
    /// Counts the edges that lead to each vertex. Reads every row of a live vertex once.
    CountIncoming(CountIncomingArgs) = incoming::count_incoming, |args| LaunchConfig::warp_per_row(args.slots);
    /// Finds rows that can take an edge to an unreachable vertex. Reads each candidate once, and one word of most
    /// candidates' rows.
    FindRowWithRoom(FindRowWithRoomArgs) = row_with_room::find_row_with_room, |args| {
        let (degree, stride) = (args.max_degree, args.edges_stride);
        assert!((1..=stride).contains(&degree), "max_degree ({degree}) must be 1 to {stride}");
        LaunchConfig::warp_per_row(args.candidates.vertices_len)
    };
}
