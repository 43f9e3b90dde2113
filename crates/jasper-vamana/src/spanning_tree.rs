//! Keeps every vertex reachable during inserts, at a cost that depends on the batch and not on the graph.
//!
//! ```text
//! invariant: every vertex v has an edge from parent(v), and parents lead to the first start point
//!
//! pending = new vertices, and those to which the row of their parent has no edge any more
//! repeat with more neighbors of each pending vertex v that is left:
//!     for each of these neighbors x: if row(x) has an edge to v and parents lead from x to the start: parent(v) = x
//! ```
//!
//! An insert changes many rows, each of which may lose the last edge to some vertex. Counts of incoming edges would not
//! find all of these: two vertices may have edges to each other, and no other row an edge to either. A tree does. If a
//! vertex has n incoming edges, only one of the n is in the tree, so most lost edges need no work.
//!
//! The tree proves that vertices are reachable, never the opposite: a vertex that is left may have an edge from a
//! vertex that is not its neighbor. [`reconnect`](crate::reconnect) then checks all vertices. The edges of a graph
//! therefore do not depend on the tree, which differs between graphs that were opened at different times.

use jasper_core::Slot;
use jasper_data::{ThreadPool, parallel};
use jasper_graph::{NO_PARENT, SpanningTree, VectorError};
use rustc_hash::FxHashMap;

use crate::threads;
use crate::{Executor, GraphAccess, MutableGraph, UpdateError};

/// Neighbors of a pending vertex whose rows are read first, and by how many times more are read next. Most vertices
/// have an edge from one of their two nearest neighbors.
const FIRST_NEIGHBORS: usize = 2;
const MORE_NEIGHBORS: usize = 4;
/// The edges of as many vertices take about as long as waking threads, which each round would do.
const FEW: usize = 512;

/// Makes a spanning tree if the graph has none and every vertex is reachable.
///
/// # Errors
/// Returns [`UpdateError`]; the caller rolls back.
pub(crate) fn ensure_tree<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
) -> Result<(), UpdateError> {
    let parents = graph.read(|graph| {
        let adjacency = graph.host().adjacency();
        let start = adjacency.start_points().first().filter(|_| adjacency.spanning_tree().is_none());
        start.map(|&start| executor.spanning_tree(graph, start)).transpose()
    });
    let Some(parents) = parents.map_err(UpdateError::device)? else { return Ok(()) };
    if graph.read(|graph| graph.host().keys().vertices().any(|slot| parents[slot.index()] == NO_PARENT)) {
        return Ok(());
    }
    let tree = SpanningTree::new(&parents).map_err(VectorError::Memory)?;
    Ok(graph.change_host(|host| host.set_spanning_tree(Some(tree)))?)
}

/// Gives each of the `pending` vertices a parent in the spanning tree; returns those that are left, which are all if
/// there is no tree. New edges, given as (target, source), are `added`, of which some may be gone again.
///
/// # Errors
/// Returns [`UpdateError`]; the caller rolls back.
pub(crate) fn attach_to_tree<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    mut pending: Vec<Slot>,
    added: &[(Slot, Slot)],
) -> Result<Vec<Slot>, UpdateError> {
    pending.sort_unstable();
    pending.dedup();
    let parents =
        graph.read(|graph| find_parents(executor, graph, &pending, added)).map_err(UpdateError::device)?;
    let parents: Vec<_> = pending.into_iter().zip(parents).collect();
    graph.change_host(|host| host.set_parents(&parents))?;
    Ok(parents.into_iter().filter(|(_, parent)| parent.is_none()).map(|(slot, _)| slot).collect())
}

