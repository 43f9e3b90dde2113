//! A small file of every format, as bytes.

use std::path::Path;
use std::sync::LazyLock;

use jasper_core::synthetic::Clusters;
use jasper_core::{Element, MatrixView, f16};
use jasper_data::{GroundTruth, VectorFormat, VectorWriter, write_keys};

pub const ROWS: usize = 5;
pub const DIMENSION: usize = 3;

/// `n` rows of small values, which every element represents; u8 around 128.
pub fn sample<T: Element>(n: usize, dimension: usize) -> Vec<T> {
    Clusters::new(dimension, 7).rows(n, 0)
}

/// A file name, the body of [`jasper_data::fuzz`] that reads it, the size of its header, and its content.
pub struct Seed {
    pub name: &'static str,
    pub target: &'static str,
    pub header: usize,
    pub bytes: Vec<u8>,
}

/// The seeds, written once per process.
pub fn seeds() -> &'static [Seed] {
    static SEEDS: LazyLock<Vec<Seed>> = LazyLock::new(write_seeds);
    &SEEDS
}

fn write_seeds() -> Vec<Seed> {
    let folder = tempfile::tempdir().unwrap();
    let mut seeds = vec![
        vectors::<f32>(folder.path(), "rows.fvecs", "vecs", 4),
        vectors::<u8>(folder.path(), "rows.bvecs", "vecs", 4),
        vectors::<f32>(folder.path(), "rows.fbin", "bin", 8),
        vectors::<f16>(folder.path(), "rows.f16bin", "bin", 8),
        vectors::<u8>(folder.path(), "rows.u8bin", "bin", 8),
        vectors::<i8>(folder.path(), "rows.i8bin", "bin", 8),
        vectors::<f32>(folder.path(), "rows.npy", "npy", 128),
        vectors::<f16>(folder.path(), "half.npy", "npy", 128),
        vectors::<u8>(folder.path(), "bytes.npy", "npy", 128),
    ];
    let ids: Vec<u32> = (0..12).collect();
    let distances = ids.iter().map(|&id| id as f32).collect();
    let with = GroundTruth::new(4, ids, Some(distances)).unwrap();
    let bare = GroundTruth::new(4, with.ids().to_vec(), None).unwrap();
    let mut add = |name: &'static str, target, header, write: &dyn Fn(&Path)| {
        let path = folder.path().join(name);
        write(&path);
        seeds.push(Seed { name, target, header, bytes: std::fs::read(path).unwrap() });
    };
    add("full.ibin", "truth", 8, &|path| with.write(path).unwrap());
    add("bare.ibin", "truth", 8, &|path| bare.write(path).unwrap());
    add("gt.ivecs", "truth", 4, &|path| bare.write(path).unwrap());
    add("keys.npy", "npy", 128, &|path| write_keys(path, &[3, 0, u64::MAX]).unwrap());
    add("keys.txt", "keys", 0, &|path| write_keys(path, &[3, 0, u64::MAX]).unwrap());
    seeds
}

fn vectors<T: Element>(folder: &Path, name: &'static str, target: &'static str, header: usize) -> Seed {
    let path = folder.join(name);
    let rows: Vec<T> = sample(ROWS, DIMENSION);
    let mut writer = VectorWriter::create(&path, VectorFormat::from_path(&path).unwrap(), DIMENSION).unwrap();
    writer.push(MatrixView::new(&rows, DIMENSION).unwrap()).unwrap();
    writer.finish().unwrap();
    Seed { name, target, header, bytes: std::fs::read(path).unwrap() }
}

/// The fuzz body that reads a seed.
pub fn body(seed: &Seed) -> fn(&[u8]) {
    crate::fuzz::TARGETS.iter().find(|(name, _)| *name == seed.target).unwrap().1
}

/// The seed with each bit of the header, and of as many bytes after it, flipped, and with some special values.
pub fn damaged(seed: &Seed) -> impl Iterator<Item = Vec<u8>> + '_ {
    let bits = (0..8).map(|bit| 1_u8 << bit);
    let masks: Vec<u8> = bits.chain([0x7f, 0xff, 0x55]).collect();
    let reach = seed.bytes.len().min(2 * seed.header.max(16));
    (0..reach).flat_map(move |at| {
        masks.clone().into_iter().map(move |mask| {
            let mut bytes = seed.bytes.clone();
            bytes[at] ^= mask;
            bytes
        })
    })
}
