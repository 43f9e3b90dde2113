//! `jasper groundtruth`: exact neighbours, by looking at everything.

use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use jasper::{Device, Element, MatrixView, Metric};
use jasper_data::{GroundTruth, ThreadPoolBuilder, VectorFile, exact_knn};
use serde::Serialize;

use crate::element::with_element;
use crate::files::read_queries;
use crate::human;
use crate::screen::Screen;

/// Find the exact neighbours of queries, to measure an index against
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  jasper groundtruth --base base.fbin --queries query.fbin --metric l2 -k 100 --output gt.ibin"
)]
pub struct Args {
    /// Vectors to search in; their row numbers are what is written
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// Vectors to search for, of the same element and dimension
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// How near two vectors are: l2, cosine or ip
    #[arg(long)]
    metric: Metric,
    /// Neighbours a query. More than will be asked of the index, so that ties are seen
    #[arg(short, value_name = "K", default_value_t = 100)]
    k: usize,
    /// Threads; 0 means one for each processor
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Where to scan: auto, cpu, cuda or cuda:N; auto is the cpu
    #[arg(long, default_value_t = Device::Auto)]
    device: Device,
    /// The file to write: ibin, with distances, or ivecs
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Serialize)]
struct Report {
    queries: usize,
    k: usize,
    rows: usize,
    device: String,
    seconds: f64,
    queries_per_second: f64,
    output: PathBuf,
}

impl Args {
    /// Scans and writes.
    pub fn run(self, screen: Screen) -> Result<()> {
        self.device.find()?;
        let base = VectorFile::open(&self.base)?;
        screen.report(&with_element!(base.element(), T => self.scan::<T>(&base, screen)?))
    }

    fn scan<T: Element>(self, base: &VectorFile, screen: Screen) -> Result<Report> {
        let queries = read_queries::<T>(&self.queries, base.dimension())?;
        let rows = base.map::<T>()?;
        let begun = Instant::now();
        let truth = self.nearest(rows.view(), queries.view(), screen)?;
        let seconds = begun.elapsed().as_secs_f64();
        truth.write(&self.output)?;
        let queries_per_second = truth.len() as f64 / seconds;
        let (queries, k, rows, device) = (truth.len(), self.k, base.len(), self.device.to_string());
        Ok(Report { queries, k, rows, device, seconds, queries_per_second, output: self.output })
    }

    fn nearest<T: Element>(
        &self,
        rows: MatrixView<'_, T>,
        queries: MatrixView<'_, T>,
        screen: Screen,
    ) -> Result<GroundTruth> {
        let (k, metric, progress) = (self.k, self.metric, &mut screen.progress());
        let pool = ThreadPoolBuilder::new().num_threads(self.threads).build()?;
        #[cfg(feature = "cuda")]
        if let Device::Cuda(ordinal) = self.device {
            let context = jasper::cuda::Context::open(ordinal)?;
            return Ok(jasper::cuda::exact_knn(&context, rows, queries, k, metric, &pool, progress)?);
        }
        Ok(exact_knn(rows, queries, k, metric, &pool, progress)?)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [queries, rows] = [self.queries, self.rows].map(human::count);
        let (took, rate) = (human::seconds(self.seconds), human::rate(self.queries_per_second));
        writeln!(
            f,
            "found    {} nearest of {rows} rows to each of {queries} queries in {took}: {rate} queries a second",
            self.k
        )?;
        write!(f, "saved    {}", self.output.display())
    }
}
