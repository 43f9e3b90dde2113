//! Candidates from the same batch.

use jasper_core::{Element, Metric, Neighbor, f16, synthetic};
use jasper_vamana::PeerSampling;
use rand::RngExt;
use rand::seq::SliceRandom;

use super::vertices::Vertices;
use super::{ROW_BYTES, for_all_vertices};
use crate::graph::NO_SLOT;
use crate::prune::{CandidateArgs, FindPeers, FindPeersArgs, PruneNew, PruneNewArgs};
use crate::{Buffer, Stream};

/// Most vertices of a batch.
const MAX_BATCH: usize = 20;

/// The nearest peers of the vertices of a batch, and edges of these and of candidates from a search: with duplicates,
/// and with vertices that are not linked.
///
/// # Panics
/// Panics if a result differs from the reference, or the stream fails.
pub fn peers_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    for_all_vertices!(peers_agree(stream, seed));
}

fn peers_agree<T: Element>(stream: &impl Stream, seed: u64, metric: Metric, row_bytes: usize) {
    let mut rng = synthetic::rng(seed);
    let vertices = Vertices::<T>::new(&mut rng, metric, row_bytes);
    let most = vertices.max_degree;
    let sampling = PeerSampling { stride: rng.random_range(1..9), second_round: rng.random_range(0..9) };
    let mut batch: Vec<u32> = (0..rng.random_range(4..MAX_BATCH.min(vertices.len())) as u32).collect();
    batch[1..].shuffle(&mut rng);
    let vertices_len = batch.len();
    let duplicate_of: Vec<u32> = (0..vertices_len)
        .map(|list| if list > 0 && rng.random_range(0..5) == 0 { 0 } else { NO_SLOT })
        .collect();
    let stride = vertices.len();
    let (mut candidates, mut costs) = (vec![0; vertices_len * stride], Vec::new());
    let (mut peers, mut edges) = (Vec::new(), Vec::new());
    let mut counters = [0; 4];
    for (list, &vertex) in batch.iter().enumerate() {
        let found = vertices.some(&mut rng, stride);
        let found: Vec<Neighbor> = found.into_iter().map(|slot| vertices.neighbor(vertex, slot)).collect();
        let mut known: Vec<Neighbor> =
            found.iter().copied().filter(|key| key.slot().get() != vertex).collect();
        known.sort_unstable();
        let bound = known.get(most - 1);

        let mut nearest: Vec<Neighbor> = Vec::new();
        for round in 0..PeerSampling::ROUNDS {
            if nearest.len() < PeerSampling::required(round, most) {
                break;
            }
            let places: Vec<usize> = sampling.positions(round, vertices_len).collect();
            let others = places.iter().filter(|&&at| duplicate_of[at] == NO_SLOT && batch[at] != vertex);
            let others = others.map(|&at| vertices.neighbor(vertex, batch[at]));
            nearest.extend(others.filter(|key| bound.is_none_or(|bound| key < bound)));
            counters[1] += places.iter().filter(|&&at| batch[at] != vertex).count() as u64;
        }
        nearest.sort_unstable();
        nearest.truncate(most);

        for (place, key) in candidates[list * stride..].iter_mut().zip(&found) {
            *place = key.expanded().to_bits();
        }
        costs.extend([found.len() as u32, 0]);
        counters[0] += found.len() as u64;
        let mut all: Vec<Neighbor> = found.into_iter().filter(|key| key.slot().get() != vertex).collect();
        all.extend(&nearest);
        all.sort_unstable();
        all.dedup();
        let is_linked = duplicate_of[list] == NO_SLOT;
        let (kept, distances) =
            if is_linked { vertices.prune(vertex, all, vertices.max_degree, &[]) } else { (Vec::new(), 0) };
        counters[2] += distances;
        counters[3] += u64::from(!is_linked);
        edges.extend(vertices.padded(kept.iter().map(|key| key.slot().get()).collect()));
        let keys = nearest.iter().map(|key| key.to_bits()).chain(std::iter::repeat(u64::MAX));
        peers.extend(keys.take(most));
    }

    let mut device = vertices.upload(stream);
    let [on_device, costs, duplicate_of] =
        [&batch, &costs, &duplicate_of].map(|values| stream.upload(values).unwrap());
    let candidates = stream.upload(&candidates).unwrap();
    let mut keys = stream.allocate(peers.len()).unwrap();
    let [mut neighbors, mut distances] =
        [(); 2].map(|()| stream.allocate(vertices_len * vertices.edges_stride).unwrap());
    let mut linked = stream.allocate(vertices_len).unwrap();
    let found = CandidateArgs {
        new_vertices: on_device.input(),
        entries: candidates.input(),
        costs: costs.input(),
        vertices_len: vertices_len as u32,
        stride: stride as u32,
    };
    let args = FindPeersArgs {
        prune: vertices.args(&mut device),
        candidates: found,
        duplicate_of: duplicate_of.input(),
        peers: keys.output(),
        stride: sampling.stride as u32,
        second_round: sampling.second_round as u32,
        chunk_len: rng.random_range(1..12),
    };
    let prune = PruneNewArgs {
        prune: vertices.args(&mut device),
        candidates: found,
        peers: keys.input(),
        with_rows: 0,
        duplicate_of: duplicate_of.input(),
        row_vertices: linked.output(),
        neighbors: neighbors.output(),
        ordered_distances: distances.output(),
    };
    // SAFETY: the buffers have the shapes that the arguments say, and live until the downloads have waited; the second
    // launch reads what the first wrote.
    unsafe {
        let row_bytes = vertices.row_bytes();
        stream.launch(&FindPeers::for_rows(T::KIND, vertices.form, row_bytes), args).unwrap();
        stream.launch(&PruneNew::for_rows(T::KIND, vertices.form, row_bytes), prune).unwrap();
    }

    let what = format!("{} {metric}, {row_bytes} bytes, {sampling:?}", T::KIND);
    assert_eq!(stream.download(&keys).unwrap(), peers, "{what}");
    assert_eq!(stream.download(&neighbors).unwrap(), edges, "{what}");
    assert_eq!(stream.download(&device.counters).unwrap(), counters, "{what}");
}
