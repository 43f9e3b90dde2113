//! Reversed edges as in the pipeline of a build: a sort, then the groups of each target.

use jasper_core::synthetic;
use rand::RngExt;

use crate::Stream;
use crate::groups::Groups;
use crate::sort::{Pairs, SortScratch, TILE, sort_pairs};

/// Few targets, so that each has many edges.
const TARGETS: u32 = 300;
/// Few distances, so that many are equal.
const DISTANCES: u32 = 40;

/// Edges are in order of their sources, so a stable sort by (target, distance) is one by (target, distance, source).
///
/// # Panics
/// Panics if edges or groups are not those of a plain sort, or the stream fails.
pub fn back_edges_are_sorted_and_grouped(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let len = 2 * TILE + 99;
    let mut edges: Vec<(u32, u32, u32)> = (0..len)
        .map(|edge| (rng.random_range(0..TARGETS), rng.random_range(0..DISTANCES), edge / 16))
        .collect();
    let keys: Vec<u64> =
        edges.iter().map(|&(target, distance, _)| u64::from(target) << 32 | u64::from(distance)).collect();
    let sources: Vec<u32> = edges.iter().map(|&(_, _, source)| source).collect();

    let mut pairs = Pairs { keys: stream.upload(&keys).unwrap(), values: stream.upload(&sources).unwrap() };
    let mut scratch = SortScratch::allocate(stream, len).unwrap();
    let bits = 0..32 + TARGETS.ilog2() + 1;
    sort_pairs(stream, &mut pairs, len, bits, &mut scratch).unwrap();
    let mut groups = Groups::allocate(stream, len).unwrap();
    stream.fill(&mut groups.offsets, u8::MAX).unwrap();
    groups.find(stream, &pairs.keys, len, 32).unwrap();

    edges.sort_unstable();
    let keys = stream.download(&pairs.keys).unwrap();
    let sources = stream.download(&pairs.values).unwrap();
    let sorted = keys.iter().zip(&sources).map(|(&key, &source)| ((key >> 32) as u32, key as u32, source));
    assert!(sorted.eq(edges.iter().copied()), "edges by (target, distance, source)");
    let offsets = stream.download(&groups.offsets).unwrap();
    let count = stream.download(&groups.count).unwrap()[0] as usize;
    let found = offsets[..=count].windows(2).map(|ends| &edges[ends[0] as usize..ends[1] as usize]);
    assert!(found.eq(edges.chunk_by(|a, b| a.0 == b.0)), "a group for each target");
}
