//! Whether an index is what an index must be.

use jasper_core::{Element, Key};
use jasper_graph::{Graph, StructureReport};
use jasper_vamana::connectivity::unreachable;

/// What [`crate::Index::check`] found.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// Edges, rows and keys, one by one.
    pub structure: StructureReport,
    /// Keys of vectors that are stored and that no search can find: no path leads to them.
    pub unreachable: Vec<Key>,
}

impl CheckReport {
    /// Looks at everything. Cost: one pass over vectors and adjacency, and one walk through the graph.
    pub(crate) fn new<T: Element>(graph: &Graph<T>) -> Self {
        let structure = graph.check_structure();
        let lost = if structure.is_sound() { unreachable(graph) } else { Vec::new() };
        Self {
            structure,
            unreachable: lost.into_iter().flat_map(|slot| graph.keys().keys_of(slot)).collect(),
        }
    }

    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.structure.is_sound() && self.unreachable.is_empty()
    }
}
