//! `jasper build`: builds an index from a vector file.

use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use jasper::attributes::Frame;
use jasper::{Device, IndexBuilder, Key, MemoryPlan, MemorySpace, Progress, Stage, StoredIndex};
use jasper_data::{VectorFile, read_keys};
use serde_json::json;

use super::quantize::quantize;
use crate::args::{ColumnArgs, GraphArgs, QuantizationChoice, threads};
use crate::command_files::{Content, Files, check_writable};
use crate::files::{name_attributes, name_input};
use crate::terminal::{Terminal, merge, timed};
use crate::{interrupt, process, units};

/// Build an index from a vector file
///
/// The element type is that of the file: fbin and fvecs hold f32, f16bin f16, u8bin and bvecs u8, i8bin i8, and npy any
/// of them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper build --base base.fbin --metric l2 --output vectors.jasper")]
pub struct Args {
    /// Vectors: fbin, f16bin, u8bin, i8bin, fvecs, bvecs or npy
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    #[command(flatten)]
    graph: GraphArgs,
    /// Largest batch as a share of the vertices linked before it, and at most 200,000 vertices; 0.1 makes builds
    /// on a GPU faster
    #[arg(long, value_name = "SHARE", default_value_t = 0.04)]
    max_batch_share: f32,
    /// CPU threads, at most one per CPU, which is the default
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<usize>,
    /// Where to build: auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all; auto is the first CUDA device that can hold the
    /// build, or the CPU. The CPU builds the same graph on every machine
    #[arg(long, default_value_t = Device::AUTO)]
    device: Device,
    /// Have several GPUs build a part of the index each, instead of the first all of it. The index is then the folder
    /// INDEX
    #[arg(long)]
    sharded: bool,
    /// Number of shards, at most 256, on however many GPUs [default: with --sharded, one per GPU]
    #[arg(long, value_name = "N")]
    shards: Option<usize>,
    /// Keys of the vectors: text with one number per line, or npy of u64 [default: their numbers]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Attributes of the vectors, to filter searches by: a JSON object per line for each vector, in their order;
    /// compressed if the name ends in .gz
    #[arg(long, value_name = "FILE")]
    attributes: Option<PathBuf>,
    #[command(flatten)]
    columns: ColumnArgs,
    /// Leave out zero vectors, which have no cosine distance; by default the build fails if there is one
    #[arg(long)]
    skip_zero_vectors: bool,
    /// Quantize the vectors for traversal: rabitq:BITS, mixed:SECTORS, auto or none; see `jasper quantize`
    #[arg(long, value_name = "QUANTIZATION", default_value_t = QuantizationChoice::None)]
    quantization: QuantizationChoice,
    /// Keep only the quantized codes: results have estimated distances, and the index accepts no inserts
    #[arg(long)]
    drop_vectors: bool,
    /// The index file to write
    #[arg(long, value_name = "INDEX")]
    output: PathBuf,
    /// Write a durable index, in a new folder INDEX; commands that change it then write only their change to its
    /// journal, which is on disk before they end
    #[arg(long)]
    durable: bool,
    /// Save the progress of the build in INDEX.checkpoint, every SECONDS (300) and on Ctrl-C; the same command resumes
    /// from there, also after a kill
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "300")]
    checkpoint: Option<u64>,
    /// Only print the memory that the build needs, by part; fails if there is not enough
    #[arg(long)]
    plan: bool,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        let outputs = if self.plan || self.is_folder() { None } else { Some(&self.output) };
        Files::new().read([&self.base]).read(&self.keys).read(&self.attributes).write(outputs, Content::INDEX)
    }

    /// Builds and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        self.device.resolve()?;
        if self.is_folder() && !self.plan {
            self.check_folder()?;
        }
        let vectors = VectorFile::open(&self.base)?;
        let keys = self.keys.as_ref().map(read_keys).transpose()?;
        let attributes = self.attributes.as_ref().map(|path| self.columns.read(path)).transpose()?;
        ensure!(
            self.quantization != QuantizationChoice::None || !self.drop_vectors,
            "--drop-vectors needs quantized codes; choose some with --quantization"
        );
        let mut builder = self.builder(keys.as_deref(), attributes.as_ref());
        let planned = builder.clone().quantize(self.quantization.mode(Device::AUTO, false));
        let (count, dimension, element) = (vectors.len(), vectors.dimension(), vectors.element());
        let estimate = planned.check_memory(element, count, dimension)?;
        let estimate = estimate.part(MemorySpace::Host, "command", COMMAND_BYTES);
        if self.plan {
            return report_plan(&estimate, terminal);
        }
        let mut checkpoint = self.output.clone().into_os_string();
        checkpoint.push(".checkpoint");
        let checkpoint = PathBuf::from(checkpoint);
        if let Some(every) = self.checkpoint {
            builder = builder.checkpoint(&checkpoint, Duration::from_secs(every));
            interrupt::poll();
        }
        let stopped = |error: anyhow::Error| {
            if interrupt::is_set() && checkpoint.is_file() {
                error.context(format!("the same command resumes from {}", checkpoint.display()))
            } else {
                error
            }
        };
        let resumed = Arc::new(OnceLock::new());
        let (linked, mut show) = (Arc::clone(&resumed), interruptible(terminal));
        let progress = move |progress: Progress| {
            if progress.stage == Stage::Linking {
                linked.get_or_init(|| progress.done);
            }
            show(progress)
        };
        let start = Instant::now();
        let builder = builder.with_progress(progress);
        let built = builder.build(&vectors);
        let named = |error| {
            name_attributes(name_input(error, &self.base, self.keys.as_deref()), self.attributes.as_deref())
        };
        let index = built.map_err(|error| stopped(named(error.into())))?;
        let report = index.stats().build.expect("it was just built");
        // The index is saved even if it cannot be quantized.
        let quantized = (self.quantization != QuantizationChoice::None)
            .then(|| quantize(&index, self.quantization, report.device, false, self.drop_vectors, terminal));
        let seconds = start.elapsed().as_secs_f64();
        let (saved, save_seconds) = timed(|| {
            let index = index.with_progress(interruptible(terminal));
            if self.durable {
                Ok(index.save_durable(&self.output)?.bytes)
            } else {
                Ok(index.save(&self.output)?.bytes)
            }
        });
        let bytes = saved.map_err(stopped)?;
        if let Err(error) = builder.remove_checkpoint() {
            let path = checkpoint.display();
            terminal.note(format_args!("{path}: the checkpoint is obsolete and cannot be removed: {error}"));
        }

        let (metric, rate) = (self.graph.metric, report.vectors as f64 / seconds);
        let (output, device, resumed) =
            (self.output.display(), report.device, resumed.get().copied().unwrap_or(0));
        let (threads, mean_degree) = (process::threads(self.threads), report.mean_degree);
        let (quantized, not_quantized) = match quantized {
            None => (None, None),
            Some(Ok(quantized)) => (Some(quantized), None),
            Some(Err(error)) => (None, Some(error.to_string())),
        };
        let json = json!({
            "dimension": dimension,
            "element": element,
            "metric": metric,
            "shards": index.stats().shards,
            "threads": threads,
            // Vertices linked already in the checkpoint.
            "resumed": resumed,
            // Time of the build without saving.
            "seconds": seconds,
            "vectors_per_second": rate,
            "save_seconds": save_seconds,
            "bytes": bytes,
            "estimated_bytes": estimate.total(MemorySpace::Host),
            "estimated_device_bytes": estimate.total(MemorySpace::Device),
            "peak_bytes": process::peak_bytes(),
            "output": output.to_string(),
        });
        let failed = not_quantized.as_ref().map(|error| json!({ "not_quantized": error }));
        let params = index.stats().params;
        // The report has the parameters that the build chose.
        let params = json!({
            "max_degree": params.max_degree(),
            "seed": params.seed(),
            "max_batch_share": params.max_batch_share(),
        });
        let json = merge(merge(&report, params), merge(json, merge(&quantized, failed)));

        let on = if device == Device::CPU { format!("{threads} threads") } else { device.to_string() };
        let (took, rate, vectors) =
            (units::seconds(seconds), units::rate(rate), units::count(report.vectors));
        let mut text = format!(
            "built    {vectors} vectors of {dimension} {element}, {metric}, in {took} on {on}: {rate} per second\n"
        );
        if resumed > 0 {
            writeln!(text, "resumed  from {} linked vertices", units::count(resumed))?;
        }
        let duplicates = units::count(report.duplicates);
        writeln!(text, "graph    {mean_degree:.1} edges per vertex, {duplicates} duplicate vectors")?;
        if report.skipped > 0 {
            writeln!(text, "skipped  {} zero vectors", units::count(report.skipped))?;
        }
        if let Some(quantized) = &quantized {
            writeln!(text, "{quantized}")?;
        }
        if let Some(error) = &not_quantized {
            writeln!(text, "codes    none: {error}")?;
        }
        if let Some(peak) = process::peak_bytes() {
            writeln!(text, "memory   {} peak", units::bytes(peak))?;
        }
        write!(text, "saved    {output}, {}", units::bytes(bytes))?;
        terminal.report(&json, text)
    }
}

