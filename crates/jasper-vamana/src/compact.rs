//! Compaction: moves vertices into free slots and releases the memory after them.

use jasper_core::{Element, VectorId};
use jasper_graph::{Graph, VectorError};

/// What a compaction was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CompactReport {
    /// Vertices that changed their slot.
    pub moved: usize,
    /// Slots given back.
    pub freed: usize,
}

/// Moves the last vertices into free slots, so that none is left and the tables shrink. Keys, edges and answers stay.
///
/// Deleted vertices that were not consolidated move like any other. Cost: every row is read and written once.
///
/// # Errors
/// [`VectorError::Memory`] if the operating system gives none for the tables of the shorter graph; nothing has changed.
pub fn compact<T: Element>(graph: &mut Graph<T>) -> Result<CompactReport, VectorError> {
    let (kept, moves) = moves(graph);
    let report = CompactReport { moved: moves.len(), freed: graph.keys().free() };
    if report.freed > 0 {
        graph.compact(&moves, kept)?;
    }
    Ok(report)
}

/// How many slots remain without holes, and which vertex moves where: pairs (from, to), both rising.
pub fn moves<T: Element>(graph: &Graph<T>) -> (usize, Vec<(VectorId, VectorId)>) {
    let kept = graph.slots() - graph.keys().free();
    let holes = (0..kept).map(VectorId::from_index).filter(|&slot| graph.keys().is_free(slot));
    let beyond = (kept..graph.slots()).map(VectorId::from_index).filter(|&slot| !graph.keys().is_free(slot));
    (kept, beyond.zip(holes).collect())
}
