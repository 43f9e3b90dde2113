//! Converts a graph of DiskANN to files of hnswlib and of DiskANN.
//!
//! ```sh
//! cargo run --release -p jasper-interop --example convert_graph -- l2 u8 their-index vectors.bin hnsw.bin our-index
//! ```
//!
//! `their-index` is the graph file, `vectors.bin` the vectors it was built from (u32 number, u32 dimension, then the
//! vectors).

use std::fs::File;
use std::io::Read;
use std::time::Instant;

use jasper_core::{BuildParams, Element, MatrixView, Metric, no_progress};
use jasper_interop::{diskann, hnswlib};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [metric, element, graph, vectors, hnsw, out] = &args[..] else {
        return Err("usage: convert_graph METRIC ELEMENT GRAPH VECTORS HNSWLIB_OUT DISKANN_OUT".into());
    };
    let convert = match element.as_str() {
        "f32" => convert::<f32>,
        "u8" => convert::<u8>,
        "i8" => convert::<i8>,
        other => return Err(format!("element `{other}` is not f32, u8 or i8").into()),
    };
    convert(metric.parse()?, graph, vectors, hnsw, out)
}

fn convert<T: Element>(
    metric: Metric,
    graph: &str,
    vectors: &str,
    hnsw: &str,
    out: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut file = File::open(vectors)?;
    let mut shape = [0_u32; 2];
    file.read_exact(bytemuck::cast_slice_mut(&mut shape))?;
    let bytes = shape[0] as usize * shape[1] as usize * size_of::<T>();
    if file.metadata()?.len() != 8 + bytes as u64 {
        return Err(format!("{vectors}: {} rows of {} do not fill the file", shape[0], shape[1]).into());
    }
    let mut rows = vec![T::default(); bytes / size_of::<T>()];
    file.read_exact(bytemuck::cast_slice_mut(&mut rows))?;

    let start = Instant::now();
    let view = MatrixView::new(&rows, shape[1] as usize)?;
    let params = BuildParams::builder().max_degree(64).build()?;
    let graph = diskann::read(graph, &view, metric, params, &mut no_progress)?;
    let report = graph.check_structure();
    println!("read {} vertices and {} edges in {:.2?}", report.vertices, report.edges, start.elapsed());
    if !report.is_sound() {
        return Err(format!("{} faults, such as {}", report.faults, report.examples[0]).into());
    }
    hnswlib::write(&graph, hnsw)?;
    diskann::write(&graph, out)?;
    Ok(())
}