impl Args {
    /// Whether the index may have several shards.
    fn is_sharded(&self) -> bool {
        self.shards.map_or(self.sharded, |shards| shards > 1)
    }

    /// Whether the index is a folder.
    fn is_folder(&self) -> bool {
        self.durable || self.is_sharded()
    }

    /// Checks that the folder can be made, or written if it exists.
    fn check_folder(&self) -> Result<()> {
        // Any new name shows whether files can be made there.
        check_writable(&if self.output.is_dir() { self.output.join("index") } else { self.output.clone() })?;
        if self.durable {
            StoredIndex::check_new_durable(&self.output)?;
        } else if !StoredIndex::is_sharded(&self.output) {
            let is_new =
                fs::read_dir(&self.output).map_or(!self.output.exists(), |mut files| files.next().is_none());
            ensure!(is_new, "{}: is not empty; name a new folder for the index", self.output.display());
        }
        Ok(())
    }

    fn builder<'a>(&self, keys: Option<&'a [Key]>, attributes: Option<&'a Frame>) -> IndexBuilder<'a> {
        let device = self.device.sharded(self.sharded);
        let builder = self.graph.builder().threads(self.threads).device(device).keep_on_host(true);
        let builder = builder.max_batch_share(self.max_batch_share).shards(self.shards);
        let builder = builder.skip_zero_vectors(self.skip_zero_vectors);
        let builder = keys.into_iter().fold(builder, IndexBuilder::keys);
        attributes.into_iter().fold(builder, IndexBuilder::attributes)
    }
}

