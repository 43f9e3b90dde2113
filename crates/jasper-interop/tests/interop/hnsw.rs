//! Files of hnswlib and faiss with upper layers, as those libraries write them.

use std::fs;
use std::io::Cursor;

use jasper_core::{BuildParams, Element, Metric, Slot, f16, no_progress};
use jasper_graph::Graph;
use jasper_interop::{GraphFormat, ImportFault, faiss, hnswlib};

use crate::formats::{bytes, neighbors, params, with_a_hole};

/// Four elements of two coordinates, with 2 edges at most in the base layer and 2 above it. The second one is also in
/// layer 1, and the third in layers 1 and 2. The first is deleted.
pub fn hnswlib_file() -> Vec<u8> {
    let mut file = bytes!(0_u64, 9_u64, 4_u64, 28_u64, 20_u64, 12_u64, 2, 2, 2_u64, 2_u64, 1_u64, 1.44_f64);
    file.extend(bytes!(300_u64));
    assert_eq!(file.len(), 96);
    let element = |links: u32, edges: [u32; 2], x: f32, key: u64| bytes!(links, edges, x, 1.0_f32, key);
    file.extend(element(0x1_0002, [1, 2], 1.0, 1 << 40));
    // To itself, and what is after the edges.
    file.extend(element(1, [3, u32::MAX], 2.0, 7));
    file.extend(element(2, [1, 1], 3.0, 9));
    file.extend(element(0, [0, 0], 4.0, u64::MAX - 1));
    file.extend(bytes!(0, 12, 1, 2, 0, 24, 1, 1, 0, 0, 0, 0, 0));
    file
}

fn read_hnswlib(file: &[u8]) -> Result<Graph, ImportFault> {
    hnswlib::read_from(Cursor::new(file), file.len() as u64, Metric::L2, None, &mut no_progress)
}

#[test]
fn an_hnswlib_index_is_read() {
    let graph = read_hnswlib(&hnswlib_file()).unwrap();
    assert_eq!(neighbors(&graph), [vec![1, 2], vec![3, 2], vec![1], vec![]], "with those of upper layers");
    assert_eq!(graph.adjacency().start_points(), [Slot::new(2)]);
    assert_eq!((graph.params().max_degree(), graph.params().build_beam_width()), (2, 300));
    assert_eq!((graph.keys().live(), graph.keys().tombstones()), (3, 1));
    assert_eq!(
        [7, 9, u64::MAX - 1].map(|key| graph.keys().slot_of(key)),
        [1, 2, 3].map(|i| Some(Slot::new(i)))
    );
    assert_eq!(graph.vectors().get::<f32>(Slot::new(1)), [2.0, 1.0]);
    assert!(graph.check_structure().is_sound());
    let mut graph = graph;
    graph.keys_mut().restore(1 << 40).unwrap();
    assert_eq!(graph.keys().slot_of(1 << 40), Some(Slot::new(0)));

    // With more room, or less.
    let file = hnswlib_file();
    let read = |max_degree| {
        let params = Some(params(max_degree));
        hnswlib::read_from(Cursor::new(&file), file.len() as u64, Metric::L2, params, &mut no_progress)
    };
    assert_eq!(read(5).unwrap().params().max_degree(), 5);
    assert!(read(1).unwrap_err().to_string().contains("vertex 0 has 2 edges, more than max_degree (1)"));
}

#[test]
fn an_hnswlib_index_without_elements_is_read() {
    let file =
        bytes!(0_u64, 9_u64, 0_u64, 28_u64, 20_u64, 12_u64, -1, -1, 2_u64, 2_u64, 1_u64, 1.44_f64, 300_u64);
    let graph = read_hnswlib(&file).unwrap();
    assert_eq!((graph.slots(), graph.dimension()), (0, 2));
    assert!(hnswlib::is_graph(&file, 96));
}

