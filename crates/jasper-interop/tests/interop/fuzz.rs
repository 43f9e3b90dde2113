//! Fuzz bodies, one per reader, called by the tests over damaged files and by `jasper-fuzz`, which includes this file.
//!
//! Any bytes must give a typed error or a sound graph; a panic is a bug. Each body returns whether a graph was read.

use std::io::Cursor;

use jasper_core::{BuildParams, MatrixView, Metric, no_progress};
use jasper_graph::Graph;
use jasper_interop::{ImportFault, diskann, faiss, hnswlib, parlay};

/// Vectors of the graphs.
const ROWS: [f32; 2 * 12] =
    [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 9., 8., 7., 6., 5., 4., 3., 2., 1., 0., -1., 5., -2., 6.];

/// Reads a graph of DiskANN.
pub fn diskann(bytes: &[u8]) -> bool {
    is_read(|rows, params| {
        diskann::read_from(bytes, bytes.len() as u64, rows, Metric::L2, params, &mut no_progress)
    })
}

/// Reads a graph of ParlayANN.
pub fn parlay(bytes: &[u8]) -> bool {
    is_read(|rows, params| {
        parlay::read_from(bytes, bytes.len() as u64, rows, Metric::L2, params, &mut no_progress)
    })
}

/// Reads an index of hnswlib.
pub fn hnswlib(bytes: &[u8]) -> bool {
    is_sound(hnswlib::read_from(Cursor::new(bytes), bytes.len() as u64, Metric::L2, None, &mut no_progress))
}

/// Reads an index of faiss.
pub fn faiss(bytes: &[u8]) -> bool {
    is_sound(faiss::read_from(Cursor::new(bytes), bytes.len() as u64, None, None, &mut no_progress))
}

fn is_read(read: impl Fn(&MatrixView<'_, f32>, BuildParams) -> Result<Graph, ImportFault>) -> bool {
    let params = BuildParams::builder().max_degree(5).build().expect("a valid degree");
    let rows = MatrixView::new(&ROWS, 2).expect("whole rows");
    let graph = read(&rows, params);
    assert!(graph.as_ref().map_or(true, |graph| graph.slots() == rows.len()));
    is_sound(graph)
}

fn is_sound(read: Result<Graph, ImportFault>) -> bool {
    match read {
        Ok(graph) => {
            let report = graph.check_structure();
            assert!(report.is_sound(), "{report:?}");
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}
