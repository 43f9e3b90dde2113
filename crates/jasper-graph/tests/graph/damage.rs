//! The fuzz bodies over slightly damaged files.

use std::fs;
use std::path::Path;

use jasper_core::synthetic::rng;
use jasper_core::{Element, Metric, f16, no_progress};
use jasper_graph::{Graph, IndexInfo};
use rand::RngExt;

use crate::allocation::largest_of;
use crate::fuzz;

/// What a file may cost at once: a multiple of its size, because readers convert it, and tables of a fixed size.
const SIZE_FACTOR: usize = 8;
const FIXED_BYTES: usize = 1 << 20;

/// Runs `target` over `seed` and over `rounds` damaged copies: a few words at `offsets` are overwritten, and every
/// eighth copy is also cut or extended. Some copies must be readable, and some not; none may cost more than its size
/// accounts for.
fn damage(target: fn(&[u8]) -> bool, seed: &[u8], offsets: &[usize], rounds: usize) {
    assert!(target(seed), "the seed is good");
    let mut read = 0;
    let mut random = rng(seed.len() as u64);
    for _ in 0..rounds {
        let mut bytes = seed.to_vec();
        for _ in 0..random.random_range(1..4) {
            let at = offsets[random.random_range(0..offsets.len())];
            let word: u32 = match random.random_range(0..4) {
                0 => random.random(),
                1 => random.random_range(0..70),
                2 => u32::MAX - random.random_range(0..3),
                _ => 1 << random.random_range(0..32),
            };
            let width = random.random_range(1..5).min(seed.len() - at);
            bytes[at..at + width].copy_from_slice(&word.to_le_bytes()[..width]);
        }
        if random.random_range(0..8) == 0 {
            bytes.resize(random.random_range(0..seed.len() + 100), 0);
        }
        let (is_read, largest) = largest_of(|| target(&bytes));
        let allowed = SIZE_FACTOR * bytes.len() + FIXED_BYTES;
        assert!(largest <= allowed, "{largest} bytes were allocated at once for a file of {}", bytes.len());
        read += usize::from(is_read);
    }
    assert!((rounds / 50..rounds * 3 / 4).contains(&read), "{read} of {rounds} were read");
}

fn index<T: Element>(metric: Metric) {
    index_of(&crate::common::sample::<T>(metric));
    index_of(&crate::common::coded_sample::<T>(metric));
}

fn index_of<T: Element>(graph: &Graph<T>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.jasper");
    graph.save(&path, &mut no_progress).unwrap();
    damage_file(&path);
}

fn damage_file(path: &Path) {
    // All that is not padding: the table, then the sections.
    let info = IndexInfo::read(path).unwrap();
    let mut offsets: Vec<usize> = (0..32 * (1 + info.sections.len())).collect();
    let mut start = 4096;
    for (_, bytes) in info.sections {
        offsets.extend(start..start + bytes as usize);
        start += bytes.next_multiple_of(4096) as usize;
    }
    damage(fuzz::index, &fs::read(path).unwrap(), &offsets, 600);
}

#[test]
fn damaged_indexes_are_refused_or_walked() {
    damage_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-u8-l2-appended.jasper"));
    index::<f32>(Metric::InnerProduct);
    index::<f16>(Metric::Cosine);
    index::<u8>(Metric::Cosine);
    index::<i8>(Metric::L2);
}

/// 12 vertices, as many as the fuzz bodies have vectors, with edges to the next four.
fn edges() -> Vec<Vec<u32>> {
    (0..12).map(|v| (1..=v % 5).map(|i| (v + i) % 12).collect()).collect()
}

#[test]
fn damaged_graphs_of_others_are_refused_or_walked() {
    let mut words: Vec<u32> = vec![0, 0, 4, 3, 1, 0];
    for row in edges() {
        words.push(row.len() as u32);
        words.extend(row);
    }
    words[0] = 4 * words.len() as u32;
    let offsets: Vec<usize> = (0..4 * words.len()).collect();
    damage(fuzz::diskann, bytemuck::cast_slice(&words), &offsets, 20_000);

    let mut words: Vec<u32> = vec![12, 4];
    words.extend(edges().iter().map(|row| row.len() as u32));
    words.extend(edges().concat());
    let offsets: Vec<usize> = (0..4 * words.len()).collect();
    damage(fuzz::parlay, bytemuck::cast_slice(&words), &offsets, 20_000);
}
