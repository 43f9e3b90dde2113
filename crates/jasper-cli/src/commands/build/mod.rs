//! `jasper build`: builds an index from a vector file.

mod plan;

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jasper::{Checkpoints, Device, Element, Index, Key, MemorySpace, Progress, Stage};
use jasper_data::{VectorFile, read_keys};
use serde::Serialize;

use super::quantize::{Quantized, quantize};
use crate::args::{GraphArgs, QuantizationChoice};
use crate::element::with_element;
use crate::interrupt::Interrupt;
use crate::terminal::Terminal;
use crate::{process, units};
use plan::Plan;

/// Build an index from a vector file
///
/// The element type is that of the file: fbin and fvecs hold f32, f16bin f16, u8bin and bvecs u8, i8bin i8, and npy
/// any of them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper build --base base.fbin --metric l2 --output vectors.jasper")]
pub struct Args {
    /// Vectors: fbin, f16bin, u8bin, i8bin, fvecs, bvecs or npy
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    #[command(flatten)]
    graph: GraphArgs,
    /// Largest batch as a share of the vertices linked before it; 0.1 makes builds on a GPU faster
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    max_batch_share: f32,
    /// Build the graph with vectors quantized to 8 bits, if they are floats: faster, above all for long vectors on a GPU
    #[arg(long)]
    quantized_linking: bool,
    /// CPU threads; 0 means one per CPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Where to build: auto, cpu, cuda or cuda:N; auto is the first CUDA device that can hold the build, or the CPU. The CPU
    /// builds the same graph on every machine
    #[arg(long, default_value_t = Device::Auto)]
    device: Device,
    /// Keys of the vectors: text with one number per line, or npy of u64 [default: their numbers]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Quantize the vectors for traversal: rabitq:BITS, mixed:SECTORS, auto or none; see `jasper quantize`
    #[arg(long, value_name = "QUANTIZATION", default_value_t = QuantizationChoice::None)]
    quantization: QuantizationChoice,
    /// Keep only the quantized codes: results have estimated distances, and the index accepts no inserts
    #[arg(long)]
    drop_vectors: bool,
    /// The index file to write
    #[arg(long, value_name = "INDEX")]
    output: PathBuf,
    /// Save the progress of the build in INDEX.checkpoint, every SECONDS (300) and on Ctrl-C; the same command resumes from
    /// there, also after a kill
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "300")]
    checkpoint: Option<u64>,
    /// Only print the memory that the build needs, by part; fails if there is not enough
    #[arg(long)]
    plan: bool,
}

/// Build statistics.
#[derive(Serialize)]
struct Report {
    vectors: usize,
    dimension: usize,
    element: &'static str,
    metric: &'static str,
    max_degree: usize,
    build_beam_width: usize,
    alpha: f32,
    seed: u64,
    threads: usize,
    /// Device of the build: cpu or cuda:N.
    device: String,
    mean_degree: f64,
    /// Vertices linked already in the checkpoint.
    resumed: usize,
    /// Vectors that share the vertex of an identical one.
    identical: usize,
    /// Unreachable vertices that were given an edge.
    reconnected: usize,
    hops: u64,
    distances: u64,
    prune_distances: u64,
    /// Time of the build without saving.
    seconds: f64,
    vectors_per_second: f64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    quantized: Option<Quantized>,
    /// Why the requested quantization failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_quantized: Option<String>,
    save_seconds: f64,
    /// Bytes of the index file.
    bytes: u64,
    estimated_bytes: u64,
    estimated_device_bytes: u64,
    peak_bytes: Option<u64>,
    output: PathBuf,
}

