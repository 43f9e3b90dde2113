//! Compaction: moves vertices into free slots and releases the memory after them.

use std::ops::AddAssign;

use jasper_core::Slot;
use jasper_graph::{Graph, VectorError};

/// Statistics of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CompactReport {
    /// Vertices that changed their slot.
    pub moved: usize,
    /// Slots released.
    pub freed: usize,
}

impl AddAssign for CompactReport {
    fn add_assign(&mut self, other: Self) {
        self.moved += other.moved;
        self.freed += other.freed;
    }
}

/// Moves the last vertices into free slots, so that no free slot is left and the tables shrink. Search results do not
/// change.
///
/// Deleted vertices that were not consolidated move like all others. Every row is read and written once.
///
/// # Errors
/// Returns [`VectorError::Memory`] if memory for the tables cannot be allocated; the graph is unchanged.
pub fn compact(graph: &mut Graph) -> Result<CompactReport, VectorError> {
    let (kept, moves) = compaction_moves(graph);
    let report = CompactReport { moved: moves.len(), freed: graph.keys().free() };
    if report.freed > 0 {
        graph.compact(&moves, kept)?;
    }
    Ok(report)
}

/// The number of slots that remain, and the moves that leave no free slot among them: pairs (from, to), both ascending.
pub fn compaction_moves(graph: &Graph) -> (usize, Vec<(Slot, Slot)>) {
    let kept = graph.slots() - graph.keys().free();
    let free = (0..kept).map(Slot::from_index).filter(|&slot| graph.keys().is_free(slot));
    let beyond = (kept..graph.slots()).map(Slot::from_index).filter(|&slot| !graph.keys().is_free(slot));
    (kept, beyond.zip(free).collect())
}
