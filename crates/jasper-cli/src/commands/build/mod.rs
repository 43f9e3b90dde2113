//! `jasper build`: an index from a vector file.

mod plan;

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jasper::{Checkpoints, Device, Element, Index, Key, MemorySpace, Progress, Stage};
use jasper_data::{VectorFile, read_keys};
use serde::Serialize;

use super::quantize::{Choice, Coded};
use crate::element::with_element;
use crate::graph::Graph;
use crate::interrupt::Interrupt;
use crate::keep::Keep;
use crate::screen::Screen;
use crate::{human, machine};
use plan::Plan;

/// Build an index from a vector file
///
/// The element type is that of the file: fbin and fvecs hold f32, f16bin f16, u8bin and bvecs u8, i8bin i8, and npy
/// any of them. Rows are read a piece at a time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper build --base base.fbin --metric l2 --output vectors.jasper")]
pub struct Args {
    /// Vectors: fbin, f16bin, u8bin, i8bin, fvecs, bvecs or npy
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    #[command(flatten)]
    graph: Graph,
    /// Largest batch as a share of what is linked before it: 0.1 suits a cuda device that is to build fast
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    max_batch_share: f32,
    /// Link by rows rounded to bytes, where vectors are floats: for fast builds, above all of long rows on a cuda device
    #[arg(long)]
    link_quantized: bool,
    /// Threads; 0 means one for each processor
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Where to build: auto, cpu, cuda or cuda:N; auto is the cpu, whose graph is the same on every machine
    #[arg(long, default_value_t = Device::Auto)]
    device: Device,
    /// A key for each row: text of one number a line, or npy of u64; the row numbers if not given
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Codes beside the vectors, by which searches find their way: rabitq:BITS, mixed:SECTORS, auto or none; see `jasper
    /// quantize`
    #[arg(long, value_name = "CODE", default_value_t = Choice::None)]
    quantize: Choice,
    /// What becomes of the vectors when they are coded. Device and host leave the same file, and differ in what is told of a
    /// GPU's memory
    #[arg(long, value_name = "WHERE", default_value = "device", value_enum, requires = "quantize")]
    keep_vectors: Keep,
    /// The index file to write
    #[arg(long, value_name = "INDEX")]
    output: PathBuf,
    /// Write down how far the build is, in INDEX.checkpoint, every so many seconds (300) and on Ctrl-C; the same command
    /// then goes on from there, after a kill as well
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "300")]
    checkpoint: Option<u64>,
    /// Only tell what the build would take of memory, part by part; refused if there is not as much
    #[arg(long)]
    plan: bool,
}

/// What was built.
#[derive(Serialize)]
struct Report {
    points: usize,
    dimension: usize,
    element: &'static str,
    metric: &'static str,
    max_degree: usize,
    build_beam_width: usize,
    alpha: f32,
    seed: u64,
    threads: usize,
    /// Where it was built: cpu or cuda:N.
    device: String,
    mean_degree: f64,
    /// Vertices that were linked already, as the checkpoint says.
    resumed: usize,
    /// Rows that share the vertex of an identical one.
    identical: usize,
    /// Vertices that no path led to, and that were given an edge.
    reconnected: usize,
    hops: u64,
    distances: u64,
    prune_distances: u64,
    /// Reading, linking and coding; saving is apart.
    seconds: f64,
    vectors_per_second: f64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    coded: Option<Coded>,
    /// Why there are no codes, though some were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_coded: Option<String>,
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
    pub fn run(self, screen: Screen) -> Result<()> {
        self.device.find()?;
        let rows = VectorFile::open(&self.base)?;
        let keys = self.keys.as_ref().map(read_keys).transpose()?;
        with_element!(rows.element(), T => self.build::<T>(&rows, keys.as_deref(), screen))
    }