/// Shows progress, and cancels on an interrupt.
fn interruptible(terminal: Terminal) -> impl FnMut(Progress) -> ControlFlow<()> {
    let mut show = terminal.progress();
    move |progress| if interrupt::is_set() { ControlFlow::Break(()) } else { show(progress) }
}

/// Memory of the command beside that of the library: the program, and buffers of files. Peaks of builds of 100 to 60,000
/// vectors were 4 to 8 MB above the plans of the library; two, of 784 components, 1 and 2 MB below. It is reported, and not
/// checked.
const COMMAND_BYTES: u64 = 5 << 20;

/// Reports the peak memory of a build, by part.
fn report_plan(plan: &MemoryPlan, terminal: Terminal) -> Result<()> {
    let [host, device] = [MemorySpace::Host, MemorySpace::Device].map(|space| plan.total(space));
    let parts: Vec<_> = plan.parts().iter().filter(|part| part.bytes > 0).collect();
    let mut text = String::new();
    for part in &parts {
        let (space, bytes) = (part.space.to_string(), units::bytes(part.bytes));
        writeln!(text, "{space:<6}  {:<15}  {bytes:>8}", part.name)?;
    }
    write!(text, "total    {} of host memory", units::bytes(host))?;
    if device > 0 {
        write!(text, ", {} of device memory", units::bytes(device))?;
    }
    terminal.report(&json!({ "host_bytes": host, "device_bytes": device, "parts": parts }), text)
}
