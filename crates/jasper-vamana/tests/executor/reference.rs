//! Vamana as the DiskANN and FreshDiskANN papers describe it, in plain and slow code.
//!
//! The reference shares two deviations of Jasper: a prune does not compare neighbors again that an earlier one kept
//! together, and live neighbors stay when a row is repaired.

use std::collections::{BTreeMap, BTreeSet};

use jasper_core::{BuildParams, Element, Metric, Slot, defaults, with_element};
use jasper_graph::Graph;
use jasper_vamana::PeerSampling;
use jasper_vamana::pipeline::LinkMode;

/// A vertex and its distance, in the order of neighbors: by distance, then by number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Near {
    pub distance: f32,
    pub id: u32,
}

pub fn sorted(mut all: Vec<Near>) -> Vec<Near> {
    all.sort_by(|a, b| a.distance.total_cmp(&b.distance).then(a.id.cmp(&b.id)));
    all
}

fn slot(id: u32) -> Slot {
    Slot::new(id)
}

/// Distances of one vector.
pub fn with_distances(distance_to: &dyn Fn(Slot) -> f32, ids: impl IntoIterator<Item = u32>) -> Vec<Near> {
    // Adding zero removes the sign of a zero, as the order of neighbors does.
    ids.into_iter().map(|id| Near { distance: distance_to(slot(id)) + 0.0, id }).collect()
}

/// Computes distances of a vertex.
fn distance_from(graph: &Graph, vertex: u32) -> impl Fn(Slot) -> f32 {
    move |other| graph.vectors().slot_distances(slot(vertex), &[other])[0]
}

pub fn row(graph: &Graph, id: u32) -> Vec<u32> {
    graph.adjacency().neighbors(slot(id)).iter().map(|neighbor| neighbor.get()).collect()
}

/// The result of a beam search.
pub struct Walk {
    /// The nearest vertices visited, ascending.
    pub found: Vec<Near>,
    /// The expanded vertices, in order.
    pub expanded: Vec<Near>,
    /// Number of vertices whose distance was computed.
    pub visited: usize,
}

/// Keeps the nearest `beam_width` of all visited vertices, and expands the nearest unexpanded one of these until all
/// are expanded.
pub fn walk(graph: &Graph, distance_to: &dyn Fn(Slot) -> f32, beam_width: usize) -> Walk {
    walk_from(graph, distance_to, beam_width, graph.adjacency().start_points())
}

/// [`walk`] from other start points than those of the graph.
fn walk_from(graph: &Graph, distance_to: &dyn Fn(Slot) -> f32, beam_width: usize, starts: &[Slot]) -> Walk {
    let mut visited: BTreeSet<u32> = starts.iter().map(|start| start.get()).collect();
    let mut found = sorted(with_distances(distance_to, visited.iter().copied()));
    found.truncate(beam_width);
    let (mut expanded, mut is_expanded) = (Vec::new(), BTreeSet::new());
    while let Some(&next) = found.iter().find(|near| !is_expanded.contains(&near.id)) {
        expanded.push(next);
        is_expanded.insert(next.id);
        let new: Vec<u32> = row(graph, next.id).into_iter().filter(|&id| visited.insert(id)).collect();
        found.extend(with_distances(distance_to, new));
        found = sorted(found);
        found.truncate(beam_width);
    }
    Walk { found, expanded, visited: visited.len() }
}

/// Candidates in the order of a prune.
fn ordered(candidates: Vec<Near>) -> Vec<Near> {
    let mut all = sorted(candidates);
    all.dedup();
    all.truncate(defaults::MAX_CANDIDATES);
    all
}

/// Keeps every candidate that no kept one occludes: in the first round with an alpha of 1, in the second with that of
/// the graph, among the candidates not kept and those `waiting`. Two candidates that are both `settled` are not
/// compared. Returns what each round kept.
pub fn robust_prune(
    graph: &Graph,
    owner: u32,
    candidates: Vec<Near>,
    most: usize,
    settled: &[Near],
    waiting: &[Near],
) -> [Vec<Near>; 2] {
    let (params, origin) = (graph.params(), graph.vectors().origin(slot(owner)));
    let mut kept: Vec<Near> = Vec::new();
    let round = |kept: &mut Vec<Near>, candidates: Vec<Near>, alpha: f32| {
        let mut rest = Vec::new();
        for candidate in candidates {
            // The distance of a kept c* from c, as from c: with cosine on bytes, the two may differ by a rounding.
            let between = |kept: Slot| {
                with_element!(graph.element(), T => {
                    let computer = graph.vectors().distance_computer_from::<T>(origin, slot(candidate.id));
                    computer.distance_to(kept)
                })
            };
            let leads = |kept: &Near| {
                let are_settled = settled.contains(kept) && settled.contains(&candidate);
                let offset = if alpha > 1.0 { graph.vectors().alpha_offset(origin) } else { 0.0 };
                !are_settled && alpha * (offset + between(slot(kept.id))) <= offset + candidate.distance
            };
            if kept.len() == most || kept.iter().any(leads) {
                rest.push(candidate);
            } else {
                kept.push(candidate);
            }
        }
        rest
    };
    let mut rest = round(&mut kept, candidates, 1.0);
    let first = kept.len();
    if params.alpha() > 1.0 {
        rest.extend(waiting);
        round(&mut kept, sorted(rest), params.alpha());
    }
    let second = kept.split_off(first);
    [kept, second]
}

