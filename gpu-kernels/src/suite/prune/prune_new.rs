//! Edges of new vertices.

use jasper_core::{Element, Metric, Neighbor, f16, synthetic};
use rand::RngExt;
use rand::seq::SliceRandom;

use super::vertices::Vertices;
use super::{ROW_BYTES, for_all_vertices};
use crate::graph::NO_SLOT;
use crate::prune::{
    COUNTERS, CandidateArgs, FindDuplicates, FindDuplicatesArgs, PruneNew, PruneNewArgs, PublishRows,
    PublishRowsArgs, ReverseEdges, ReverseEdgesArgs,
};
use crate::{Buffer, DevicePtr, Stream};

/// Edges of new vertices, reversed, and written into the graph: with no candidates, few, and more than a prune
/// considers.
///
/// # Panics
/// Panics if a result differs from the reference, or the stream fails.
pub fn new_rows_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    for_all_vertices!(rows_agree(stream, seed));
    for_all_vertices!(rows_with_edges_agree(stream, seed));
}

fn rows_with_edges_agree<T: Element>(stream: &impl Stream, seed: u64, metric: Metric, row_bytes: usize) {
    compare::<T>(stream, seed, metric, row_bytes, true);
}

fn rows_agree<T: Element>(stream: &impl Stream, seed: u64, metric: Metric, row_bytes: usize) {
    compare::<T>(stream, seed, metric, row_bytes, false);
}

