//! Codes follow their vectors through every change, and files with codes that do not fit are refused.

use std::fs;
use std::sync::Arc;

use crate::common::{DIMENSION, add, coded_sample, fresh_codes, kept_codes, quantize, sample};
use jasper_core::synthetic::Clusters;
use jasper_core::{BuildParams, Element, ElementKind, MatrixView, Metric, Slot, f16, no_progress};
use jasper_graph::{FileFault, Graph, IndexInfo, Section};
use jasper_quant::{ENCODE_ROWS, Quantization, ThreadPoolBuilder};

fn in_step<T: Element>(metric: Metric) {
    let mut graph = coded_sample::<T>(metric);
    assert_eq!(kept_codes(&graph), fresh_codes(&graph), "as they were made");
    assert!(graph.keys().free() > 0);
    for i in 0..10 {
        add(&mut graph, &[T::from_f32(i as f32 + 2.0); DIMENSION]);
    }
    assert_eq!((graph.keys().free(), graph.slots()), (0, 50));
    assert_eq!(kept_codes(&graph), fresh_codes(&graph), "free slots and new ones");
    let before = kept_codes(&graph);
    graph.begin();
    add(&mut graph, &[T::from_f32(9.0); DIMENSION]);
    graph.rollback();
    assert_eq!(kept_codes(&graph), before, "undone");
    graph.release(Slot::new(41));
    graph.compact(&[(Slot::new(49), Slot::new(41))], 49).unwrap();
    assert_eq!(kept_codes(&graph), fresh_codes(&graph), "moved");
}

#[test]
fn codes_follow_their_rows() {
    for metric in Metric::ALL {
        in_step::<f32>(metric);
        in_step::<f16>(metric);
        in_step::<u8>(metric);
        in_step::<i8>(metric);
    }
}

/// Threads encode many vectors at a time; neither the remainder nor padding changes the codes.
fn coded_together<T: Element>(code: Quantization) {
    const DIMENSION: usize = 70;
    let rows: Vec<T> = Clusters::new(DIMENSION, 3).rows(1024 + 2 * ENCODE_ROWS + 13, 0);
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let quantizer = code.train(Metric::L2, MatrixView::new(&rows, DIMENSION).unwrap(), &pool).unwrap();
    for count in [1, ENCODE_ROWS - 1, ENCODE_ROWS, ENCODE_ROWS + 1, rows.len() / DIMENSION] {
        let mut graph = Graph::new(T::KIND, Metric::L2, DIMENSION, BuildParams::default()).unwrap();
        for row in rows.chunks_exact(DIMENSION).take(count) {
            add(&mut graph, row);
        }
        quantize(&mut graph, Arc::clone(&quantizer));
        assert!(kept_codes(&graph) == fresh_codes(&graph), "{code}, {count} rows");
    }
}

#[test]
fn rows_coded_together_have_the_codes_of_each_alone() {
    for code in [
        Quantization::Mixed { sectors: 2 },
        Quantization::Mixed { sectors: 4 },
        Quantization::Rabitq { bits: 4 },
    ] {
        coded_together::<f32>(code);
        coded_together::<u8>(code);
    }
}

#[test]
fn an_index_file_tells_of_its_codes_and_is_whole_without() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.jasper");
    let mut graph = coded_sample::<f32>(Metric::L2);
    graph.save(&path, &mut no_progress).unwrap();
    let info = IndexInfo::read(&path).unwrap();
    assert_eq!(info.quantization, Some(Quantization::Rabitq { bits: 2 }));
    assert!(info.sections.iter().any(|&(section, bytes)| section == Section::Codes && bytes == 45 * 32));
    assert_eq!(graph.vectors().code_bytes(), 45 * 32);
    let mut codes_alone = coded_sample::<f32>(Metric::L2);
    codes_alone.drop_vectors();
    codes_alone.save(&path, &mut no_progress).unwrap();
    let info = IndexInfo::read(&path).unwrap();
    assert!(!info.has_vectors && info.sections.iter().all(|&(section, _)| section != Section::Vectors));
    codes_alone.release(Slot::new(2));
    codes_alone.compact(&[(Slot::new(39), Slot::new(2))], 39).unwrap();
    assert!(!codes_alone.has_vectors());
    let (moved, whole) =
        (codes_alone.vectors().codes().unwrap().table(), graph.vectors().codes().unwrap().table());
    assert_eq!((moved.len(), moved.row(2)), (39, whole.row(39)));
    graph.drop_codes();
    graph.save(&path, &mut no_progress).unwrap();
    assert_eq!(IndexInfo::read(&path).unwrap().quantization, None);
    crate::common::assert_same(&graph, &sample::<f32>(Metric::L2));
}

/// Puts the sections of `codes` into the file of `index`.
fn grafted(index: &Graph, codes: &Graph) -> FileFault {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.jasper");
    let bytes = |graph: &Graph| {
        graph.save(&path, &mut no_progress).unwrap();
        let sections = IndexInfo::read(&path).unwrap().sections;
        let pages = |section: &(Section, u64)| section.1.next_multiple_of(4096) as usize;
        let before: usize = sections.iter().take(sections.len() - 2).map(pages).sum();
        (fs::read(&path).unwrap(), 4096 + before)
    };
    let ((mut file, at), (other, from)) = (bytes(index), bytes(codes));
    assert_eq!(file.len() - at, other.len() - from, "sections of equal size");
    file[at..].copy_from_slice(&other[from..]);
    // The entries of both sections, with their checksums.
    let entries = 32 + 32 * (IndexInfo::read(&path).unwrap().sections.len() - 2);
    file[entries + 12..entries + 16].copy_from_slice(&other[entries + 12..entries + 16]);
    file[entries + 44..entries + 48].copy_from_slice(&other[entries + 44..entries + 48]);
    let checksum = crc32c::crc32c(&file[..4092]);
    file[4092..4096].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&path, file).unwrap();
    Graph::open(&path, &mut no_progress).map(|_| ()).unwrap_err().into_cause()
}

#[test]
fn codes_of_another_metric_are_refused() {
    let fault = grafted(&coded_sample::<f32>(Metric::L2), &coded_sample::<f32>(Metric::Cosine));
    assert!(matches!(fault, FileFault::Invalid { section: Section::Quantizer, .. }), "{fault}");
}

#[test]
#[should_panic(expected = "left == right")]
fn a_quantizer_of_another_dimension_is_a_mistake() {
    let coded = coded_sample::<f32>(Metric::L2);
    let mut graph = Graph::new(ElementKind::F32, Metric::L2, DIMENSION + 1, BuildParams::default()).unwrap();
    quantize(&mut graph, Arc::clone(coded.vectors().codes().unwrap().quantizer()));
}
