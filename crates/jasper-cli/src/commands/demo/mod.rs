//! `jasper demo`: an index over a real dictionary, asked, measured, changed and drawn.

mod dictionary;
mod event;
mod moment;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use jasper::{Index, IndexBuilder, MatrixView, Metric, SearchParams};

use crate::curve;
use crate::human;
use crate::place::on_threads;
use crate::plot::{Plot, recall_chart};
use crate::screen::Screen;
use dictionary::{Dictionary, Entries};
use event::{Answer, Event, Found};
use moment::Moment;

/// Build an index over a real dictionary, ask it, measure it, change it
///
/// 30,000 entries of WordNet 3.0 come with the program. Their vectors are made of word vectors, and so is that of your
/// phrase: no model and no network is needed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper demo \"a storm with strong wind and rain\"")]
pub struct Args {
    /// English phrases to find entries for; single words make one phrase together
    phrases: Vec<String>,
    /// Threads; 0 means one for each processor
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Where to draw recall against queries per second [default: jasper-demo.svg here, or in the folder of temporary
    /// files if this one cannot be written]
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

const PHRASES: [&str; 3] =
    ["a storm with strong wind and rain", "a knife used by surgeons", "a place where books are kept"];
/// Answers shown for a phrase.
const SHOWN: usize = 5;
const BEAM_WIDTHS: [usize; 5] = [10, 16, 32, 64, 128];
/// Beam width at which changes are followed.
const BEAM_WIDTH: usize = 64;

impl Args {
    /// Tells the story.
    pub fn run(self, screen: Screen) -> Result<()> {
        let dictionary = Dictionary::read()?;
        let phrases = self.phrases();
        let asked = phrases.iter().map(|phrase| embed(&dictionary, phrase)).collect::<Result<Vec<_>>>()?;

        let mut moment = build(&dictionary.base, self.threads, screen)?;
        for (phrase, query) in phrases.into_iter().zip(&asked) {
            screen.report(&Event::Answer(answer(&moment, &dictionary.base, phrase, query)?))?;
        }
        self.measure(&moment, dictionary.held_out.view(), screen)?;
        change(&mut moment, &dictionary.held_out, self.threads, screen)
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

    fn measure(&self, moment: &Moment, queries: MatrixView<'_, f32>, screen: Screen) -> Result<()> {
        let (truth, seconds) = moment.truth(queries, moment::K)?;
        let queries_per_second = queries.len() as f64 / seconds;
        screen.report(&Event::Exact { queries: queries.len(), queries_per_second })?;
        let mut points = Vec::new();
        for beam_width in BEAM_WIDTHS {
            let point = moment.measure(queries, &truth, beam_width)?;
            screen.report(&Event::Recall(point.clone()))?;
            points.push(point);
        }
        let plot = Plot {
            title: format!(
                "{} dictionary entries, {} dimensions of f32, cosine",
                human::count(moment.index.len()),
                moment.index.dimension()
            ),
            subtitle: curve::conditions(queries.len(), &on_threads(self.threads, &jasper::cpu_name())),
            chart: recall_chart(&points, Some(queries_per_second)),
        };
        let path = self.draw(&plot)?;
        screen.report(&Event::Plot { path })
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
        .ok_or_else(|| anyhow!("none of the words of `{phrase}` is known; ask in plain English"))
}

fn build(entries: &Entries, threads: usize, screen: Screen) -> Result<Moment> {
    let begun = Instant::now();
    let builder = IndexBuilder::new(Metric::Cosine).threads(threads);
    let (index, _) = builder.build_with(&entries.view(), &mut screen.progress())?;
    let seconds = begun.elapsed().as_secs_f64();
    let stats = index.stats();
    screen.report(&Event::Build {
        points: index.len(),
        dimension: index.dimension(),
        seconds,
        vectors_per_second: index.len() as f64 / seconds,
        mean_degree: stats.mean_degree,
        bytes: stats.vector_bytes + stats.graph_bytes,
    })?;
    Moment::new(index, entries, threads)
}

fn answer(moment: &Moment, entries: &Entries, phrase: String, query: &[f32]) -> Result<Answer> {
    let found = |key: u64, distance| Found::new(key, distance, &entries.texts[key as usize]);
    // Once before the clock starts, so that neither pays for waking up.
    moment.index.search(query, SearchParams::new(SHOWN))?;
    let begun = Instant::now();
    let hits = moment.index.search(query, SearchParams::new(SHOWN))?;
    let graph_seconds = begun.elapsed().as_secs_f64();
    let (truth, exact_seconds) = moment.truth(MatrixView::new(query, query.len())?, SHOWN)?;
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

/// A change of the index; gives how it reads.
type Step<'a> = &'a dyn Fn(&mut Moment) -> Result<String>;

fn change(moment: &mut Moment, held_out: &Entries, threads: usize, screen: Screen) -> Result<()> {
    let folder = tempfile::tempdir().context("the folder of temporary files cannot be written")?;
    let path = folder.path().join("demo.jasper");
    let steps: [Step<'_>; 5] = [
        &|moment| {
            moment.insert(held_out)?;
            Ok(format!("insert {} entries", human::count(held_out.texts.len())))
        },
        &|moment| {
            moment.delete_tenth()?;
            Ok("delete a tenth".into())
        },
        &|moment| {
            moment.index.consolidate()?;
            Ok("consolidate".into())
        },
        &|moment| {
            moment.index.compact()?;
            Ok("compact".into())
        },
        &|moment| {
            let saved = moment.index.save(&path)?;
            moment.index = Index::open_with(&path, threads, &mut screen.progress())?;
            Ok(format!("save {} and reopen", human::bytes(saved.bytes)))
        },
    ];
    screen.say(Event::changes(BEAM_WIDTH))?;
    let tell = |moment: &Moment, what: String, seconds: Option<f64>| {
        let recall = moment.recall(held_out.view(), BEAM_WIDTH)?;
        screen.report(&Event::Change {
            what,
            points: moment.index.len(),
            recall,
            beam_width: BEAM_WIDTH,
            seconds,
        })
    };
    tell(moment, "as built".into(), None)?;
    for step in steps {
        let begun = Instant::now();
        let what = step(moment)?;
        tell(moment, what, Some(begun.elapsed().as_secs_f64()))?;
    }
    Ok(())
}
