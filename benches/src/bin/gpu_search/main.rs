//! Measures searches on a GPU over the sets of `make_sets.py`. Prints one line of JSON per measurement.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin gpu_search -- curves --data FOLDER sift-1m deep-1m
//! ```
//!
//! | part | measures |
//! | --- | --- |
//! | `curves` | recall and queries per second of large batches in device memory, compared with the best other system |
//! | `latency` | the time of small batches, from host memory and back |
//!
//! Sets are measured in the order given, until the time budget is spent. Times are medians of launches timed by events,
//! after one warm-up. Bandwidths count the bytes that the search requests, from any memory, and are compared with that of a
//! copy in the same run. The output ends with a readable table.

mod bench;
mod codes;
mod converted;
mod curve;
mod curves;
mod device_search;
mod front;
mod latency;
mod peers;
mod point;
mod report;
mod set;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use jasper_core::{BuildParams, Element, ElementKind, f16};
use jasper_cuda::VectorStorage;
use jasper_graph::Graph;
use jasper_vamana::{CpuExecutor, quantize};

use bench::{Bench, Builder, Options};
use set::Set;

const USAGE: &str = "\
usage: gpu_search PART.. [OPTION..] SET..

  PART               curves, latency
  SET                a set of make_sets.py: sift-1m, deep-1m, gist-1m, openai-1m, t2i-1m, ..
  --data FOLDER      folder of the files of the sets; the current one by default
  --cache FOLDER     keep index files here, and reuse them
  --build cpu|cuda   where graphs are built; cpu by default
  --elements f16,..  measure only these elements; sets of f32 are measured as f16 and f32 by default
  --codes CODE       measure quantized searches, such as mixed:1 or rabitq:4; times include the quantization of queries
  --vectors STORAGE  where vectors are stored: device (default), or host, read by searches over PCIe
  --rerank N         rerank the nearest N candidates of quantized searches; the whole frontier by default
  --max-degree R     maximum degree of the graphs; 64 by default
  --alpha ALPHA      pruning slack of the graphs
  --build-beam WIDTH beam width of the builds
  --batch-share S    largest batch of a build, as a share of the linked vertices
  --quantized-linking
                     link floats by vectors rounded to bytes
  --budget SECONDS   start no measurement after this time; 600 by default";

/// Parts of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Curves,
    Latency,
}

impl Part {
    fn from_name(name: &str) -> Option<Self> {
        [("curves", Self::Curves), ("latency", Self::Latency)]
            .into_iter()
            .find_map(|(known, part)| (known == name).then_some(part))
    }

    /// Measures one set in one element. Returns rows of the table.
    fn run<T: Element>(self, bench: &Bench, set: &Set, graph: &Graph<T>) -> Result<Vec<String>> {
        match self {
            Self::Curves => curves::run(bench, set, graph),
            Self::Latency => latency::run(bench, set, graph),
        }
    }

    /// The header of the table.
    fn header(self) -> String {
        match self {
            Self::Curves => report::Report::header(),
            Self::Latency => latency::header(),
        }
    }
}

fn main() -> Result<()> {
    let Args { parts, sets, options } = parse(std::env::args().skip(1))?;
    if parts.is_empty() || sets.is_empty() {
        println!("{USAGE}");
        return Ok(());
    }
    let bench = Bench::open(options)?;
    let mut tables: Vec<(Part, Vec<String>)> = parts.into_iter().map(|part| (part, Vec::new())).collect();
    let mut failed = Vec::new();
    for name in sets {
        if bench.deadline.is_over() {
            bench.deadline.log(format_args!("{name}: no time left"));
            continue;
        }
        // A set that is missing or too large does not prevent the others.
        if let Err(error) = measure(&bench, &name, &mut tables) {
            bench.deadline.log(format_args!("{name}: {error:#}"));
            failed.push(name);
        }
    }
    for (part, rows) in tables {
        println!("\n{}\n{}", part.header(), rows.join("\n"));
    }
    ensure!(failed.is_empty(), "not measured to the end: {}", failed.join(", "));
    Ok(())
}

/// Runs all parts on one set, in each of its elements.
fn measure(bench: &Bench, name: &str, tables: &mut [(Part, Vec<String>)]) -> Result<()> {
    let set = Set::open(&bench.options.data, name)?;
    bench.deadline.log(format_args!("{name}: its graph"));
    match set.element() {
        ElementKind::U8 => run_all(bench, &set, graph_of::<u8>(bench, &set)?, tables),
        ElementKind::F32 => {
            let graph = graph_of::<f32>(bench, &set)?;
            if bench.wants(ElementKind::F16) {
                run_all(bench, &set, converted::converted::<f16>(&graph)?, tables)?;
            }
            if bench.wants(ElementKind::F32) {
                run_all(bench, &set, graph, tables)?;
            }
            Ok(())
        }
        other => bail!("sets hold u8 or f32, not {other}"),
    }
}

