//! `jasper eval`: recall and speed at several beam widths.

use std::path::PathBuf;

use anyhow::Result;
use jasper::{Device, Element, IndexInfo, SearchError, SearchParams};

use crate::curve::{self, Point};
use crate::element::with_element;
use crate::files::{open_to_search, read_queries, read_truth};
use crate::human;
use crate::plot::Plot;
use crate::screen::Screen;

/// Measure recall and queries per second at several beam widths
///
/// All queries are asked at once: a round to warm up, then at least three rounds and half a second; the median counts.
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
    /// Threads; 0 means one for each processor
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Where to search: auto, cpu, cuda or cuda:N
    #[arg(long, default_value_t = Device::Auto)]
    device: Device,
    /// Draw recall against queries per second
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

impl Args {
    /// Measures and shows.
    pub fn run(self, screen: Screen) -> Result<()> {
        self.device.check_build()?;
        let k = self.k;
        if k == 0 {
            return Err(SearchError::NoAnswers.into());
        }
        if let Some(&beam_width) = self.beam_widths.iter().find(|&&width| width < k) {
            return Err(SearchError::BeamWidth { beam_width, k }.into());
        }
        let info = IndexInfo::read(&self.index)?;
        with_element!(info.element, T => self.eval::<T>(screen))
    }

    fn eval<T: Element>(self, screen: Screen) -> Result<()> {
        let index = open_to_search::<T>(&self.index, self.threads, screen)?;
        let queries = read_queries::<T>(&self.queries, index.dimension())?;
        let queries = queries.view();
        let truth = read_truth(&self.truth, queries.len(), self.k)?;
        screen.say(Point::header(self.k))?;
        let mut points = Vec::new();
        for &beam_width in &self.beam_widths {
            let params = SearchParams::new(self.k).beam_width(beam_width);
            let point = curve::measure(&index, queries, |query| truth.truth(query), params)?;
            screen.report(&point)?;
            points.push(point);
        }
        let Some(path) = &self.plot else { return Ok(()) };
        let (keys, dimension) = (human::count(index.len()), index.dimension());
        let name = self.index.file_stem().unwrap_or_default().display();
        let plot = Plot {
            title: format!(
                "{name}: {keys} vectors, {dimension} dimensions of {}, {}",
                T::KIND,
                index.metric()
            ),
            subtitle: curve::conditions(queries.len(), self.threads),
            points: &points,
            exact: None,
        };
        plot.save(path)?;
        screen.say(format_args!("plot       {}", path.display()))
    }
}