    fn build<T: Element>(self, rows: &VectorFile, keys: Option<&[Key]>, screen: Screen) -> Result<()> {
        ensure!(
            self.quantize != Choice::None || self.keep_vectors != Keep::None,
            "--keep-vectors none: without codes nothing would be left; name some with --quantize"
        );
        let mut builder = self.graph.builder().threads(self.threads).device(self.device);
        builder = builder.max_batch_share(self.max_batch_share);
        if self.link_quantized {
            builder = builder.quantized_linking();
        }
        if let Some(keys) = keys {
            builder = builder.keys(keys);
        }
        let planned = match self.quantize {
            Choice::Fixed(code) => builder.quantize(code),
            Choice::Auto => builder.auto_quantize(),
            Choice::None => builder,
        };
        let estimate = planned.check_memory::<T>(rows.len(), rows.dimension())?;
        if self.plan {
            return screen.report(&Plan::of(&estimate));
        }
        let folder = self.output.parent().filter(|folder| !folder.as_os_str().is_empty());
        ensure!(
            folder.is_none_or(|folder| folder.is_dir()),
            "{}: its folder does not exist; make it first",
            self.output.display()
        );
        let checkpoint = checkpoint_of(&self.output);
        let mut interrupt = None;
        if let Some(every) = self.checkpoint {
            builder = builder.checkpoint(&checkpoint, Duration::from_secs(every));
            interrupt = Some(Interrupt::watch()?);
        }
        let is_interrupted = || interrupt.as_ref().is_some_and(Interrupt::is_asked);
        let stopped = |error: anyhow::Error| match is_interrupted() && checkpoint.is_file() {
            true => error.context(format!("the same command goes on from {}", checkpoint.display())),
            false => error,
        };
        let mut show = screen.progress();
        let mut resumed = None;
        let mut progress = |progress: Progress| {
            if progress.stage == Stage::Linking {
                resumed.get_or_insert(progress.done);
            }
            if is_interrupted() { ControlFlow::Break(()) } else { show(progress) }
        };
        let begun = Instant::now();
        let built = builder.build_with::<T>(rows, &mut progress);
        let (mut index, report) = built.map_err(|error| stopped(error.into()))?;
        let coded = self.code(&mut index, screen);
        let seconds = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let saved = index.save_with(&self.output, &mut progress).map_err(|error| stopped(error.into()))?;
        let save_seconds = begun.elapsed().as_secs_f64();
        // The index is worth more than its codes: it is saved either way.
        let (coded, not_coded) = match coded {
            Ok(coded) => (coded, None),
            Err(error) => (None, Some(error.to_string())),
        };
        if self.checkpoint.is_some() {
            let removed = Checkpoints::new(&checkpoint, Duration::MAX).remove();
            removed.with_context(|| format!("{}: is of no more use, and stays", checkpoint.display()))?;
        }
        screen.report(&Report {
            points: report.keys,
            dimension: index.dimension(),
            element: T::KIND.name(),
            metric: self.graph.metric.name(),
            max_degree: index.params().max_degree(),
            build_beam_width: index.params().build_beam_width(),
            alpha: index.params().alpha(),
            seed: index.params().seed(),
            threads: machine::threads(self.threads),
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
            coded,
            not_coded,
            save_seconds,
            bytes: saved.bytes,
            estimated_bytes: estimate.total(MemorySpace::Host),
            estimated_device_bytes: estimate.total(MemorySpace::Device),
            peak_bytes: machine::peak_bytes(),
            output: self.output,
        })
    }
}

impl Args {
    /// Codes what was built, if that is asked for.
    fn code<T: Element>(&self, index: &mut Index<T>, screen: Screen) -> Result<Option<Coded>> {
        if self.quantize == Choice::None {
            return Ok(None);
        }
        Ok(Some(self.quantize.code(index, self.keep_vectors, screen)?))
    }
}

/// Where the checkpoint of an index lies.
fn checkpoint_of(output: &Path) -> PathBuf {
    let mut path = output.to_owned().into_os_string();
    path.push(".checkpoint");
    path.into()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dimension, element, metric, mean_degree, identical, .. } = self;
        let is_cpu = self.device == Device::Cpu.to_string();
        let place = if is_cpu { format!("{} threads", self.threads) } else { self.device.clone() };
        let (points, seconds) = (human::count(self.points), human::seconds(self.seconds));
        let rate = human::rate(self.vectors_per_second);
        writeln!(
            f,
            "built    {points} vectors of {dimension} {element}, {metric}, in {seconds} on {place}: {rate} a second"
        )?;
        if self.resumed > 0 {
            writeln!(f, "resumed  at {} vertices, where the checkpoint was", human::count(self.resumed))?;
        }
        writeln!(
            f,
            "graph    {mean_degree:.1} edges a vertex, {} of the rows identical to others",
            human::count(*identical)
        )?;
        if let Some(why) = &self.not_coded {
            writeln!(f, "codes    none: {why}")?;
        }
        if let Some(coded) = &self.coded {
            writeln!(f, "{coded}")?;
        }
        if let Some(peak) = self.peak_bytes {
            writeln!(f, "memory   {} at the peak", human::bytes(peak))?;
        }
        write!(f, "saved    {}, {}", self.output.display(), human::bytes(self.bytes))
    }
}
