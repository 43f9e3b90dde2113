//! `jasper stream`: a runbook of inserts, deletes and searches.

mod report;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use jasper::bench::runbook::{Event, Moment, Player};
use jasper::{Element, SearchError};
use jasper_data::{Runbook, VectorFile};

use crate::curve;
use crate::element::with_element;
use crate::files::read_queries;
use crate::graph::Graph;
use crate::human;
use crate::place::Place;
use crate::plot::{Plot, stream_chart};
use crate::screen::Screen;
use report::{Line, Rebuilt, Total};

/// Play a runbook: inserts, deletes, replacements and searches, with recall and speed at every step
///
/// Runbooks are those of the streaming track of big-ann-benchmarks: YAML, with row numbers of the base as tags. Each
/// search asks all queries, and its recall is that among the vectors which are in the index at that step. Deleted
/// vectors stay in the graph as tombstones until there are many; mending it has a line of its own.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  jasper stream runbook.yaml --base base.fbin --queries query.fbin --metric l2 \
    --truth truth/ --plot stream.svg"
)]
pub struct Args {
    /// The runbook; `jasper runbook` writes some
    runbook: PathBuf,
    /// Whose steps to play, where the file has those of several data sets
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Vectors that the runbook speaks of by row: fbin, f16bin, u8bin, i8bin, fvecs, bvecs or npy
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// Queries: a vector file of the same element and dimension
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    #[command(flatten)]
    graph: Graph,
    /// Answers a query
    #[arg(short, value_name = "K", default_value_t = 10)]
    k: usize,
    /// Frontier of searches, at least k: recall against speed
    #[arg(long, value_name = "L", default_value_t = 64)]
    beam_width: usize,
    /// Folder of the true neighbours at each search, step2.gt100 and so on, as they are published. What is not there is
    /// found by looking at all vectors, and kept there; without a folder it is not kept
    #[arg(long, value_name = "DIR")]
    truth: Option<PathBuf>,
    /// Mend the graph when this share of it, or more, is tombstones: 0 after every step with deletes, above 1 never
    #[arg(long, value_name = "SHARE", default_value_t = Player::<f32>::CONSOLIDATE_AT)]
    consolidate_at: f64,
    #[command(flatten)]
    place: Place,
    /// Build an index anew over what the last step leaves, and ask it too: what it finds more, the changes have cost
    #[arg(long)]
    fresh: bool,
    /// Draw recall by step
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Write the index that the last step leaves
    #[arg(long, value_name = "INDEX")]
    output: Option<PathBuf>,
}

impl Args {
    /// Plays and shows.
    pub fn run(self, screen: Screen) -> Result<()> {
        self.place.check()?;
        let Self { k, beam_width, .. } = self;
        if k == 0 {
            return Err(SearchError::NoAnswers.into());
        }
        if beam_width < k {
            return Err(SearchError::BeamWidth { beam_width, k }.into());
        }
        let runbook = Runbook::read(&self.runbook, self.dataset.as_deref())?;
        let base = VectorFile::open(&self.base)?;
        with_element!(base.element(), T => self.play::<T>(&runbook, &base, screen))
    }

    fn play<T: Element>(&self, runbook: &Runbook, base: &VectorFile, screen: Screen) -> Result<()> {
        let builder = self.graph.builder().threads(self.place.threads);
        let mut index = builder.empty::<T>(base.dimension())?;
        self.place.vectors.tell(&mut index);
        let index = index.to_device(self.place.device)?;
        runbook.check_rows(base.len()).with_context(|| self.runbook.display().to_string())?;
        let queries = read_queries::<T>(&self.queries, base.dimension())?;
        let rows = base.map::<T>()?;
        let mut player = Player::new(runbook, rows.view(), queries.view())
            .search(self.k, self.beam_width)
            .consolidate_at(self.consolidate_at)
            .threads(self.place.threads);
        if let Some(folder) = &self.truth {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            player = player.truths(folder);
        }
        let (mut total, mut recalls, mut shown) = (None, Vec::new(), Ok(()));
        player.play(&index, &mut screen.progress(), &mut |moment: Moment| {
            if total.is_none() {
                shown = screen.say(Line::header(self.k));
            }
            if shown.is_ok() {
                shown = screen.report(&Line::new(&moment));
            }
            total.get_or_insert_with(Total::default).add(&moment);
            if let Event::Search { recall, .. } = moment.event {
                recalls.push((moment.step, recall));
            }
        })?;
        shown?;
        screen.report(&total.unwrap_or_default())?;
        let fresh = self.fresh.then(|| player.fresh(builder, &mut screen.progress())).transpose()?;
        let fresh = fresh.as_ref().map(Rebuilt::new);
        if let Some(fresh) = &fresh {
            screen.report(fresh)?;
        }
        if let Some(path) = &self.output {
            let saved = index.save_with(path, &mut screen.progress())?;
            screen.say(format_args!("saved    {}, {}", path.display(), human::bytes(saved.bytes)))?;
        }
        let Some(path) = &self.plot else { return Ok(()) };
        ensure!(!recalls.is_empty(), "--plot: the runbook has no searches, so there is no recall to draw");
        let (most, dimension) = (human::count(runbook.max_points()), base.dimension());
        let plot = Plot {
            title: format!(
                "{}: up to {most} vectors at once, {dimension} dimensions of {}, {}",
                runbook.dataset(),
                T::KIND,
                self.graph.metric
            ),
            subtitle: curve::conditions(queries.view().len(), &self.place.describe(&index)),
            chart: stream_chart(self.k, self.beam_width, &recalls, fresh.map(|fresh| fresh.recall())),
        };
        plot.save(path)?;
        screen.say(format_args!("plot     {}", path.display()))
    }
}
