//! `jasper eval`: measures recall and speed at several beam widths.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use jasper::tune::Goal;
use jasper::{Device, IndexStats, Profile, SearchParams};

use crate::args::{DeviceArgs, DistanceArgs, note_faults};
use crate::command_files::{Content, Files};
use crate::curve::{self, Point};
use crate::files::{open_to_read, read_queries, read_truth};
use crate::plot::{Plot, recall_chart, roofline};
use crate::terminal::Terminal;
use crate::tuned::params;
use crate::{profile, units};

/// Measure recall and queries per second at several beam widths
///
/// All queries form one batch. After a warm-up round, at least three rounds are timed, for at least half a second, and
/// the median is reported. On a GPU the last column is the rate for queries already in device memory.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper eval vectors.jasper --queries query.fbin --truth gt.ibin -k 10 \
    --beam-widths 16,32,64,128 --plot recall.svg")]
pub struct Args {
    /// The index file
    index: PathBuf,
    /// Queries: a vector file of the index's dimension
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// True neighbors of the queries: ibin or ivecs, as written by `jasper groundtruth`
    #[arg(long, value_name = "FILE")]
    truth: PathBuf,
    /// Results per query
    #[arg(short, value_name = "K", default_value_t = 10)]
    k: usize,
    /// Beam widths to measure [default: those of 16, 32, 64 and 128 that are at least k, else k, 2 k and 4 k]
    #[arg(long, value_name = "L,..", value_delimiter = ',')]
    beam_widths: Vec<usize>,
    /// Use the searches that `jasper tune` found for these recalls, instead of beam widths
    #[arg(long, value_name = "R,..", value_delimiter = ',', conflicts_with = "beam_widths")]
    recall: Vec<f64>,
    #[command(flatten)]
    distances: DistanceArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// Plot queries per second against recall
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Show hops, distances and bytes read per query, and the rate of these bytes, on a GPU next to that of a
    /// device-to-device copy
    #[arg(long)]
    profile: bool,
    /// Plot the roofline of the GPU and the searches under it
    #[arg(long, value_name = "FILE.svg", requires = "profile")]
    roofline: Option<PathBuf>,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        let inputs = Files::new().read([&self.index, &self.queries, &self.truth]);
        inputs.write(&self.plot, Content::Svg).write(&self.roofline, Content::Svg)
    }

    /// Measures and shows.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        self.device.device.resolve()?;
        let (k, is_tuned) = (self.k, !self.recall.is_empty());
        SearchParams::new(k).check()?;
        let widths = match &self.beam_widths[..] {
            [] if is_tuned => Vec::new(),
            [] => default_beam_widths(k),
            widths => widths.to_vec(),
        };
        let beams: Vec<_> = widths.iter().map(|&width| SearchParams::new(k).beam_width(width)).collect();
        beams.iter().try_for_each(SearchParams::check)?;
        let goals: Vec<_> = self.recall.iter().map(|&recall| Goal { k, recall }).collect();
        goals.iter().copied().try_for_each(Goal::check)?;
        let index = self.device.open(&self.index, self.distances, terminal, open_to_read)?;
        let queries = read_queries(&self.queries, &index)?;
        let (queries, count) = (queries.view(), queries.view().len());
        let truth = read_truth(&self.truth, count, k)?;
        index.warm_up()?;
        let peaks = if self.profile { profile::DevicePeaks::measure(&index)? } else { None };
        ensure!(
            self.roofline.is_none() || peaks.is_some(),
            "--roofline needs a GPU: on a CPU the caches make a roofline of memory meaningless"
        );
        ensure!(
            !self.profile || index.stats().quantization.is_none() || self.distances.is_exact(),
            "--profile needs exact distances, and this index is quantized; add --exact, or omit --profile"
        );
        let searches: Vec<SearchParams<'_>> = if is_tuned {
            let tuned = |goal| params(&index, &self.index, goal, count);
            goals.into_iter().map(tuned).collect::<Result<_>>()?
        } else {
            beams
        };
        let (mut points, mut profiles) = (Vec::new(), Vec::new());
        for params in searches {
            let params = params.distances(self.distances.distances());
            let mut point = curve::measure(&index, queries, &truth, params)?;
            let profile = self.profile.then(|| Profile::measure(&index, queries, params)).transpose()?;
            // On a GPU, profiles are timed by events on the device.
            let resident = match &profile {
                Some(profile) => Some(profile.time).filter(|_| index.device() != Device::CPU),
                None => Profile::device_time(&index, queries, params)?,
            };
            point.resident_queries_per_second = resident.map(|time| count as f64 / time.as_secs_f64());
            if points.is_empty() {
                terminal.say(Point::header(k))?;
            }
            terminal.report(&point, &point)?;
            profiles.extend(profile.map(|profile| (point.beam_width, profile)));
            points.push(point);
        }
        note_faults(&index, terminal);
        for (beam_width, profile) in &profiles {
            let (json, text) = profile::report(*beam_width, profile, peaks)?;
            terminal.report(&json, text)?;
        }
        let (keys, dimension) = (units::count(index.len()), index.dimension());
        let IndexStats { element, metric, .. } = index.stats();
        let name = self.index.file_stem().unwrap_or_default().display();
        let title = format!("{name}: {keys} vectors, {dimension} dimensions of {element}, {metric}");
        let subtitle = curve::conditions(count, &self.device.describe(&index));
        let curve = self.plot.as_ref().map(|path| (path, recall_chart(&points, None)));
        let roof = self.roofline.as_ref().zip(peaks);
        let roof = roof.map(|(path, peaks)| {
            let rates = profiles.iter().map(|(width, profile)| {
                (*width, profile.bytes_per_second(), profile.operations_per_second())
            });
            (path, roofline(&rates.collect::<Vec<_>>(), peaks.bytes_per_second, peaks.operations_per_second))
        });
        for (path, chart) in curve.into_iter().chain(roof) {
            Plot { title: title.clone(), subtitle: subtitle.clone(), chart }.save(path)?;
            terminal.say(format_args!("plot       {}", path.display()))?;
        }
        Ok(())
    }
}

/// The beam widths to measure if none are given.
fn default_beam_widths(k: usize) -> Vec<usize> {
    let widths: Vec<usize> = [16, 32, 64, 128].into_iter().filter(|&width| width >= k).collect();
    if widths.is_empty() { [1, 2, 4].map(|factor| k.saturating_mul(factor)).to_vec() } else { widths }
}