impl Args {
    /// Builds and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        self.device.find()?;
        let rows = VectorFile::open(&self.base)?;
        let keys = self.keys.as_ref().map(read_keys).transpose()?;
        with_element!(rows.element(), T => self.build::<T>(&rows, keys.as_deref(), terminal))
    }

    fn build<T: Element>(self, rows: &VectorFile, keys: Option<&[Key]>, terminal: Terminal) -> Result<()> {
        ensure!(
            self.quantization != QuantizationChoice::None || !self.drop_vectors,
            "--drop-vectors needs quantized codes; choose some with --quantization"
        );
        let mut builder = self.graph.builder().threads(self.threads).device(self.device);
        builder = builder.max_batch_share(self.max_batch_share);
        if self.quantized_linking {
            builder = builder.quantized_linking();
        }
        if let Some(keys) = keys {
            builder = builder.keys(keys);
        }
        let planned = match self.quantization {
            QuantizationChoice::Fixed(quantization) => builder.quantize(quantization),
            QuantizationChoice::Auto => builder.auto_quantize(),
            QuantizationChoice::None => builder,
        };
        let estimate = planned.check_memory::<T>(rows.len(), rows.dimension())?;
        if self.plan {
            return terminal.report(&Plan::new(&estimate));
        }
        let folder = self.output.parent().filter(|folder| !folder.as_os_str().is_empty());
        ensure!(
            folder.is_none_or(|folder| folder.is_dir()),
            "{}: the directory does not exist; create it first",
            self.output.display()
        );
        let checkpoint = checkpoint_of(&self.output);
        let mut interrupt = None;
        if let Some(every) = self.checkpoint {
            builder = builder.checkpoint(&checkpoint, Duration::from_secs(every));
            interrupt = Some(Interrupt::watch()?);
        }
        let is_interrupted = || interrupt.as_ref().is_some_and(Interrupt::is_set);
        let stopped = |error: anyhow::Error| match is_interrupted() && checkpoint.is_file() {
            true => error.context(format!("the same command resumes from {}", checkpoint.display())),
            false => error,
        };
        let mut show = terminal.progress();
        let mut resumed = None;
        let mut progress = |progress: Progress| {
            if progress.stage == Stage::Linking {
                resumed.get_or_insert(progress.done);
            }
            if is_interrupted() { ControlFlow::Break(()) } else { show(progress) }
        };
        let start = Instant::now();
        let built = builder.build_with::<T>(rows, &mut progress);
        let (index, report) = built.map_err(|error| stopped(error.into()))?;
        let quantized = self.quantize(&index, terminal);
        let seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let saved = index.save_with(&self.output, &mut progress).map_err(|error| stopped(error.into()))?;
        let save_seconds = start.elapsed().as_secs_f64();
        // The index is saved even if it could not be quantized.
        let (quantized, not_quantized) = match quantized {
            Ok(quantized) => (quantized, None),
            Err(error) => (None, Some(error.to_string())),
        };
        if self.checkpoint.is_some() {
            let removed = Checkpoints::new(&checkpoint, Duration::MAX).remove();
            removed.with_context(|| {
                format!("{}: cannot remove the obsolete checkpoint", checkpoint.display())
            })?;
        }
        terminal.report(&Report {
            vectors: report.keys,
            dimension: index.dimension(),
            element: T::KIND.name(),
            metric: self.graph.metric.name(),
            max_degree: index.params().max_degree(),
            build_beam_width: index.params().build_beam_width(),
            alpha: index.params().alpha(),
            seed: index.params().seed(),
            threads: process::threads(self.threads),
            device: match self.device {
                Device::Auto => Device::Cpu,
                device => device,
            }
            .to_string(),
            mean_degree: index.stats().mean_degree,
            resumed: resumed.unwrap_or(0),
            identical: report.identical,
            reconnected: report.reconnected,
            hops: report.cost.hops,
            distances: report.cost.distances,
            prune_distances: report.cost.prune_distances,
            seconds,
            vectors_per_second: report.keys as f64 / seconds,
            quantized,
            not_quantized,
            save_seconds,
            bytes: saved.bytes,
            estimated_bytes: estimate.total(MemorySpace::Host),
            estimated_device_bytes: estimate.total(MemorySpace::Device),
            peak_bytes: process::peak_bytes(),
            output: self.output,
        })
    }
}

impl Args {
    /// Quantizes the index if requested.
    fn quantize<T: Element>(&self, index: &Index<T>, terminal: Terminal) -> Result<Option<Quantized>> {
        if self.quantization == QuantizationChoice::None {
            return Ok(None);
        }
        Ok(Some(quantize(index, self.quantization, self.drop_vectors, terminal)?))
    }
}

/// Path of the checkpoint of an index.
fn checkpoint_of(output: &Path) -> PathBuf {
    let mut path = output.to_owned().into_os_string();
    path.push(".checkpoint");
    path.into()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dimension, element, metric, mean_degree, identical, .. } = self;
        let is_cpu = self.device == Device::Cpu.to_string();
        let device = if is_cpu { format!("{} threads", self.threads) } else { self.device.clone() };
        let (vectors, seconds) = (units::count(self.vectors), units::seconds(self.seconds));
        let rate = units::rate(self.vectors_per_second);
        writeln!(
            f,
            "built    {vectors} vectors of {dimension} {element}, {metric}, in {seconds} on {device}: {rate} per second"
        )?;
        if self.resumed > 0 {
            writeln!(f, "resumed  from {} linked vertices", units::count(self.resumed))?;
        }
        writeln!(
            f,
            "graph    {mean_degree:.1} edges per vertex, {} vectors identical to others",
            units::count(*identical)
        )?;
        if let Some(why) = &self.not_quantized {
            writeln!(f, "codes    none: {why}")?;
        }
        if let Some(quantized) = &self.quantized {
            writeln!(f, "{quantized}")?;
        }
        if let Some(peak) = self.peak_bytes {
            writeln!(f, "memory   {} peak", units::bytes(peak))?;
        }
        write!(f, "saved    {}, {}", self.output.display(), units::bytes(self.bytes))
    }
}
