//! Builds and searches more vectors than a GPU holds: generated in shards, linked from bytes, searched with codes only.
//! Prints one line of JSON per step.
//!
//! `cargo run --release -p jasper-benches --bin larger_than_gpu -- DEVICE ROWS DIMENSION CODE`
//!
//! No file is read: vectors are generated from a seed whenever they are read. The host holds them as f32 until they are
//! quantized. The device holds one byte per coordinate during linking, then codes and edges. `cuda:0 200000000 96
//! mixed:1` takes 150 GB of host memory.

#![forbid(unsafe_code)]

use std::error::Error;
use std::ops::Range;

use jasper::MemorySpace;
use jasper::bench::recall::Truth;
use jasper::bench::synthetic::Clusters;
use jasper::data::{GroundTruth, ThreadPoolBuilder, exact_knn};
use jasper::{Device, IndexBuilder, MatrixView, Metric, SearchParams, VectorSource, no_progress};
use rayon::prelude::*;

use jasper_benches::{measure_search, step};

/// Vectors generated at a time.
const SHARD: usize = 4096;
/// Vectors scanned at a time for true neighbors.
const BLOCK: usize = 1 << 20;
/// Queries of a batch, and those of them whose true neighbors are looked for.
const QUERIES: usize = 10_000;
const JUDGED: usize = 200;
/// Results per query.
const K: usize = 10;
/// True neighbors that are kept of each, deeper than k, so that ties with the k-th are seen.
const KEPT: usize = 2 * K;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [device, rows, dimension, code] = &args[..] else {
        return Err("give DEVICE ROWS DIMENSION CODE".into());
    };
    let (device, dimension): (Device, usize) = (device.parse()?, dimension.parse()?);
    let shards = Shards { set: Clusters::new(dimension, 1), rows: rows.parse()?, dimension };
    let queries: Vec<f32> = shards.set.rows(QUERIES, u64::MAX - 1);
    let queries = MatrixView::new(&queries, dimension)?;

    let builder = IndexBuilder::new(Metric::L2).build_beam_width(64).max_batch_share(0.1).device(device);
    let plan = builder.memory_plan::<f32>(shards.rows, dimension)?;
    let [on_host, on_device] = [MemorySpace::Host, MemorySpace::Device].map(|space| plan.total(space));
    println!("{{\"what\": \"plan\", \"host\": {on_host}, \"device\": {on_device}}}");
    let index = step("build", shards.rows, || Ok(builder.build(&shards)?))?;
    let vector_bytes = index.stats().vector_bytes;
    step("quantize", shards.rows, || Ok(index.quantize(code.parse()?)?))?;
    index.drop_vectors()?;
    let stats = index.stats();
    let share = stats.code_bytes as f64 / vector_bytes as f64;
    println!(
        "{{\"what\": \"bytes\", \"vectors\": {vector_bytes}, \"codes\": {}, \"graph\": {}, \"codes_of_vectors\": {share:.4}}}",
        stats.code_bytes, stats.graph_bytes
    );
    let truth = step("truth", shards.rows, || shards.nearest(queries.slice(0..JUDGED)))?;
    let index = step("to device", shards.rows, || Ok(index.to_device(device)?))?;
    for beam_width in [16, 32, 64, 128, 256] {
        let params = SearchParams::new(K).beam_width(beam_width);
        measure_search("search", &index, queries, params, &truth)?;
    }
    Ok(())
}

/// Rows of a made set, of which each shard is a stream of its own.
struct Shards {
    set: Clusters,
    rows: usize,
    dimension: usize,
}

impl Shards {
    /// The true neighbors of some queries among all rows.
    fn nearest(&self, queries: MatrixView<'_, f32>) -> Result<GroundTruth, Box<dyn Error>> {
        let pool = ThreadPoolBuilder::new().build()?;
        let mut nearest: Vec<Vec<(f32, u32)>> = vec![Vec::new(); queries.len()];
        for first in (0..self.rows).step_by(BLOCK) {
            let range = first..self.rows.min(first + BLOCK);
            let mut rows = vec![0.0; range.len() * self.dimension];
            let shards = rows.par_chunks_mut(SHARD * self.dimension).enumerate();
            pool.install(|| {
                shards.try_for_each(|(shard, out)| {
                    let first = first + shard * SHARD;
                    self.read(first..first + out.len() / self.dimension, out)
                })
            })?;
            let rows = MatrixView::new(&rows, self.dimension)?;
            let found = exact_knn(rows, queries, KEPT.min(rows.len()), Metric::L2, &pool, &mut no_progress)?;
            for (query, nearest) in nearest.iter_mut().enumerate() {
                let Truth { ids, distances } = found.truth(query);
                let distances = distances.expect("exact neighbors come with their distances");
                nearest
                    .extend(distances.iter().zip(ids).map(|(&distance, &id)| (distance, id + first as u32)));
                nearest.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                nearest.truncate(KEPT);
            }
        }
        let (distances, ids) = nearest.into_iter().flatten().unzip();
        Ok(GroundTruth::new(KEPT, ids, Some(distances))?)
    }
}

impl VectorSource<f32> for Shards {
    fn len(&self) -> usize {
        self.rows
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn read(&self, range: Range<usize>, out: &mut [f32]) -> std::io::Result<()> {
        let mut written = 0;
        for shard in range.start / SHARD..range.end.div_ceil(SHARD) {
            let rows: Vec<f32> = self.set.rows(SHARD, shard as u64);
            let part = range.start.max(shard * SHARD)..range.end.min((shard + 1) * SHARD);
            let part = &rows
                [(part.start - shard * SHARD) * self.dimension..(part.end - shard * SHARD) * self.dimension];
            out[written..written + part.len()].copy_from_slice(part);
            written += part.len();
        }
        Ok(())
    }

    fn concurrent(&self) -> Option<&(dyn VectorSource<f32> + Sync)> {
        Some(self)
    }
}