#[test]
fn an_hnswlib_index_that_cannot_be_is_refused() {
    let good = hnswlib_file();
    for cut in 0..good.len() {
        let fault = read_hnswlib(&good[..cut]).unwrap_err();
        assert!(matches!(fault, ImportFault::Length { .. }), "{cut}: {fault}");
    }
    let longer = [&good[..], &[0]].concat();
    assert!(matches!(read_hnswlib(&longer), Err(ImportFault::Length { .. })));
    let refused = |at: usize, word: u32, expected: &str| {
        let mut file = good.clone();
        file[at..at + 4].copy_from_slice(&word.to_le_bytes());
        let message = read_hnswlib(&file).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
        assert_eq!(hnswlib::is_graph(&file, file.len() as u64), at >= 48 && !(64..72).contains(&at), "{at}");
    };
    refused(
        0,
        1,
        "offsetLevel0_ (1) must be 0, where the base layer begins; the file is damaged, or of another format",
    );
    refused(8, 3, "cur_element_count (4) must be at most max_elements_ (3)");
    refused(24, 32, "size_data_per_element_ (32) must be 28, from label_offset_");
    refused(28, 1, "size_data_per_element_ (4294967324) must be 28");
    refused(32, 22, "label_offset_ (22) must be 20, from offsetData_");
    refused(32, 12, "label_offset_ (12) must be 16");
    refused(40, 16, "offsetData_ (16) must be 12, from maxM0_");
    refused(52, 4, "the start leads to vertex 4, but there are only 4");
    refused(56, 3, "linkListSize (12) must be a multiple of 16, from maxM_");
    refused(64, 3, "offsetData_ (12) must be 16");
    refused(96, 0x1_0003, "vertex 0 has 3 edges, but the header allows 2");
    refused(100, 4, "an edge of vertex 0 leads to vertex 4, but there are only 4");
    refused(108, 0x7FC0_0000, "row 0");
    refused(116 + 28, 9, "vertices 1 and 2 have the same key (9)");
    refused(116 + 3 * 28, u32::MAX, "vertex 3 has the key 18446744073709551615, which is reserved");
    refused(208, 0xFFFF_FFFC, "is 260 bytes, but its header and degrees need");
    refused(216, 3, "vertex 1 has 3 edges, but the header allows 2");
    refused(220, 4, "an edge of vertex 1 leads to vertex 4, but there are only 4");
    let mut file = good.clone();
    file[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    file[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(read_hnswlib(&file), Err(ImportFault::Length { claimed: u64::MAX, .. })));
    // More edges than an index may have.
    let wide = bytes!(0_u64, 0_u64, 0_u64, 4820_u64, 4812_u64, 4804_u64, -1, -1, 600_u64, 1200_u64, 600_u64);
    let message = read_hnswlib(&[wide, bytes!(1.0_f64, 0_u64)].concat()).unwrap_err().to_string();
    assert!(message.contains("max_degree (1200) must be between 1 and 1024"), "{message}");
}

/// An index of three vectors: the first in layers 0 and 1, with up to 2 edges in layer 0 and 1 above it. `metric` is
/// faiss's number.
pub fn faiss_file(map: Option<&[u8; 4]>, hnsw: &[u8; 4], metric: i32, storage: &[u8]) -> Vec<u8> {
    let header = |kind: &[u8; 4]| bytes!(*kind, 2, 3_u64, 1_u64 << 20, 1_u64 << 20, 1_u8, metric);
    let mut file = map.map(header).unwrap_or_default();
    file.extend(header(hnsw));
    file.extend(bytes!(
        2_u64, 0.9_f64, 0.1_f64, 3_u64, 0, 2, 3, 3_u64, 2, 1, 1, 4_u64, 0_u64, 3_u64, 5_u64, 7_u64
    ));
    // The last vertex has no edges: what is after the first -1 is not read.
    file.extend(bytes!(7_u64, 1, -1, 2, 0, -1, -1, 99, 0, 1, 40, 16, 1));
    file.extend(storage);
    if map.is_some() {
        file.extend(bytes!(3_u64, 30_u64, 10_u64, 1_u64 << 50));
    }
    file
}

/// Flat vectors.
pub fn flat(kind: &[u8; 4], metric: i32) -> Vec<u8> {
    let header = bytes!(*kind, 2, 3_u64, 1_u64 << 20, 1_u64 << 20, 1_u8, metric);
    [header, bytes!(6_u64, 0.6_f32, 0.8_f32, 1_f32, 0_f32, 0_f32, 1_f32)].concat()
}

/// Vectors of a scalar quantizer of this kind.
fn scalar(kind: i32, codes: &[u8]) -> Vec<u8> {
    let header = bytes!(*b"IxSQ", 2, 3_u64, 1_u64 << 20, 1_u64 << 20, 1_u8, 1, kind, 0, 0_f32, 2_u64);
    [header, bytes!(codes.len() as u64 / 3, 0_u64, codes.len() as u64), codes.to_vec()].concat()
}

fn read_faiss(file: &[u8], metric: Option<Metric>) -> Result<Graph, ImportFault> {
    faiss::read_from(Cursor::new(file), file.len() as u64, metric, None, &mut no_progress)
}

#[test]
fn a_faiss_index_is_read() {
    for (map, storage) in [(None, b"IxF2"), (Some(b"IxMp"), b"IxF2"), (Some(b"IxM2"), b"IxFl")] {
        let file = faiss_file(map, b"IHNf", 1, &flat(storage, 1));
        assert!(faiss::is_graph(&file));
        let graph = read_faiss(&file, None).unwrap();
        assert_eq!(neighbors(&graph), [vec![1, 2], vec![0], vec![]]);
        assert_eq!(graph.adjacency().start_points(), [Slot::new(0)]);
        assert_eq!((graph.metric(), graph.params().max_degree()), (Metric::L2, 2));
        let keys = if map.is_some() { [30, 10, 1 << 50] } else { [0, 1, 2] };
        assert_eq!(keys.map(|key| graph.keys().slot_of(key).map(Slot::get)), [0, 1, 2].map(Some));
        assert_eq!(graph.vectors().get::<f32>(Slot::new(0)), [0.6, 0.8]);
        assert!(graph.check_structure().is_sound());
    }
    let products = faiss_file(None, b"IHNf", 0, &flat(b"IxFI", 0));
    assert_eq!(read_faiss(&products, None).unwrap().metric(), Metric::InnerProduct);
    assert_eq!(read_faiss(&products, Some(Metric::Cosine)).unwrap().metric(), Metric::Cosine);
    let message = read_faiss(&products, Some(Metric::L2)).unwrap_err().to_string();
    assert_eq!(message, "is of the metric ip, not l2; leave the metric out");
}

#[test]
fn vectors_of_scalar_quantizers_are_read() {
    let halves = [1.5, 2.0, 3.0, 4.0, 5.0, 6.0].map(f16::from_f32);
    let file = faiss_file(Some(b"IxMp"), b"IHNs", 1, &scalar(4, bytemuck::cast_slice(&halves)));
    assert_eq!(read_faiss(&file, None).unwrap().vectors().get::<f16>(Slot::new(0)), &halves[..2]);
    assert_eq!(read_faiss(&file, None).unwrap().element(), f16::KIND);

    let file = faiss_file(None, b"IHNs", 1, &scalar(5, &[1, 2, 3, 4, 255, 6]));
    assert_eq!(read_faiss(&file, None).unwrap().vectors().get::<u8>(Slot::new(2)), [255, 6]);
    let file = faiss_file(None, b"IHNs", 1, &scalar(8, &[128, 0, 3, 4, 255, 129]));
    assert_eq!(read_faiss(&file, None).unwrap().vectors().get::<i8>(Slot::new(0)), [0, -128]);
    assert_eq!(read_faiss(&file, None).unwrap().vectors().get::<i8>(Slot::new(2)), [127, 1]);
}

#[test]
fn a_faiss_index_that_cannot_be_is_refused() {
    let good = faiss_file(Some(b"IxMp"), b"IHNf", 1, &flat(b"IxF2", 1));
    for cut in 0..good.len() {
        let fault = read_faiss(&good[..cut], None).unwrap_err();
        assert!(matches!(fault, ImportFault::Length { .. }), "{cut}: {fault}");
    }
    let longer = [&good[..], &[0]].concat();
    assert!(matches!(read_faiss(&longer, None), Err(ImportFault::Length { .. })));
    let refused = |at: usize, word: u32, expected: &str| {
        let mut file = good.clone();
        file[at..at + 4].copy_from_slice(&word.to_le_bytes());
        let message = read_faiss(&file, None).unwrap_err().to_string();
        assert!(message.contains(expected), "at {at}: {message}");
    };
    refused(0, u32::from_le_bytes(*b"IxPT"), "its index is of faiss's type `IxPT`; IndexHNSWFlat (IHNf)");
    refused(37, u32::from_le_bytes(*b"IHNp"), "its index is of faiss's type `IHNp`");
    refused(37, u32::from_le_bytes(*b"IHNs"), "its storage of vectors is of faiss's type `IxF2`");
    refused(4, 3, "d (2) must be 3, that of the outer index");
    refused(4, 0, "d (0) must be between 1 and 32768");
    refused(12, 1, "ntotal (4294967299) must be between 0 and 2147483647");
    refused(33, 4, "is of faiss's metric 4; indexes of METRIC_L2");
    refused(70, 0, "metric_type (0) must be 1, that of the outer index");
    let hnsw = 74;
    refused(hnsw, u32::MAX, "bytes, but its header and degrees need");
    refused(
        hnsw + 32,
        1,
        "cum_nneighbor_per_level (3) must be the length of at least 2 numbers that ascend from 0",
    );
    refused(hnsw + 36, 3, "cum_nneighbor_per_level");
    refused(hnsw + 44, 2, "levels.size() (2) must be 3, that of ntotal");
    refused(hnsw + 52, 3, "levels (3) must be between 1 and 2");
    refused(hnsw + 52, 0, "levels (0) must be between 1 and 2");
    refused(hnsw + 52, 1, "offsets (3) must be 2, the sum of the rows before it");
    refused(hnsw + 72, 1, "offsets (1) must be 0");
    refused(hnsw + 96, 8, "offsets (8) must be 7");
    refused(hnsw + 104, 6, "neighbors.size() (6) must be 7");
    refused(hnsw + 112, 3, "an edge of vertex 0 leads to vertex 3, but there are only 3");
    refused(hnsw + 140, 3, "the start leads to vertex 3");
    refused(hnsw + 140, u32::MAX, "the start leads to vertex 4294967295");
    let storage = hnsw + 160;
    refused(storage, u32::from_le_bytes(*b"IxPQ"), "its storage of vectors is of faiss's type `IxPQ`");
    refused(storage + 4, 3, "d (3) must be 2, that of the outer index");
    refused(storage + 37, 5, "codes.size() (5) must be 6, from ntotal and d");
    refused(storage + 45, 0x7F80_0000, "row 0");
    refused(storage + 69, 2, "id_map.size() (2) must be 3");
    refused(storage + 77, 10, "vertices 0 and 1 have the same key (10)");
    let codes = faiss_file(None, b"IHNs", 1, &scalar(0, &[0; 6]));
    let message = read_faiss(&codes, None).unwrap_err().to_string();
    assert!(message.contains("codes of the scalar quantizer 0; those of QT_fp16"), "{message}");
    let codes = faiss_file(None, b"IHNs", 1, &scalar(5, &[0; 12]));
    let message = read_faiss(&codes, None).unwrap_err().to_string();
    assert!(message.contains("ScalarQuantizer.code_size (4) must be 2, from d"), "{message}");
}

#[test]
fn what_is_written_for_hnsw_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ann");
    for metric in Metric::ALL {
        let graph = with_a_hole::<f32>(metric);
        let check = |again: Graph, format| {
            assert_eq!(GraphFormat::of_file(&path).unwrap(), Some(format));
            assert_eq!(neighbors(&again), [vec![1, 2], vec![2], vec![0]]);
            assert_eq!(again.adjacency().start_points(), [Slot::new(1)]);
            assert_eq!((again.metric(), again.params().max_degree()), (metric, 3));
            for key in [10, 20, 30] {
                let vector =
                    |graph: &Graph| graph.vectors().get::<f32>(graph.keys().slot_of(key).unwrap()).to_vec();
                let [ours, theirs] = [&graph, &again].map(vector);
                assert!(ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() < 1e-6), "{ours:?} {theirs:?}");
            }
        };
        hnswlib::write(&graph, &path).unwrap();
        check(hnswlib::read(&path, metric, None, &mut no_progress).unwrap(), GraphFormat::Hnswlib);
        faiss::write(&graph, &path).unwrap();
        let given = (metric == Metric::Cosine).then_some(metric);
        check(faiss::read(&path, given, None, &mut no_progress).unwrap(), GraphFormat::Faiss);
    }
    fs::write(&path, [0; 300]).unwrap();
    assert_eq!(GraphFormat::of_file(&path).unwrap(), None);
    let error = faiss::read("none", None, None, &mut no_progress).unwrap_err().to_string();
    assert!(error.starts_with("none: cannot be read"), "{error}");
}

/// The default parameters, for what the file does not say.
#[test]
fn narrow_searches_of_a_build_are_not_taken_over() {
    let graph = read_faiss(&faiss_file(None, b"IHNf", 1, &flat(b"IxF2", 1)), None).unwrap();
    assert_eq!(graph.params().build_beam_width(), BuildParams::default().build_beam_width());
}