/// What a [prune](robust_prune) keeps, and the nearest other candidates if these are fewer than the minimum.
fn filled_prune(
    graph: &Graph,
    owner: u32,
    candidates: Vec<Near>,
    most: usize,
    settled: &[Near],
    waiting: &[Near],
) -> Vec<Near> {
    let all = sorted([&candidates, waiting].concat());
    let mut kept = robust_prune(graph, owner, candidates, most, settled, waiting).concat();
    let least = graph.params().min_degree(graph.metric()).min(most);
    let rest: Vec<Near> = all.into_iter().filter(|near| !kept.contains(near)).collect();
    kept.extend(rest.into_iter().take(least.saturating_sub(kept.len())));
    kept
}

/// The ends of the parts of a row that the rounds of a prune wrote. Each part ascends; edges appended since usually do
/// not.
fn settled_ends(graph: &Graph, row: &[Near]) -> [usize; 2] {
    let rising = |run: &[Near]| {
        let pairs = run.windows(2).take_while(|pair| pair[0] != pair[1] && sorted(pair.to_vec()) == *pair);
        run.len().min(pairs.count() + 1)
    };
    let first = rising(row);
    [first, first + if graph.params().alpha() > 1.0 { rising(&row[first..]) } else { 0 }]
}

fn ids(all: Vec<Near>) -> Vec<u32> {
    all.into_iter().map(|near| near.id).collect()
}

/// The neighbor of `target` that `near` is, whose neighbor it is. If their origins differ, as sums of two terms do.
fn reversed(graph: &Graph, target: u32, near: Near) -> Near {
    let vectors = graph.vectors();
    let [from, to] = [near.id, target].map(|id| vectors.origin(slot(id)) as usize);
    let weights = vectors.center().term_weights();
    let terms = vectors.terms().map_or(0.0, |terms| terms.at(near.id as usize) + terms.at(target as usize));
    let change = if from == to { 0.0 } else { (weights[to] - weights[from]) * terms };
    Near { distance: near.distance + change, ..near }
}

/// The rows that linking a batch changes, and the vertices that are not linked, each with the vertex that has the same
/// vector.
pub struct Linked {
    pub rows: BTreeMap<u32, Vec<u32>>,
    pub identical: BTreeMap<u32, u32>,
}

/// Searches for every vertex of a batch in the unchanged graph, prunes the expanded vertices, and adds the back edges
/// to their targets, pruning rows that overflow. In an insert, peers in the batch are candidates of each other if they
/// are nearer than the expanded vertices that would fill a row.
pub fn link(graph: &Graph, batch: &[u32], mode: LinkMode) -> Linked {
    let params = graph.params();
    let half = if graph.metric() == Metric::InnerProduct {
        params.build_beam_width()
    } else {
        params.build_beam_width().div_ceil(2)
    };
    let (sampling, max_kept) = match mode {
        LinkMode::Insert(sampling) => (Some(sampling), params.max_degree()),
        LinkMode::Bulk | LinkMode::Refine if graph.metric() != Metric::InnerProduct => {
            (None, params.merged_degree())
        }
        _ => (None, params.max_degree()),
    };
    let mut candidates: BTreeMap<u32, Vec<Near>> = BTreeMap::new();
    let mut identical = BTreeMap::new();
    for &vertex in batch {
        let distance_to = distance_from(graph, vertex);
        let expanded = match mode {
            LinkMode::Bulk | LinkMode::Incoming => walk(graph, &distance_to, half).expanded,
            LinkMode::Refine => walk_from(graph, &distance_to, half, &[slot(vertex)]).expanded,
            LinkMode::Reverse => Vec::new(),
            _ => walk(graph, &distance_to, params.build_beam_width()).expanded,
        };
        let expanded = sorted(expanded.into_iter().filter(|near| near.id != vertex).collect());
        let is_same = |near: &&Near| {
            graph.vectors().padded_bytes(slot(near.id)) == graph.vectors().padded_bytes(slot(vertex))
        };
        match sampling.and_then(|_| expanded.iter().find(is_same)) {
            Some(same) => drop(identical.insert(vertex, same.id)),
            None => drop(candidates.insert(vertex, expanded)),
        }
    }
    let in_order: Vec<u32> = batch.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let mut rows = BTreeMap::new();
    let mut back_edges: BTreeMap<u32, Vec<Near>> = BTreeMap::new();
    for (&vertex, expanded) in &candidates {
        let distance_to = distance_from(graph, vertex);
        let bound = expanded.get(params.max_degree() - 1);
        let is_nearer =
            |near: &Near, than: &Near| near.id != than.id && sorted(vec![*near, *than])[0] == *near;
        let mut all = Vec::new();
        for (round, sampling) in (0..PeerSampling::ROUNDS).zip(sampling.iter().cycle()) {
            if all.len() < PeerSampling::required(round, params.max_degree()) {
                break;
            }
            let part = sampling.positions(round, in_order.len()).map(|position| in_order[position]);
            let linked = part.filter(|other| *other != vertex && candidates.contains_key(other));
            let nearer = |near: &Near| bound.is_none_or(|bound| is_nearer(near, bound));
            all.extend(with_distances(&distance_to, linked).into_iter().filter(nearer));
        }
        let mut all = sorted(all);
        all.truncate(params.max_degree());
        all.extend(expanded);
        if !matches!(mode, LinkMode::Bulk | LinkMode::Insert(_)) {
            all.extend(with_distances(&distance_to, row(graph, vertex)));
        }
        let kept = filled_prune(graph, vertex, ordered(all), params.max_degree(), &[], &[]);
        for near in &kept {
            back_edges.entry(near.id).or_default().push(Near { distance: near.distance, id: vertex });
        }
        if !matches!(mode, LinkMode::Reverse | LinkMode::Incoming) {
            rows.insert(vertex, ids(kept));
        }
    }
    for (target, sources) in back_edges {
        let old = rows.get(&target).cloned().unwrap_or_else(|| row(graph, target));
        let sources = sources.into_iter().map(|near| reversed(graph, target, near)).collect();
        let new: Vec<Near> = sorted(sources).into_iter().filter(|source| !old.contains(&source.id)).collect();
        let changed = if old.len() + new.len() <= params.max_degree() || mode == LinkMode::Incoming {
            old.into_iter().chain(ids(new)).take(params.max_degree()).collect()
        } else {
            let old = with_distances(&distance_from(graph, target), old);
            let [first, settled] = settled_ends(graph, &old);
            let (settled, second) = (old[..settled].to_vec(), old[first..settled].to_vec());
            let all = ordered(new.into_iter().chain(old).collect());
            let (waiting, candidates): (Vec<Near>, Vec<Near>) =
                all.into_iter().partition(|near| second.contains(near));
            ids(filled_prune(graph, target, candidates, max_kept, &settled, &waiting))
        };
        rows.insert(target, changed);
    }
    Linked { rows, identical }
}

