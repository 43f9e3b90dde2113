//! The edges of a batch turned around.

use jasper_core::{Neighbor, VectorId};
use rayon::prelude::*;

use super::updates::NeighborLists;

/// Pairs (target, source) of a batch, sorted by (target, distance, source), and where each target's run ends.
#[derive(Debug)]
pub(crate) struct BackEdges {
    sources: Vec<Neighbor>,
    groups: Vec<Group>,
}

/// A run of back edges to one target.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) target: VectorId,
    start: usize,
    end: usize,
}

impl BackEdges {
    /// Turns `links` around. The full key is sorted, so nothing depends on the order of threads.
    pub(crate) fn of(links: &NeighborLists) -> Self {
        let mut pairs: Vec<(VectorId, Neighbor)> = links
            .rows()
            .flat_map(|(source, edges)| {
                edges.iter().map(move |edge| (edge.id(), Neighbor::new(edge.distance(), source)))
            })
            .collect();
        pairs.par_sort_unstable();
        let mut groups: Vec<Group> = Vec::new();
        for (i, &(target, _)) in pairs.iter().enumerate() {
            match groups.last_mut() {
                Some(group) if group.target == target => group.end = i + 1,
                _ => groups.push(Group { target, start: i, end: i + 1 }),
            }
        }
        Self { sources: pairs.into_iter().map(|(_, source)| source).collect(), groups }
    }

    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// New in-neighbours of a group's target, rising.
    pub(crate) fn sources(&self, group: &Group) -> &[Neighbor] {
        &self.sources[group.start..group.end]
    }
}
