//! `jasper search`: finds the nearest keys to every query of a file.

use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, anyhow};
use jasper::tune::Goal;
use jasper::{
    Element, Filter, IndexInfo, Key, KeyFilter, Matches, NO_KEY, SearchError, SearchParams, SearchReport,
};
use jasper_data::{GroundTruth, read_keys};
use serde::Serialize;

use crate::args::{DeviceArgs, DistanceArgs, storage_on_device};
use crate::element::with_element;
use crate::files::read_queries;
use crate::terminal::Terminal;
use crate::tuned::params;
use crate::units;

/// Find the nearest keys to every query of a file
///
/// Results are written to a file, or to standard output as one JSON object per query.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  jasper search vectors.jasper --queries query.fbin -k 10 --beam-width 64 --output answers.ibin"
)]
pub struct Args {
    /// The index file
    index: PathBuf,
    /// Queries: a vector file of the index's element
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Results per query
    #[arg(short, value_name = "K", default_value_t = 10)]
    k: usize,
    /// Beam width: higher recall for more time. At least k [default: 64, or 2 k if that is larger and the device supports
    /// it]
    #[arg(long, value_name = "L")]
    beam_width: Option<usize>,
    /// Use the search that `jasper tune` found for this recall, instead of a beam width
    #[arg(long, value_name = "R", conflicts_with = "beam_width")]
    recall: Option<f64>,
    /// Return only keys of this file: text with one number per line, or npy of u64
    #[arg(long, value_name = "FILE")]
    filter: Option<PathBuf>,
    #[command(flatten)]
    distances: DistanceArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// Write keys, 32 bits each, and distances: ibin, or ivecs without distances. Missing results are 4294967295
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The results of one query.
#[derive(Serialize)]
struct QueryResults {
    query: usize,
    keys: Vec<Key>,
    distances: Vec<f32>,
}

/// Search statistics.
#[derive(Serialize)]
struct Report {
    queries: usize,
    k: usize,
    beam_width: usize,
    /// Device of the search: cpu or cuda:N.
    device: String,
    /// Device memory of the index, and where its vectors are stored, on a GPU.
    device_bytes: u64,
    vector_storage: Option<String>,
    seconds: f64,
    queries_per_second: f64,
    mean_hops: f64,
    mean_distances: f64,
    /// Queries answered by brute force, because few keys pass the filter.
    scanned: usize,
    output: PathBuf,
}

impl Args {
    /// Searches and writes.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        self.device.check()?;
        let k = self.k;
        let beam_width = self.beam_width.unwrap_or(SearchParams::new(k).beam_width);
        if k == 0 {
            return Err(SearchError::NoAnswers.into());
        }
        if beam_width < k {
            return Err(SearchError::BeamWidth { beam_width, k }.into());
        }
        let info = IndexInfo::read(&self.index)?;
        with_element!(info.element, T => self.search::<T>(beam_width, terminal))
    }

    fn search<T: Element>(self, beam_width: usize, terminal: Terminal) -> Result<()> {
        let filter: Option<KeyFilter> =
            self.filter.map(read_keys).transpose()?.map(|keys| keys.into_iter().collect());
        let index = self.device.open::<T>(&self.index, self.distances, terminal)?;
        let queries = read_queries::<T>(&self.queries, index.dimension())?;
        let queries = queries.view();
        let params = match self.recall {
            Some(recall) => params(&index, &self.index, Goal { k: self.k, recall }, queries.len())?,
            None => SearchParams::new(self.k).beam_width(beam_width),
        };
        let params = params.distances(self.distances.distances());
        let params = filter.as_ref().map_or(params, |keys| params.filter(Filter::Keys(keys)));
        let (mut keys, mut distances) = Matches::new(queries.len(), params.k)?.into_arrays();
        let start = Instant::now();
        let SearchReport { cost, scanned, .. } =
            index.search_batch_into(queries, params, &mut keys, &mut distances)?;
        let seconds = start.elapsed().as_secs_f64();

        let Some(output) = self.output else { return print(&keys, &distances, params.k, terminal) };
        to_ground_truth(&keys, distances, params.k)?.write(&output)?;
        let count = queries.len() as f64;
        terminal.report(&Report {
            queries: queries.len(),
            k: params.k,
            beam_width: params.beam_width,
            device: index.device().to_string(),
            device_bytes: index.device_bytes(),
            vector_storage: storage_on_device(&index).map(|storage| storage.to_string()),
            seconds,
            queries_per_second: count / seconds,
            mean_hops: cost.hops as f64 / count,
            mean_distances: cost.distances as f64 / count,
            scanned,
            output,
        })
    }
}

/// Prints the `k` results of each query.
fn print(keys: &[Key], distances: &[f32], k: usize, terminal: Terminal) -> Result<()> {
    for (query, (keys, distances)) in keys.chunks_exact(k).zip(distances.chunks_exact(k)).enumerate() {
        let found = keys.iter().take_while(|&&key| key != NO_KEY).count();
        let (keys, distances) = (keys[..found].to_vec(), distances[..found].to_vec());
        terminal.object(&QueryResults { query, keys, distances })?;
    }
    Ok(())
}

/// The results as ground truth, whose keys have 32 bits.
fn to_ground_truth(keys: &[Key], distances: Vec<f32>, k: usize) -> Result<GroundTruth> {
    let narrow = |&key: &Key| match key {
        NO_KEY => Ok(u32::MAX),
        key => u32::try_from(key).ok().filter(|&key| key < u32::MAX).ok_or_else(|| {
            anyhow!("key {key} does not fit in the 32 bits of such a file; omit --output to print JSON")
        }),
    };
    Ok(GroundTruth::new(k, keys.iter().map(narrow).collect::<Result<_>>()?, Some(distances))?)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { k, mean_hops, mean_distances, .. } = self;
        let (queries, took) = (units::count(self.queries), units::seconds(self.seconds));
        let rate = units::rate(self.queries_per_second);
        writeln!(f, "found    {k} nearest of each of {queries} queries in {took}: {rate} queries/s")?;
        writeln!(f, "on       {}, with a beam width of {}", self.device, self.beam_width)?;
        if let Some(storage) = &self.vector_storage {
            let bytes = units::bytes(self.device_bytes);
            writeln!(f, "memory   {bytes} of the device, vectors on the {storage}")?;
        }
        writeln!(f, "cost     {mean_hops:.1} hops and {mean_distances:.1} distances per query")?;
        write!(f, "saved    {}", self.output.display())
    }
}
