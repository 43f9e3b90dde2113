//! `jasper search`: finds the nearest keys to every query of a file.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use jasper::attributes::{Expression, Frame, Value};
use jasper::tune::Goal;
use jasper::{Filter, Index, Key, KeyFilter, Matches, NO_KEY, SearchParams, SearchReport};
use jasper_data::{GroundTruth, read_keys};
use serde::Serialize;
use serde_json::{Map, json};

use crate::args::{DeviceArgs, DistanceArgs, note_faults, storage_on_device};
use crate::command_files::{Content, Files};
use crate::files::{name_index, name_input, open_to_read, read_queries};
use crate::terminal::{Terminal, timed};
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
    /// Queries: a vector file of the index's dimension
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Results per query, at most one per vector of the index
    #[arg(short, value_name = "K", default_value_t = 10)]
    k: usize,
    /// Beam width: higher recall for more time [default: 64, or 2 k if that is larger and the device
    /// supports it]
    #[arg(long, value_name = "L")]
    beam_width: Option<usize>,
    /// Use the search that `jasper tune` found for this recall, instead of a beam width
    #[arg(long, value_name = "R", conflicts_with = "beam_width")]
    recall: Option<f64>,
    /// Return only keys of this file: text with one number per line, or npy of u64
    #[arg(long, value_name = "FILE")]
    filter: Option<PathBuf>,
    /// Return only keys whose attributes an expression is true for, such as "year >= 2020 and lang in ('en', 'de')"; with
    /// --filter, keys that both allow
    #[arg(long = "where", value_name = "EXPRESSION")]
    expression: Option<Expression>,
    /// Print the attributes of the keys, too
    #[arg(long, conflicts_with = "output")]
    attributes: bool,
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
struct QueryResults<'a> {
    query: usize,
    keys: &'a [Key],
    distances: &'a [f32],
    /// An object for each key, without what is null.
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<Vec<Map<String, serde_json::Value>>>,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        let inputs = Files::new().read([&self.index, &self.queries]).read(&self.filter);
        inputs.write(&self.output, Content::TRUTH)
    }

    /// Searches and writes.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        self.device.device.resolve()?;
        let k = self.k;
        let beam_search = beam_search(k, self.beam_width);
        beam_search.check()?;
        let goal = self.recall.map(|recall| Goal { k, recall });
        goal.map_or(Ok(()), Goal::check)?;
        let keys = self.filter.map(read_keys).transpose()?;
        let filter = OwnedFilter::new(keys, self.expression);
        let index = self.device.open(&self.index, self.distances, terminal, open_to_read)?;
        let queries = read_queries(&self.queries, &index)?;
        let count = queries.view().len();
        let params = match goal {
            Some(goal) => params(&index, &self.index, goal, count)?,
            None => beam_search,
        };
        // There are no more results, and their arrays would have room for all of them.
        let k = k.min(index.len().max(1));
        let params = params.k(k).distances(self.distances.distances());
        let params = filter.iter().fold(params, |params, filter| params.filter(filter.as_filter()));
        let (mut keys, mut distances) = Matches::new(count, k)?.into_arrays();
        let search = || index.search_batch_into(queries.view(), params, &mut keys, &mut distances);
        let (report, seconds) = timed(search);
        let named = |error| name_index(name_input(error, &self.queries, None), &self.index);
        let SearchReport { cost, scanned, .. } = report.map_err(|error| named(error.into()))?;
        note_faults(&index, terminal);

        let Some(output) = self.output else {
            let index = self.attributes.then_some(&index);
            return print(&keys, &distances, k, index, terminal);
        };
        to_ground_truth(&keys, distances, k)?.write(&output)?;
        let (output, device) = (output.display(), index.device());
        let beam_width = params.effective_beam_width().min(index.device_info().max_beam_width);
        let rate = count as f64 / seconds;
        let [hops, distances] = [cost.hops, cost.distances].map(|number| number as f64 / count as f64);
        let json = json!({
            "queries": count,
            "k": k,
            "beam_width": beam_width,
            "device": device,
            "device_bytes": index.device_info().bytes,
            "vector_storage": storage_on_device(&index),
            "seconds": seconds,
            "queries_per_second": rate,
            "mean_hops": hops,
            "mean_distances": distances,
            // Queries answered by brute force, because the filter allows few keys.
            "scanned": scanned,
            "output": output.to_string(),
        });
        let memory = storage_on_device(&index).map_or_else(String::new, |storage| {
            let bytes = units::bytes(index.device_info().bytes);
            format!("\nmemory   {bytes} of the device, vectors on the {storage}")
        });
        let text = format!(
            "found    {k} nearest of each of {} queries in {}: {} queries/s\n\
             on       {device}, with a beam width of {beam_width}{memory}\n\
             cost     {hops:.1} hops and {distances:.1} distances per query\n\
             saved    {output}",
            units::count(count),
            units::seconds(seconds),
            units::rate(rate),
        );
        terminal.report(&json, text)
    }
}

/// The search with this beam width. The default width stays open, because a device may limit it.
fn beam_search(k: usize, beam_width: Option<usize>) -> SearchParams<'static> {
    beam_width.map_or(SearchParams::new(k), |beam_width| SearchParams::new(k).beam_width(beam_width))
}

/// Which keys may be found.
enum OwnedFilter {
    Keys(KeyFilter),
    Where(Expression),
}

impl OwnedFilter {
    /// The keys that are allowed by both of these that there are.
    fn new(keys: Option<Vec<Key>>, expression: Option<Expression>) -> Option<Self> {
        Some(match (keys, expression) {
            (None, None) => return None,
            (Some(keys), None) => Self::Keys(keys.into_iter().collect()),
            (None, Some(expression)) => Self::Where(expression),
            (Some(keys), Some(expression)) => Self::Where(Expression::keys(keys).and(expression)),
        })
    }

    fn as_filter(&self) -> Filter<'_> {
        match self {
            Self::Keys(keys) => keys.into(),
            Self::Where(expression) => expression.into(),
        }
    }
}

/// Prints the `k` results of each query, with attributes if `attributes_of` is the index.
fn print(
    keys: &[Key],
    distances: &[f32],
    k: usize,
    attributes_of: Option<&Index>,
    terminal: Terminal,
) -> Result<()> {
    for (query, (keys, distances)) in keys.chunks_exact(k).zip(distances.chunks_exact(k)).enumerate() {
        let found = keys.iter().take_while(|&&key| key != NO_KEY).count();
        let (keys, distances) = (&keys[..found], &distances[..found]);
        let attributes = attributes_of.map(|index| objects(&index.attributes(keys)));
        terminal.object(&QueryResults { query, keys, distances, attributes })?;
    }
    Ok(())
}

/// An object for each row, without what is null.
fn objects(frame: &Frame) -> Vec<Map<String, serde_json::Value>> {
    let value = |row, name: &str| match frame.value(row, name) {
        Value::Null => None,
        value => Some((name.to_owned(), value.to_json())),
    };
    let object = |row| frame.columns().filter_map(|(name, _)| value(row, name)).collect();
    (0..frame.len()).map(object).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_beam_width_is_left_to_the_device() {
        assert_eq!(beam_search(600, None).beam_width, None);
        assert_eq!(beam_search(600, Some(700)).beam_width, Some(700));
    }
}
