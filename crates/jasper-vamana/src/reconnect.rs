//! Reconnection: adds edges to vertices that no path from the start point leads to.
//!
//! ```text
//! repeat while each round connects at least an eighth of the unreachable vertices:
//!     for each unreachable vertex v:
//!         candidates[v] = vertices expanded by a search for v
//!         source[v]     = nearest candidate that is reachable and whose row is not full
//!     add the edges (source[v], v), nearest first, as far as the rows have space
//!     find the unreachable vertices again
//! if more than 1,024 are left:
//!     make trees of them, of vertices with the same nearest reachable neighbor
//!     for each root:
//!         an edge to it replaces the farthest edge of a reachable neighbor
//!     find the unreachable vertices again
//! for each vertex that is still unreachable:
//!     an edge to it replaces the farthest edge of a reachable neighbor
//! ```
//!
//! Neither pruning nor deleting preserves reachability, and DiskANN does not restore it. A vertex that no path leads to
//! is never found. Bulk builds and large inserts therefore end with [`reconnect`], and consolidations begin with it. A
//! small insert calls it only if its [spanning tree](crate::spanning_tree) leaves a vertex without a parent. New rows
//! are computed while searches read the graph, which is locked only to write them.

use std::collections::HashSet;

use jasper_core::{BitSet, Neighbor, Progress, ProgressFn, Slot, Stage};
use rustc_hash::FxHashMap;

use crate::connectivity::{Vertices, no_slots, unreached};
use crate::pipeline::update;
use crate::{CandidateSearch, Executor, GraphAccess, MutableGraph, UpdateError, largest_batch};

/// Adds a path to each of the `vertices` that is unreachable; returns the number of these. It is an edge from a reachable
/// vertex, unless [too many](link_trees) find none with room.
///
/// Later searches for the vertex expand the source of that edge, as the search for it here did. Linking it again like a
/// new vertex would not help: its nearest neighbors are hubs with full rows, which pruned it before
/// (docs/notebook/experiments.md#repair-of-unreachable-vertices).
///
/// # Errors
/// Returns [`UpdateError`]; the caller rolls back.
pub(crate) fn reconnect<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    vertices: Vertices,
    progress: &mut ProgressFn<'_>,
) -> Result<usize, UpdateError> {
    Ok(reconnect_up_to(usize::MAX, executor, graph, vertices, progress)?.unwrap_or(0))
}

/// [`reconnect`], unless more than `max` of the vertices are unreachable: `None` then, and no edge has changed.
///
/// # Errors
/// Returns [`UpdateError`]; the caller rolls back.
pub(crate) fn reconnect_up_to<E: Executor>(
    max: usize,
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    vertices: Vertices,
    progress: &mut ProgressFn<'_>,
) -> Result<Option<usize>, UpdateError> {
    graph.change_host(|host| host.set_spanning_tree(None))?;
    let find = |graph: &E::Graph, _: &[(Slot, Slot)]| find_unreachable(executor, graph, vertices);
    let found = graph.read(|graph| find(graph, &[])).map_err(UpdateError::device)?;
    if found.1.len() > max {
        return Ok(None);
    }
    Ok(Some(add_incoming_edges(executor, graph, vertices, found, find, progress)?.total))
}

/// Adds an incoming edge, as [`reconnect`] does, to each of the `new` vertices that [has none](find_without_incoming),
/// as far as the rows of its neighbors tell. Under inner products there are many, because short vectors are not near to
/// any vector. Reads the rows of the new vertices and of their neighbors.
///
/// # Errors
/// Returns [`UpdateError`]; the caller rolls back.
pub(crate) fn reconnect_new<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    new: &[Slot],
    progress: &mut ProgressFn<'_>,
) -> Result<Added, UpdateError> {
    let find = |graph: &E::Graph, added: &[(Slot, Slot)]| find_without_incoming(executor, graph, new, added);
    let found = graph.read(|graph| find(graph, &[])).map_err(UpdateError::device)?;
    add_incoming_edges(executor, graph, Vertices::All, found, find, progress)
}

/// Edges that were added to vertices without a path to them.
#[derive(Debug, Default)]
pub(crate) struct Added {
    /// Number of these vertices.
    pub(crate) total: usize,
    /// Edges that were attempted, as (target, source). Some did not fit, some were replaced again.
    pub(crate) edges: Vec<(Slot, Slot)>,
    /// Vertices that lost an edge from a reached one, because an added edge took its place in a full row.
    pub(crate) evicted: Vec<Slot>,
}

