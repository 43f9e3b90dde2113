//! The kernels that reverse the edges of a batch: sorts and groups of large arrays. Results are checked.

use std::cell::RefCell;
use std::ops::Range;

use gpu_kernels::Stream as _;
use gpu_kernels::groups::Groups;
use gpu_kernels::sort::{Pairs, SortScratch, sort_pairs};
use jasper_core::synthetic;
use jasper_cuda::Result;
use rand::RngExt as _;
use serde_json::json;

use crate::Bench;

/// Pairs that are sorted, and keys that are grouped.
const PAIRS: u32 = 64 << 20;
/// Keys of a group on average, as many as a vertex gets back edges.
const GROUP: u32 = 32;

pub fn run(bench: &Bench) -> Result<()> {
    let mut rng = synthetic::rng(1);
    let random: Vec<u64> = (0..PAIRS).map(|_| rng.random()).collect();
    sort(bench, "random", &random, 0..64)?;
    sort(bench, "random", &random, 0..32)?;
    sort(bench, "random", &random, 0..8)?;
    sort(bench, "equal", &vec![0x0123_4567_89ab_cdef; PAIRS as usize], 0..64)?;
    let mut ascending = random;
    ascending.sort_unstable();
    sort(bench, "ascending", &ascending, 0..64)?;
    drop(ascending);
    group(bench)
}

/// Sorts a fresh copy of `keys` in each round.
fn sort(bench: &Bench, distribution: &str, keys: &[u64], bits: Range<u32>) -> Result<()> {
    let stream = &bench.stream;
    let unsorted = stream.upload(keys)?;
    let values: Vec<u32> = (0..PAIRS).collect();
    let pairs = RefCell::new(Pairs { keys: stream.allocate(keys.len())?, values: stream.upload(&values)? });
    let mut scratch = SortScratch::allocate(stream, PAIRS)?;
    let time = bench.time_after(
        || stream.copy(&unsorted, &mut pairs.borrow_mut().keys, keys.len()),
        || sort_pairs(stream, &mut pairs.borrow_mut(), PAIRS, bits.clone(), &mut scratch),
    )?;
    let part = |key: &u64| (u128::from(*key) >> bits.start) & ((1 << bits.len()) - 1);
    let sorted = stream.download(&pairs.borrow().keys)?;
    assert!(sorted.is_sorted_by_key(part), "{distribution} keys by bits {bits:?}");
    let passes = u64::from(bits.end - bits.start).div_ceil(8);
    let what = json!({"what": "sort", "pairs": PAIRS, "keys": distribution, "bits": bits.len()});
    bench.report(what, time, u64::from(PAIRS) * (8 + 24 * passes));
    Ok(())
}

/// Finds groups among sorted keys.
fn group(bench: &Bench) -> Result<()> {
    let stream = &bench.stream;
    let mut rng = synthetic::rng(2);
    let mut group = 0u64;
    let keys: Vec<u64> = (0..PAIRS)
        .map(|_| {
            group += u64::from(rng.random_range(0..GROUP) == 0);
            group << 32
        })
        .collect();
    let found = keys.chunk_by(|a, b| a == b).count() as u32;
    let keys = stream.upload(&keys)?;
    let mut groups = Groups::allocate(stream, PAIRS)?;
    let time = bench.time(|| groups.find(stream, &keys, PAIRS, 32))?;
    assert_eq!(stream.download(&groups.count)?, [found]);
    bench.report(
        json!({"what": "groups", "keys": PAIRS, "groups": found}),
        time,
        u64::from(PAIRS) * 8 + u64::from(found) * 4,
    );
    Ok(())
}
