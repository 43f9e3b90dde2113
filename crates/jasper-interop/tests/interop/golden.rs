//! Files that hnswlib and faiss have written, of vectors in tight clusters: searches of the index that is made of them
//! find as much as theirs. `golden/make.py` makes the files, and says what theirs find.

use std::collections::HashSet;
use std::path::PathBuf;

use jasper::{ElementKind, Index, Key, Metric, OpenOptions, SearchParams, VectorFile, f16};
use jasper_core::no_progress;
use jasper_graph::Graph;
use jasper_interop::{GraphFormat, faiss, hnswlib};

const K: usize = 10;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn queries() -> Vec<Vec<f32>> {
    let file = VectorFile::open(golden("queries.fbin")).unwrap();
    let mut rows = vec![0.0; file.len() * file.dimension()];
    file.read_rows_as(0..file.len(), &mut rows).unwrap();
    rows.chunks(file.dimension()).map(<[f32]>::to_vec).collect()
}

/// The live vectors under their keys.
fn vectors(graph: &Graph) -> Vec<(Key, Vec<f32>)> {
    let keys = graph.keys();
    let vector = |slot| {
        let mut vector = vec![0.0; graph.dimension()];
        graph.vectors().read_f32(slot, &mut vector);
        vector
    };
    keys.live_slots().map(|slot| (keys.first_key(slot), vector(slot))).collect()
}

/// The share of the true neighbors that searches with this beam width find.
fn recall(index: &Index, vectors: &[(Key, Vec<f32>)], beam_width: usize) -> f64 {
    let queries = queries();
    let mut hits = 0;
    for query in &queries {
        let distance = |vector: &[f32]| vector.iter().zip(query).map(|(a, b)| (a - b).powi(2)).sum::<f32>();
        let mut truth: Vec<_> = vectors.iter().map(|(key, vector)| (distance(vector), *key)).collect();
        truth.sort_by(|a, b| a.0.total_cmp(&b.0));
        let truth: HashSet<Key> = truth[..K].iter().map(|&(_, key)| key).collect();
        let found = index.search(query, SearchParams::new(K).beam_width(beam_width)).unwrap();
        hits += found.iter().filter(|hit| truth.contains(&hit.key)).count();
    }
    hits as f64 / (K * queries.len()) as f64
}

/// Checks the recall at the beam widths 10, 20 and 40 against that of the library; then changes the index and saves it.
fn check(graph: Graph, theirs: [f64; 3]) {
    let vectors = vectors(&graph);
    let index = OpenOptions::new().threads(2).import_graph(graph).unwrap();
    for (beam_width, theirs) in [10, 20, 40].into_iter().zip(theirs) {
        let ours = recall(&index, &vectors, beam_width);
        assert!(ours >= theirs, "{ours} instead of {theirs} with a beam width of {beam_width}");
    }
    assert!(index.check().unwrap().is_sound());

    let (gone, kept): (Vec<_>, Vec<_>) = vectors.into_iter().enumerate().partition(|(i, _)| i % 3 == 0);
    let [gone, kept] =
        [gone, kept].map(|part: Vec<_>| part.into_iter().map(|(_, pair)| pair).collect::<Vec<_>>());
    let keys: Vec<Key> = gone.iter().map(|(key, _)| *key).collect();
    index.delete(&keys).unwrap();
    index.consolidate().unwrap();
    assert!(recall(&index, &kept, 20) > 0.98);
    index.insert(&gone[0].1[..], &keys[..1]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("saved.jasper");
    index.save(&path).unwrap();
    assert_eq!(Index::open(&path).unwrap().len(), kept.len() + 1);
}

#[test]
fn searches_find_as_much_as_those_of_hnswlib() {
    let path = golden("hnswlib.bin");
    assert_eq!(GraphFormat::of_file(&path).unwrap(), Some(GraphFormat::Hnswlib));
    let graph = hnswlib::read(&path, Metric::L2, None, &mut no_progress).unwrap();
    assert_eq!((graph.slots(), graph.keys().tombstones()), (480, 53));
    assert_eq!((graph.params().max_degree(), graph.dimension()), (8, 8));
    check(graph, [0.992, 1.0, 1.0]);
}

#[test]
fn searches_find_as_much_as_those_of_faiss() {
    let path = golden("flat.faiss");
    assert_eq!(GraphFormat::of_file(&path).unwrap(), Some(GraphFormat::Faiss));
    let graph = faiss::read(&path, None, None, &mut no_progress).unwrap();
    assert_eq!(graph.element(), ElementKind::F32);
    assert_eq!((graph.slots(), graph.metric(), graph.params().max_degree()), (480, Metric::L2, 8));
    check(graph, [0.987, 0.997, 0.997]);
}

#[test]
fn vectors_of_16_bits_are_the_same_rounded() {
    let path = golden("fp16.faiss");
    let half = faiss::read(&path, None, None, &mut no_progress).unwrap();
    let whole = faiss::read(golden("flat.faiss"), None, None, &mut no_progress).unwrap();
    assert_eq!((half.slots(), half.element()), (100, ElementKind::F16));
    // They were added in the same order, under other keys.
    for slot in half.keys().live_slots() {
        for (whole, half) in whole.vectors().get::<f32>(slot).iter().zip(half.vectors().get::<f16>(slot)) {
            assert!((whole - half.to_f32()).abs() <= whole.abs() / 1024.0, "{whole} is {half}");
        }
    }
}