/// Rounds continue while each connects one vertex in this number. Replacing edges one after another takes a device 60
/// times as long per vertex as a round, and drops edges.
const LEAST_PROGRESS: usize = 8;

/// If more vertices are left than these, trees are made of them, with about as many roots at most.
const MAX_ROOTS: usize = 1024;

/// Adds a path from a reached vertex to each unreached one. Both sets are given first, and `find` computes them again
/// for the edges that were added. No path leads through unreached vertices, so replacing one of their edges disconnects
/// nothing.
fn add_incoming_edges<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    vertices: Vertices,
    (mut reached, mut left): (BitSet, Vec<Slot>),
    find: impl Fn(&E::Graph, &[(Slot, Slot)]) -> Result<(BitSet, Vec<Slot>), E::Error>,
    progress: &mut ProgressFn<'_>,
) -> Result<Added, UpdateError> {
    let total = left.len();
    let mut added = Added { total, ..Added::default() };
    // The memory plan covers a batch of this size.
    let max_batch = graph.read(|graph| largest_batch(graph.host().slots(), graph.host().params()));
    let chunk_len = E::SEARCH_CHUNK.min(max_batch).max(1);
    // If several vertices want an edge from the same row, the nearest get it; the others search again in the next
    // round.
    let mut has_progress = true;
    while has_progress && !left.is_empty() {
        let mut edges = Vec::with_capacity(left.len());
        for (i, chunk) in left.chunks(chunk_len).enumerate() {
            let done = total - left.len() + i * chunk_len;
            Progress { stage: Stage::Reconnecting, done, total }.report(progress)?;
            let sources = graph.read(|graph| {
                let search = CandidateSearch::new(graph.host().params().build_beam_width());
                let candidates = executor.find_candidates(graph, chunk, search)?;
                executor.nearest_with_room(graph, candidates, &reached)
            });
            edges.extend(sources.map_err(UpdateError::device)?);
        }
        added.edges.extend(edges.iter().map(|(to, from)| (*to, from.slot())));
        add_edges(executor, graph, edges, chunk_len).map_err(UpdateError::device)?;
        let before = left.len();
        (reached, left) = graph.read(|graph| find(graph, &added.edges)).map_err(UpdateError::device)?;
        has_progress = left.len() <= before - before.div_ceil(LEAST_PROGRESS);
    }
    if left.len() > MAX_ROOTS {
        let (roots, others) = link_trees(executor, graph, &reached, &left, chunk_len, &mut added)
            .map_err(UpdateError::device)?;
        for &root in &roots {
            replace_edge(executor, graph, root, &reached, &mut added).map_err(UpdateError::device)?;
            reached.insert(root.index());
        }
        (reached, left) = graph.read(|graph| find(graph, &added.edges)).map_err(UpdateError::device)?;
        if !left.is_empty() {
            // Parents before their children.
            let places: FxHashMap<Slot, usize> = roots.into_iter().chain(others).zip(0..).collect();
            left.sort_by_key(|slot| places.get(slot).copied());
        }
    }
    replace_edges(executor, graph, vertices, reached, left, &mut added).map_err(UpdateError::device)?;
    if total > 0 {
        Progress { stage: Stage::Reconnecting, done: total, total }.report(progress)?;
    }
    Ok(added)
}

/// Adds edges, given as (target, source with its distance), nearest first, while the rows of the sources have space.
/// Changes `chunk_len` rows at a time.
fn add_edges<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    mut edges: Vec<(Slot, Neighbor)>,
    chunk_len: usize,
) -> Result<(), E::Error> {
    let max_degree = graph.read(|graph| graph.host().params().max_degree());
    let by_source = |(to, from): &(Slot, Neighbor)| (from.slot(), Neighbor::new(from.distance(), *to));
    edges.sort_unstable_by_key(by_source);
    let groups: Vec<_> = edges.chunk_by(|a, b| a.1.slot() == b.1.slot()).collect();
    for groups in groups.chunks(chunk_len) {
        let sources: Vec<Slot> = groups.iter().map(|edges| edges[0].1.slot()).collect();
        let mut rows = graph.read(|graph| executor.edge_rows(graph, &sources))?;
        for (row, edges) in rows.iter_mut().zip(groups) {
            let free = max_degree.saturating_sub(row.len());
            row.extend(edges.iter().take(free).map(|edge| edge.0));
        }
        update(executor, graph, |graph| executor.new_rows(graph, &sources, &rows))?;
    }
    Ok(())
}

