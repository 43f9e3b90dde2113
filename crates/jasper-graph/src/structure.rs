//! Checks the invariants of a graph, for mapped files, which were not validated, and for tests.

use jasper_core::{
    Cancelled, Element, Key, Metric, NO_KEY, Progress, ProgressFn, Slot, Stage, no_progress, with_element,
};

use crate::Graph;

/// The result of [`Graph::check_structure`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StructureReport {
    /// Vertices checked, live and tombstones.
    pub vertices: usize,
    /// Edges checked.
    pub edges: usize,
    /// Live keys checked.
    pub keys: usize,
    /// Number of faults.
    pub faults: usize,
    /// The first few faults.
    pub examples: Vec<StructureFault>,
}

/// Faults that are reported individually.
const EXAMPLES: usize = 10;
/// Slots checked between two progress reports.
const SLOTS_PER_REPORT: usize = 1 << 16;

/// A violated invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StructureFault {
    /// A degree above `max_degree`.
    #[error("{0} has degree {1}, above max_degree")]
    Degree(Slot, u16),
    /// An edge to a slot that is out of range.
    #[error("an edge of {0} leads to {1}, which does not exist")]
    Beyond(Slot, Slot),
    /// An edge to a free slot.
    #[error("an edge of {0} leads to {1}, which has no vertex")]
    ToFree(Slot, Slot),
    /// An edge from a vertex to itself.
    #[error("an edge of {0} leads to itself")]
    ToItself(Slot),
    /// Two edges to the same vertex.
    #[error("two edges of {0} lead to {1}")]
    Twice(Slot, Slot),
    /// A free slot with edges.
    #[error("{0} has edges but no vertex")]
    FromFree(Slot),
    /// A coordinate or [term](crate::VectorTable::terms) that is not finite, or padding that is not zero.
    #[error("the vector of {0} is not finite, or its padding not zero")]
    Vector(Slot),
    /// A start point that is out of range or free.
    #[error("start point {0} has no vertex")]
    StartPoint(Slot),
    /// No start point, although there are edges.
    #[error("no start point, although there are edges")]
    NoStartPoint,
    /// A key of two vertices, or given twice.
    #[error("key {0} is given twice")]
    KeyTwice(Key),
    /// A key that is both live and deleted.
    #[error("key {0} is both live and deleted")]
    KeyDeleted(Key),
    /// The reserved key.
    #[error("{0} has the reserved key {NO_KEY}")]
    KeyReserved(Slot),
}

impl StructureReport {
    /// Whether there are no faults.
    pub fn is_sound(&self) -> bool {
        self.faults == 0
    }

    fn note(&mut self, fault: StructureFault) {
        self.faults += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(fault);
        }
    }
}

impl Graph {
    /// Checks every vector, edge and key. Does not check that every live vertex can be reached.
    ///
    /// Never panics, whatever a mapped file holds. Cost: one pass over vectors and edges; 16 bytes per live key.
    pub fn check_structure(&self) -> StructureReport {
        self.check_structure_with_progress(&mut no_progress).expect("nothing cancels it")
    }

    /// Checks the graph as [`Self::check_structure`] does, with a progress callback.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the callback cancels the call.
    pub fn check_structure_with_progress(
        &self,
        progress: &mut ProgressFn<'_>,
    ) -> Result<StructureReport, Cancelled> {
        self.adjacency.require_unshared();
        let mut report = StructureReport::default();
        let total = self.slots();
        for slot in (0..total).map(Slot::from_index) {
            if slot.index().is_multiple_of(SLOTS_PER_REPORT) {
                Progress { stage: Stage::Checking, done: slot.index(), total }.report(progress)?;
            }
            self.check_edges(slot, &mut report);
            if !self.keys.is_free(slot) {
                report.vertices += 1;
                if !self.is_vector_sound(slot) {
                    report.note(StructureFault::Vector(slot));
                }
            }
        }
        self.check_start_points(&mut report);
        self.check_keys(&mut report);
        Progress { stage: Stage::Checking, done: total, total }.report(progress)?;
        Ok(report)
    }

    fn check_edges(&self, slot: Slot, report: &mut StructureReport) {
        let degree = self.adjacency.degrees.at(slot.index());
        let row = self.adjacency.table.row(slot.index());
        if degree as usize > row.len() {
            return report.note(StructureFault::Degree(slot, degree));
        }
        if self.keys.is_free(slot) && degree > 0 {
            return report.note(StructureFault::FromFree(slot));
        }
        let neighbors = &row[..degree as usize];
        report.edges += neighbors.len();
        for &neighbor in neighbors {
            if neighbor.index() >= self.slots() {
                report.note(StructureFault::Beyond(slot, neighbor));
            } else if self.keys.is_free(neighbor) {
                report.note(StructureFault::ToFree(slot, neighbor));
            } else if neighbor == slot {
                report.note(StructureFault::ToItself(slot));
            }
        }
        let mut sorted = neighbors.to_vec();
        sorted.sort_unstable();
        for pair in sorted.windows(2).filter(|pair| pair[0] == pair[1]) {
            report.note(StructureFault::Twice(slot, pair[0]));
        }
    }

