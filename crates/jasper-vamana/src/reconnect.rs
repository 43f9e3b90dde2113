//! Edges for vertices that no path leads to.
//!
//! Pruning keeps no promise about reachability, and neither does a delete; a vertex that no path leads to is stored and
//! never found. So bulk builds, larger inserts and consolidations end with [`reconnect`].

use jasper_core::{BitSet, Element, Neighbor, Progress, ProgressFn, Stage, VectorId};
use jasper_graph::Graph;

use crate::connectivity::{Reached, beyond};
use crate::pipeline::{GraphLock, LinkError};
use crate::{Executor, MutableGraph, largest_batch};

/// Gives every unreachable `wanted` vertex an edge from a reachable one; returns how many there were.
///
/// Each is searched for, and the nearest expanded vertex with room in its row gets an edge to it, because later searches for the
/// vertex pass there. Linking it again like a new vertex would not help: its nearest neighbors are hubs with full rows, which
/// pruned it before (docs: experiments). Vertices that find no room replace an edge of one of their own neighbors.
///
/// # Errors
/// [`LinkError`]; the caller rolls back.
pub fn reconnect<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphLock<E::Live>,
    wanted: impl Fn(&Graph<T>, VectorId) -> bool,
    progress: &mut ProgressFn<'_>,
) -> Result<usize, LinkError<E::Error>> {
    let total = give_edges(executor, cell, |graph| lost(executor, graph, &wanted), progress)?;
    cell.write(|graph| graph.change(|host| host.adjacency_mut().set_unchecked(0)))
        .map_err(LinkError::Linker)?;
    Ok(total)
}

/// Gives an edge to each of the `new` vertices that linking them has left [without one](orphans), as [`reconnect`] does, and
/// gives how many there were. Under inner products these are many, for short vectors are nobody's nearest. Reads the rows of
/// the new vertices and of those that they lead to.
///
/// # Errors
/// [`LinkError`]; the caller rolls back.
pub(crate) fn reconnect_orphans<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphLock<E::Live>,
    new: &[VectorId],
    progress: &mut ProgressFn<'_>,
) -> Result<usize, LinkError<E::Error>> {
    give_edges(executor, cell, |graph| orphans(executor, graph, new), progress)
}

/// Gives each vertex that `find` reports as unreached an edge from a reached one. No path leads through unreached vertices, so
/// replacing one of their edges disconnects nothing.
fn give_edges<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphLock<E::Live>,
    find: impl Fn(&E::Live) -> Result<(Reached, Vec<VectorId>), E::Error>,
    progress: &mut ProgressFn<'_>,
) -> Result<usize, LinkError<E::Error>> {
    let (mut reached, mut open) = cell.read(&find).map_err(LinkError::Linker)?;
    let total = open.len();
    // The memory plan covers a batch of this size.
    let largest = cell.read(|graph| largest_batch(graph.host().slots(), graph.host().params()));
    let at_once = E::SEARCHED_AT_ONCE.min(largest).max(1);
    // If several vertices want the same row, the nearest get its free places; the others search again in the next round.
    let mut rounds = true;
    while rounds && !open.is_empty() {
        let mut edges = Vec::with_capacity(open.len());
        for (i, part) in open.chunks(at_once).enumerate() {
            let done = total - open.len() + i * at_once;
            Progress { stage: Stage::Reconnecting, done, total }.report(progress)?;
            let nearest = cell.read(|graph| {
                let found = executor.search(graph.links(), part)?;
                executor.nearest_with_room(graph.links(), found, &reached)
            });
            edges.extend(nearest.map_err(LinkError::Linker)?);
        }
        cell.write(|graph| add_edges(executor, graph, edges, at_once)).map_err(LinkError::Linker)?;
        let before = open.len();
        (reached, open) = cell.read(&find).map_err(LinkError::Linker)?;
        rounds = open.len() <= before / 2;
    }
    if !open.is_empty() {
        cell.write(|graph| force_edges(executor, graph, &reached, open)).map_err(LinkError::Linker)?;
    }
    if total > 0 {
        Progress { stage: Stage::Reconnecting, done: total, total }.report(progress)?;
    }
    Ok(total)
}

/// Adds an edge to each of some vertices, from the one beside it: the nearest first, as far as that has room. So many rows
/// are worked on `at_once`.
fn add_edges<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &mut E::Live,
    mut edges: Vec<(VectorId, Neighbor)>,
    at_once: usize,
) -> Result<(), E::Error> {
    let max_degree = graph.host().params().max_degree();
    let by_source = |(to, from): &(VectorId, Neighbor)| (from.id(), Neighbor::new(from.distance(), *to));
    edges.sort_unstable_by_key(by_source);
    let of_sources: Vec<_> = edges.chunk_by(|a, b| a.1.id() == b.1.id()).collect();
    for of_sources in of_sources.chunks(at_once) {
        let sources: Vec<VectorId> = of_sources.iter().map(|edges| edges[0].1.id()).collect();
        let mut rows = executor.neighbors(graph.links(), &sources)?;
        for (row, edges) in rows.iter_mut().zip(of_sources) {
            let room = max_degree.saturating_sub(row.len());
            row.extend(edges.iter().take(room).map(|edge| edge.0));
        }
        executor.set_neighbors(graph.links_mut(), &sources, &rows)?;
    }
    Ok(())
}

