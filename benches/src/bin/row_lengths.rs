//! Measures how fast searches read rows of each length: distances per second times bytes per row, at a beam width of
//! 64.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin row_lengths
//! ```
//!
//! Vectors and edges are random, so every query visits new rows: what is measured is the kernel, not a data set. Tables
//! are larger than the second cache where a million rows are. Prints one line of JSON per length, element and metric:
//! the rate, and its share of the best that a length within a factor of 1.5 reaches. `f16-l2` measures that element and
//! metric alone.

#![forbid(unsafe_code)]

use anyhow::{Context as _, Result};
use jasper::{Device, Element, ElementKind, Index, Key, Metric, OpenOptions, Profile, SearchParams};
use jasper_core::{BuildParams, MatrixView, Slot, padded_len, with_element};
use jasper_graph::Graph;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rayon::prelude::*;
use serde_json::json;

const DIMENSIONS: [usize; 23] = [
    24, 32, 64, 96, 100, 128, 200, 256, 300, 384, 420, 512, 640, 768, 900, 960, 1000, 1024, 1280, 1536, 2048,
    3072, 4096,
];
const DEGREE: usize = 64;
const QUERIES: usize = 10_000;
const BEAM_WIDTH: usize = 64;
/// Rows, and bytes of the table, at most.
const ROWS: usize = 1_000_000;
const BYTES: usize = 768 << 20;

fn main() -> Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let edges = edges();
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        for element in [ElementKind::F16, ElementKind::U8, ElementKind::F32, ElementKind::I8] {
            if wanted.is_empty() || wanted.contains(&format!("{element}-{metric}")) {
                with_element!(element, T => measure::<T>(metric, &edges))?;
            }
        }
    }
    Ok(())
}

/// Random edges of [`ROWS`] vertices, ascending and each once; with fewer vertices, they are taken modulo their number.
fn edges() -> Vec<Vec<u32>> {
    let of = |vertex: usize| {
        let mut rng = SmallRng::seed_from_u64(vertex as u64);
        let mut edges: Vec<u32> = (0..DEGREE).map(|_| rng.random_range(0..ROWS as u32)).collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    };
    (0..ROWS).into_par_iter().map(of).collect()
}

fn measure<T: Element>(metric: Metric, edges: &[Vec<u32>]) -> Result<()> {
    let mut rates = Vec::new();
    for dimension in DIMENSIONS {
        let row_bytes = padded_len::<T>(dimension) * size_of::<T>();
        let rows = ROWS.min(BYTES / row_bytes);
        let index = random_index::<T>(metric, dimension, rows, edges)?.to_device(Device::cuda(0))?;
        let queries = random_rows::<T>(dimension, QUERIES, 1);
        let queries = MatrixView::new(&queries, dimension).context("whole rows")?;
        let params = SearchParams::new(10).beam_width(BEAM_WIDTH);
        let (mut keys, mut found) = (vec![0; QUERIES * 10], vec![0.0; QUERIES * 10]);
        let report = index.search_batch_into(queries, params, &mut keys, &mut found)?;
        let seconds = Profile::device_time(&index, queries, params)?.context("on a device")?.as_secs_f64();
        let bytes_per_second = report.cost.distances as f64 * row_bytes as f64 / seconds;
        rates.push((dimension, row_bytes, bytes_per_second));
    }
    for &(dimension, row_bytes, rate) in &rates {
        let is_near = |other: usize| other * 2 <= dimension * 3 && dimension * 2 <= other * 3;
        let near = rates.iter().filter(|(other, ..)| is_near(*other)).map(|(.., rate)| *rate);
        let line = json!({
            "what": "row_length", "element": T::KIND.name(), "metric": metric.to_string(), "dimension": dimension,
            "row_bytes": row_bytes, "gb_per_s": (rate / 1e9).round(), "share": rate / near.fold(0.0, f64::max),
        });
        println!("{line}");
    }
    Ok(())
}

fn random_rows<T: Element>(dimension: usize, rows: usize, seed: u64) -> Vec<T> {
    let of = |row: usize| {
        let mut rng = SmallRng::seed_from_u64(seed << 40 | row as u64);
        (0..dimension).map(move |_| T::from_f32(rng.random_range(0..100) as f32))
    };
    (0..rows).into_par_iter().flat_map_iter(of).collect()
}

/// An index of random vectors with random edges.
fn random_index<T: Element>(
    metric: Metric,
    dimension: usize,
    rows: usize,
    edges: &[Vec<u32>],
) -> Result<Index> {
    let vectors = random_rows::<T>(dimension, rows, 0);
    let params = BuildParams::default();
    let mut graph = Graph::new(T::KIND, metric, dimension, params)?;
    let mut row = Vec::new();
    for (number, vector) in vectors.chunks_exact(dimension).enumerate() {
        let squared_norm = graph.vectors().prepare(number, vector, &mut row)?;
        let slot = graph.add_vector(&row, squared_norm)?;
        graph.keys_mut().assign_unused(number as Key, slot);
    }
    let mut neighbors = Vec::new();
    for (vertex, edges) in edges[..rows].iter().enumerate() {
        neighbors.clear();
        neighbors.extend(edges.iter().map(|edge| Slot::new(edge % rows as u32)));
        if rows < ROWS {
            neighbors.sort_unstable();
            neighbors.dedup();
        }
        neighbors.retain(|neighbor: &Slot| neighbor.index() != vertex);
        graph.adjacency_mut().set_neighbors(Slot::from_index(vertex), &neighbors);
    }
    graph.adjacency_mut().set_start_points(vec![Slot::new(0)]);
    Ok(OpenOptions::new().open_graph(graph)?)
}