/// The parent of each of the `pending` vertices, as far as one is found.
fn find_parents<E: Executor>(
    executor: &E,
    graph: &E::Graph,
    pending: &[Slot],
    added: &[(Slot, Slot)],
) -> Result<Vec<Option<Slot>>, E::Error> {
    let Some(tree) = graph.host().adjacency().spanning_tree() else { return Ok(vec![None; pending.len()]) };
    let indices: FxHashMap<Slot, usize> = pending.iter().copied().zip(0..).collect();
    let rows = executor.edge_rows(graph, pending)?;
    let mut edges = Edges { indices: &indices, tree, list: Vec::new() };
    edges.extend(executor.host_pool(), pending.len(), &|i| {
        rows[i].iter().map(|&to| (pending[i], to)).collect()
    });
    let sources: Vec<Slot> = added.iter().map(|&(_, from)| from).collect();
    let source_rows = executor.edge_rows(graph, &sources)?;
    edges.extend(executor.host_pool(), added.len(), &|i| {
        let (to, from) = added[i];
        source_rows[i].contains(&to).then_some((from, to)).into_iter().collect()
    });
    let mut range = 0..FIRST_NEIGHBORS;
    loop {
        let parents = edges.parents(executor.host_pool(), pending.len());
        let more = |i: usize| &rows[i][range.start.min(rows[i].len())..range.end.min(rows[i].len())];
        let left: Vec<usize> = (0..pending.len()).filter(|&i| parents[i].is_none()).collect();
        let mut neighbors: Vec<Slot> = left.iter().flat_map(|&i| more(i)).copied().collect();
        if neighbors.is_empty() {
            return Ok(parents);
        }
        threads::sort(executor.host_pool(), &mut neighbors);
        neighbors.dedup();
        let neighbor_rows = executor.edge_rows(graph, &neighbors)?;
        let has_edge = |from: &Slot, to: &Slot| {
            neighbors.binary_search(from).is_ok_and(|at| neighbor_rows[at].contains(to))
        };
        edges.extend(executor.host_pool(), left.len(), &|i| {
            let (to, sources) = (pending[left[i]], more(left[i]).iter().copied());
            sources.filter(|from| has_edge(from, &to)).map(|from| (from, to)).collect()
        });
        range = range.end..range.end * MORE_NEIGHBORS;
    }
}

/// Edges to pending vertices.
struct Edges<'a> {
    /// The index of each pending vertex.
    indices: &'a FxHashMap<Slot, usize>,
    tree: &'a SpanningTree,
    /// For each edge: the first pending vertex on the path of parents from the source, or `None` if that leads to the
    /// root; the target; the source. Pending vertices are given by their indices.
    list: Vec<(Option<usize>, usize, Slot)>,
}

impl Edges<'_> {
    /// Adds the `edges` of each of `items`, given as (source, target), whose target is pending.
    fn extend(
        &mut self,
        pool: &ThreadPool,
        items: usize,
        edges: &(dyn Fn(usize) -> Vec<(Slot, Slot)> + Sync),
    ) {
        let (indices, tree) = (self.indices, self.tree);
        let resolve = |(from, to): (Slot, Slot)| {
            let &target = indices.get(&to)?;
            let mut slot = from;
            loop {
                if let Some(&pending) = indices.get(&slot) {
                    return Some((Some(pending), target, from));
                }
                match tree.parent(slot)? {
                    parent if parent == slot => return Some((None, target, from)),
                    parent => slot = parent,
                }
            }
        };
        let resolve_all = |item| edges(item).into_iter().filter_map(resolve).collect::<Vec<_>>();
        let pool = (items > FEW).then_some(pool);
        self.list.extend(parallel::map_on(pool, 0..items, resolve_all).into_iter().flatten());
    }

    /// The parents of the pending vertices to which the edges lead from the root.
    fn parents(&mut self, pool: &ThreadPool, pending: usize) -> Vec<Option<Slot>> {
        threads::sort(pool, &mut self.list);
        let (mut parents, mut open) = (vec![None; pending], vec![None]);
        while let Some(source) = open.pop() {
            let first = self.list.partition_point(|edge| edge.0 < source);
            for &(_, to, from) in self.list[first..].iter().take_while(|edge| edge.0 == source) {
                if parents[to].is_none() {
                    parents[to] = Some(from);
                    open.push(Some(to));
                }
            }
        }
        parents
    }
}