/// Vertices whose neighbors' rows are read together.
const LOOKED_AT_ONCE: usize = 1024;

/// The orphans among `new`, which is ascending, and the set of all other vertices. An orphan is a new vertex to which no old
/// neighbor links back, nor a new one that is no orphan itself.
fn orphans<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &E::Live,
    new: &[VectorId],
) -> Result<(Reached, Vec<VectorId>), E::Error> {
    let is_new = |slot: &VectorId| new.binary_search(slot).is_ok();
    let (mut adopted, mut open) = (BitSet::new(), Vec::new());
    for new in new.chunks(LOOKED_AT_ONCE) {
        let links = executor.neighbors(graph.links(), new)?;
        let mut targets = links.concat();
        targets.retain(|target| !is_new(target));
        targets.sort_unstable();
        targets.dedup();
        let rows = executor.neighbors(graph.links(), &targets)?;
        for (&vertex, links) in new.iter().zip(&links) {
            let leads_back =
                |target| targets.binary_search(target).is_ok_and(|place| rows[place].contains(&vertex));
            if links.iter().any(leads_back) || graph.host().adjacency().start_points().contains(&vertex) {
                adopted.insert(vertex.index());
                open.push(vertex);
            }
        }
    }
    while !open.is_empty() {
        let beyond = executor.neighbors(graph.links(), &open)?.concat().into_iter();
        open = beyond.filter(|slot| is_new(slot) && adopted.insert(slot.index())).collect();
    }
    let orphans: Vec<_> = new.iter().copied().filter(|slot| !adopted.contains(slot.index())).collect();
    // The set is unused if there are no orphans.
    let slots = if orphans.is_empty() { 0 } else { graph.host().slots() };
    Ok((Reached::all_but(slots, &orphans), orphans))
}

/// What can be reached, and the `wanted` slots that cannot, rising.
fn lost<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &E::Live,
    wanted: impl Fn(&Graph<T>, VectorId) -> bool,
) -> Result<(Reached, Vec<VectorId>), E::Error> {
    let host = graph.host();
    let reached = match host.adjacency().start_points().first() {
        Some(&start) => executor.reachable(graph.links(), start)?,
        None => Reached::none_of(host.slots()),
    };
    let lost = beyond(host, &reached, wanted);
    Ok((reached, lost))
}

/// Gives every one of the `lost` that no path leads to an edge from a reached one, in turn.
fn force_edges<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &mut E::Live,
    reached: &Reached,
    lost: Vec<VectorId>,
) -> Result<(), E::Error> {
    for slot in lost {
        if !reached.contains(slot) {
            force_edge(executor, graph, slot, reached)?;
            let mut open = vec![slot];
            while !open.is_empty() {
                open.retain(|&slot| reached.insert(slot));
                open = executor.neighbors(graph.links(), &open)?.concat();
            }
        }
    }
    Ok(())
}

/// Gives `lost` an in-edge from a reached neighbor, and takes no reached vertex out of reach: where the row is full,
/// its farthest edge makes room, and `lost` leads to where that led.
fn force_edge<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &mut E::Live,
    lost: VectorId,
    reached: &Reached,
) -> Result<(), E::Error> {
    let neighbors = |graph: &E::Live, slot| Ok(executor.neighbors(graph.links(), &[slot])?.concat());
    let max_degree = graph.host().params().max_degree();
    let mut row_of_lost = neighbors(graph, lost)?;
    let mut near: Vec<VectorId> =
        row_of_lost.iter().copied().filter(|&slot| reached.contains(slot)).collect();
    near.extend(graph.host().adjacency().start_points().first().copied().filter(|&start| start != lost));
    let rows = executor.neighbors(graph.links(), &near)?;
    let roomy = near.iter().zip(&rows).find(|(_, row)| row.len() < max_degree);
    let Some((&slot, row)) = roomy.or(near.iter().zip(&rows).next()) else { return Ok(()) };
    let mut row = row.clone();
    if row.len() < max_degree {
        row.push(lost);
        return executor.set_neighbors(graph.links_mut(), &[slot], &[row]);
    }
    let scorer = graph.host().vectors().slot_scorer(slot);
    let ranked = row.iter().map(|&id| Neighbor::new(scorer.score_one(id), id));
    let Some(farthest) = ranked.max().map(Neighbor::id) else { return Ok(()) };
    row.retain(|&id| id != farthest);
    row.push(lost);
    executor.set_neighbors(graph.links_mut(), &[slot], &[row])?;
    if !row_of_lost.contains(&farthest) {
        row_of_lost.truncate(max_degree - 1);
        row_of_lost.push(farthest);
        executor.set_neighbors(graph.links_mut(), &[lost], &[row_of_lost])?;
    }
    Ok(())
}
