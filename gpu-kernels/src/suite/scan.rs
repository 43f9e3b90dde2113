//! Scans against sums in a loop.

use jasper_core::synthetic;
use rand::RngExt;

use crate::scan::{ScanKind, TILE, Tiles, scan, scan_in_place};
use crate::{Buffer, Stream};

/// Lengths at which lanes, rows, warps and tiles end, and one at which a tile looks back over more tiles than a warp
/// sees at once.
const LENGTHS: [usize; 11] = [0, 1, 3, 4, 129, 513, TILE - 1, TILE, TILE + 1, 5 * TILE + 77, 40 * TILE + 1];

/// Sums in a loop.
fn twin(kind: ScanKind, values: &[u32]) -> Vec<u32> {
    let mut sum = 0u32;
    let of = |value: &u32| {
        let before = sum;
        sum = sum.wrapping_add(*value);
        if kind == ScanKind::Inclusive { sum } else { before }
    };
    values.iter().map(of).collect()
}

/// Both scans, in place and not, of every length, with sums past 2^32; the words of one launch serve the next.
///
/// # Panics
/// If a sum is not that of its twin, or the stream fails.
pub fn scans_agree_with_the_twin(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let mut tiles = Tiles::for_scans(stream, LENGTHS[LENGTHS.len() - 1] as u32).unwrap();
    for len in LENGTHS {
        let values: Vec<u32> = (0..len).map(|_| rng.random()).collect();
        for kind in [ScanKind::Exclusive, ScanKind::Inclusive] {
            let mut input = stream.upload(&values).unwrap();
            let mut output = stream.allocate(len).unwrap();
            scan(stream, kind, &input, &mut output, len as u32, &mut tiles).unwrap();
            scan_in_place(stream, kind, &mut input, len as u32, &mut tiles).unwrap();
            let twin = twin(kind, &values);
            assert_same(&stream.download(&output).unwrap(), &twin, kind);
            assert_same(&stream.download(&input).unwrap(), &twin, kind);
        }
    }
}

/// What lies past the length stays as it was.
///
/// # Panics
/// If it does not, or the stream fails.
pub fn scans_end_at_their_length(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let mut tiles = Tiles::for_scans(stream, 2 * TILE as u32).unwrap();
    let mut values = stream.upload(&vec![1u32; 2 * TILE]).unwrap();
    let len = rng.random_range(1..values.len());
    scan_in_place(stream, ScanKind::Inclusive, &mut values, len as u32, &mut tiles).unwrap();
    let sums = stream.download(&values).unwrap();
    let expected: Vec<u32> = (0..values.len()).map(|at| if at < len { at as u32 + 1 } else { 1 }).collect();
    assert_same(&sums, &expected, ScanKind::Inclusive);
}

/// Fails with the first difference.
fn assert_same(found: &[u32], expected: &[u32], kind: ScanKind) {
    let len = expected.len();
    assert_eq!(found.len(), len);
    if let Some(at) = (0..len).find(|&at| found[at] != expected[at]) {
        panic!("{kind:?} scan of {len}: {} at {at}, where the sum is {}", found[at], expected[at]);
    }
}
