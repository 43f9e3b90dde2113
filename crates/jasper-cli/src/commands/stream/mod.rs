//! `jasper stream`: plays a runbook.

mod report;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use jasper::{Element, MatrixView, SearchParams};
use jasper_core::with_element;
use jasper_data::VectorFile;
use jasper_runbook::{Operation, Player, Runbook, truth_path};

use crate::args::{DeviceArgs, GraphArgs};
use crate::command_files::{Content, Files};
use crate::curve;
use crate::error::Usage;
use crate::files::read_queries_as;
use crate::plot::{Plot, stream_chart};
use crate::terminal::Terminal;
use crate::units;

/// Play a runbook: inserts, deletes, replacements and searches, with recall and speed at every step
///
/// The format is that of the streaming track of big-ann-benchmarks: YAML, with row numbers of the base as tags. Each
/// search runs all queries, and recall is relative to the vectors in the index at that step. Deleted vectors remain in
/// the graph as tombstones until it is consolidated, which is reported as a step of its own.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  jasper stream runbook.yaml --base base.fbin --queries query.fbin --metric l2 \
    --truth truth/ --plot stream.svg"
)]
pub struct Args {
    /// The runbook; `jasper runbook` generates some
    runbook: PathBuf,
    /// Data set to play, if the file has several
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Vectors of the runbook, by row: fbin, f16bin, u8bin, i8bin, fvecs, bvecs or npy
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// Queries: a vector file of the same dimension
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    #[command(flatten)]
    graph: GraphArgs,
    /// Results per query
    #[arg(short, value_name = "K", default_value_t = 10)]
    k: usize,
    /// Beam width of searches
    #[arg(long, value_name = "L", default_value_t = 64)]
    beam_width: usize,
    /// Directory of the true neighbors at each search, as published: step2.gt100 and so on. Missing files are computed
    /// by brute force and saved there
    #[arg(long, value_name = "DIR")]
    truth: Option<PathBuf>,
    /// Consolidate when at least this share of the vertices is tombstones: 0 after every step with deletes, above 1
    /// never
    #[arg(long, value_name = "SHARE", default_value_t = Player::<f32>::CONSOLIDATE_AT)]
    consolidate_threshold: f64,
    #[command(flatten)]
    device: DeviceArgs,
    /// Also build a new index from the final vectors and search it, to see the recall lost to updates
    #[arg(long)]
    compare_rebuild: bool,
    /// Plot recall by step
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Save the final index
    #[arg(long, value_name = "INDEX")]
    output: Option<PathBuf>,
}

impl Args {
    /// The files of the command, but for those of `--truth`, which the runbook tells.
    pub fn files(&self) -> Files {
        let inputs = Files::new().read([&self.runbook, &self.base, &self.queries]);
        inputs.write(&self.output, Content::INDEX).write(&self.plot, Content::Svg)
    }

    /// Plays the runbook.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        self.device.device.resolve()?;
        SearchParams::new(self.k).beam_width(self.beam_width).check()?;
        let runbook = Runbook::read(&self.runbook, self.dataset.as_deref())?;
        if let Some(folder) = &self.truth {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            let searches = runbook.steps().iter().filter(|step| step.operation == Operation::Search);
            self.files().cache(searches.map(|step| truth_path(folder, step.number))).check()?;
        }
        let base = VectorFile::open(&self.base)?;
        let (k, rows) = (self.k, base.len());
        ensure!(
            k <= rows,
            Usage(format!("k ({k}) must be at most {rows}, the number of vectors in the base; lower -k"))
        );
        with_element!(base.element(), T => self.play::<T>(&runbook, &base, terminal))
    }

    fn play<T: Element>(&self, runbook: &Runbook, base: &VectorFile, terminal: Terminal) -> Result<()> {
        let (builder, dimension) = (self.graph.builder().threads(self.device.threads), base.dimension());
        let index = builder.empty(T::KIND, dimension)?;
        let index = index.to_device(self.device.placement.on(self.device.device))?;
        runbook.check_rows(base.len()).with_context(|| self.runbook.display().to_string())?;
        let queries = read_queries_as::<T>(&self.queries, dimension)?;
        let (rows, queries) = (base.map::<T>()?, MatrixView::new(&queries, dimension)?);
        let mut player = Player::new(runbook, rows.view(), queries)
            .search(self.k, self.beam_width)
            .consolidate_at(self.consolidate_threshold)
            .threads(self.device.threads);
        if let Some(folder) = &self.truth {
            player = player.truths(folder);
        }
        let (mut steps, mut shown) = (Vec::new(), Ok(()));
        player.play(&index.with_progress(terminal.progress()), &mut terminal.progress(), &mut |step| {
            if steps.is_empty() {
                shown = terminal.say(report::header(self.k));
            }
            if shown.is_ok() {
                let (json, text) = report::step(&step);
                shown = terminal.report(&json, text);
            }
            steps.push(step);
        })?;
        shown?;
        let (json, text) = report::total(&steps)?;
        terminal.report(&json, text)?;
        let mut rebuilt_recall = None;
        if self.compare_rebuild {
            let rebuild =
                player.rebuild(builder.with_progress(terminal.progress()), &mut terminal.progress())?;
            let (json, text) = report::rebuild(&rebuild);
            terminal.report(&json, text)?;
            rebuilt_recall = report::recall(&rebuild.search);
        }
        if let Some(path) = &self.output {
            let saved = index.with_progress(terminal.progress()).save(path)?;
            terminal.say(format_args!("saved    {}, {}", path.display(), units::bytes(saved.bytes)))?;
        }
        let Some(path) = &self.plot else { return Ok(()) };
        let recalls: Vec<_> =
            steps.iter().filter_map(|step| Some((step.step, report::recall(step)?))).collect();
        ensure!(!recalls.is_empty(), "--plot needs a runbook with searches");
        let max_vectors = units::count(runbook.max_points());
        let plot = Plot {
            title: format!(
                "{}: up to {max_vectors} vectors at once, {dimension} dimensions of {}, {}",
                runbook.dataset(),
                T::KIND,
                self.graph.metric
            ),
            subtitle: curve::conditions(queries.len(), &self.device.describe(&index)),
            chart: stream_chart(self.k, self.beam_width, &recalls, rebuilt_recall),
        };
        plot.save(path)?;
        terminal.say(format_args!("plot     {}", path.display()))
    }
}
