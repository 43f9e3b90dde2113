//! `jasper eval`: recall and speed at several beam widths.

use std::path::PathBuf;

use anyhow::Result;
use jasper::tune::Goal;
use jasper::{
    Device, Element, Index, IndexInfo, Key, MatrixView, SearchError, SearchParams, bench::DevicePeaks,
    bench::Profile,
};
use jasper_data::GroundTruth;

use crate::curve::{self, Point};
use crate::distances::By;
use crate::element::with_element;
use crate::files::{read_queries, read_truth};
use crate::human;
use crate::place::Place;
use crate::plot::{Plot, recall_chart, roofline};
use crate::profile::Report;
use crate::screen::Screen;
use crate::tuned::params;

/// Measure recall and queries per second at several beam widths
///
/// All queries are asked at once: a round to warm up, then at least three rounds and half a second; the median counts.
/// On a GPU the last column is the rate of queries that lie in its memory, timed by itself: what the bus costs shows.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper eval vectors.jasper --queries query.fbin --truth gt.ibin -k 10 \
    --beam-widths 16,32,64,128 --plot recall.svg")]
pub struct Args {
    /// The index file
    index: PathBuf,
    /// Queries: a vector file of the index's element
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// True neighbours of the queries: ibin or ivecs, as `jasper groundtruth` writes
    #[arg(long, value_name = "FILE")]
    truth: PathBuf,
    /// Answers a query
    #[arg(short, value_name = "K", default_value_t = 10)]
    k: usize,
    /// Frontiers to try; each at least k
    #[arg(long, value_name = "L,..", value_delimiter = ',', default_values_t = [16, 32, 64, 128])]
    beam_widths: Vec<usize>,
    /// The searches that `jasper tune` found for these recalls, in the place of beam widths
    #[arg(long, value_name = "R,..", value_delimiter = ',', conflicts_with = "beam_widths")]
    recall: Vec<f64>,
    #[command(flatten)]
    by: By,
    #[command(flatten)]
    place: Place,
    /// Draw recall against queries per second
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Show what each query took, hops, distances and the bytes they ask for, and how fast the bytes came: on a GPU
    /// beside a copy within its memory, measured in the same run; on a processor as they are, without a claim
    #[arg(long)]
    profile: bool,
    /// Draw the roofline of the GPU and the searches under it
    #[arg(long, value_name = "FILE.svg", requires = "profile")]
    roofline: Option<PathBuf>,
}

impl Args {
    /// Measures and shows.
    pub fn run(self, screen: Screen) -> Result<()> {
        self.place.check()?;
        let k = self.k;
        if k == 0 {
            return Err(SearchError::NoAnswers.into());
        }
        if let Some(&beam_width) = self.beam_widths.iter().find(|&&width| width < k && self.recall.is_empty())
        {
            return Err(SearchError::BeamWidth { beam_width, k }.into());
        }
        let info = IndexInfo::read(&self.index)?;
        with_element!(info.element, T => self.eval::<T>(screen))
    }

    fn eval<T: Element>(self, screen: Screen) -> Result<()> {
        let index = self.place.open::<T>(&self.index, self.by, screen)?;
        let queries = read_queries::<T>(&self.queries, index.dimension())?;
        let queries = queries.view();
        let truth = read_truth(&self.truth, queries.len(), self.k)?;
        let roof = if self.profile { jasper::bench::device_peaks(&index)? } else { None };
        if self.roofline.is_some() && roof.is_none() {
            anyhow::bail!("--roofline needs a GPU: a copy in a processor's memory says little of its caches");
        }
        if self.profile && index.stats().quantization.is_some() && !self.by.is_exact() {
            anyhow::bail!(
                "--profile counts vectors, and this index is searched by its codes; add --exact, or leave it out"
            );
        }
        let searches = self.searches(&index, queries.len())?;
        let (mut points, mut profiles) = (Vec::new(), Vec::new());
        for &params in &searches {
            let params = params.distances(self.by.distances());
            let (point, profile) = measure(&index, queries, &truth, params, self.profile)?;
            if points.is_empty() {
                screen.say(Point::header(self.k))?;
            }
            screen.report(&point)?;
            profiles.extend(profile.map(|profile| (point.beam_width, profile)));
            points.push(point);
        }
        if self.profile {
            for (beam_width, profile) in &profiles {
                screen.report(&Report::new(*beam_width, profile, roof))?;
            }
        }
        self.draw(&index, queries.len(), &points, roof.map(|roof| (roof, &profiles[..])), screen)
    }

    /// The searches to try.
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
        screen: Screen,
    ) -> Result<()> {
        let (keys, dimension) = (human::count(index.len()), index.dimension());
        let name = self.index.file_stem().unwrap_or_default().display();
        let title =
            format!("{name}: {keys} vectors, {dimension} dimensions of {}, {}", T::KIND, index.metric());
        let subtitle = curve::conditions(queries, &self.place.describe(index));
        let charts = [
            self.plot.as_ref().map(|path| (path, recall_chart(points, None))),
            self.roofline
                .as_ref()
                .zip(profiled)
                .map(|(path, (roof, profiles))| (path, roofline(profiles, roof))),
        ];
        for (path, chart) in charts.into_iter().flatten() {
            Plot { title: title.clone(), subtitle: subtitle.clone(), chart }.save(path)?;
            screen.say(format_args!("plot       {}", path.display()))?;
        }
        Ok(())
    }
}

/// Recall and speed, and the profile if it is wanted.
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
    // A GPU has a clock of its own, and a profile is by that.
    let resident = match &profile {
        Some(profile) => Some(profile.time).filter(|_| index.device() != Device::Cpu),
        None => jasper::bench::device_time(index, queries, params)?,
    };
    point.resident_queries_per_second = resident.map(|time| queries.len() as f64 / time.as_secs_f64());
    Ok((point, profile))
}
