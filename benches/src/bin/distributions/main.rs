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
//! | [`changes`] | deletes and inserts |
//! | [`table`] | what is printed |

#![forbid(unsafe_code)]

mod changes;
mod draw;
mod measure;
mod set;
mod sets;
mod table;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use jasper::Device;

use set::{Bench, Set};
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
    device: Device,
    /// Measure recall after changes, too, beside that of an index built from the remaining vectors.
    #[arg(long)]
    changes: bool,
    /// Choose codes for each index, too, and measure searches by them.
    #[arg(long)]
    codes: bool,
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

/// With fewer rows, some changes would leave less than is searched for.
const MIN_ROWS: usize = 100;

/// What to do with each set.
struct Run {
    bench: Bench,
    options: Options,
    output: File,
}

/// Where a set comes from.
enum Source {
    Made(&'static Distribution),
    Read(PathBuf),
}

fn main() -> Result<()> {
    let options: Options = clap::Parser::parse();
    ensure!(options.rows >= MIN_ROWS, "--rows ({}) must be at least {MIN_ROWS}", options.rows);
    let sources = sources(&options)?;
    if let Some(folder) = options.output.parent() {
        fs::create_dir_all(folder)?;
    }
    let output = OpenOptions::new().create(true).append(true).open(&options.output)?;
    let mut run = Run { bench: Bench::new(options.device, options.rows)?, options, output };
    println!("{}", table::HEAD);
    let mut failed = Vec::new();
    for (name, source) in sources {
        // A set that fails does not prevent the others.
        if let Err(error) = run.set(&name, &source) {
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
    if let Some(real) = &options.real {
        let entries = fs::read_dir(real).with_context(|| format!("--real {}", real.display()))?;
        for entry in entries {
            let folder = entry?.path();
            if folder.join("meta.json").exists() {
                let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                sources.push((name, Source::Read(folder)));
            }
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
    fn set(&mut self, name: &str, source: &Source) -> Result<()> {
        let set = match source {
            Source::Made(distribution) => self.bench.make(distribution),
            Source::Read(folder) => self.bench.read(name, folder)?,
        };
        if let Some(folder) = &self.options.write {
            return self.write(&set, &folder.join(&set.name));
        }
        let (index, line) = measure::measure(&self.bench, &set)?;
        println!("{}", table::set(&line));
        writeln!(self.output, "{line}")?;
        if self.options.codes {
            let line = measure::measure_codes(&self.bench, &set, &index)?;
            println!("{}", table::codes(&line));
            writeln!(self.output, "{line}")?;
        }
        if self.options.changes {
            changes::measure(&self.bench, &set, &index, &mut |line| {
                println!("{}", table::change(&line));
                Ok(writeln!(self.output, "{line}")?)
            })?;
        }
        Ok(())
    }

    fn write(&self, set: &Set, folder: &Path) -> Result<()> {
        set.write(folder, &self.bench.truth(set)?)?;
        println!("{}: {} rows", folder.display(), set.keys.len());
        Ok(())
    }
}
