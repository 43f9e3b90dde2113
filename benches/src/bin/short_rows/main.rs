//! What limits searches over short vectors, and what may shift it.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin short_rows -- count FOLDER deep-100k     # lines, pages, hops; on a CPU
//! cargo run --release -p jasper-benches --bin short_rows -- gpu FOLDER deep-1m sift-1m # times, on a GPU
//! cargo run --release -p jasper-benches --bin short_rows -- emulate FOLDER deep-10k    # the same launches, emulated
//! ```
//!
//! Sets are those of `make_sets.py`: f32 is searched as f16. Lines of JSON go to `short_rows.jsonl` in the current
//! folder.

// An experiment, which has the process and its pool of threads to itself.
#![allow(clippy::disallowed_methods, clippy::type_complexity)]

mod count;
mod device;
mod order;
mod tables;

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use cuda_std::emulator::Emulator;
use gpu_kernels::emulated::EmulatedStream;
use jasper::data::{GroundTruth, VectorFile};
use jasper::{Device, Element, ElementKind, IndexBuilder, Metric, f16};
use jasper_cuda::{Context, Stream, copy_bandwidth, median_time};

use device::Plan;
use tables::Tables;

const BEAMS: [usize; 8] = [10, 16, 22, 32, 48, 64, 96, 128];
const TIMES: usize = 7;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [part, folder, names @ ..] = &args[..] else { bail!("give count|gpu|emulate FOLDER SET..") };
    let mut log = File::create("short_rows.jsonl")?;
    for name in names {
        let base =
            ["u8bin", "fbin"].map(|extension| Path::new(folder).join(format!("{name}.base.{extension}")));
        let base = base.iter().find(|path| path.exists()).context("no base file")?;
        let base = VectorFile::open(base)?;
        match base.element() {
            ElementKind::U8 => measure::<u8, u8>(part, folder, name, &base, &mut log)?,
            _ => measure::<f32, f16>(part, folder, name, &base, &mut log)?,
        }
    }
    Ok(())
}

/// Builds a graph of `F` and searches it as `T`.
fn measure<F: Element, T: Element>(
    part: &str,
    folder: &str,
    name: &str,
    base: &VectorFile,
    log: &mut File,
) -> Result<()> {
    let file = |rest: &str| Path::new(folder).join(format!("{name}.{rest}"));
    let truth = GroundTruth::read(file("gt.ibin"))?;
    let queries =
        VectorFile::open(file(if F::KIND == ElementKind::U8 { "query.u8bin" } else { "query.fbin" }))?;
    let queries = queries.load_as::<T>()?;
    let begun = Instant::now();
    let device = if part == "gpu" { Device::Cuda(0) } else { Device::Cpu };
    let build = |degree: usize| -> Result<Tables<T>> {
        Tables::of(&IndexBuilder::new(Metric::L2).device(device).max_degree(degree).build::<F>(base)?)
    };
    let tables = build(tables::DEGREE)?;
    let mut graphs = Vec::new();
    for degree in if part == "count" { &[][..] } else { &[32, 48, 56][..] } {
        let other = build(*degree)?;
        ensure!(other.keys == tables.keys && other.starts == tables.starts, "the same vertices");
        graphs.push((format!("built with {degree}"), other.edges));
    }
    eprintln!(
        "{name}: built in {:.1} s, mean degree {:.1}",
        begun.elapsed().as_secs_f64(),
        tables.mean_degree()
    );
    match part {
        "count" => count::run(&tables, &queries, &truth, queries.view().len())?,
        "emulate" => {
            let stream = EmulatedStream::new(Emulator::new(1));
            let timer = |work: &mut dyn FnMut() -> Result<()>| {
                let begun = Instant::now();
                work()?;
                Ok(begun.elapsed().as_secs_f64())
            };
            let plan = Plan { set: name, beams: &[10, 22], copy: 1e12, timer: &timer, log, graphs };
            device::run(&stream, plan, &tables, &queries, &truth, 64)?;
        }
        "gpu" => {
            let stream = Stream::new(&Context::open(0)?)?;
            println!("{name} on {}", stream.context().device().name);
            let timer = |work: &mut dyn FnMut() -> Result<()>| {
                Ok(median_time(&stream, TIMES, || Ok::<(), anyhow::Error>(()), work)?.as_secs_f64())
            };
            let copy = copy_bandwidth(&stream)?;
            let plan = Plan { set: name, beams: &BEAMS, copy, timer: &timer, log, graphs };
            device::run(&stream, plan, &tables, &queries, &truth, 100_000)?;
        }
        _ => bail!("{part}: count, gpu or emulate"),
    }
    eprintln!("{name}: {:.1} s in all", begun.elapsed().as_secs_f64());
    Ok(())
}
