//! Handmade graphs with everything that a file stores, independent of how graphs are built.

use std::sync::Arc;

use jasper_core::{BuildParams, Element, MatrixView, Metric, Slot, with_element};
use jasper_graph::{CodeChunk, Graph, VectorError};
use jasper_quant::{EncodeBuffers, Quantizer, Rabitq, RabitqParams};

pub const DIMENSION: usize = 6;

/// 45 slots: vertices with one and several keys, restorable deleted keys, tombstones and free slots, two start points.
pub fn sample<T: Element>(metric: Metric) -> Graph {
    let builder = BuildParams::builder().max_degree(5).build_beam_width(9).alpha(1.25).seed(3);
    let params = builder.max_batch_share(0.02).build().unwrap();
    let mut graph = Graph::new(T::KIND, metric, DIMENSION, params).unwrap();
    let slots = 45;
    for slot in 0..slots {
        // A formula, and no generator: golden files must not change with a generator's release.
        let vector: [T; DIMENSION] =
            std::array::from_fn(|i| T::from_f32(((slot * (i + 3) * 7 + i * i * 5) % 41) as f32 * 0.5 + 0.5));
        add(&mut graph, &vector);
    }
    for slot in 0..slots {
        // No edge leads to the slots from 40 on, which are freed below.
        let neighbors: Vec<Slot> = (1..=slot % 6)
            .map(|i| Slot::from_index((slot + i * i * 3) % 40))
            .filter(|n| n.index() != slot)
            .collect();
        graph.adjacency_mut().set_neighbors(Slot::from_index(slot), &neighbors[..neighbors.len().min(5)]);
    }
    graph.release_tombstones_from(40);
    for slot in 0..38 {
        graph.keys_mut().assign(1000 + slot as u64 * 7, Slot::from_index(slot)).unwrap();
    }
    for (key, slot) in [(u64::MAX - 1, 3), (5, 3), (6, 30), (7, 12)] {
        graph.keys_mut().assign(key, Slot::from_index(slot)).unwrap();
    }
    // 7 shares a vertex that stays; 1000 and 1014 leave theirs tombstones.
    for key in [7, 1000, 1014] {
        graph.keys_mut().delete(key).unwrap();
    }
    graph.adjacency_mut().set_start_points(vec![Slot::new(12), Slot::new(0)]);
    graph
}

/// [`sample`], with codes of two bits.
pub fn coded_sample<T: Element>(metric: Metric) -> Graph {
    let mut graph = sample::<T>(metric);
    let rows: Vec<T> =
        graph.keys().live_slots().flat_map(|slot| graph.vectors().get(slot).to_vec()).collect();
    let rows = MatrixView::new(&rows, DIMENSION).unwrap();
    let quantizer = Rabitq::train(rows, &RabitqParams::new(metric, 2)).unwrap();
    quantize(&mut graph, Arc::new(quantizer));
    graph
}

/// Replaces the codes of a graph.
pub fn quantize(graph: &mut Graph, quantizer: Arc<dyn Quantizer>) {
    let fill = |chunks: Vec<CodeChunk<'_>>| {
        chunks.into_iter().for_each(CodeChunk::fill);
        Ok::<_, VectorError>(())
    };
    let codes = graph.encode(quantizer, fill).unwrap();
    graph.set_codes(codes);
}

/// The codes of all vertices, computed again.
pub fn fresh_codes(graph: &Graph) -> Vec<Vec<u32>> {
    let quantizer = graph.vectors().codes().unwrap().quantizer().clone();
    let code = |slot| {
        let mut row: Vec<f32> = with_element!(graph.element(), T => {
            graph.vectors().get::<T>(slot).iter().map(|x| x.to_f32()).collect()
        });
        let mut code = vec![0; quantizer.layout().words()];
        quantizer.encode(&mut row, &mut EncodeBuffers::default(), &mut code);
        code
    };
    graph.keys().vertices().map(code).collect()
}

