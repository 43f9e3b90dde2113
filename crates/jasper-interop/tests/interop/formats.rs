//! Graph files of other libraries, byte by byte.

use std::fs;
use std::path::Path;

use jasper_core::{BuildParams, Element, ElementKind, MatrixView, Metric, Slot, f16, no_progress};
use jasper_graph::Graph;
use jasper_interop::{ExportError, ImportFault, diskann, faiss, hnswlib, parlay};

const ROWS: [f32; 8] = [0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 3.0, 3.0];

/// Little-endian words, each as wide as it is given; bare integers are 32 bits.
macro_rules! bytes {
    ($($word:expr),* $(,)?) => { [$(bytemuck::bytes_of(&$word)),*].concat() };
}
pub(crate) use bytes;

pub fn params(max_degree: usize) -> BuildParams {
    BuildParams::builder().max_degree(max_degree).build().unwrap()
}

pub fn neighbors(graph: &Graph) -> Vec<Vec<u32>> {
    let row = |i| graph.adjacency().neighbors(Slot::from_index(i)).iter().map(|n| n.get()).collect();
    (0..graph.slots()).map(row).collect()
}

fn read_diskann(bytes: &[u8], max_degree: usize) -> Result<Graph, ImportFault> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ann");
    fs::write(&path, bytes).unwrap();
    let rows = MatrixView::new(&ROWS, 2).unwrap();
    let read = diskann::read(&path, &rows, Metric::L2, params(max_degree), &mut no_progress);
    read.map_err(|error| {
        assert!(error.to_string().starts_with(&*path.to_string_lossy()));
        error.into_cause()
    })
}

fn read_parlay(bytes: &[u8]) -> Result<Graph, ImportFault> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph");
    fs::write(&path, bytes).unwrap();
    let rows = MatrixView::new(&ROWS, 2).unwrap();
    parlay::read(&path, &rows, Metric::L2, params(3), &mut no_progress).map_err(|error| error.into_cause())
}

#[test]
fn a_diskann_graph_is_read() {
    // 4 vertices, the last one frozen; 1 has an edge to itself and one twice.
    let bytes = bytes!(76_u64, 3_u32, 2_u32, 1_u64, 2, 1, 3, 3, 1, 2, 2, 1, 0, 3, 0, 1, 2);
    assert_eq!(bytes.len(), 76);
    let graph = read_diskann(&bytes, 3).unwrap();
    assert_eq!(neighbors(&graph), [vec![1, 3], vec![2], vec![0], vec![0, 1, 2]]);
    assert_eq!(graph.adjacency().start_points(), [Slot::new(2)]);
    assert_eq!((graph.keys().live(), graph.keys().tombstones()), (3, 1));
    assert_eq!(graph.keys().slot_of(1), Some(Slot::new(1)));
    assert_eq!(graph.keys().slot_of(3), None, "a frozen point has no key");
    assert_eq!(graph.vectors().get::<f32>(Slot::new(2)), [0.0, 2.0]);
    assert!(graph.check_structure().is_sound());
}

#[test]
fn a_diskann_graph_that_cannot_be_is_refused() {
    let good = bytes!(60_u64, 2_u32, 2_u32, 0_u64, 2, 1, 3, 1, 2, 1, 0, 1, 0);
    assert_eq!(good.len(), 60);
    read_diskann(&good, 2).unwrap();
    for cut in 0..good.len() {
        let fault = read_diskann(&good[..cut], 2).unwrap_err();
        assert!(matches!(fault, ImportFault::Length { .. }), "{cut}: {fault}");
        // Cut short, with a header that agrees: only whole records can be fewer.
        if cut >= 24 {
            let mut agreed = good[..cut].to_vec();
            agreed[0] = cut as u8;
            let fault = read_diskann(&agreed, 2).unwrap_err();
            assert!(
                matches!(fault, ImportFault::Length { .. } | ImportFault::Vertices { .. }),
                "{cut}: {fault}"
            );
        }
    }
    let refused = |at: usize, word: u32, max_degree| {
        let mut bytes = good.clone();
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        read_diskann(&bytes, max_degree).unwrap_err().to_string()
    };
    assert!(refused(0, 61, 2).contains("is 60 bytes, but its header and degrees need 61"));
    assert!(refused(4, 1, 2).contains("is 60 bytes"));
    assert!(refused(8, 1, 2).contains("vertex 0 has 2 edges, but the header allows 1"));
    assert!(refused(8, 2, 1).contains("vertex 0 has 2 edges, more than max_degree (1); raise max_degree"));
    assert!(refused(12, 4, 2).contains("the start leads to vertex 4, but there are only 4"));
    assert!(refused(16, 5, 2).contains("claims 5 frozen points among 4 vertices"));
    assert!(refused(20, 5, 2).contains("frozen"));
    assert!(refused(28, u32::MAX, 2).contains("an edge of vertex 0 leads to vertex 4294967295"));
    assert!(refused(36, u32::MAX, 2).contains("the header allows 2"));
    let more = bytes!(64_u64, 2_u32, 2_u32, 0_u64, 2, 1, 3, 1, 2, 1, 0, 1, 0, 0);
    assert!(
        read_diskann(&more, 2).unwrap_err().to_string().contains("holds 5 vertices, but 4 vectors are given")
    );
}

