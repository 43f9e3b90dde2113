//! Checks the invariants of a graph: for files that were mapped and trusted, and for tests.

use std::fmt;

use jasper_core::{Element, Key, NO_KEY, VectorId};

use crate::Graph;

/// The result of [`Graph::check_structure`].
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The first few of them.
    pub examples: Vec<StructureFault>,
}

/// Faults that are reported individually.
const EXAMPLES: usize = 10;

/// A violated invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StructureFault {
    /// A degree above `max_degree`.
    Degree(VectorId, u16),
    /// An edge to a slot that is out of range.
    Beyond(VectorId, VectorId),
    /// An edge to a free slot.
    ToFree(VectorId, VectorId),
    /// An edge from a vertex to itself.
    ToItself(VectorId),
    /// Two edges to the same vertex.
    Twice(VectorId, VectorId),
    /// A free slot with edges.
    FromFree(VectorId),
    /// A coordinate or squared norm that is not finite, or padding that is not zero.
    Vector(VectorId),
    /// A start point that is out of range or free.
    StartPoint(VectorId),
    /// No start point, although there are edges.
    NoStartPoint,
    /// A key of two vertices, or given twice.
    KeyTwice(Key),
    /// A key that is both live and deleted.
    KeyDeleted(Key),
    /// The reserved key.
    KeyReserved(VectorId),
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

impl<T: Element> Graph<T> {
    /// Checks every vector, edge and key. Does not check that every live vertex can be reached.
    ///
    /// Never panics, whatever a mapped file holds. Cost: one pass over vectors and edges; 16 bytes per live key.
    pub fn check_structure(&self) -> StructureReport {
        let mut report = StructureReport { vertices: 0, edges: 0, keys: 0, faults: 0, examples: Vec::new() };
        for slot in (0..self.slots()).map(VectorId::from_index) {
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
        report
    }

    fn check_edges(&self, slot: VectorId, report: &mut StructureReport) {
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

    fn is_vector_sound(&self, slot: VectorId) -> bool {
        let row = if self.has_vectors() { self.vectors.padded(slot) } else { &[] };
        let (vector, padding) = row.split_at(row.len().min(self.dimension()));
        let norm = self.vectors.squared_norms.as_ref().map_or(0.0, |norms| norms.at(slot.index()));
        norm.is_finite()
            && norm >= 0.0
            && padding.iter().all(|&x| x == T::default())
            && (T::EXACT || vector.iter().all(|x| x.to_f32().is_finite()))
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
        for key in self.keys.deleted().filter(|key| keys.binary_search(key).is_ok()) {
            report.note(StructureFault::KeyDeleted(key));
        }
    }
}

impl fmt::Display for StructureFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Degree(slot, degree) => write!(f, "{slot} has degree {degree}, above max_degree"),
            Self::Beyond(slot, to) => write!(f, "an edge of {slot} leads to {to}, which does not exist"),
            Self::ToFree(slot, to) => write!(f, "an edge of {slot} leads to {to}, which has no vertex"),
            Self::ToItself(slot) => write!(f, "an edge of {slot} leads to itself"),
            Self::Twice(slot, to) => write!(f, "two edges of {slot} lead to {to}"),
            Self::FromFree(slot) => write!(f, "{slot} has edges but no vertex"),
            Self::Vector(slot) => write!(f, "the vector of {slot} is not finite, or its padding not zero"),
            Self::StartPoint(slot) => write!(f, "start point {slot} has no vertex"),
            Self::NoStartPoint => f.write_str("no start point, although there are edges"),
            Self::KeyTwice(key) => write!(f, "key {key} is given twice"),
            Self::KeyDeleted(key) => write!(f, "key {key} is both live and deleted"),
            Self::KeyReserved(slot) => write!(f, "{slot} has the reserved key {NO_KEY}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::{BuildParams, Metric};

    fn graph() -> Graph<f32> {
        let params = BuildParams::builder().max_degree(3).build().unwrap();
        let mut graph = Graph::<f32>::new(Metric::InnerProduct, 3, params).unwrap();
        for key in 0..6 {
            let slot = graph.add_vector(&[1.0, 2.0, key as f32, 0.0], 1.0).unwrap();
            graph.keys_mut().assign(key, slot).unwrap();
            graph.adjacency_mut().set_neighbors(
                slot,
                &[VectorId::new((key as u32 + 1) % 5), VectorId::new((key as u32 + 2) % 5)],
            );
        }
        graph.keys_mut().delete(5).unwrap();
        graph.release_tombstones();
        graph.keys_mut().delete(4).unwrap();
        graph.keys_mut().assign(9, VectorId::new(3)).unwrap();
        graph.adjacency_mut().set_start_points(vec![VectorId::new(0)]);
        graph
    }

    #[test]
    fn a_sound_graph_has_no_fault() {
        let report = graph().check_structure();
        assert!(report.is_sound(), "{report:?}");
        assert_eq!((report.vertices, report.edges, report.keys), (5, 10, 5));
    }

    type Damage<'a> = &'a dyn Fn(&mut Graph<f32>);

    #[test]
    fn every_fault_is_found() {
        use StructureFault::*;
        let id = VectorId::new;
        let cases: [(StructureFault, Damage<'_>); 13] = [
            (Degree(id(1), 4), &|g| g.adjacency.degrees.set(1, 4)),
            (Beyond(id(1), id(6)), &|g| g.adjacency.table.row_mut(1)[0] = id(6)),
            (ToFree(id(1), id(5)), &|g| g.adjacency.table.row_mut(1)[0] = id(5)),
            (ToItself(id(1)), &|g| g.adjacency.table.row_mut(1)[0] = id(1)),
            (Twice(id(1), id(2)), &|g| g.adjacency.table.row_mut(1)[1] = id(2)),
            (FromFree(id(5)), &|g| g.adjacency.degrees.set(5, 1)),
            (Vector(id(2)), &|g| g.vectors.table.row_mut(2)[2] = f32::NAN),
            (Vector(id(2)), &|g| g.vectors.table.row_mut(2)[3] = 1.0),
            (StartPoint(id(5)), &|g| g.adjacency.start_points = vec![id(5)]),
            (NoStartPoint, &|g| g.adjacency.start_points.clear()),
            (KeyTwice(2), &|g| g.keys.insert(2, id(1), false)),
            (KeyDeleted(2), &|g| {
                g.keys.remove(2, id(2));
            }),
            (KeyReserved(id(0)), &|g| g.keys.insert(NO_KEY, id(0), false)),
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
            graph.adjacency.table.row_mut(slot).fill(VectorId::new(7));
            graph.adjacency.degrees.set(slot, 3);
        }
        let report = graph.check_structure();
        assert_eq!((report.faults, report.examples.len()), (25, EXAMPLES));
    }
}