/// Makes trees of the `left` vertices, which are not reached, by edges that replace others in their rows, but not that to
/// the nearest reached neighbor. Those with the same one are in one tree; trees of few vertices are joined. Returns the
/// roots, and the other vertices, parents before their children.
///
/// Where few vertices are the nearest of all others, as vectors with large norms are under inner products, searches for
/// the others end among these, and find no row with room (docs/notebook/experiments.md#reconnection-under-inner-products).
fn link_trees<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    reached: &BitSet,
    left: &[Slot],
    chunk_len: usize,
    added: &mut Added,
) -> Result<(Vec<Slot>, Vec<Slot>), E::Error> {
    let max_degree = graph.read(|graph| graph.host().params().max_degree());
    let mut order = Vec::with_capacity(left.len());
    for chunk in left.chunks(chunk_len) {
        let rows = graph.read(|graph| executor.edge_rows(graph, chunk))?;
        let nearest = rows.iter().map(|row| row.iter().find(|slot| reached.contains(slot.index())).copied());
        order.extend(nearest.zip(chunk.iter().copied()));
    }
    order.sort_unstable();
    let mut trees: Vec<Vec<Slot>> = Vec::new();
    for group in order.chunk_by(|(a, _), (b, _)| a == b) {
        let vertices = group.iter().map(|&(_, vertex)| vertex);
        match trees.last_mut() {
            Some(tree) if tree.len() * MAX_ROOTS < left.len() => tree.extend(vertices),
            _ => trees.push(vertices.collect()),
        }
    }
    let fanout = (max_degree / 2).max(1);
    let families: Vec<_> = trees.iter().flat_map(|tree| tree.iter().zip(tree[1..].chunks(fanout))).collect();
    for families in families.chunks(chunk_len) {
        let parents: Vec<Slot> = families.iter().map(|(parent, _)| **parent).collect();
        let mut rows = graph.read(|graph| executor.edge_rows(graph, &parents))?;
        for (row, (parent, children)) in rows.iter_mut().zip(families) {
            row.retain(|slot| !children.contains(slot));
            if let Some(nearest) = row.iter().position(|slot| reached.contains(slot.index())) {
                row[..=nearest].rotate_right(1);
            }
            row.truncate(max_degree - children.len());
            row.extend_from_slice(children);
            added.edges.extend(children.iter().map(|child| (*child, **parent)));
        }
        update(executor, graph, |graph| executor.new_rows(graph, &parents, &rows))?;
    }
    let (roots, others): (Vec<_>, Vec<_>) = trees.iter().map(|tree| tree.split_at(1)).unzip();
    Ok((roots.concat(), others.concat()))
}

/// New vertices whose neighbors' rows are read together.
const NEW_CHUNK: usize = 1024;

/// Those of the `new` vertices, ascending, that have no incoming edge as far as the rows of their neighbors tell, and
/// the set of all other vertices. Edges count that come from old neighbors, from new ones that have such an edge
/// themselves, or that were `added`. Start points need none.
fn find_without_incoming<E: Executor>(
    executor: &E,
    graph: &E::Graph,
    new: &[Slot],
    added: &[(Slot, Slot)],
) -> Result<(BitSet, Vec<Slot>), E::Error> {
    let sources: Vec<Slot> = added.iter().map(|edge| edge.1).collect();
    let added = added.iter().zip(executor.edge_rows(graph, &sources)?);
    let added: HashSet<Slot> =
        added.filter(|((to, _), row)| row.contains(to)).map(|((to, _), _)| *to).collect();
    let is_new = |slot: &Slot| new.binary_search(slot).is_ok();
    let (mut reached, mut current) = (BitSet::new(), Vec::new());
    for new in new.chunks(NEW_CHUNK) {
        let rows = executor.edge_rows(graph, new)?;
        let mut targets = rows.concat();
        targets.retain(|target| !is_new(target));
        targets.sort_unstable();
        targets.dedup();
        let target_rows = executor.edge_rows(graph, &targets)?;
        for (&vertex, row) in new.iter().zip(&rows) {
            let has_edge_back =
                |target| targets.binary_search(target).is_ok_and(|i| target_rows[i].contains(&vertex));
            if row.iter().any(has_edge_back)
                || added.contains(&vertex)
                || graph.host().adjacency().start_points().contains(&vertex)
            {
                reached.insert(vertex.index());
                current.push(vertex);
            }
        }
    }
    while !current.is_empty() {
        let next = executor.edge_rows(graph, &current)?.concat().into_iter();
        current = next.filter(|slot| is_new(slot) && reached.insert(slot.index())).collect();
    }
    let without: Vec<_> = new.iter().copied().filter(|slot| !reached.contains(slot.index())).collect();
    let mut others = BitSet::new();
    // The set is unused if there are none.
    if !without.is_empty() {
        others.insert_range(0..graph.host().slots());
        for slot in &without {
            others.remove(slot.index());
        }
    }
    Ok((others, without))
}

