//! `jasper groundtruth`: computes exact neighbors by brute force.

use std::path::PathBuf;

use anyhow::Result;
use jasper::{Device, Element, MatrixView, Metric, SearchParams};
use jasper_core::with_element;
use jasper_data::{GroundTruth, VectorFile, exact_knn, pool_builder};
use serde_json::json;

use crate::args::threads;
use crate::command_files::{Content, Files};
use crate::files::read_queries_as;
use crate::terminal::{Terminal, timed};
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
    /// Queries, of the same dimension
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Metric: l2, cosine or ip
    #[arg(long)]
    metric: Metric,
    /// Neighbors per query. Use more than the k of later measurements, so that ties are recognized
    #[arg(short, value_name = "K", default_value_t = 100)]
    k: usize,
    /// CPU threads, at most one per CPU, which is the default
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<usize>,
    /// Where to compute: auto, cpu, cuda or cuda:N; auto is the first CUDA device with enough memory, or the CPU
    #[arg(long, default_value_t = Device::AUTO)]
    device: Device,
    /// The file to write: ibin, with distances, or ivecs
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        Files::new().read([&self.base, &self.queries]).write([&self.output], Content::TRUTH)
    }

    /// Computes and writes the neighbors.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        self.device.resolve()?;
        SearchParams::new(self.k).check()?;
        let base = VectorFile::open(&self.base)?;
        let (nearest, seconds) = with_element!(base.element(), T => {
            let queries = read_queries_as::<T>(&self.queries, base.dimension())?;
            let (vectors, queries) = (base.map::<T>()?, MatrixView::new(&queries, base.dimension())?);
            timed(|| self.nearest(vectors.view(), queries, terminal))
        });
        let (truth, device) = nearest?;
        truth.write(&self.output)?;
        let (k, output, rate) = (self.k, self.output.display(), truth.len() as f64 / seconds);
        let json = json!({
            "queries": truth.len(),
            "k": k,
            "vectors": base.len(),
            "device": device,
            "seconds": seconds,
            "queries_per_second": rate,
            "output": output.to_string(),
        });
        let [queries, vectors] = [truth.len(), base.len()].map(units::count);
        let (took, rate) = (units::seconds(seconds), units::rate(rate));
        let text = format!(
            "found    {k} nearest of {vectors} vectors for each of {queries} queries in {took}: {rate} queries/s\n\
             saved    {output}"
        );
        terminal.report(&json, text)
    }

    /// The neighbors, and the device that computed them.
    fn nearest<T: Element>(
        &self,
        vectors: MatrixView<'_, T>,
        queries: MatrixView<'_, T>,
        terminal: Terminal,
    ) -> Result<(GroundTruth, Device)> {
        let (k, metric, progress) = (self.k, self.metric, &mut terminal.progress());
        let pool = pool_builder(self.threads).build()?;
        #[cfg(feature = "cuda")]
        {
            let ordinals = match self.device.resolve()? {
                Some(device) => device.cuda_ordinals(),
                None => jasper_cuda::DeviceProperties::list()
                    .unwrap_or_default()
                    .into_iter()
                    .map(|device| device.ordinal)
                    .collect(),
            };
            for ordinal in ordinals {
                let truth = jasper_cuda::Context::open(ordinal)
                    .map_err(jasper_cuda::DeviceKnnError::from)
                    .and_then(|context| {
                        jasper_cuda::exact_knn_on_device(
                            &context, vectors, queries, k, metric, &pool, progress,
                        )
                    });
                let can_fall_back = |error: &jasper_cuda::DeviceKnnError| match error {
                    jasper_cuda::DeviceKnnError::K(_) => true,
                    jasper_cuda::DeviceKnnError::Device(error) => error.kind.is_unavailable(),
                    _ => false,
                };
                match truth {
                    Err(error) if self.device == Device::AUTO && can_fall_back(&error) => {}
                    truth => return Ok((truth?, Device::cuda(ordinal))),
                }
            }
        }
        Ok((exact_knn(vectors, queries, k, metric, &pool, progress)?, Device::CPU))
    }
}
