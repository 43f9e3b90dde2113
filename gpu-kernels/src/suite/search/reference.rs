//! Beam search in its simplest form.

use std::collections::BTreeMap;

use jasper_core::{Neighbor, Slot};
use jasper_graph::Graph;

use super::case::SearchCase;

/// The results of a search, and its cost.
pub(super) struct ReferenceSearch {
    /// The frontier at the end.
    pub(super) nearest: Vec<Neighbor>,
    /// Vertices expanded, in order.
    pub(super) expanded: Vec<Neighbor>,
    /// Number of distinct vertices encountered.
    pub(super) distinct: u32,
    /// Number of vertices encountered, repeated ones included.
    pub(super) met: u32,
}

/// Searches from the vertices `next`. Each step expands the nearest `expansions` unexpanded vertices among the nearest
/// `beam_width` of all vertices encountered.
pub(super) fn search(
    graph: &Graph,
    distance_to: &dyn Fn(Slot) -> f32,
    mut next: Vec<Slot>,
    case: &SearchCase,
    expansions: u32,
) -> ReferenceSearch {
    let mut known: BTreeMap<Neighbor, bool> = BTreeMap::new();
    let (mut expanded, mut met) = (Vec::new(), 0);
    loop {
        met += next.len() as u32;
        for id in next.drain(..) {
            known.entry(Neighbor::new(distance_to(id), id)).or_default();
        }
        let beam = known.iter().take(case.beam_width as usize);
        let unvisited = beam.filter(|(_, visited)| !**visited).map(|(vertex, _)| *vertex);
        let picked: Vec<_> =
            unvisited.take(expansions.min(case.max_hops - expanded.len() as u32) as usize).collect();
        if picked.is_empty() {
            let nearest = known.keys().take(case.frontier_len as usize).copied().collect();
            return ReferenceSearch { nearest, expanded, distinct: known.len() as u32, met };
        }
        for vertex in picked {
            known.insert(vertex, true);
            expanded.push(vertex);
            next.extend_from_slice(graph.adjacency().neighbors(vertex.slot()));
        }
    }
}