    fn is_vector_sound(&self, slot: Slot) -> bool {
        fn is_sound<T: Element>(row: &[T], dimension: usize) -> bool {
            let (vector, padding) = row.split_at(dimension);
            padding.iter().all(|&x| x == T::default())
                && (T::EXACT_SUMS || vector.iter().all(|x| x.to_f32().is_finite()))
        }
        let term = self.vectors.term(slot);
        term.is_finite()
            && (term >= 0.0 || self.metric() == Metric::InnerProduct)
            && (!self.has_vectors()
                || with_element!(self.element(), T => {
                    is_sound::<T>(self.vectors.padded(slot), self.dimension())
                }))
    }

    fn check_start_points(&self, report: &mut StructureReport) {
        for &start in self.adjacency.start_points() {
            if start.index() >= self.slots() || self.keys.is_free(start) {
                report.note(StructureFault::StartPoint(start));
            }
        }
        if self.adjacency.start_points().is_empty() && report.edges > 0 {
            report.note(StructureFault::NoStartPoint);
        }
    }

    fn check_keys(&self, report: &mut StructureReport) {
        let mut keys: Vec<Key> = Vec::with_capacity(self.keys.len());
        for slot in self.keys.live_slots() {
            keys.extend(self.keys.keys_of(slot));
            if keys.last() == Some(&NO_KEY) {
                report.note(StructureFault::KeyReserved(slot));
            }
        }
        report.keys = keys.len();
        keys.sort_unstable();
        for pair in keys.windows(2).filter(|pair| pair[0] == pair[1]) {
            report.note(StructureFault::KeyTwice(pair[0]));
        }
        for key in self.keys.deleted_keys().filter(|key| keys.binary_search(key).is_ok()) {
            report.note(StructureFault::KeyDeleted(key));
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for StructureFault {
    /// Serializes the fault as text.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::Block;
    use jasper_core::{BuildParams, ElementKind, Metric};

    fn graph() -> Graph {
        let params = BuildParams::builder().max_degree(3).build().unwrap();
        let mut graph = Graph::new(ElementKind::F32, Metric::InnerProduct, 3, params).unwrap();
        for key in 0..6 {
            let slot = graph.add_vector(&[1.0, 2.0, key as f32, 0.0], 1.0).unwrap();
            graph.keys_mut().assign(key, slot).unwrap();
            graph
                .adjacency_mut()
                .set_neighbors(slot, &[Slot::new((key as u32 + 1) % 5), Slot::new((key as u32 + 2) % 5)]);
        }
        graph.keys_mut().delete(5).unwrap();
        graph.release_tombstones();
        graph.keys_mut().delete(4).unwrap();
        graph.keys_mut().assign(9, Slot::new(3)).unwrap();
        graph.adjacency_mut().set_start_points(vec![Slot::new(0)]);
        graph
    }

    #[test]
    fn a_sound_graph_has_no_fault() {
        let report = graph().check_structure();
        assert!(report.is_sound(), "{report:?}");
        assert_eq!((report.vertices, report.edges, report.keys), (5, 10, 5));
    }

    type Damage<'a> = &'a dyn Fn(&mut Graph);

    #[test]
    fn every_fault_is_found() {
        use StructureFault::*;
        let id = Slot::new;
        let cases: [(StructureFault, Damage<'_>); 13] = [
            (Degree(id(1), 4), &|g| g.adjacency.degrees.set(1, 4)),
            (Beyond(id(1), id(6)), &|g| g.adjacency.table.row_mut(1)[0] = id(6)),
            (ToFree(id(1), id(5)), &|g| g.adjacency.table.row_mut(1)[0] = id(5)),
            (ToItself(id(1)), &|g| g.adjacency.table.row_mut(1)[0] = id(1)),
            (Twice(id(1), id(2)), &|g| g.adjacency.table.row_mut(1)[1] = id(2)),
            (FromFree(id(5)), &|g| g.adjacency.degrees.set(5, 1)),
            (Vector(id(2)), &|g| Block::cast_mut(g.vectors.table.row_mut(2))[2] = f32::NAN),
            (Vector(id(2)), &|g| Block::cast_mut(g.vectors.table.row_mut(2))[3] = 1.0_f32),
            (StartPoint(id(5)), &|g| g.adjacency.start_points = vec![id(5)]),
            (NoStartPoint, &|g| g.adjacency.start_points.clear()),
            (KeyTwice(2), &|g| g.keys.further.push(id(1), 2)),
            (KeyDeleted(2), &|g| {
                g.keys.deleted.insert(2, id(2));
            }),
            (KeyReserved(id(0)), &|g| g.keys.further.push(id(0), NO_KEY)),
        ];
        for (fault, damage) in cases {
            let mut graph = graph();
            damage(&mut graph);
            let report = graph.check_structure();
            assert_eq!(report.examples, [fault], "{fault}");
            assert_eq!(report.faults, 1);
        }
    }

    #[test]
    fn many_faults_are_counted_and_few_reported() {
        let mut graph = graph();
        for slot in 0..5 {
            graph.adjacency.table.row_mut(slot).fill(Slot::new(7));
            graph.adjacency.degrees.set(slot, 3);
        }
        let report = graph.check_structure();
        assert_eq!((report.faults, report.examples.len()), (25, EXAMPLES));
    }
}
