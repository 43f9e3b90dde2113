//! Several GPUs against one: queries per second of replicas and shards, and the time of a sharded build.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use jasper::{Device, Element, Index, IndexBuilder, Matches, MatrixView, SearchParams};
use jasper_benches::Stages;
use serde_json::json;

use super::latency::least_width;
use super::measure::{MAX_QUERIES, rounded};
use super::set::Set;

/// Results per query.
const K: usize = 10;
/// The recall for which beam widths are chosen.
const RECALL: f64 = 0.95;
/// Queries with which they are chosen.
const RECALL_QUERIES: usize = 10_000;
/// Queries per call.
const BATCHES: [usize; 3] = [1_000, 20_000, 100_000];
/// Timed calls of a batch, whose median counts.
const TIMED: usize = 20;
/// Builds, of which the fastest counts: the first compiles kernels.
const BUILDS: usize = 2;

/// Measures a set on one device and on all, and prints a line per build and per batch.
pub fn run<T: Element>(set: &Set, builder: IndexBuilder<'_>) -> Result<()> {
    let devices = Device::ALL_CUDA.resolve()?.map_or(0, |all| all.cuda_ordinals().len());
    ensure!(devices > 1, "several devices are needed, and there is one");
    let (vectors, loaded) = (set.vectors::<T>()?, set.queries::<T>()?);
    let rows = (0..MAX_QUERIES).flat_map(|i| loaded.view().row(i % loaded.view().len()));
    let queries: Vec<T> = rows.copied().collect();
    let queries = MatrixView::new(&queries, loaded.view().dimension())?;
    let all = Device::ALL_CUDA;
    let build = |what: &str, builder: IndexBuilder<'_>| -> Result<Index> {
        let (mut fastest, mut built) = (f64::INFINITY, None);
        for _ in 0..BUILDS {
            drop(built.take());
            let stages = Stages::begin();
            let begun = Instant::now();
            built = Some(builder.clone().with_progress(stages.note()).build(&vectors)?);
            fastest = fastest.min(begun.elapsed().as_secs_f64());
            stages.report(what, vectors.view().len());
        }
        let line = json!({"what": "devices build", "set": set.name, "element": T::KIND.name(), "spread": what,
            "seconds": rounded(fastest, 3)});
        println!("{line}");
        built.context("it was built")
    };
    let one = build("one", builder.clone().device(Device::cuda(0)))?.to_device(Device::cuda(0))?;
    measure(set, "one", &one, queries)?;
    let replicated = one.to_device(all)?;
    measure(set, "replicated", &replicated, queries)?;
    drop(replicated);
    let sharded = build("sharded", builder.device(all.sharded(true)))?.to_device(all)?;
    measure(set, "sharded", &sharded, queries)
}

/// Measures batches from host memory and back, at the least beam width that reaches the recall.
fn measure<T: Element>(set: &Set, spread: &str, index: &Index, queries: MatrixView<'_, T>) -> Result<()> {
    let params = |beam_width| SearchParams::new(K).beam_width(beam_width);
    let recall = |beam_width| {
        let matches = index.search_batch(queries.slice(0..RECALL_QUERIES), params(beam_width))?;
        Ok::<f64, anyhow::Error>(set.recall(K, matches.keys()))
    };
    let (beam_width, recall) = least_width(K, RECALL, recall)?.context("no beam reaches the recall")?;
    for count in BATCHES {
        let (mut keys, mut distances) = Matches::new(count, K)?.into_arrays();
        let mut seconds = Vec::with_capacity(TIMED);
        // The first call allocates, and does not count.
        for _ in 0..=TIMED {
            let begun = Instant::now();
            let batch = queries.slice(0..count);
            index.search_batch_into(batch, params(beam_width), &mut keys, &mut distances)?;
            seconds.push(begun.elapsed().as_secs_f64());
        }
        seconds.remove(0);
        seconds.sort_unstable_by(f64::total_cmp);
        let line = json!({
            "what": "devices", "set": set.name, "element": T::KIND.name(), "spread": spread,
            "device": index.device().to_string(), "shards": index.stats().shards, "queries": count, "k": K,
            "beam_width": beam_width, "recall": rounded(recall, 5),
            "queries_per_second": rounded(count as f64 / seconds[TIMED / 2], 0),
            "device_faults": index.device_info().faults.len(),
        });
        println!("{line}");
    }
    Ok(())
}