/// The codes of all vertices as stored.
pub fn kept_codes(graph: &Graph) -> Vec<Vec<u32>> {
    let table = graph.vectors().codes().unwrap().table();
    graph.keys().vertices().map(|slot| table.row(slot.index()).to_vec()).collect()
}

/// Adds a vector and returns its slot.
pub fn add<T: Element>(graph: &mut Graph, vector: &[T]) -> Slot {
    let mut row = Vec::new();
    let squared_norm = graph.vectors().prepare(0, vector, &mut row).unwrap();
    graph.add_vector(&row, squared_norm).unwrap()
}

trait ReleaseFrom {
    fn release_tombstones_from(&mut self, first: usize);
}

impl ReleaseFrom for Graph {
    /// Frees the slots from `first` on.
    fn release_tombstones_from(&mut self, first: usize) {
        for slot in first..self.slots() {
            self.release(Slot::from_index(slot));
        }
    }
}

/// Searches tuned on a GPU, for batches of two sizes, and on a CPU: the bytes of their section, as the book gives them.
pub fn tuned() -> Vec<u8> {
    let search = |device: &str, batch: u32, beam_width: u32, launch: [u32; 3]| {
        let mut record = device.as_bytes().to_vec();
        record.resize(64, 0);
        for number in [0.95, 0.9512, 1_234_567.5] {
            record.extend(f64::to_le_bytes(number));
        }
        let [warps, expansions, visited_buckets] = launch;
        for number in [10, batch, beam_width, warps, expansions, visited_buckets, 99, 0, 0, 0] {
            record.extend(u32::to_le_bytes(number));
        }
        record
    };
    [
        search("NVIDIA H200", 1, 32, [8, 4, 1024]),
        search("NVIDIA H200", 10_000, 24, [1, 1, 0]),
        search("a processor", 10_000, 24, [0; 3]),
    ]
    .concat()
}

/// Asserts that two graphs are equal.
pub fn assert_same(a: &Graph, b: &Graph) {
    assert_eq!(
        (a.element(), a.metric(), a.dimension(), a.params()),
        (b.element(), b.metric(), b.dimension(), b.params())
    );
    assert_eq!(
        (a.slots(), a.keys().live(), a.keys().tombstones(), a.keys().free()),
        (b.slots(), b.keys().live(), b.keys().tombstones(), b.keys().free())
    );
    assert_eq!(a.adjacency().start_points(), b.adjacency().start_points());
    assert_eq!((a.encoded_tuned_searches(), a.fingerprint()), (b.encoded_tuned_searches(), b.fingerprint()));
    assert_eq!(a.vectors().codes().is_some(), b.vectors().codes().is_some());
    if let Some((x, y)) = a.vectors().codes().zip(b.vectors().codes()) {
        assert_eq!(x.quantizer().to_bytes(), y.quantizer().to_bytes());
        assert_eq!(kept_codes(a), kept_codes(b));
    }
    let deleted =
        |graph: &Graph| graph.keys().deleted_keys().map(|key| (key, graph.keys().len())).collect::<Vec<_>>();
    assert_eq!(deleted(a), deleted(b));
    for slot in (0..a.slots()).map(Slot::from_index) {
        assert_eq!(
            (a.keys().is_live(slot), a.keys().is_tombstone(slot)),
            (b.keys().is_live(slot), b.keys().is_tombstone(slot)),
            "{slot}"
        );
        assert!(a.keys().keys_of(slot).eq(b.keys().keys_of(slot)), "{slot}");
        if !a.keys().is_free(slot) {
            assert_eq!(a.vectors().padded_bytes(slot), b.vectors().padded_bytes(slot), "{slot}");
            assert_eq!(a.adjacency().neighbors(slot), b.adjacency().neighbors(slot), "{slot}");
            let ids: Vec<Slot> = a.keys().vertices().collect();
            assert_eq!(
                a.vectors().slot_distances(slot, &ids),
                b.vectors().slot_distances(slot, &ids),
                "{slot}"
            );
        }
    }
}
