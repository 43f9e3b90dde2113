//! `jasper demo`: builds, searches, measures and updates an index over a dictionary.

mod dictionary;
mod state;

use std::fmt::{Display, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::builder::PossibleValuesParser;
use jasper::attributes::column;
use jasper::{IndexBuilder, Key, MatrixView, Metric, OpenOptions, SearchParams};
use jasper_vamana::cpu_name;
use serde::Serialize;
use serde_json::json;

use crate::ReadFile;
use crate::args::{on_threads, threads};
use crate::command_files::{Content, Files};
use crate::curve::{self, Point};
use crate::plot::{Plot, recall_chart};
use crate::terminal::{Terminal, merge, timed};
use crate::units;
use dictionary::{Dictionary, Entries, Entry, KIND, KINDS};
use state::{K, State};

/// Build, search, measure and update an index over a dictionary
///
/// The dictionary is 30,000 entries of WordNet 3.0. Their vectors are sums of word vectors, and so is that of
/// your phrase: neither a model nor a network connection is needed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jasper demo \"a storm with strong wind and rain\"
  jasper demo \"it lives near the sea\" --kind animal")]
pub struct Args {
    /// English phrases to search for; several single words form one phrase
    phrases: Vec<String>,
    /// Search for the phrases among nouns of this kind only, such as animal, food, person or plant
    #[arg(long, value_name = "KIND", value_parser = kinds(), requires = "phrases")]
    kind: Option<String>,
    /// CPU threads, at most one per CPU, which is the default
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<usize>,
    /// File for the plot of recall against queries per second [default: jasper-demo.svg here, or in the directory for
    /// temporary files if this one is read-only]
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

const PHRASES: [&str; 3] =
    ["a storm with strong wind and rain", "a knife used by surgeons", "a place where books are kept"];
/// A phrase for nouns of one kind.
const PHRASE_OF_KIND: (&str, &str) = ("a bird that lives near the sea", "animal");
/// Results shown per phrase.
const SHOWN: usize = 5;
/// Columns of the words of an entry, and of its definition.
const COLUMNS: (usize, usize) = (26, 47);
const BEAM_WIDTHS: [usize; 5] = [10, 16, 32, 64, 128];
/// Beam width at which recall is tracked.
const BEAM_WIDTH: usize = 64;

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        Files::new().write(&self.plot, Content::Svg)
    }

    /// Runs the demonstration.
    pub fn run(self, dictionary: ReadFile<'_>, terminal: Terminal) -> Result<()> {
        let dictionary = Dictionary::read(dictionary)?;
        let questions = self.questions();
        let queries = questions.iter().map(|(phrase, _)| embed(&dictionary, phrase));
        let queries = queries.collect::<Result<Vec<_>>>()?;

        let mut state = build(&dictionary.base, self.threads, terminal)?;
        for ((phrase, kind), query) in questions.iter().zip(&queries) {
            ask(&state, &dictionary.base, phrase, *kind, query, terminal)?;
        }
        self.measure(&state, dictionary.held_out.view(), terminal)?;
        change(&mut state, &dictionary.held_out, self.threads, terminal)
    }

    /// The phrases, and the kind of nouns to search for.
    fn questions(&self) -> Vec<(String, Option<&str>)> {
        let phrases = if self.phrases.is_empty() {
            PHRASES.map(str::to_owned).to_vec()
        } else if self.phrases.iter().any(|phrase| phrase.contains(char::is_whitespace)) {
            self.phrases.clone()
        } else {
            vec![self.phrases.join(" ")]
        };
        let mut questions: Vec<_> =
            phrases.into_iter().map(|phrase| (phrase, self.kind.as_deref())).collect();
        if self.phrases.is_empty() {
            let (phrase, kind) = PHRASE_OF_KIND;
            questions.push((phrase.to_owned(), Some(kind)));
        }
        questions
    }

    fn measure(&self, state: &State, queries: MatrixView<'_, f32>, terminal: Terminal) -> Result<()> {
        let (truth, seconds) = state.truth(queries, K)?;
        let queries_per_second = queries.len() as f64 / seconds;
        let count = units::count(queries.len());
        let text = format!(
            "\nRecall     of {count} entries that are not in the index, {K} neighbors each\n           {}",
            Point::header(K)
        );
        let exact = json!({ "queries": queries.len(), "queries_per_second": queries_per_second });
        show("exact", &exact, text, terminal)?;
        let mut points = Vec::new();
        for beam_width in BEAM_WIDTHS {
            let params = SearchParams::new(K).beam_width(beam_width);
            let point = curve::measure(&state.index, queries.into(), &truth, params)?;
            show("recall", &point, format_args!("           {point}"), terminal)?;
            points.push(point);
        }
        let plot = Plot {
            title: format!(
                "{} dictionary entries, {} dimensions of f32, cosine",
                units::count(state.index.len()),
                state.index.dimension()
            ),
            subtitle: curve::conditions(queries.len(), &on_threads(self.threads, &cpu_name())),
            chart: recall_chart(&points, Some(queries_per_second)),
        };
        let path = self.draw(&plot)?;
        let path = path.display().to_string();
        show("plot", &json!({ "path": path }), format_args!("\nPlot       {path}"), terminal)
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

/// Reports a step of the demonstration, as text of at most 100 columns or as JSON with the name of the step.
fn show(event: &str, json: &impl Serialize, text: impl Display, terminal: Terminal) -> Result<()> {
    terminal.report(&merge(json!({ "event": event }), json), text)
}

fn embed(dictionary: &Dictionary, phrase: &str) -> Result<Vec<f32>> {
    dictionary
        .embed(phrase)
        .ok_or_else(|| anyhow!("no word of `{phrase}` is in the dictionary; use plain English words"))
}

/// The names of the kinds of nouns.
fn kinds() -> PossibleValuesParser {
    KINDS.map(|(_, name)| name).into()
}

fn build(entries: &Entries, threads: Option<usize>, terminal: Terminal) -> Result<State> {
    let attributes = entries.attributes()?;
    let builder = IndexBuilder::new(Metric::Cosine).threads(threads).attributes(&attributes);
    let (index, seconds) = timed(|| builder.with_progress(terminal.progress()).build(entries.view()));
    let index = index?;
    let stats = index.stats();
    let mean_degree = index.stats().build.map_or(0.0, |report| report.mean_degree);
    let (rate, bytes) = (index.len() as f64 / seconds, stats.vector_bytes + stats.graph_bytes);
    let json = json!({
        "vectors": index.len(),
        "dimension": index.dimension(),
        "seconds": seconds,
        "vectors_per_second": rate,
        "mean_degree": mean_degree,
        "bytes": bytes,
    });
    let text = format!(
        "\nBuild      {} dictionary entries as vectors of {} f32, cosine\n           \
         {} in total: {} per second\n           {}, {:.1} edges per vertex",
        units::count(index.len()),
        index.dimension(),
        units::seconds(seconds),
        units::rate(rate),
        units::bytes(bytes as u64),
        mean_degree,
    );
    show("build", &json, text, terminal)?;
    State::new(index, entries, threads)
}

/// Searches for a phrase, among nouns of one kind or all, and shows the results next to the exact ones.
fn ask(
    state: &State,
    entries: &Entries,
    phrase: &str,
    kind: Option<&str>,
    query: &[f32],
    terminal: Terminal,
) -> Result<()> {
    let filter = kind.map(|kind| column(KIND).eq(kind));
    let params = SearchParams::new(SHOWN);
    let params = filter.as_ref().map_or(params, |filter| params.filter(filter));
    let search = || state.index.search(query, params);
    // Warm up before timing.
    search()?;
    let (hits, graph_seconds) = timed(search);
    let hits = hits?;
    let is_of_kind = |key: Key| kind.is_none_or(|kind| entries.texts[key as usize].kind == kind);
    let query = MatrixView::new(query, query.len())?;
    let (truth, exact_seconds) = state.truth_among(&is_of_kind, query, SHOWN)?;
    let exact: Vec<(u64, f32)> = truth
        .ids()
        .iter()
        .map(|&id| id.into())
        .zip(truth.distances().unwrap_or_default().iter().copied())
        .collect();
    let entry = |key: u64| &entries.texts[key as usize];
    let json = |(key, distance): (u64, f32)| {
        let Entry { kind, words, definition } = entry(key);
        let distance = units::decimal(distance);
        json!({ "key": key, "distance": distance, "kind": kind, "words": words, "definition": definition })
    };
    let answer = json!({
        "phrase": phrase,
        "where": filter.as_ref().map(ToString::to_string),
        "graph_seconds": graph_seconds,
        "exact_seconds": exact_seconds,
        "found": hits.iter().map(|hit| json((hit.key, hit.distance))).collect::<Vec<_>>(),
        "exact": exact.iter().copied().map(json).collect::<Vec<_>>(),
    });
    let mut text = format!(
        "\nAsk        {phrase}{}\n           {:.2} ms through the graph, {:.1} ms by brute force\n           found  exact",
        filter.as_ref().map_or_else(String::new, |filter| format!(", where {filter}")),
        graph_seconds * 1e3,
        exact_seconds * 1e3
    );
    for (hit, &(exact_key, exact_distance)) in hits.iter().zip(&exact) {
        let Entry { words, definition, .. } = entry(hit.key);
        let (words, definition) = (units::cut(words, COLUMNS.0), units::cut(definition, COLUMNS.1));
        write!(text, "\n           {:.3}  {exact_distance:.3}  {words:26}  {definition}", hit.distance)?;
        if hit.key != exact_key {
            let words = units::cut(&entry(exact_key).words, COLUMNS.1);
            write!(text, "\n                         exactly: {words}")?;
        }
    }
    show("answer", &answer, text, terminal)
}

/// An update of the index; returns its description.
type Step<'a> = &'a dyn Fn(&mut State) -> Result<String>;

fn change(state: &mut State, held_out: &Entries, threads: Option<usize>, terminal: Terminal) -> Result<()> {
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
            state.index =
                OpenOptions::new().threads(threads).with_progress(terminal.progress()).open(&path)?;
            Ok(format!("save {} and reopen", units::bytes(saved.bytes)))
        },
    ];
    let recall = format!("recall@{K}");
    terminal.say(format_args!(
        "\nUpdate     recall against the exact neighbors after each update, beam width {BEAM_WIDTH}\n           \
         {:36}{:>8}  {recall:>9}  {:>8}",
        "", "entries", "took"
    ))?;
    let report = |state: &State, what: String, seconds: Option<f64>| {
        let recall = state.recall(held_out.view(), BEAM_WIDTH)?;
        let vectors = state.index.len();
        let json = json!({
            "what": what,
            "vectors": vectors,
            "recall": recall,
            "beam_width": BEAM_WIDTH,
            "seconds": seconds,
        });
        let took = seconds.map_or_else(String::new, |took| format!("  {:>8}", units::seconds(took)));
        let text = format!("           {what:36}{:>8}  {recall:>9.4}{took}", units::count(vectors));
        show("update", &json, text, terminal)
    };
    report(state, "as built".into(), None)?;
    for step in steps {
        let (what, seconds) = timed(|| step(state));
        report(state, what?, Some(seconds))?;
    }
    Ok(())
}
