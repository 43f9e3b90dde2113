//! Measures indexes of default parameters on many distributions, those of benchmarks and those that indexes have failed
//! on. Prints a table, and adds one line of JSON per measurement to a file.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin distributions -- heavy-tails sorted --rows 50000
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | [`sets`] | the distributions |
//! | [`draw`] | their random numbers |
//! | [`set`] | vectors with queries: made, read, written; recall |
//! | [`measure`] | builds and searches |

#![forbid(unsafe_code)]

mod draw;
mod measure;
mod set;
mod sets;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use jasper::{DeviceChoice, Element, ElementKind, f16};
use serde_json::Value;

use set::{Bench, Set, Stored};
use sets::{Distribution, SETS};

/// Measures indexes of default parameters on many distributions.
#[derive(clap::Parser)]
struct Options {
    /// The sets to measure; all by default.
    names: Vec<String>,
    /// Rows of a set, at most.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    rows: usize,
    /// Where indexes are: cpu or cuda:0.
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    /// Write the sets to folders, as benches/peers/files.py describes them, and measure nothing.
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Measure the sets that are folders of this one, too.
    #[arg(long, value_name = "FOLDER")]
    real: Option<PathBuf>,
    /// File to which lines of JSON are added.
    #[arg(long, value_name = "FILE", default_value = "local/distributions.jsonl")]
    output: PathBuf,
}

/// What to do with each set.
struct Run {
    bench: Bench,
    options: Options,
    output: File,
}

/// Where a set comes from.
enum Source {
    Made(&'static Distribution),
    Read(Stored),
}

fn main() -> Result<()> {
    let options: Options = clap::Parser::parse();
    let sources = sources(&options)?;
    if let Some(folder) = options.output.parent() {
        fs::create_dir_all(folder)?;
    }
    let output = OpenOptions::new().create(true).append(true).open(&options.output)?;
    let mut run = Run { bench: Bench::new(options.device, options.rows)?, options, output };
    println!("{}", HEAD);
    let mut failed = Vec::new();
    for (name, source) in sources {
        let element = match &source {
            Source::Made(distribution) => distribution.element,
            Source::Read(stored) => stored.element,
        };
        let done = match element {
            ElementKind::F32 => run.set::<f32>(&source),
            ElementKind::F16 => run.set::<f16>(&source),
            ElementKind::U8 => run.set::<u8>(&source),
            ElementKind::I8 => run.set::<i8>(&source),
        };
        // A set that fails does not prevent the others.
        if let Err(error) = done {
            eprintln!("{name}: {error:#}");
            failed.push(name);
        }
    }
    ensure!(failed.is_empty(), "not measured to the end: {}", failed.join(", "));
    Ok(())
}

/// The named sets, or all.
fn sources(options: &Options) -> Result<Vec<(String, Source)>> {
    let mut sources: Vec<(String, Source)> =
        SETS.iter().map(|distribution| (distribution.name.into(), Source::Made(distribution))).collect();
    for entry in options.real.iter().flat_map(fs::read_dir).flatten() {
        let folder = entry?.path();
        if folder.join("meta.json").exists() {
            let stored = Stored::open(&folder).with_context(|| folder.display().to_string())?;
            sources.push((stored.name.clone(), Source::Read(stored)));
        }
    }
    if let Some(unknown) = options.names.iter().find(|&name| sources.iter().all(|(known, _)| known != name)) {
        let known: Vec<&str> = sources.iter().map(|(name, _)| &name[..]).collect();
        bail!("there is no set {unknown}; known are {}", known.join(", "));
    }
    sources.retain(|(name, _)| options.names.is_empty() || options.names.contains(name));
    Ok(sources)
}

impl Run {
    fn set<T: Element>(&mut self, source: &Source) -> Result<()> {
        let set: Set<T> = match source {
            Source::Made(distribution) => self.bench.make(distribution),
            Source::Read(stored) => self.bench.read(stored)?,
        };
        if let Some(folder) = &self.options.write {
            return self.write(&set, &folder.join(&set.name));
        }
        let (_index, line) = measure::measure(&self.bench, &set)?;
        println!("{}", row(&line));
        self.report(&line)
    }

    fn write<T: Element>(&self, set: &Set<T>, folder: &Path) -> Result<()> {
        set.write(folder, &self.bench.truth(set)?)?;
        println!("{}: {} rows", folder.display(), set.keys.len());
        Ok(())
    }

    fn report(&mut self, line: &Value) -> Result<()> {
        Ok(writeln!(self.output, "{line}")?)
    }
}

const HEAD: &str = "set                   rows   dim   build s  degree  thin  recall@10 at 32, 64, 128, 256, 512        queries/s at 0.95, 0.98, 0.99";

/// A set as a row of the table.
fn row(line: &Value) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let points = line["points"].as_array().into_iter().flatten();
    let recalls: String = points
        .filter(|point| number(&point[0]) >= 32.0)
        .map(|point| format!(" {:.4}", number(&point[1])))
        .collect();
    let rates = line["rates"].as_array().into_iter().flatten().map(|rate| match rate[1].as_f64() {
        Some(value) => format!(" {:>9}", format!("{}{value}", if rate[2] == true { ">" } else { "" })),
        None => format!(" {:>9}", "-"),
    });
    format!(
        "{:<20}{:>8} {:>5} {:>8.2} {:>7.1} {:>5.2} {recalls} {}",
        line["set"].as_str().unwrap_or_default(),
        line["rows"].to_string(),
        line["dimension"].to_string(),
        number(&line["build_seconds"]),
        number(&line["mean_degree"]),
        number(&line["thin"]),
        rates.collect::<String>()
    )
}
