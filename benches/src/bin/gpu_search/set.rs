//! A set of `make_sets.py`: its files, its graph, and the recall of results.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use jasper_core::recall::recall_at;
use jasper_core::{BuildParams, Element, ElementKind, Metric, ProgressFn, no_progress};
use jasper_cuda::{Context, link_on_device};
use jasper_data::{GroundTruth, Rows, VectorFile};
use jasper_graph::Graph;
use jasper_vamana::{CpuExecutor, Ingested, Linked, UpdateError, ingest, link_on_host};
use rayon::prelude::*;
use serde_json::json;

use super::bench::Deadline;

/// Vectors with queries and their true neighbors: `sift-1m.base.u8bin`, `sift-1m.query.u8bin`, `sift-1m.gt.ibin`.
pub struct Set {
    /// Its name, `sift-1m`.
    pub name: String,
    base: VectorFile,
    queries: VectorFile,
    truth: GroundTruth,
}

/// Endings of the vectors' files.
const ENDINGS: [&str; 2] = ["u8bin", "fbin"];

impl Set {
    /// Opens the files of the set `name` in `folder`.
    pub fn open(folder: &Path, name: &str) -> Result<Self> {
        let file = |part: &str, ending: &str| folder.join(format!("{name}.{part}.{ending}"));
        let Some(ending) = ENDINGS.into_iter().find(|ending| file("base", ending).exists()) else {
            bail!("{name}: no base file in {}; make it by `make_sets.py {name} FOLDER`", folder.display());
        };
        let truth = GroundTruth::read(file("gt", "ibin"))?;
        let base = VectorFile::open(file("base", ending))?;
        truth.check_ids(base.len()).context(name.to_owned())?;
        Ok(Self { name: name.into(), base, queries: VectorFile::open(file("query", ending))?, truth })
    }

    /// What its coordinates are stored as.
    pub fn element(&self) -> ElementKind {
        self.base.element()
    }

    /// How near its vectors are: inner products for text to image, squared L2 for all others.
    pub fn metric(&self) -> Metric {
        if self.name.starts_with("t2i") { Metric::InnerProduct } else { Metric::L2 }
    }

    /// The queries, those with known answers first.
    pub fn queries<T: Element>(&self) -> Result<Rows<T>> {
        Ok(self.queries.load_as()?)
    }

    /// Its graph: from its file in `cache`, or from `build`, and put there. Prints how long that
    /// took.
    pub fn graph<T: Element>(
        &self,
        cache: Option<&Path>,
        build: impl FnOnce(&Self) -> Result<Graph<T>>,
    ) -> Result<Graph<T>> {
        let file = cache.map(|folder| folder.join(format!("{}.jasper", self.name)));
        let begun = Instant::now();
        let graph = match &file {
            Some(file) if file.exists() => Graph::open(file, &mut no_progress)?,
            _ => {
                let graph = build(self)?;
                if let Some(file) = &file {
                    fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
                    graph.save(file, &mut no_progress)?;
                }
                graph
            }
        };
        let edges: usize = graph.keys().vertices().map(|slot| graph.adjacency().neighbors(slot).len()).sum();
        let line = json!({
            "what": "graph", "set": self.name, "rows": graph.keys().len(), "dimension": graph.dimension(),
            "element": T::KIND.name(), "metric": self.metric().to_string(), "max_degree": graph.params().max_degree(),
            "mean_degree": edges as f64 / graph.keys().live().max(1) as f64, "ready_seconds": begun.elapsed().as_secs_f64(),
        });
        println!("{line}");
        Ok(graph)
    }

    /// Builds the graph, on all processors or, if there is one, on a device; until time is over. Prints how long that
    /// took.
    pub fn build<T: Element>(
        &self,
        device: Option<&Context>,
        params: BuildParams,
        quantized_linking: bool,
        deadline: &Deadline,
    ) -> Result<Graph<T>> {
        let executor = CpuExecutor::new(0)?;
        let begun = Instant::now();
        let (base, metric) = (&self.base, self.metric());
        let mut progress =
            |_| if deadline.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let ingested = ingest(&executor, base, None, metric, params, &mut progress)?;
        let linked = if quantized_linking && !T::EXACT {
            let (ingested, saved) = ingested.quantize_vectors(&executor)?;
            link(device, &executor, ingested, &mut progress)?.restore_vectors(saved)
        } else {
            link(device, &executor, ingested, &mut progress)?
        };
        let (graph, report) = linked.finish();
        let seconds = begun.elapsed().as_secs_f64();
        let line = json!({
            "what": "build", "set": self.name, "device": if device.is_some() { "cuda" } else { "cpu" },
            "threads": executor.threads(), "quantized_linking": quantized_linking && !T::EXACT,
            "build_beam_width": params.build_beam_width(), "max_batch_share": params.max_batch_share(),
            "alpha": params.alpha(), "seconds": seconds, "rows_per_second": base.len() as f64 / seconds,
            "distances": report.cost.distances,
        });
        println!("{line}");
        Ok(graph)
    }

