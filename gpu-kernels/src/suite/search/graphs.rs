//! Graphs to search, on the host and on a device.

use jasper_core::{BuildParams, Element, Key, Metric, Slot, padded_len};
use jasper_graph::Graph;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, RngExt};

use crate::graph::{GraphArgs, NO_SLOT, Origins};
use crate::suite::vectors;
use crate::{Buffer, DevicePtr, RowShape, Stream};

/// Maximum degrees: less than a warp, multiples of a warp, and others.
const DEGREES: [usize; 7] = [1, 4, 31, 32, 33, 64, 128];

/// The key of a slot: both of its words count.
pub(super) fn key(slot: Slot) -> Key {
    Key::from(slot.get()) << 32 | Key::from(!slot.get())
}

/// A graph of random edges between vectors of small integers. Some vertices have no edges, and not all can be reached.
pub(super) fn random<T: Element>(
    rng: &mut impl Rng,
    metric: Metric,
    dimension: usize,
    slots: usize,
) -> Graph {
    let mut rows = vectors::<T>(rng, slots, dimension, 16.0);
    // No vector is zero, so that each has an angle.
    rows.chunks_mut(padded_len::<T>(dimension)).for_each(|row| row[0] = T::from_f32(row[0].to_f32() + 1.0));
    of(rng, metric, dimension, &rows)
}

/// A graph of random edges between these vectors, which are padded.
pub(super) fn of<T: Element>(rng: &mut impl Rng, metric: Metric, dimension: usize, rows: &[T]) -> Graph {
    let max_degree = *DEGREES.choose(rng).expect("there are some");
    let params = BuildParams::builder().max_degree(max_degree).build().unwrap();
    let mut graph = Graph::new(T::KIND, metric, dimension, params).unwrap();
    let mut prepared = Vec::new();
    for row in rows.chunks(padded_len::<T>(dimension)) {
        let squared_norm = graph.vectors().prepare(0, &row[..dimension], &mut prepared).unwrap();
        let slot = graph.add_vector(&prepared, squared_norm).unwrap();
        graph.keys_mut().assign(key(slot), slot).unwrap();
    }
    let mut others: Vec<Slot> = graph.keys().vertices().collect();
    let slots = graph.slots();
    for slot in (0..slots).map(Slot::from_index) {
        others.shuffle(rng);
        let degree = rng.random_range(0..=max_degree.min(slots));
        let neighbors: Vec<_> = others[..degree].iter().copied().filter(|other| *other != slot).collect();
        graph.adjacency_mut().set_neighbors(slot, &neighbors);
    }
    // Now and then more start points than a warp has lanes.
    others.truncate(if rng.random_range(0..8) == 0 { 40 } else { rng.random_range(1..4) });
    graph.adjacency_mut().set_start_points(others);
    graph
}

/// The bytes of the rows of some slots, one after the other.
pub(super) fn rows(graph: &Graph, slots: impl IntoIterator<Item = Slot>) -> Vec<u8> {
    slots.into_iter().flat_map(|slot| graph.vectors().padded_bytes(slot)).copied().collect()
}

/// A graph in the memory of a device.
pub(super) struct UploadedGraph<S: Stream> {
    rows: S::Buffer<u8>,
    edges: S::Buffer<u32>,
    terms: Option<S::Buffer<f32>>,
    keys: S::Buffer<Key>,
    start_points: S::Buffer<u32>,
    row_bytes: u32,
    edges_stride: u32,
}

impl<S: Stream> UploadedGraph<S> {
    pub(super) fn upload(stream: &S, graph: &Graph) -> Self {
        let stride = graph.params().max_degree().next_multiple_of(32);
        let mut edges = vec![NO_SLOT; graph.slots() * stride];
        for (slot, edges) in graph.keys().vertices().zip(edges.chunks_mut(stride)) {
            edges
                .iter_mut()
                .zip(graph.adjacency().neighbors(slot))
                .for_each(|(edge, neighbor)| *edge = neighbor.get());
        }
        let terms =
            graph.vectors().terms().map(|terms| terms.chunks().flatten().copied().collect::<Vec<_>>());
        let keys: Vec<Key> = graph.keys().vertices().map(key).collect();
        let start_points: Vec<u32> =
            graph.adjacency().start_points().iter().map(|start| start.get()).collect();
        Self {
            rows: stream.upload(&rows(graph, graph.keys().vertices())).unwrap(),
            edges: stream.upload(&edges).unwrap(),
            terms: terms.map(|terms| stream.upload(&terms).unwrap()),
            keys: stream.upload(&keys).unwrap(),
            start_points: stream.upload(&start_points).unwrap(),
            row_bytes: (graph.vectors().padded_dimension() * graph.element().size()) as u32,
            edges_stride: stride as u32,
        }
    }

    pub(super) fn args(&self) -> GraphArgs {
        GraphArgs {
            vectors: self.rows.input(),
            edges: self.edges.input(),
            terms: self.terms.as_ref().map_or(DevicePtr::null(), |terms| terms.input()),
            keys: self.keys.input(),
            start_points: self.start_points.input(),
            start_points_len: self.start_points.len() as u32,
            shape: RowShape::new(self.row_bytes),
            edges_stride: self.edges_stride,
            capacity: self.keys.len() as u32,
            origins: Origins::default(),
        }
    }
}
