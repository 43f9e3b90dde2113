//! Takes over a graph of another library: adds what searches and changes here expect of a graph.
//!
//! ```text
//! set the center                                        under inner products: see `VectorTable::center` of jasper-graph
//! add start points, evenly spaced
//! link the landmarks                                    see the module `landmarks`
//! give an edge to each vertex that no path leads to     see the module `reconnect`
//! ```
//!
//! Other libraries start at one vertex. HNSW comes from there to the query by its upper layers, and its base layer need not
//! have paths between clusters. Start points and landmarks take the place of these layers. Edges are added, and an edge
//! is replaced only where a full row must lead to a vertex that no path leads to.

use jasper_core::{ProgressFn, Slot};
use jasper_data::parallel;
use jasper_graph::Graph;

use crate::landmarks::link_landmarks;
use crate::reconnect::reconnect;
use crate::{CpuExecutor, GraphAccess, UpdateError, Vertices, start};

/// Vertices per start point: fewer than in our own graphs, because narrow searches of HNSW begin near the query. On 60
/// clusters of 500 vectors, 117 start points instead of 29 raise recall@10 at a beam width of 10 from 0.82 to 0.89
/// (hnswlib: 0.88); under inner products, where vectors have different lengths, from 0.59 with one start point to 0.94.
const VERTICES_PER_START: usize = 256;
/// Start points of a small graph, at most one in as many vertices: they cost less than the neighbors of one vertex.
const MIN_STARTS: usize = 16;

/// Takes over a graph of another library, which has at least one start point unless it is empty.
///
/// Cost: under inner products, one pass over the vectors; a search for each of up to 8,192 vertices; one pass over the
/// edges; a search for each vertex that no path led to.
///
/// # Errors
/// Returns [`UpdateError`] if the call is cancelled; the graph then lacks some of these edges.
pub fn adopt(
    executor: &CpuExecutor,
    graph: &mut Graph,
    progress: &mut ProgressFn<'_>,
) -> Result<(), UpdateError> {
    graph.require_vectors()?;
    parallel::install(executor.pool(), || {
        let mean = start::mean(graph);
        start::set_center(graph, &mean);
    });
    let vertices: Vec<Slot> = graph.keys().vertices().collect();
    let starts = (vertices.len() / VERTICES_PER_START).clamp(MIN_STARTS, start::MAX_STARTS);
    let starts = starts.min(vertices.len() / MIN_STARTS);
    start::add_start_points_up_to(starts, graph, &vertices);
    let graph: &mut dyn GraphAccess<Graph> = graph;
    link_landmarks(executor, graph, Vertices::All, &vertices).map_err(UpdateError::device)?;
    reconnect(executor, graph, Vertices::All, progress).map(|_| ())
}
