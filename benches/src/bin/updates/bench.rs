//! Timing and searching an index while it changes.

use std::error::Error;
use std::path::PathBuf;

use jasper::{Device, Element, Index, Key, MatrixView, Metric, SearchParams, VectorFile};
use jasper_core::no_progress;
use jasper_data::{GroundTruth, Rows, ThreadPool, ThreadPoolBuilder, exact_knn};
use rayon::prelude::*;

use jasper_benches::{BuildArgs, measure_search, step};

/// Results per query.
const K: usize = 10;
/// Queries whose recall is measured.
const JUDGED: usize = 1000;

/// The steps to measure.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Part {
    Changes,
    Growth,
    Sorted,
}

/// Measures updates.
#[derive(clap::Parser)]
pub struct Settings {
    pub part: Part,
    /// Where the index is: cpu or cuda:0.
    device: Device,
    /// File of the vectors.
    pub vectors: PathBuf,
    metric: Metric,
    /// File of the queries.
    pub queries: PathBuf,
    /// Beam widths of searches.
    #[arg(long, value_delimiter = ',', default_values_t = [32, 64, 128])]
    beam_widths: Vec<usize>,
    #[command(flatten)]
    build: BuildArgs,
}

/// What all steps share.
pub struct Bench<T> {
    /// Every vector, by its key.
    pub rows: Rows<T>,
    queries: Rows<T>,
    /// The command line.
    pub settings: Settings,
    pool: ThreadPool,
}

impl<T: Element> Bench<T> {
    /// Reads both files.
    pub fn new(settings: Settings, rows: &VectorFile, queries: &VectorFile) -> Result<Self, Box<dyn Error>> {
        let pool = ThreadPoolBuilder::new().build()?;
        Ok(Self { rows: rows.load()?, queries: queries.load_as()?, settings, pool })
    }

    /// Something of every row, found by all threads.
    pub fn for_each_row<R: Send>(&self, find: impl Fn(usize) -> R + Send + Sync) -> Vec<R> {
        self.pool.install(|| (0..self.rows.view().len()).into_par_iter().map(find).collect())
    }

    /// An index over the vectors of `keys`, built where it is then searched.
    pub fn fresh(&self, what: &str, keys: &[Key]) -> Result<Index, Box<dyn Error>> {
        let rows = self.gather(keys);
        let Settings { build, metric, device, .. } = self.settings;
        let builder = build.builder(metric, device).keys(keys);
        let index = step(what, keys.len(), || Ok(builder.build(self.view(&rows))?))?;
        let index = step("to device", keys.len(), || Ok(index.to_device(device)?))?;
        self.search(what, &index, keys)?;
        Ok(index)
    }

    /// The coordinates of some keys' vectors, in their order.
    pub fn gather(&self, keys: &[Key]) -> Vec<T> {
        let rows = self.rows.view();
        keys.iter().flat_map(|&key| rows.row(key as usize)).copied().collect()
    }

    /// Vectors that were gathered.
    pub fn view<'a>(&self, gathered: &'a [T]) -> MatrixView<'a, T> {
        MatrixView::new(gathered, self.rows.view().dimension()).expect("whole rows of a valid dimension")
    }

    /// Prints recall among the vectors `inside`, and queries per second from host memory and back, at each beam width.
    pub fn search(&self, what: &str, index: &Index, inside: &[Key]) -> Result<(), Box<dyn Error>> {
        let queries = self.queries.view();
        let judged = queries.slice(0..queries.len().min(JUDGED));
        let held = self.gather(inside);
        // Deeper than k, so that ties with the k-th are seen.
        let found =
            exact_knn(self.view(&held), judged, 2 * K, self.settings.metric, &self.pool, &mut no_progress)?;
        let keys = found.ids().iter().map(|&id| inside[id as usize] as u32).collect();
        let truth = GroundTruth::new(2 * K, keys, found.distances().map(<[f32]>::to_vec))?;
        for &beam_width in &self.settings.beam_widths {
            let params = SearchParams::new(K).beam_width(beam_width);
            measure_search(&format!("search {what}"), index, queries, params, &truth)?;
        }
        Ok(())
    }
}
