//! The paper's table of loads, drawn again: elements, lengths, widths of a tile, both ways to read a row.

use std::time::Duration;

use gpu_kernels::distances::{DistanceArgs, Distances, Loads, Measure, TileWidth};
use gpu_kernels::{Buffer as _, Stream as _};
use jasper_core::ElementKind::{self, F16, F32, I8, U8};
use jasper_core::synthetic;
use jasper_cuda::{Buffer, Result};
use serde_json::json;

use crate::{Bench, LARGE};

/// Elements and dimensions of rows.
const ROWS: [(ElementKind, u32); 7] =
    [(U8, 128), (I8, 128), (F16, 128), (F32, 96), (F32, 128), (F32, 960), (F16, 960)];
/// Queries of a launch, each with its share of the ids.
const QUERIES: usize = 1024;
/// Ids of a launch, at most.
const IDS: usize = 64 << 20;

/// Bytes of the rows that ids name: a set of some million vectors, and one of many.
const TABLES: [usize; 2] = [1 << 30, LARGE];

pub fn run(bench: &Bench) -> Result<()> {
    let mut rows = bench.stream.allocate::<u8>(LARGE)?;
    // Small numbers of every element: 0.01 as f32, 1.06 as f16.
    bench.stream.fill(&mut rows, 0x3C)?;
    for (table, (element, dimension)) in TABLES.into_iter().flat_map(|table| ROWS.map(|row| (table, row))) {
        let row_bytes = dimension * element.size() as u32;
        let count = (LARGE / row_bytes as usize).min(IDS) / QUERIES * QUERIES;
        let ids = random_ids(bench, (table / row_bytes as usize) as u32, count)?;
        let mut distances = bench.stream.allocate::<f32>(ids.len())?;
        for kernel in kernels(element, row_bytes) {
            let args = DistanceArgs {
                rows: rows.input(),
                // What the rows are, the queries may be: all the same.
                queries: rows.input(),
                ids: ids.input(),
                distances: distances.output(),
                row_bytes,
                queries_len: QUERIES as u32,
                ids_per_query: (ids.len() / QUERIES) as u32,
            };
            let time = measure(bench, kernel, args)?;
            let what = json!({
                "what": "distances", "element": element.name(), "dimension": dimension, "table": table,
                "loads": kernel.loads().name(), "width": kernel.width().lanes(),
                "specialized": kernel.row_bytes().is_some(), "rows": ids.len(),
            });
            bench.report(what, time, ids.len() as u64 * u64::from(row_bytes));
        }
        assert!(
            bench.stream.download(&distances)?.iter().all(|&distance| distance == 0.0),
            "equal rows are at 0"
        );
    }
    Ok(())
}

/// Both ways to read, all widths, and what knows the length of the row.
fn kernels(element: ElementKind, row_bytes: u32) -> impl Iterator<Item = Distances> {
    Loads::ALL.into_iter().flat_map(move |loads| {
        TileWidth::ALL.into_iter().flat_map(move |width| {
            let any = Distances::new(element, Measure::SquaredL2, loads, width);
            [Some(any), any.specialized(row_bytes)].into_iter().flatten()
        })
    })
}

fn measure(bench: &Bench, kernel: Distances, args: DistanceArgs) -> Result<Duration> {
    // SAFETY: ids are below the number of rows; queries are the first rows; there is a distance for each id.
    bench.time(|| unsafe { bench.stream.launch(&kernel, args) })
}

/// `count` random numbers below `rows`.
fn random_ids(bench: &Bench, rows: u32, count: usize) -> Result<Buffer<u32>> {
    use rand::RngExt as _;
    let mut rng = synthetic::rng(u64::from(rows));
    let ids: Vec<u32> = (0..count).map(|_| rng.random_range(0..rows)).collect();
    bench.stream.upload(&ids)
}