/// Compares the rows of vertices, which have edges already if `with_rows`.
fn compare<T: Element>(stream: &impl Stream, seed: u64, metric: Metric, row_bytes: usize, with_rows: bool) {
    let mut rng = synthetic::rng(seed);
    let mut vertices = Vertices::<T>::new(&mut rng, metric, row_bytes);
    let (vertices_len, stride) = (6, vertices.len() + 3);
    let (mut candidates, mut costs, mut expected) = (vec![0; vertices_len * stride], Vec::new(), Vec::new());
    let mut batch: Vec<u32> = (0..vertices_len as u32).map(|list| list * 3).collect();
    batch[1..].shuffle(&mut rng);
    let mut counters = [0; COUNTERS];
    for (list, &vertex) in batch.iter().enumerate() {
        let ids = vertices.some(&mut rng, if list == 1 { 0 } else { vertices.len() });
        let keys: Vec<Neighbor> = ids.iter().map(|&id| vertices.neighbor(vertex, id)).collect();
        for (place, key) in candidates[list * stride..].iter_mut().zip(&keys) {
            *place = if rng.random() { key.to_bits() } else { key.expanded().to_bits() };
        }
        costs.extend([keys.len() as u32, 1000]);
        let mut left: Vec<_> = keys.iter().copied().filter(|key| key.slot().get() != vertex).collect();
        let mut row_len = 0;
        if with_rows {
            let mut row = vertices.some(&mut rng, vertices.max_degree);
            row.retain(|&slot| slot != vertex);
            vertices.edges[vertex as usize * vertices.edges_stride..][..row.len()].copy_from_slice(&row);
            left.extend(row.iter().map(|&slot| vertices.neighbor(vertex, slot)));
            row_len = row.len() as u64;
        }
        left.sort_unstable();
        left.dedup();
        left.truncate(vertices.max_candidates);
        let has_its_row = |key: &&Neighbor| vertices.row(key.slot().get()) == vertices.row(vertex);
        let same = keys.iter().filter(|key| key.slot().get() != vertex).filter(has_its_row).min();
        let same = same.map(|key| key.slot().get());
        let (kept, distances) = if same.is_some() {
            (Vec::new(), 0)
        } else {
            vertices.prune(vertex, left, vertices.max_degree, &[])
        };
        counters[0] += keys.len() as u64;
        counters[1] += 1000;
        counters[2] += distances + if same.is_some() { 0 } else { row_len };
        counters[3] += u64::from(same.is_some());
        let reversed = kept.into_iter().map(|near| vertices.reversed(vertex, near)).collect::<Vec<_>>();
        expected.push((vertex, reversed, same));
    }

    let mut device = vertices.upload(stream);
    let (on_device, costs) = (stream.upload(&batch).unwrap(), stream.upload(&costs).unwrap());
    let candidates = stream.upload(&candidates).unwrap();
    let [mut linked, mut duplicate_of] = [(); 2].map(|()| stream.allocate(vertices_len).unwrap());
    let [mut neighbors, mut distances, mut sources] =
        [(); 3].map(|()| stream.allocate(vertices_len * vertices.edges_stride).unwrap());
    let mut keys = stream.allocate(neighbors.len()).unwrap();
    let found = CandidateArgs {
        new_vertices: on_device.input(),
        entries: candidates.input(),
        costs: costs.input(),
        vertices_len: vertices_len as u32,
        stride: stride as u32,
    };
    let find_duplicates = FindDuplicatesArgs {
        rows: vertices.args(&mut device).graph.vectors,
        candidates: found,
        duplicate_of: duplicate_of.output(),
        row_bytes: vertices.row_bytes(),
    };
    let args = PruneNewArgs {
        prune: vertices.args(&mut device),
        candidates: found,
        peers: DevicePtr::null(),
        with_rows: with_rows.into(),
        duplicate_of: duplicate_of.input(),
        row_vertices: linked.output(),
        neighbors: neighbors.output(),
        ordered_distances: distances.output(),
    };
    let turn = ReverseEdgesArgs {
        row_vertices: linked.input(),
        neighbors: neighbors.input(),
        ordered_distances: distances.input(),
        sort_keys: keys.output(),
        sources: sources.output(),
        vertices_len: vertices_len as u32,
        edges_stride: vertices.edges_stride as u32,
    };
    let publish = PublishRowsArgs {
        row_vertices: linked.input(),
        neighbors: neighbors.input(),
        edges: device.edges.output(),
        rows_len: vertices_len as u32,
        edges_stride: vertices.edges_stride as u32,
    };
    // SAFETY: the buffers have the shapes that the arguments say, and live until the downloads have waited; each launch
    // reads what those before it wrote.
    unsafe {
        stream.launch(&FindDuplicates, find_duplicates).unwrap();
        stream.launch(&PruneNew::for_rows(T::KIND, vertices.form, vertices.row_bytes()), args).unwrap();
        stream.launch(&ReverseEdges, turn).unwrap();
        stream.launch(&PublishRows, publish).unwrap();
    }

    let what = format!("{} {metric}, {row_bytes} bytes", T::KIND);
    let (linked, duplicate_of) = (stream.download(&linked).unwrap(), stream.download(&duplicate_of).unwrap());
    let (neighbors, edges) = (stream.download(&neighbors).unwrap(), stream.download(&device.edges).unwrap());
    let (keys, sources) = (stream.download(&keys).unwrap(), stream.download(&sources).unwrap());
    let mut rows = vertices.edges.clone();
    for (list, (vertex, kept, same)) in expected.into_iter().enumerate() {
        let row = vertices.padded(kept.iter().map(|key| key.slot().get()).collect());
        let places = list * vertices.edges_stride..(list + 1) * vertices.edges_stride;
        assert_eq!(neighbors[places.clone()], row, "the edges of {vertex}: {what}");
        assert_eq!(duplicate_of[list], same.unwrap_or(NO_SLOT), "{what}");
        assert_eq!(linked[list], if same.is_some() { NO_SLOT } else { vertex }, "{what}");
        for (place, edge) in places.zip(kept.iter().map(Some).chain(std::iter::repeat(None))) {
            let key = edge.map(|key| u64::from(key.slot().get()) << 32 | key.to_bits() >> 32);
            assert_eq!(keys[place], key.unwrap_or(u64::MAX), "{what}");
            assert!(edge.is_none() || sources[place] == vertex, "{what}");
        }
        if same.is_none() {
            rows[vertex as usize * vertices.edges_stride..][..vertices.edges_stride].copy_from_slice(&row);
        }
    }
    assert_eq!(edges, rows, "{what}");
    assert_eq!(stream.download(&device.counters).unwrap(), counters, "{what}");
}
