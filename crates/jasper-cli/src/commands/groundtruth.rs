//! `jasper groundtruth`: computes exact neighbors by brute force.

use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use jasper::{Device, Element, MatrixView, Metric};
use jasper_data::{GroundTruth, ThreadPoolBuilder, VectorFile, exact_knn};
use serde::Serialize;

use crate::element::with_element;
use crate::files::read_queries;
use crate::terminal::Terminal;
use crate::units;

/// Compute the exact nearest neighbors of queries by brute force
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  jasper groundtruth --base base.fbin --queries query.fbin --metric l2 -k 100 --output gt.ibin"
)]
pub struct Args {
    /// Vectors to search; results are their row numbers
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// Queries, of the same element type and dimension
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Metric: l2, cosine or ip
    #[arg(long)]
    metric: Metric,
    /// Neighbors per query. Use more than the k of later measurements, so that ties are recognized
    #[arg(short, value_name = "K", default_value_t = 100)]
    k: usize,
    /// CPU threads; 0 means one per CPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Where to compute: auto, cpu, cuda or cuda:N; auto is the first CUDA device with enough memory, or the CPU
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
    vectors: usize,
    device: String,
    seconds: f64,
    queries_per_second: f64,
    output: PathBuf,
}

impl Args {
    /// Computes and writes the neighbors.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        self.device.find()?;
        let base = VectorFile::open(&self.base)?;
        terminal.report(&with_element!(base.element(), T => self.compute::<T>(&base, terminal)?))
    }

    fn compute<T: Element>(self, base: &VectorFile, terminal: Terminal) -> Result<Report> {
        let queries = read_queries::<T>(&self.queries, base.dimension())?;
        let vectors = base.map::<T>()?;
        let start = Instant::now();
        let (truth, device) = self.nearest(vectors.view(), queries.view(), terminal)?;
        let seconds = start.elapsed().as_secs_f64();
        truth.write(&self.output)?;
        Ok(Report {
            queries: truth.len(),
            k: self.k,
            vectors: base.len(),
            device: device.to_string(),
            seconds,
            queries_per_second: truth.len() as f64 / seconds,
            output: self.output,
        })
    }

    /// The neighbors, and the device that computed them.
    fn nearest<T: Element>(
        &self,
        vectors: MatrixView<'_, T>,
        queries: MatrixView<'_, T>,
        terminal: Terminal,
    ) -> Result<(GroundTruth, Device)> {
        let (k, metric, progress) = (self.k, self.metric, &mut terminal.progress());
        let pool = ThreadPoolBuilder::new().num_threads(self.threads).build()?;
        #[cfg(feature = "cuda")]
        {
            use jasper::cuda;
            let ordinals = match self.device {
                Device::Cpu => Vec::new(),
                Device::Cuda(ordinal) => vec![ordinal],
                Device::Auto => cuda::Device::list()
                    .unwrap_or_default()
                    .into_iter()
                    .map(|device| device.ordinal)
                    .collect(),
            };
            for ordinal in ordinals {
                let truth = cuda::Context::open(ordinal).map_err(cuda::KnnError::from).and_then(|context| {
                    cuda::exact_knn(&context, vectors, queries, k, metric, &pool, progress)
                });
                let can_fall_back = |error: &cuda::KnnError| match error {
                    cuda::KnnError::K(_) => true,
                    cuda::KnnError::Device(error) => error.is_unavailable(),
                    _ => false,
                };
                match truth {
                    Err(error) if self.device == Device::Auto && can_fall_back(&error) => {}
                    truth => return Ok((truth?, Device::Cuda(ordinal))),
                }
            }
        }
        Ok((exact_knn(vectors, queries, k, metric, &pool, progress)?, Device::Cpu))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [queries, vectors] = [self.queries, self.vectors].map(units::count);
        let (took, rate) = (units::seconds(self.seconds), units::rate(self.queries_per_second));
        writeln!(
            f,
            "found    {} nearest of {vectors} vectors for each of {queries} queries in {took}: {rate} queries/s",
            self.k
        )?;
        write!(f, "saved    {}", self.output.display())
    }
}
