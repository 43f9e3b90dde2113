//! `jasper search`: the nearest keys to every query of a file.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, anyhow};
use jasper::tune::Goal;
use jasper::{
    Element, Filter, Hit, IndexInfo, Key, Matches, NO_KEY, SearchError, SearchParams, SearchReport,
};
use jasper_data::{GroundTruth, read_keys};
use serde::Serialize;

use crate::distances::By;
use crate::element::with_element;
use crate::files::read_queries;
use crate::human;
use crate::keep::vectors_on;
use crate::place::Place;
use crate::screen::Screen;
use crate::tuned::params;

/// Find the nearest keys to every query of a file
///
/// Answers go to a file, or as one JSON object a query to standard output.
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
    /// Answers a query
    #[arg(short, value_name = "K", default_value_t = 10)]
    k: usize,
    /// Frontier of the searches: recall against time. At least k; if not given 64, or 2 k where that is more and
    /// the device has room for it
    #[arg(long, value_name = "L")]
    beam_width: Option<usize>,
    /// The search that `jasper tune` found for this recall, in the place of a beam width
    #[arg(long, value_name = "R", conflicts_with = "beam_width")]
    recall: Option<f64>,
    /// Answer with keys of this file only: text of one number a line, or npy of u64
    #[arg(long, value_name = "FILE")]
    allow: Option<PathBuf>,
    #[command(flatten)]
    by: By,
    #[command(flatten)]
    place: Place,
    /// Write keys, as 32 bits each, and distances: ibin, or ivecs without distances. A place without an answer holds
    /// 4294967295
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The answers to one query.
#[derive(Serialize)]
struct Answers {
    query: usize,
    keys: Vec<Key>,
    distances: Vec<f32>,
}

/// What a search into a file was.
#[derive(Serialize)]
struct Report {
    queries: usize,
    k: usize,
    beam_width: usize,
    /// Where it ran: cpu or cuda:N.
    device: String,
    /// Bytes that the index takes there, and where its vectors are, if it is a GPU.
    device_bytes: u64,
    vectors: Option<String>,
    seconds: f64,
    queries_per_second: f64,
    mean_hops: f64,
    mean_distances: f64,
    /// Queries answered by an exact scan, because few keys are allowed.
    scanned: usize,
    output: PathBuf,
}

impl Args {
    /// Searches and writes.
    pub fn run(self, screen: Screen) -> Result<()> {
        self.place.check()?;
        let k = self.k;
        let beam_width = self.beam_width.unwrap_or(SearchParams::new(k).beam_width);
        if k == 0 {
            return Err(SearchError::NoAnswers.into());
        }
        if beam_width < k {
            return Err(SearchError::BeamWidth { beam_width, k }.into());
        }
        let info = IndexInfo::read(&self.index)?;
        with_element!(info.element, T => self.search::<T>(beam_width, screen))
    }

    fn search<T: Element>(self, beam_width: usize, screen: Screen) -> Result<()> {
        let allowed: Option<HashSet<Key>> =
            self.allow.map(read_keys).transpose()?.map(|keys| keys.into_iter().collect());
        let is_allowed = |key| allowed.as_ref().is_none_or(|keys| keys.contains(&key));

        let index = self.place.open::<T>(&self.index, self.by, screen)?;
        let queries = read_queries::<T>(&self.queries, index.dimension())?;
        let queries = queries.view();
        let params = match self.recall {
            Some(recall) => params(&index, &self.index, Goal { k: self.k, recall }, queries.len())?,
            None => SearchParams::new(self.k).beam_width(beam_width),
        };
        let params = params.distances(self.by.distances());
        let params = if allowed.is_some() { params.filter(Filter::Predicate(&is_allowed)) } else { params };
        let (mut keys, mut distances) = Matches::new(queries.len(), params.k)?.into_arrays();
        let begun = Instant::now();
        let SearchReport { cost, scanned, .. } =
            index.search_batch_into(queries, params, &mut keys, &mut distances)?;
        let seconds = begun.elapsed().as_secs_f64();
        let hits = keys.into_iter().zip(distances).map(|(key, distance)| Hit { key, distance });
        let hits: Vec<Hit> = hits.collect();

        let Some(output) = self.output else { return print(&hits, params.k, screen) };
        as_truth(&hits, params.k)?.write(&output)?;
        let count = queries.len() as f64;
        screen.report(&Report {
            queries: queries.len(),
            k: params.k,
            beam_width: params.beam_width,
            device: index.device().to_string(),
            device_bytes: index.device_bytes(),
            vectors: vectors_on(&index).map(|place| place.to_string()),
            seconds,
            queries_per_second: count / seconds,
            mean_hops: cost.hops as f64 / count,
            mean_distances: cost.distances as f64 / count,
            scanned,
            output,
        })
    }
}

fn print(hits: &[Hit], k: usize, screen: Screen) -> Result<()> {
    for (query, hits) in hits.chunks_exact(k).enumerate() {
        let found = || hits.iter().filter(|hit| **hit != Hit::NONE);
        let (keys, distances) =
            (found().map(|hit| hit.key).collect(), found().map(|hit| hit.distance).collect());
        screen.object(&Answers { query, keys, distances })?;
    }
    Ok(())
}

/// The answers in the form of ground truth, which has 32 bits for a key.
fn as_truth(hits: &[Hit], k: usize) -> Result<GroundTruth> {
    let narrow = |hit: &Hit| match hit.key {
        NO_KEY => Ok(u32::MAX),
        key => u32::try_from(key).ok().filter(|&key| key < u32::MAX).ok_or_else(|| {
            anyhow!("key {key} does not fit the 32 bits of such a file; leave out --output to get JSON")
        }),
    };
    let keys = hits.iter().map(narrow).collect::<Result<_>>()?;
    Ok(GroundTruth::new(k, keys, Some(hits.iter().map(|hit| hit.distance).collect()))?)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { k, mean_hops, mean_distances, .. } = self;
        let (queries, took) = (human::count(self.queries), human::seconds(self.seconds));
        let rate = human::rate(self.queries_per_second);
        writeln!(f, "found    {k} nearest of each of {queries} queries in {took}: {rate} queries a second")?;
        writeln!(f, "on       {}, with a beam width of {}", self.device, self.beam_width)?;
        if let Some(vectors) = &self.vectors {
            let bytes = human::bytes(self.device_bytes);
            writeln!(f, "memory   {bytes} of the device, with vectors on the {vectors}")?;
        }
        writeln!(f, "work     {mean_hops:.1} hops and {mean_distances:.1} distances a query")?;
        write!(f, "saved    {}", self.output.display())
    }
}