#[test]
fn a_parlay_graph_is_read_or_refused() {
    let good = bytes!(4, 2, 2, 1, 0, 1, 1, 3, 2, 0);
    let graph = read_parlay(&good).unwrap();
    assert_eq!(neighbors(&graph), [vec![1, 3], vec![2], vec![], vec![0]]);
    assert_eq!((graph.adjacency().start_points(), graph.keys().live()), (&[Slot::new(0)][..], 4));
    for cut in 0..good.len() {
        assert!(matches!(read_parlay(&good[..cut]), Err(ImportFault::Length { .. })), "{cut}");
    }
    let refused = |at: usize, word: u32| {
        let mut bytes = good.clone();
        bytes[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
        read_parlay(&bytes).unwrap_err().to_string()
    };
    assert!(refused(0, 5).contains("holds 5 vertices, but 4 vectors are given"));
    assert!(refused(0, u32::MAX).contains("holds 4294967295 vertices"));
    assert!(refused(1, 1).contains("vertex 0 has 2 edges, but the header allows 1"));
    assert!(refused(3, 2).contains("is 40 bytes, but its header and degrees need 44"));
    assert!(refused(7, 4).contains("an edge of vertex 0 leads to vertex 4, but there are only 4"));
}

/// Keys 30, 10, 20 in the slots 0, 2, 3; slot 1 is free. 30 -> 10, 10 -> 20 and 30, 20 -> 30.
pub fn with_a_hole<T: Element>(metric: Metric) -> Graph {
    let mut graph = Graph::new(T::KIND, metric, 2, params(3)).unwrap();
    let mut row = Vec::new();
    for (key, x) in [(30, 3.0), (5, 7.0), (10, 1.0), (20, 2.0)] {
        let vector = [T::from_f32(x), T::from_f32(x + 1.0)];
        let squared_norm = graph.vectors().prepare(0, &vector, &mut row).unwrap();
        let slot = graph.add_vector(&row, squared_norm).unwrap();
        graph.keys_mut().assign(key, slot).unwrap();
    }
    graph.keys_mut().delete(5).unwrap();
    graph.release_tombstones();
    let id = Slot::new;
    graph.adjacency_mut().set_neighbors(id(0), &[id(2)]);
    graph.adjacency_mut().set_neighbors(id(2), &[id(3), id(0)]);
    graph.adjacency_mut().set_neighbors(id(3), &[id(0)]);
    graph.adjacency_mut().set_start_points(vec![id(3)]);
    graph
}

fn written(write: impl FnOnce(&Path) -> Vec<Slot>, suffix: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let slots = write(&folder.path().join("ann"));
    assert_eq!(slots, [Slot::new(2), Slot::new(3), Slot::new(0)], "in the order of keys");
    fs::read(folder.path().join(format!("ann{suffix}"))).unwrap()
}

#[test]
fn a_diskann_graph_is_written() {
    let write = |path: &Path| diskann::write(&with_a_hole::<u8>(Metric::L2), path).unwrap();
    let expected = bytes!(52_u64, 2_u32, 1_u32, 0_u64, 2, 1, 2, 1, 2, 1, 0);
    assert_eq!(written(write, ""), expected);
    assert_eq!(written(write, ".data"), bytes!(3, 2, 1_u8, 2_u8, 2_u8, 3_u8, 3_u8, 4_u8));
    let half = |path: &Path| diskann::write(&with_a_hole::<f16>(Metric::L2), path).unwrap();
    assert_eq!(written(half, ".data"), bytes!(3, 2, 1_f32, 2_f32, 2_f32, 3_f32, 3_f32, 4_f32));
}

#[test]
fn a_hnswlib_base_layer_is_written() {
    let (m, dimension) = (3_u64, 2_u64);
    let link = 4 + 4 * m;
    let mut expected = bytes!(0_u64, 3_u64, 3_u64, link + 4 * dimension + 8, link + 4 * dimension, link);
    expected.extend(bytes!(0_i32, 1_u32, 2_u64, m, 2_u64, 2_f64.ln().recip(), 128_u64));
    assert_eq!(expected.len(), 96);
    expected.extend(bytes!(2, 1, 2, 0, 1_f32, 2_f32, 10_u64));
    expected.extend(bytes!(1, 2, 0, 0, 2_f32, 3_f32, 20_u64));
    expected.extend(bytes!(1, 0, 0, 0, 3_f32, 4_f32, 30_u64));
    expected.extend(bytes!(0, 0, 0));
    let write = |path: &Path| hnswlib::write(&with_a_hole::<i8>(Metric::L2), path).unwrap();
    assert_eq!(written(write, ""), expected);
    let cosine = |path: &Path| hnswlib::write(&with_a_hole::<i8>(Metric::Cosine), path).unwrap();
    let row = &written(cosine, "")[96 + 2 * 32 + 16..][..8];
    assert_eq!(row, bytes!(0.6_f32, 0.8_f32), "bytes under cosine are written at unit length");
}

#[test]
fn a_faiss_base_layer_is_written() {
    let header =
        |kind: [u8; 4]| [kind.to_vec(), bytes!(2, 3_u64, 1_u64 << 20, 1_u64 << 20, 1_u8, 1)].concat();
    let layers =
        (0..30).map(|layer| 0.5_f64.powi(layer) * 0.5).take_while(|&share| share >= 1e-9).count() as u64;
    let mut expected = [header(*b"IxMp"), header(*b"IHNf"), bytes!(layers)].concat();
    expected.extend((0..layers as i32).flat_map(|layer| (0.5_f64.powi(layer) * 0.5).to_le_bytes()));
    expected.extend(bytes!(layers + 1, 0));
    expected.extend((0..layers as i32).flat_map(|layer| (3 + 2 * layer).to_le_bytes()));
    expected.extend(bytes!(3_u64, 1, 1, 1, 4_u64, 0_u64, 3_u64, 6_u64, 9_u64));
    expected.extend(bytes!(9_u64, 1, 2, -1, 2, -1, -1, 0, -1, -1));
    expected.extend(bytes!(1, 0, 128, 64, 1));
    expected.extend([header(*b"IxF2"), bytes!(6_u64, 1_f32, 2_f32, 2_f32, 3_f32, 3_f32, 4_f32)].concat());
    expected.extend(bytes!(3_u64, 10_u64, 20_u64, 30_u64));
    let write = |path: &Path| faiss::write(&with_a_hole::<i8>(Metric::L2), path).unwrap();
    assert_eq!(written(write, ""), expected);
}

#[test]
fn what_is_written_is_told_from_other_files() {
    let graph = with_a_hole::<f32>(Metric::L2);
    let kinds = |start: &[u8], size: u64| {
        [diskann::is_graph(start, size), hnswlib::is_graph(start, size), faiss::is_graph(start)]
    };
    let files = [
        written(|path| diskann::write(&graph, path).unwrap(), ""),
        written(|path| hnswlib::write(&graph, path).unwrap(), ""),
        written(|path| faiss::write(&graph, path).unwrap(), ""),
    ];
    for (i, file) in files.iter().enumerate() {
        let size = file.len() as u64;
        assert_eq!(kinds(file, size), [0, 1, 2].map(|kind| kind == i));
        assert_eq!(kinds(file, size - 1), [false, false, i == 2], "a cut file has the types still");
        assert_eq!(kinds(&file[..3], size), [false; 3]);
    }
    for bytes in [[0_u8; 200], [255; 200], [b'1'; 200]] {
        assert_eq!(kinds(&bytes, 200), [false; 3]);
    }
}

#[test]
fn what_is_written_is_read_again() {
    let graph = with_a_hole::<f32>(Metric::InnerProduct);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ann");
    let slots = diskann::write(&graph, &path).unwrap();
    let rows: Vec<f32> = slots.iter().flat_map(|&slot| graph.vectors().get::<f32>(slot).to_vec()).collect();
    let rows = MatrixView::new(&rows, 2).unwrap();
    let again = diskann::read(&path, &rows, Metric::InnerProduct, params(3), &mut no_progress).unwrap();
    assert_eq!(neighbors(&again), [vec![1, 2], vec![2], vec![0]]);
    assert_eq!(again.adjacency().start_points(), [Slot::new(1)]);
}

#[test]
fn graphs_that_the_formats_cannot_hold_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ann");
    let mut deleted = with_a_hole::<f32>(Metric::L2);
    deleted.keys_mut().delete(20).unwrap();
    for write in [diskann::write, hnswlib::write, faiss::write] {
        let error = write(&deleted, &path).unwrap_err();
        assert!(matches!(error, ExportError::Tombstones(1)), "{error}");
    }
    let empty = Graph::new(ElementKind::F32, Metric::L2, 2, params(3)).unwrap();
    assert!(matches!(hnswlib::write(&empty, &path), Err(ExportError::Empty)));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    assert!(matches!(
        hnswlib::write(&with_a_hole::<f32>(Metric::L2), folder.path()),
        Err(ExportError::Save(_))
    ));
}
