//! Truncated, extended and modified files give a typed error or consistent rows, never a panic.

use crate::allocation::largest_of;
use crate::common::{body, damaged, seeds};
use jasper_data::{GroundTruth, ReadError, VectorFile, keys_from_bytes};
use proptest::prelude::*;

/// Reads the bytes as a file of that name.
fn read(name: &str, bytes: &[u8]) -> Result<(), ReadError> {
    let read = match name.rsplit_once('.') {
        _ if name.starts_with("keys") => keys_from_bytes(name, bytes).map(drop),
        Some((_, "ibin" | "ivecs")) => GroundTruth::from_bytes(name, bytes).map(drop),
        _ => VectorFile::from_bytes(name, bytes).map(drop),
    };
    read.inspect_err(|error| assert_eq!(error.path(), name))
}

#[test]
fn every_truncation_is_seen() {
    for seed in seeds() {
        assert!(read(seed.name, &seed.bytes).is_ok(), "{}", seed.name);
        // Formats of records or lines have no count: a file cut between two is a valid shorter file.
        let record = match seed.name {
            "rows.fvecs" => 16,
            "rows.bvecs" => 7,
            "gt.ivecs" => 20,
            // Ground truth without its distances is the other valid form.
            "full.ibin" => 56,
            _ => usize::MAX,
        };
        for len in 0..seed.bytes.len() {
            let whole = len > 0 && len % record == 0;
            body(seed)(&seed.bytes[..len]);
            if seed.name != "keys.txt" {
                assert_eq!(read(seed.name, &seed.bytes[..len]).is_ok(), whole, "{} cut to {len}", seed.name);
            }
        }
    }
}

#[test]
fn every_extension_is_seen() {
    for seed in seeds() {
        for more in 1..4 {
            let bytes = [&seed.bytes[..], &[1, 2, 3][..more]].concat();
            body(seed)(&bytes);
            assert!(read(seed.name, &bytes).is_err(), "{} lengthened by {more}", seed.name);
        }
    }
}

#[test]
fn no_changed_byte_is_a_panic() {
    for seed in seeds() {
        damaged(seed).for_each(|bytes| body(seed)(&bytes));
    }
}

#[test]
fn readers_allocate_no_more_than_the_file_could_fill() {
    for seed in seeds() {
        // A byte becomes an f32 or, with its line feed, a u64, and a growing vector doubles.
        let allowed = 8 * seed.bytes.len() + 1024;
        for bytes in damaged(seed) {
            let ((), asked) = largest_of(|| body(seed)(&bytes));
            assert!(asked <= allowed, "{}: asked for {asked} bytes, {allowed} allowed", seed.name);
        }
    }
}

proptest! {
    #[test]
    fn no_noise_is_a_panic(
        which in 0..seeds().len(),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<proptest::sample::Index>(),
        tail in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let seed = &seeds()[which];
        let mut bytes = seed.bytes.clone();
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let cut = cut.index(bytes.len() * 2);
        bytes.truncate(cut);
        bytes.extend(tail);
        body(seed)(&bytes);
    }
}
