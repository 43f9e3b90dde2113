//! New edges in the rows of their targets.

use jasper_core::{Element, Metric, Neighbor, f16, synthetic};
use rand::RngExt;

use super::vertices::Vertices;
use super::{ROW_BYTES, for_all_vertices};
use crate::graph::NO_SLOT;
use crate::prune::{Merge, MergeArgs};
use crate::{Buffer, Stream};

/// Merges new edges into rows that have room, that overflow, or that have some of them already, and merges more edges
/// than a prune considers; with prunes, and without.
///
/// # Panics
/// Panics if a result differs from the reference, or the stream fails.
pub fn merges_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    for_all_vertices!(merges_agree(stream, seed));
}

fn merges_agree<T: Element>(stream: &impl Stream, seed: u64, metric: Metric, row_bytes: usize) {
    for prunes in [true, false] {
        merges_agree_with::<T>(stream, seed, metric, row_bytes, prunes);
    }
}

fn merges_agree_with<T: Element>(
    stream: &impl Stream,
    seed: u64,
    metric: Metric,
    row_bytes: usize,
    prunes: bool,
) {
    let mut rng = synthetic::rng(seed);
    let mut vertices = Vertices::<T>::new(&mut rng, metric, row_bytes);
    let targets: Vec<u32> = (0..8).collect();
    let mut edges: Vec<(u32, Neighbor)> = Vec::new();
    for &target in &targets {
        let mut old = vertices.some(&mut rng, vertices.max_degree);
        old.retain(|&slot| slot != target);
        let (first, kept_before) = (rng.random_range(0..=old.len()), rng.random_range(0..=old.len()));
        let (first, kept_before) = (first.min(kept_before), first.max(kept_before));
        old[..first].sort_unstable_by_key(|&slot| vertices.neighbor(target, slot));
        old[first..kept_before].sort_unstable_by_key(|&slot| vertices.neighbor(target, slot));
        vertices.edges[target as usize * vertices.edges_stride..][..old.len()].copy_from_slice(&old);
        let sources = vertices.some(&mut rng, if target % 2 == 0 { 4 } else { vertices.len() });
        let sources = sources.into_iter().filter(|&source| source != target);
        edges.extend(sources.map(|source| (target, vertices.neighbor(target, source))));
    }
    edges.sort_unstable();
    let groups: Vec<&[(u32, Neighbor)]> = edges.chunk_by(|a, b| a.0 == b.0).collect();
    let (max_kept, mut distances) = (if prunes { vertices.max_degree.div_ceil(2) } else { 0 }, 0);
    let expected: Vec<(u32, Vec<u32>)> = groups
        .iter()
        .map(|group| {
            let target = group[0].0;
            let row = &vertices.edges[target as usize * vertices.edges_stride..][..vertices.edges_stride];
            let old: Vec<u32> = row.iter().copied().take_while(|&slot| slot != NO_SLOT).collect();
            let new = group.iter().map(|edge| edge.1).filter(|source| !old.contains(&source.slot().get()));
            let new: Vec<Neighbor> = new.collect();
            if old.len() + new.len() <= vertices.max_degree || !prunes {
                let new = new.iter().map(|source| source.slot().get());
                return (target, old.into_iter().chain(new).take(vertices.max_degree).collect());
            }
            let mut old: Vec<Neighbor> =
                old.into_iter().map(|slot| vertices.neighbor(target, slot)).collect();
            let [first, kept_before] = vertices.kept_ends(&old);
            old[..kept_before].iter_mut().for_each(|neighbor| *neighbor = neighbor.kept_before());
            distances += old.len() as u64;
            let deferred = old[first..kept_before].to_vec();
            let candidates = new.into_iter().chain(old).collect();
            let (kept, some) = vertices.prune(target, candidates, max_kept, &deferred);
            distances += some;
            (target, kept.iter().map(|neighbor| neighbor.slot().get()).collect())
        })
        .collect();

    // A group of edges that lead nowhere closes the list.
    let mut offsets: Vec<u32> = groups
        .iter()
        .scan(0, |begin, group| Some(std::mem::replace(begin, *begin + group.len() as u32)))
        .collect();
    offsets.extend([edges.len() as u32, edges.len() as u32 + 2]);
    let keys = edges.iter().map(|(target, source)| u64::from(*target) << 32 | source.to_bits() >> 32);
    let keys = stream.upload(&keys.chain([u64::MAX; 2]).collect::<Vec<_>>()).unwrap();
    let sources = edges.iter().map(|(_, source)| source.slot().get());
    let sources = stream.upload(&sources.chain([0; 2]).collect::<Vec<_>>()).unwrap();
    let offsets = stream.upload(&offsets).unwrap();
    let mut device = vertices.upload(stream);
    let targets = groups.len() + 1;
    let mut changed = stream.allocate(targets).unwrap();
    let mut neighbors = stream.allocate(targets * vertices.edges_stride).unwrap();
    stream.fill(&mut neighbors, 0).unwrap();
    let args = MergeArgs {
        prune: vertices.args(&mut device),
        sort_keys: keys.input(),
        sources: sources.input(),
        offsets: offsets.input(),
        row_vertices: changed.output(),
        neighbors: neighbors.output(),
        targets_len: targets as u32,
        max_kept: max_kept as u32,
    };
    // SAFETY: the buffers have the shapes that the arguments say, and live until the downloads have waited.
    unsafe { stream.launch(&Merge::for_rows(T::KIND, vertices.form, vertices.row_bytes()), args).unwrap() };

    let what = format!("{} {metric}, {row_bytes} bytes, prunes: {prunes}", T::KIND);
    let (changed, neighbors) = (stream.download(&changed).unwrap(), stream.download(&neighbors).unwrap());
    let rows = neighbors.chunks(vertices.edges_stride);
    for ((found, row), (target, neighbors)) in changed.iter().zip(rows).zip(expected) {
        assert_eq!((*found, row), (target, &*vertices.padded(neighbors)), "{what}");
    }
    assert_eq!(changed[targets - 1], NO_SLOT, "{what}");
    assert_eq!(stream.download(&device.counters).unwrap(), [0, 0, distances, 0], "{what}");
}