    /// Mean recall@`k` of answers that lie `k` a query, as keys; only queries whose true neighbors are known count,
    /// and those may come again and again.
    pub fn recall(&self, k: usize, keys: &[u64]) -> f64 {
        let known = self.truth.len();
        let sum: f64 = keys
            .par_chunks_exact(k)
            .take(known)
            .enumerate()
            .map(|(query, keys)| recall_at(k, keys, self.truth.truth(query)))
            .sum();
        sum / known.min(keys.len() / k).max(1) as f64
    }
}

/// Links the vertices of a build, on a device if there is one.
fn link<T: Element>(
    device: Option<&Context>,
    executor: &CpuExecutor,
    ingested: Ingested<T>,
    progress: &mut ProgressFn<'_>,
) -> Result<Linked<T>, UpdateError> {
    match device {
        None => link_on_host(executor, ingested, None, progress),
        Some(device) => link_on_device(device, executor.pool(), ingested, None, progress),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::MatrixView;
    use jasper_core::synthetic::Clusters;
    use jasper_data::{ThreadPoolBuilder, exact_knn, write_vectors};

    /// The set `tiny-1k` of some rows and queries, in files.
    fn files() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let (rows, queries): (Vec<f32>, Vec<f32>) =
            (Clusters::new(8, 1).rows(1000, 0), Clusters::new(8, 1).rows(20, 1));
        let rows = MatrixView::new(&rows, 8).unwrap();
        let queries = MatrixView::new(&queries, 8).unwrap();
        let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let truth = exact_knn(rows, queries, 20, Metric::L2, &pool, &mut no_progress).unwrap();
        write_vectors(folder.path().join("tiny-1k.base.fbin"), rows).unwrap();
        write_vectors(folder.path().join("tiny-1k.query.fbin"), queries).unwrap();
        truth.write(folder.path().join("tiny-1k.gt.ibin")).unwrap();
        folder
    }

    #[test]
    fn a_graph_is_built_once() {
        let folder = files();
        let set = Set::open(folder.path(), "tiny-1k").unwrap();
        assert_eq!((set.element(), set.metric(), set.truth.len()), (ElementKind::F32, Metric::L2, 20));
        let cache = folder.path().join("graphs");
        let build = |set: &Set| set.build::<f32>(None, BuildParams::default(), false, &Deadline::new(60.0));
        let built = set.graph(Some(&cache), build).unwrap();
        let opened = set.graph::<f32>(Some(&cache), |_| bail!("there is a file")).unwrap();
        assert_eq!(
            (built.keys().live(), opened.keys().live(), opened.params().max_degree()),
            (1000, 1000, 64)
        );
        assert!(
            set.build::<f32>(None, BuildParams::default(), false, &Deadline::new(0.0)).is_err(),
            "a build stops when time is over"
        );
        assert!(Set::open(folder.path(), "none-1k").is_err());
    }

    #[test]
    fn recall_counts_queries_that_are_known() {
        let folder = files();
        let set = Set::open(folder.path(), "tiny-1k").unwrap();
        let right: Vec<u64> =
            (0..20).flat_map(|query| &set.truth.truth(query).ids[..10]).map(|&id| id.into()).collect();
        let again: Vec<u64> = right.iter().copied().chain([u64::MAX; 10]).collect();
        assert_eq!(set.recall(10, &again), 1.0, "the 21st query is the first again, and counts no more");
        let wrong: Vec<u64> = right.iter().map(|id| id + 5000).collect();
        assert_eq!((set.recall(10, &wrong), set.recall(10, &right[..100])), (0.0, 1.0));
    }
}
