//! Consolidation: removes deleted vertices from the graph (FreshDiskANN, Algorithm 4).
//!
//! ```text
//! transaction:
//!     choose origins again                         under inner products: see `jasper_graph::Center`
//!     quantize_for_linking                         a device may quantize all vectors to bytes until the end
//!     add live start points in place of tombstones (deleted vertices)
//!     reconnect live vertices to which only paths through tombstones lead, unless they are many
//!     remove the start points that are tombstones
//!     wait until searches have ended that may return a tombstone           on the CPU: see `HostGraph`
//!     for each live vertex with a tombstone among its neighbors, in chunks:
//!         repair its row: live neighbors of the tombstones replace these          see `cpu::ThreadBuffers::repair_row`
//!     link vertices again that lost more than half of their neighbors, unless they are a few in a thousand, and those
//!         of another origin
//!     link landmarks whose rows were repaired      see the module `landmarks`
//!     search for two vertices at random for each tombstone, and add edges to them from rows with room
//!     reconnect live vertices that are unreachable, if they were many, or vertices were linked again
//!     commit point                                 the last place where it can be cancelled
//!     wait until searches have ended that may have read rows from before their repair
//!     free the slots of all tombstones
//! ```
//!
//! Deviations from FreshDiskANN, and why each is right:
//! 1. **Live neighbors always stay**; only replacements are pruned. Pruning both together drops neighbors for
//!    replacements that are a little nearer, and cost 0.006 to 0.013 of recall@10 after a tenth was deleted.
//! 2. **No locks**: a row is computed from itself and from rows of deleted vertices, which are not written, so the
//!    order of vertices does not matter and the result does not depend on threads.
//! 3. **Who lost most neighbors searches for new ones**, as a build does. Neighbors of deleted hubs are other hubs, which
//!    are deleted too: repairs alone left rows of 2 to 14 edges, and half of the recall
//!    (docs/notebook/experiments.md#consolidation-of-hubs). Other vertices kept their neighbors but lost
//!    the paths that led to them, which their rows do not show: searches for a sample of all vertices restore these
//!    (docs/notebook/experiments.md#paths-that-lead-through-deleted-vertices).
//! 4. **One transaction**: an error or a cancel leaves the graph as it was.
//! 5. **Every live vertex stays reachable**, also while rows are repaired, which searches read at once: each is first
//!    made reachable by a path of live vertices, and live neighbors always stay. Only if more than a
//!    sixteenth have no such path, because most vertices were deleted or have few edges, or of those without a path more
//!    than 1,024 find no row with room, or vertices are linked again, some are unreachable until the call ends.

use std::ops::AddAssign;

use jasper_core::{Progress, Slot, Stage};
use jasper_graph::Graph;

use crate::effort::{in_random_order, random_live};
use crate::landmarks::link_landmarks;
use crate::pipeline::{LinkMode, link_batch, update};
use crate::reconnect::{reconnect, reconnect_up_to};
use crate::spanning_tree::ensure_tree;
use crate::start::live_start_points;
use crate::{
    ChangeHooks, Executor, GraphAccess, MutableGraph, OperationCounts, Transaction, UpdateError, Vertices,
    largest_batch, transaction,
};

/// At most one live vertex in this many is reconnected before rows are repaired. If more have been disconnected, those
/// still reachable may be too far from the others to lead to them.
const FIRST_RECONNECTED_DIVISOR: usize = 16;
/// Up to this many are reconnected first, whatever the size of the graph.
const FEW: usize = 64;

/// Vertices that are searched for, for each tombstone. Under L2 and cosine, both searches together are as wide as the one
/// that inserted it.
const SOUGHT_PER_TOMBSTONE: usize = 2;

/// Rows that are read to learn how many vertices lost most of their neighbors.
const SAMPLED_ROWS: usize = 4096;
/// If fewer than one in this many did, they keep what a repair gives: a download of all rows takes longer than repairs.
const BEREFT_DIVISOR: usize = 512;

/// Statistics of a consolidation.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ConsolidateReport {
    /// Slots freed.
    pub freed: usize,
    /// Vertices that were given an edge, because no path of live vertices led to them.
    pub reconnected: usize,
    /// Operations performed.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub cost: OperationCounts,
}

impl AddAssign for ConsolidateReport {
    fn add_assign(&mut self, other: Self) {
        self.freed += other.freed;
        self.reconnected += other.reconnected;
        self.cost += other.cost;
    }
}