/// The row of a live vertex without its tombstones: live neighbors stay, and neighbors of the tombstones are added if
/// no kept one occludes them.
pub fn repair(graph: &Graph, vertex: u32) -> Vec<u32> {
    let old = row(graph, vertex);
    let (hidden, live): (Vec<u32>, Vec<u32>) =
        old.iter().copied().partition(|&id| graph.keys().is_tombstone(slot(id)));
    if hidden.is_empty() {
        return old;
    }
    let heirs: BTreeSet<u32> = hidden.into_iter().flat_map(|id| row(graph, id)).collect();
    let heirs =
        heirs.into_iter().filter(|id| graph.keys().is_live(slot(*id)) && *id != vertex && !live.contains(id));
    let distance_to = distance_from(graph, vertex);
    let stay = with_distances(&distance_to, live.iter().copied());
    let candidates = stay.iter().copied().chain(sorted(with_distances(&distance_to, heirs))).collect();
    let [first, settled] = settled_ends(graph, &stay);
    // The row gets as long as it was, or half full.
    let most = old.len().max(graph.params().max_degree() / 2);
    let heirs = robust_prune(graph, vertex, candidates, most, &stay, &[])
        .map(|round| round.into_iter().filter(|near| !stay.contains(near)).collect::<Vec<_>>());
    let runs = [[&stay[..first], &heirs[0]], [&stay[first..settled], &heirs[1]]];
    let mut row: Vec<Near> = runs.into_iter().flat_map(|run| sorted(run.concat())).collect();
    row.extend(&stay[settled..]);
    ids(row)
}

/// A graph over rows with random edges and start points.
pub fn any_graph<T: Element>(
    metric: Metric,
    rows: &[T],
    dimension: usize,
    params: BuildParams,
    neighbors: impl Fn(usize) -> Vec<usize>,
    start_points: &[usize],
) -> Graph {
    let mut graph = Graph::new(T::KIND, metric, dimension, params).expect("a valid dimension");
    let mut prepared = Vec::new();
    for (key, row) in rows.chunks_exact(dimension).enumerate() {
        let squared_norm = graph.vectors().prepare(key, row, &mut prepared).expect("a sound row");
        let slot = graph.add_vector(&prepared, squared_norm).expect("room");
        graph.keys_mut().assign(key as u64, slot).expect("a new key");
    }
    for vertex in 0..graph.slots() {
        let distinct: BTreeSet<usize> = neighbors(vertex).into_iter().filter(|&to| to != vertex).collect();
        // Not in order of number, as rows are not.
        let row: Vec<_> =
            distinct.into_iter().rev().map(Slot::from_index).take(params.max_degree()).collect();
        graph.adjacency_mut().set_neighbors(Slot::from_index(vertex), &row);
    }
    graph.adjacency_mut().set_start_points(start_points.iter().copied().map(Slot::from_index).collect());
    graph
}