fn graph_of<T: Element>(bench: &Bench, set: &Set) -> Result<Graph<T>> {
    let device = (bench.options.builder == Builder::Cuda).then(|| bench.stream.context());
    let Options { params, quantized_linking, .. } = bench.options;
    // A graph that was built otherwise is another.
    let (beam, share, alpha) = (params.build_beam_width(), params.max_batch_share(), params.alpha());
    let (rows, degree) = (if quantized_linking { "bytes" } else { "rows" }, params.max_degree());
    let name = format!("by-{rows}-degree-{degree}-beam-{beam}-share-{share}-alpha-{alpha}");
    let cache = bench.options.cache.as_ref().map(|folder| folder.join(name));
    set.graph(cache.as_deref(), |set| set.build(device, params, quantized_linking, &bench.deadline))
}

fn run_all<T: Element>(
    bench: &Bench,
    set: &Set,
    mut graph: Graph<T>,
    tables: &mut [(Part, Vec<String>)],
) -> Result<()> {
    if let Some(code) = bench.options.codes {
        bench.deadline.log(format_args!("{}: its codes, {code}", set.name));
        quantize(&CpuExecutor::new(0)?, &mut graph, code)?;
    }
    for (part, rows) in tables {
        rows.extend(part.run(bench, set, &graph)?);
    }
    Ok(())
}

/// The command line.
struct Args {
    parts: Vec<Part>,
    sets: Vec<String>,
    options: Options,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Args> {
    let (mut parts, mut sets) = (Vec::new(), Vec::new());
    let mut options = Options {
        data: PathBuf::from("."),
        cache: None,
        builder: Builder::Cpu,
        params: BuildParams::default(),
        quantized_linking: false,
        elements: Vec::new(),
        codes: None,
        vectors: VectorStorage::Device,
        rerank: u32::MAX,
        budget: 600.0,
    };
    let mut params = BuildParams::builder();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "--data" => options.data = value()?.into(),
            "--cache" => options.cache = Some(value()?.into()),
            "--build" => {
                let name = value()?;
                options.builder =
                    Builder::from_name(&name).with_context(|| format!("no such builder: {name}"))?;
            }
            "--max-degree" => {
                params = params.max_degree(value()?.parse().context("--max-degree takes a number")?);
            }
            "--alpha" => params = params.alpha(value()?.parse().context("--alpha takes a number")?),
            "--build-beam" => {
                params = params.build_beam_width(value()?.parse().context("--build-beam takes a number")?);
            }
            "--batch-share" => {
                params = params.max_batch_share(value()?.parse().context("--batch-share takes a share")?);
            }
            "--quantized-linking" => options.quantized_linking = true,
            "--codes" => options.codes = Some(value()?.parse()?),
            "--vectors" => options.vectors = value()?.parse()?,
            "--rerank" => options.rerank = value()?.parse().context("--rerank takes a number")?,
            "--budget" => options.budget = value()?.parse().context("--budget takes seconds")?,
            "--elements" => options.elements = elements(&value()?)?,
            option if option.starts_with('-') => bail!("no such option: {option}\n{USAGE}"),
            name => match Part::from_name(name) {
                Some(part) => parts.push(part),
                None => sets.push(name.to_owned()),
            },
        }
    }
    options.params = params.build()?;
    Ok(Args { parts, sets, options })
}

fn elements(names: &str) -> Result<Vec<ElementKind>> {
    let element = |name: &str| ElementKind::ALL.into_iter().find(|kind| kind.name() == name);
    names.split(',').map(|name| element(name).with_context(|| format!("no such element: {name}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Args> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn parts_options_and_sets_come_in_any_order() {
        let asked =
            asked("curves sift-1m --elements f16,u8 latency --vectors host --data sets --build cuda --budget 90.5 t2i-1m")
                .unwrap();
        assert_eq!(
            (asked.parts, asked.sets),
            (vec![Part::Curves, Part::Latency], vec!["sift-1m".into(), "t2i-1m".into()])
        );
        assert_eq!(asked.options.elements, [ElementKind::F16, ElementKind::U8]);
        assert_eq!((asked.options.data, asked.options.budget), ("sets".into(), 90.5));
        assert_eq!((asked.options.builder, asked.options.cache), (Builder::Cuda, None));
        assert_eq!(asked.options.vectors, VectorStorage::Host);
    }

    #[test]
    fn mistakes_are_told_with_the_usage() {
        for (line, expected) in
            [("curves --data", "--data needs a value"), ("--fast sift-1m", "no such option: --fast")]
        {
            let error = asked(line).err().expect(line).to_string();
            assert!(error.starts_with(expected) && error.contains("usage:"), "{error}");
        }
        assert!(asked("curves --elements f8 sift-1m").is_err());
        assert!(asked("curves --vectors disk sift-1m").is_err());
    }
}