/// Removes deleted vertices from the graph and frees their slots; deleted keys can no longer be restored.
///
/// Every row is read, and rows with deleted neighbors are recomputed.
///
/// # Errors
/// Returns [`UpdateError`]; the graph is unchanged.
pub fn consolidate<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    hooks: ChangeHooks<'_>,
) -> Result<ConsolidateReport, UpdateError> {
    let freed = graph.read(|graph| graph.host().keys().tombstones());
    if freed == 0 {
        return transaction(graph, |graph| {
            // Files of earlier versions, and graphs of other libraries, may have unreachable vertices.
            ensure_tree(executor, graph)?;
            let host_has = |test: fn(&Graph) -> bool| graph.read(|graph| test(graph.host()));
            let is_connected = host_has(|graph| graph.adjacency().spanning_tree().is_some());
            let reconnected = if is_connected || !host_has(Graph::has_vectors) {
                0
            } else {
                reconnect(executor, graph, Vertices::All, hooks.progress)?
            };
            hooks.commit_point(0)?;
            // Deleted keys whose vertices other keys share are forgotten, as all others are below.
            graph.change_host(Graph::release_tombstones)?;
            Ok(ConsolidateReport { reconnected, ..ConsolidateReport::default() })
        });
    }
    graph.read(|graph| graph.host().require_vectors())?;
    transaction(graph, |graph| {
        // It takes memory of a device, which may be needed for SQ8 vectors.
        graph.change_host(|host| host.set_spanning_tree(None))?;
        // Each tombstone is in as many rows as it has neighbors, and its neighbors may replace it in each.
        let max_degree = graph.read(|graph| graph.host().params().max_degree());
        let distances = freed as u64 * (max_degree * max_degree) as u64;
        let mut moved = Vec::new();
        if let Some((zero_above, vertices)) = graph.read(|graph| graph.host().other_origins()) {
            graph.change_host(|host| host.set_origins(zero_above))?;
            moved = vertices;
        }
        executor.quantize_for_linking(graph, &[], distances).map_err(UpdateError::device)?;
        let live_starts =
            graph.read(|graph| live_start_points(executor, graph)).map_err(UpdateError::device)?;
        let old_starts = graph.read(|graph| graph.host().adjacency().start_points().to_vec());
        // Searches begin at both, until every live vertex is reachable from the first.
        let both = [live_starts.clone(), old_starts].concat();
        graph.change_host(|host| host.adjacency_mut().set_start_points(both))?;
        let live = graph.read(|graph| graph.host().keys().live());
        let max = (live / FIRST_RECONNECTED_DIVISOR).max(FEW);
        let before = reconnect_up_to(max, executor, graph, Vertices::Live, hooks.progress)?;
        graph.change_host(|host| host.adjacency_mut().set_start_points(live_starts))?;
        let vertices = graph.read(|graph| executor.rows_to_repair(graph)).map_err(UpdateError::device)?;
        let mut bereft =
            graph.read(|graph| find_bereft(executor, graph, &vertices)).map_err(UpdateError::device)?;
        bereft.extend(moved);
        bereft.sort_unstable();
        bereft.dedup();
        let seed = graph.read(|graph| graph.host().params().seed());
        let bereft = in_random_order(&bereft, bereft.len(), seed);
        // Others in each consolidation.
        let seed = vertices.iter().map(|vertex| vertex.index() as u64).sum();
        let sought = graph.read(|graph| random_live(graph.host(), SOUGHT_PER_TOMBSTONE * freed, seed));
        let total = vertices.len() + bereft.len() + sought.len();
        graph.wait_for_searches();
        let (mut cost, mut done) = (OperationCounts::default(), 0);
        for chunk in vertices.chunks(E::SEARCH_CHUNK) {
            Progress { stage: Stage::Consolidating, done, total }.report(hooks.progress)?;
            cost += update(executor, graph, |graph| executor.repair_rows(graph, chunk))
                .map_err(UpdateError::device)?;
            done += chunk.len();
        }
        let largest = graph.read(|graph| largest_batch(graph.host().slots(), graph.host().params()));
        let largest = largest.min(E::SEARCH_CHUNK);
        let mut link = |graph: &mut Transaction<'_, E::Graph>, vertices: &[Slot], mode| {
            for batch in vertices.chunks(largest) {
                Progress { stage: Stage::Consolidating, done, total }.report(hooks.progress)?;
                cost += link_batch(executor, &mut *graph, batch, mode).map_err(UpdateError::device)?.cost;
                done += batch.len();
            }
            Ok::<_, UpdateError>(())
        };
        link(graph, &bereft, LinkMode::Again)?;
        // Before the others take the room of their rows.
        link_landmarks(executor, graph, Vertices::Live, &vertices).map_err(UpdateError::device)?;
        link(graph, &sought, LinkMode::Incoming)?;
        let reconnected = match before {
            Some(reconnected) if bereft.is_empty() => reconnected,
            _ => reconnect(executor, graph, Vertices::Live, hooks.progress)?,
        };
        hooks.commit_point(freed)?;
        graph.wait_for_searches();
        graph.change_host(Graph::release_tombstones)?;
        Ok(ConsolidateReport { freed, reconnected, cost })
    })
}

/// Those of the `vertices` of whose neighbors more than half are tombstones; none if they are few.
fn find_bereft<E: Executor>(
    executor: &E,
    graph: &E::Graph,
    vertices: &[Slot],
) -> Result<Vec<Slot>, E::Error> {
    let keys = graph.host().keys();
    let among = |vertices: &[Slot]| -> Result<Vec<Slot>, E::Error> {
        let mut bereft = Vec::new();
        for chunk in vertices.chunks(E::SEARCH_CHUNK) {
            let rows = executor.edge_rows(graph, chunk)?;
            let is_bereft =
                |row: &[Slot]| 2 * row.iter().filter(|&&slot| keys.is_tombstone(slot)).count() > row.len();
            bereft
                .extend(chunk.iter().zip(&rows).filter(|(_, row)| is_bereft(row)).map(|(&vertex, _)| vertex));
        }
        Ok(bereft)
    };
    let mut sample = in_random_order(vertices, SAMPLED_ROWS, graph.host().params().seed());
    sample.sort_unstable();
    if among(&sample)?.len() * BEREFT_DIVISOR < sample.len() { Ok(Vec::new()) } else { among(vertices) }
}
