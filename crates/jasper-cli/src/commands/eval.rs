//! `jasper eval`: measures recall and speed at several beam widths.

use std::path::PathBuf;

use anyhow::Result;
use jasper::tune::Goal;
use jasper::{
    Device, Element, Index, IndexInfo, Key, MatrixView, SearchError, SearchParams, bench::DevicePeaks,
    bench::Profile,
};
use jasper_data::GroundTruth;

use crate::args::{DeviceArgs, DistanceArgs};
use crate::curve::{self, Point};
use crate::element::with_element;
use crate::files::{read_queries, read_truth};
use crate::plot::{Plot, recall_chart, roofline};
use crate::profile::Report;
use crate::terminal::Terminal;
use crate::tuned::params;
use crate::units;

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
    /// Queries: a vector file of the index's element
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// True neighbors of the queries: ibin or ivecs, as written by `jasper groundtruth`
    #[arg(long, value_name = "FILE")]
    truth: PathBuf,
    /// Results per query
    #[arg(short, value_name = "K", default_value_t = 10)]
    k: usize,
    /// Beam widths to measure; each at least k
    #[arg(long, value_name = "L,..", value_delimiter = ',', default_values_t = [16, 32, 64, 128])]
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
    /// Measures and shows.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        self.device.check()?;
        let k = self.k;
        if k == 0 {
            return Err(SearchError::NoAnswers.into());
        }
        if let Some(&beam_width) = self.beam_widths.iter().find(|&&width| width < k && self.recall.is_empty())
        {
            return Err(SearchError::BeamWidth { beam_width, k }.into());
        }
        let info = IndexInfo::read(&self.index)?;
        with_element!(info.element, T => self.eval::<T>(terminal))
    }

    fn eval<T: Element>(self, terminal: Terminal) -> Result<()> {
        let index = self.device.open::<T>(&self.index, self.distances, terminal)?;
        let queries = read_queries::<T>(&self.queries, index.dimension())?;
        let queries = queries.view();
        let truth = read_truth(&self.truth, queries.len(), self.k)?;
        let peaks = if self.profile { jasper::bench::device_peaks(&index)? } else { None };
        if self.roofline.is_some() && peaks.is_none() {
            anyhow::bail!(
                "--roofline needs a GPU: on a CPU the caches make a roofline of memory meaningless"
            );
        }
        if self.profile && index.stats().quantization.is_some() && !self.distances.is_exact() {
            anyhow::bail!(
                "--profile needs exact distances, and this index is quantized; add --exact, or omit --profile"
            );
        }
        let searches = self.searches(&index, queries.len())?;
        let (mut points, mut profiles) = (Vec::new(), Vec::new());
        for &params in &searches {
            let params = params.distances(self.distances.distances());
            let (point, profile) = measure(&index, queries, &truth, params, self.profile)?;
            if points.is_empty() {
                terminal.say(Point::header(self.k))?;
            }
            terminal.report(&point)?;
            profiles.extend(profile.map(|profile| (point.beam_width, profile)));
            points.push(point);
        }
        if self.profile {
            for (beam_width, profile) in &profiles {
                terminal.report(&Report::new(*beam_width, profile, peaks))?;
            }
        }
        self.draw(&index, queries.len(), &points, peaks.map(|peaks| (peaks, &profiles[..])), terminal)
    }

    /// The searches to measure.
    fn searches<T: Element>(&self, index: &Index<T>, queries: usize) -> Result<Vec<SearchParams<'static>>> {
        let (k, path) = (self.k, &self.index);
        if self.recall.is_empty() {
            return Ok(self
                .beam_widths
                .iter()
                .map(|&width| SearchParams::new(k).beam_width(width))
                .collect());
        }
        self.recall.iter().map(|&recall| params(index, path, Goal { k, recall }, queries)).collect()
    }

    fn draw<T: Element>(
        &self,
        index: &Index<T>,
        queries: usize,
        points: &[Point],
        profiled: Option<(DevicePeaks, &[(usize, Profile)])>,
        terminal: Terminal,
    ) -> Result<()> {
        let (keys, dimension) = (units::count(index.len()), index.dimension());
        let name = self.index.file_stem().unwrap_or_default().display();
        let title =
            format!("{name}: {keys} vectors, {dimension} dimensions of {}, {}", T::KIND, index.metric());
        let subtitle = curve::conditions(queries, &self.device.describe(index));
        let charts = [
            self.plot.as_ref().map(|path| (path, recall_chart(points, None))),
            self.roofline
                .as_ref()
                .zip(profiled)
                .map(|(path, (peaks, profiles))| (path, roofline(profiles, peaks))),
        ];
        for (path, chart) in charts.into_iter().flatten() {
            Plot { title: title.clone(), subtitle: subtitle.clone(), chart }.save(path)?;
            terminal.say(format_args!("plot       {}", path.display()))?;
        }
        Ok(())
    }
}

/// Recall and speed, and the profile if requested.
fn measure<T: Element>(
    index: &Index<T>,
    queries: MatrixView<'_, T>,
    truth: &GroundTruth,
    params: SearchParams<'_>,
    profiled: bool,
) -> Result<(Point, Option<Profile>)> {
    let search =
        |keys: &mut [Key], distances: &mut [f32]| index.search_batch_into(queries, params, keys, distances);
    let mut point = curve::measure(queries.len(), params, |query| truth.truth(query), search)?;
    let profile = profiled.then(|| jasper::bench::profile(index, queries, params)).transpose()?;
    // On a GPU, profiles are timed by events on the device.
    let resident = match &profile {
        Some(profile) => Some(profile.time).filter(|_| index.device() != Device::Cpu),
        None => jasper::bench::device_time(index, queries, params)?,
    };
    point.resident_queries_per_second = resident.map(|time| queries.len() as f64 / time.as_secs_f64());
    Ok((point, profile))
}
