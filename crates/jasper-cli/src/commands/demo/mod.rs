//! `jasper demo`: builds, searches, measures and updates an index over a dictionary.

mod dictionary;
mod event;
mod state;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use jasper::{Index, IndexBuilder, MatrixView, Metric, SearchParams};

use crate::args::on_threads;
use crate::curve;
use crate::plot::{Plot, recall_chart};
use crate::terminal::Terminal;
use crate::units;
use dictionary::{Dictionary, Entries};
use event::{Answer, Event, Found};
use state::State;

/// Build, search, measure and update an index over a dictionary
///
/// 30,000 entries of WordNet 3.0 are part of the program. Their vectors are sums of word vectors, and so is that of your
/// phrase: neither a model nor a network connection is needed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper demo \"a storm with strong wind and rain\"")]
pub struct Args {
    /// English phrases to search for; several single words form one phrase
    phrases: Vec<String>,
    /// CPU threads; 0 means one per CPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// File for the plot of recall against queries per second [default: jasper-demo.svg here, or in the directory for
    /// temporary files if this one is read-only]
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

const PHRASES: [&str; 3] =
    ["a storm with strong wind and rain", "a knife used by surgeons", "a place where books are kept"];
/// Results shown per phrase.
const SHOWN: usize = 5;
const BEAM_WIDTHS: [usize; 5] = [10, 16, 32, 64, 128];
/// Beam width at which recall is tracked.
const BEAM_WIDTH: usize = 64;

impl Args {
    /// Runs the demonstration.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let dictionary = Dictionary::read()?;
        let phrases = self.phrases();
        let queries = phrases.iter().map(|phrase| embed(&dictionary, phrase)).collect::<Result<Vec<_>>>()?;

        let mut state = build(&dictionary.base, self.threads, terminal)?;
        for (phrase, query) in phrases.into_iter().zip(&queries) {
            terminal.report(&Event::Answer(answer(&state, &dictionary.base, phrase, query)?))?;
        }
        self.measure(&state, dictionary.held_out.view(), terminal)?;
        change(&mut state, &dictionary.held_out, self.threads, terminal)
    }

    fn phrases(&self) -> Vec<String> {
        if self.phrases.is_empty() {
            PHRASES.map(str::to_owned).to_vec()
        } else if self.phrases.iter().any(|phrase| phrase.contains(char::is_whitespace)) {
            self.phrases.clone()
        } else {
            vec![self.phrases.join(" ")]
        }
    }

    fn measure(&self, state: &State, queries: MatrixView<'_, f32>, terminal: Terminal) -> Result<()> {
        let (truth, seconds) = state.truth(queries, state::K)?;
        let queries_per_second = queries.len() as f64 / seconds;
        terminal.report(&Event::Exact { queries: queries.len(), queries_per_second })?;
        let mut points = Vec::new();
        for beam_width in BEAM_WIDTHS {
            let point = state.measure(queries, &truth, beam_width)?;
            terminal.report(&Event::Recall(point.clone()))?;
            points.push(point);
        }
        let plot = Plot {
            title: format!(
                "{} dictionary entries, {} dimensions of f32, cosine",
                units::count(state.index.len()),
                state.index.dimension()
            ),
            subtitle: curve::conditions(queries.len(), &on_threads(self.threads, &jasper::cpu_name())),
            chart: recall_chart(&points, Some(queries_per_second)),
        };
        let path = self.draw(&plot)?;
        terminal.report(&Event::Plot { path })
    }

    fn draw(&self, plot: &Plot) -> Result<PathBuf> {
        let name = Path::new("jasper-demo.svg");
        let Some(path) = &self.plot else {
            let elsewhere = std::env::temp_dir().join(name);
            return plot
                .save(name)
                .map(|()| name.to_owned())
                .or_else(|_| plot.save(&elsewhere).map(|()| elsewhere));
        };
        plot.save(path).map(|()| path.clone())
    }
}

fn embed(dictionary: &Dictionary, phrase: &str) -> Result<Vec<f32>> {
    dictionary
        .embed(phrase)
        .ok_or_else(|| anyhow!("no word of `{phrase}` is in the dictionary; use plain English words"))
}

fn build(entries: &Entries, threads: usize, terminal: Terminal) -> Result<State> {
    let start = Instant::now();
    let builder = IndexBuilder::new(Metric::Cosine).threads(threads);
    let (index, _) = builder.build_with(&entries.view(), &mut terminal.progress())?;
    let seconds = start.elapsed().as_secs_f64();
    let stats = index.stats();
    terminal.report(&Event::Build {
        vectors: index.len(),
        dimension: index.dimension(),
        seconds,
        vectors_per_second: index.len() as f64 / seconds,
        mean_degree: stats.mean_degree,
        bytes: stats.vector_bytes + stats.graph_bytes,
    })?;
    State::new(index, entries, threads)
}

fn answer(state: &State, entries: &Entries, phrase: String, query: &[f32]) -> Result<Answer> {
    let found = |key: u64, distance| Found::new(key, distance, &entries.texts[key as usize]);
    // Warm up before timing.
    state.index.search(query, SearchParams::new(SHOWN))?;
    let start = Instant::now();
    let hits = state.index.search(query, SearchParams::new(SHOWN))?;
    let graph_seconds = start.elapsed().as_secs_f64();
    let (truth, exact_seconds) = state.truth(MatrixView::new(query, query.len())?, SHOWN)?;
    let distances = truth.distances().unwrap_or_default();
    Ok(Answer {
        phrase,
        graph_seconds,
        exact_seconds,
        found: hits.iter().map(|hit| found(hit.key, hit.distance)).collect(),
        exact: truth
            .ids()
            .iter()
            .zip(distances)
            .map(|(&key, &distance)| found(key.into(), distance))
            .collect(),
    })
}

/// An update of the index; returns its description.
type Step<'a> = &'a dyn Fn(&mut State) -> Result<String>;

fn change(state: &mut State, held_out: &Entries, threads: usize, terminal: Terminal) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot create a temporary directory")?;
    let path = folder.path().join("demo.jasper");
    let steps: [Step<'_>; 5] = [
        &|state| {
            state.insert(held_out)?;
            Ok(format!("insert {} entries", units::count(held_out.texts.len())))
        },
        &|state| {
            state.delete_tenth()?;
            Ok("delete a tenth".into())
        },
        &|state| {
            state.index.consolidate()?;
            Ok("consolidate".into())
        },
        &|state| {
            state.index.compact()?;
            Ok("compact".into())
        },
        &|state| {
            let saved = state.index.save(&path)?;
            state.index = Index::open_with(&path, threads, &mut terminal.progress())?;
            Ok(format!("save {} and reopen", units::bytes(saved.bytes)))
        },
    ];
    terminal.say(Event::updates_header(BEAM_WIDTH))?;
    let report = |state: &State, what: String, seconds: Option<f64>| {
        let recall = state.recall(held_out.view(), BEAM_WIDTH)?;
        terminal.report(&Event::Update {
            what,
            vectors: state.index.len(),
            recall,
            beam_width: BEAM_WIDTH,
            seconds,
        })
    };
    report(state, "as built".into(), None)?;
    for step in steps {
        let start = Instant::now();
        let what = step(state)?;
        report(state, what, Some(start.elapsed().as_secs_f64()))?;
    }
    Ok(())
}