/// Those of the `vertices` that are reachable, and those that are not, ascending.
fn find_unreachable<E: Executor>(
    executor: &E,
    graph: &E::Graph,
    vertices: Vertices,
) -> Result<(BitSet, Vec<Slot>), E::Error> {
    let host = graph.host();
    let reached = match host.adjacency().start_points().first() {
        Some(&start) => executor.reachable(graph, start, vertices)?,
        None => no_slots(host.slots()),
    };
    let unreachable = unreached(host, &reached, vertices);
    Ok((reached, unreachable))
}

/// Gives each of the `unreachable` vertices an edge from a reached one, one after another. Skips those that have become
/// reachable through earlier ones, by paths of the `vertices`.
fn replace_edges<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    vertices: Vertices,
    mut reached: BitSet,
    unreachable: Vec<Slot>,
    added: &mut Added,
) -> Result<(), E::Error> {
    for vertex in unreachable {
        if reached.contains(vertex.index()) {
            continue;
        }
        replace_edge(executor, graph, vertex, &reached, added)?;
        let mut current = vec![vertex];
        while !current.is_empty() {
            let next = graph.read(|graph| {
                current.retain(|&slot| vertices.contains(graph.host(), slot) && reached.insert(slot.index()));
                executor.edge_rows(graph, &current)
            });
            current = next?.concat();
        }
    }
    Ok(())
}

/// Gives `vertex` an edge from a reached one, as [`rows_with_edge_to`] has it.
fn replace_edge<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    vertex: Slot,
    reached: &BitSet,
    added: &mut Added,
) -> Result<(), E::Error> {
    let (rows, evicted) = graph.read(|graph| rows_with_edge_to(executor, graph, vertex, reached))?;
    added.edges.extend(rows.first().map(|&(source, _)| (vertex, source)));
    added.edges.extend(evicted.map(|evicted| (evicted, vertex)));
    added.evicted.extend(evicted);
    let (changed, rows): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    update(executor, graph, |graph| executor.new_rows(graph, &changed, &rows))?;
    Ok(())
}

/// Vertices with their new rows.
type NewRows = Vec<(Slot, Vec<Slot>)>;

/// New rows that give `vertex` an edge from a reached neighbor, or else from the first start point, and leave every
/// reached vertex reachable. If the row of the source is full, the edge replaces the one to its farthest neighbor,
/// which is returned too, and `vertex` gets an edge to that neighbor. Empty if the vertex is the start point.
fn rows_with_edge_to<E: Executor>(
    executor: &E,
    graph: &E::Graph,
    vertex: Slot,
    reached: &BitSet,
) -> Result<(NewRows, Option<Slot>), E::Error> {
    let max_degree = graph.host().params().max_degree();
    let mut own_row = executor.edge_rows(graph, &[vertex])?.concat();
    let mut sources: Vec<Slot> =
        own_row.iter().copied().filter(|&slot| reached.contains(slot.index())).collect();
    let start = graph.host().adjacency().start_points().first().copied();
    sources.extend(start.filter(|&start| start != vertex));
    let rows = sources.iter().copied().zip(executor.edge_rows(graph, &sources)?);
    let Some((source, mut row)) =
        rows.clone().find(|(_, row)| row.len() < max_degree).or(rows.clone().next())
    else {
        return Ok((Vec::new(), None));
    };
    if row.len() < max_degree {
        row.push(vertex);
        return Ok((vec![(source, row)], None));
    }
    let distances = graph.host().vectors().slot_distances(source, &row);
    let farthest =
        distances.into_iter().zip(&row).map(|(distance, &slot)| Neighbor::new(distance, slot)).max();
    let Some(farthest) = farthest.map(|farthest| farthest.slot()) else { return Ok((Vec::new(), None)) };
    row.retain(|&slot| slot != farthest);
    row.push(vertex);
    let mut changed = vec![(source, row)];
    if !own_row.contains(&farthest) {
        if own_row.len() == max_degree {
            // Edges to reached vertices can go; those to others may be the only ones that lead there.
            let last = own_row.iter().rposition(|&slot| reached.contains(slot.index()));
            own_row.remove(last.unwrap_or(max_degree - 1));
        }
        own_row.push(farthest);
        changed.push((vertex, own_row));
    }
    Ok((changed, Some(farthest)))
}
