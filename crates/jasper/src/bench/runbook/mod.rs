//! Runbooks played: what recall and speed do while an index changes.
//!
//! ```
//! use jasper::data::Runbook;
//! use jasper::bench::runbook::{Event, Player};
//! use jasper::bench::synthetic::Clusters;
//! use jasper::{IndexBuilder, MatrixView, Metric, no_progress};
//!
//! let set = Clusters::new(16, 7);
//! let (rows, queries): (Vec<f32>, Vec<f32>) = (set.rows(1000, 0), set.rows(20, 1));
//! let (base, queries) = (MatrixView::new(&rows, 16)?, MatrixView::new(&queries, 16)?);
//!
//! let runbook = Runbook::sliding_window("clusters", 1000, 10)?;
//! let index = IndexBuilder::new(Metric::L2).empty::<f32>(16)?;
//! let player = Player::new(&runbook, base, queries);
//! player.play(&index, &mut no_progress, &mut |moment| {
//!     if let Event::Search { recall, .. } = moment.event {
//!         println!("step {}: {recall:.4} of {} points", moment.step, moment.stats.keys);
//!         assert!(recall > 0.9);
//!     }
//! })?;
//! assert_eq!(index.len(), 500);
//! let fresh = player.fresh(IndexBuilder::new(Metric::L2), &mut no_progress)?;
//! assert_eq!(fresh.search.stats.keys, 500);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod tags;
mod truth;

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use jasper_core::{Element, Key, MatrixView, Metric, ProgressFn};
use jasper_data::{Operation, Runbook, Step, ThreadPoolBuilder};
use jasper_vamana::{Matches, SearchCost, SearchParams, UpdateError};

use crate::bench::recall::mean_recall;
use crate::{Index, IndexBuilder, IndexStats};
pub use error::{PlayError, StepCause};
use tags::TagRows;
pub use truth::TruthFileError;
use truth::Truths;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// Vectors came.
    Insert,
    /// Vectors went.
    Delete,
    /// Vectors took the place of others, under their tags.
    Replace,
    /// Tombstones were taken out of the graph, after the step had left many.
    Consolidate,
    /// All queries were asked.
    Search {
        /// Mean recall@k, against what was live then.
        recall: f64,
        /// What the searches cost, all together.
        cost: SearchCost,
        /// What it took to find or read the truth, which is no part of the moment's time.
        truth_time: Duration,
    },
}

/// A step, or a consolidation after one, and what it left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Number of the step.
    pub step: usize,
    /// What was done.
    pub event: Event,
    /// Vectors that came or went, slots that were freed, or queries that were asked.
    pub count: usize,
    /// How long it took.
    pub time: Duration,
    /// What the index holds now.
    pub stats: IndexStats,
}

/// An index that was built over what the last step of a runbook leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fresh {
    /// How long the build took.
    pub build_time: Duration,
    /// All queries, asked of it.
    pub search: Moment,
}

/// A runbook with the vectors that it speaks of, and how it is to be played.
#[derive(Clone, Copy, Debug)]
#[must_use = "a player does nothing until `play`"]
pub struct Player<'a, T> {
    runbook: &'a Runbook,
    base: MatrixView<'a, T>,
    queries: MatrixView<'a, T>,
    search: SearchParams<'static>,
    consolidate_at: f64,
    truths: Option<&'a Path>,
    threads: usize,
}

impl<'a, T: Element> Player<'a, T> {
    /// Share of tombstones at which the graph is consolidated: searches walk through them, and mending costs as much
    /// for few of them as for some more.
    pub const CONSOLIDATE_AT: f64 = 0.1;

    /// Plays `runbook` over the rows of `base`, asking `queries` at each search for 10 neighbors with a frontier of
    /// 64.
    pub fn new(runbook: &'a Runbook, base: MatrixView<'a, T>, queries: MatrixView<'a, T>) -> Self {
        let search = SearchParams::new(10).beam_width(64);
        let consolidate_at = Self::CONSOLIDATE_AT;
        Self { runbook, base, queries, search, consolidate_at, truths: None, threads: 0 }
    }

    /// Asks for `k` neighbors with a frontier of `beam_width`.
    pub fn search(mut self, k: usize, beam_width: usize) -> Self {
        self.search = SearchParams::new(k).beam_width(beam_width);
        self
    }

    /// Consolidates after a step that leaves this share of the graph's vertices as tombstones, or a greater one:
    /// [`Self::CONSOLIDATE_AT`] if not set; 0 after every step with deletes, above 1 never.
    pub fn consolidate_at(mut self, share: f64) -> Self {
        self.consolidate_at = share;
        self
    }

    /// Reads the true neighbors at step N from the file `stepN.gt100` of this folder, as big-ann-benchmarks publishes
    /// them; those that are not there are found and written. Not set, all are found and none is written.
    pub fn truths(mut self, folder: &'a Path) -> Self {
        self.truths = Some(folder);
        self
    }

    /// Threads that look for true neighbors; 0, if not set, means one for each processor.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Does all steps on an empty index, wherever it lives, telling `report` of each when it is done, and `progress` how far it is within.
    ///
    /// Cost: that of the steps, and at each search without a file a distance from every query to every live row. Memory
    /// beside the index: 4 bytes for each row of the base, and 256 MB of rows while true neighbors are looked for.
    ///
    /// # Errors
    /// [`PlayError`].
    pub fn play(
        &self,
        index: &Index<T>,
        progress: &mut ProgressFn<'_>,
        report: &mut dyn FnMut(Moment),
    ) -> Result<(), PlayError> {
        let stats = index.stats();
        self.check(&stats)?;
        let truths = self.truths_by(stats.metric)?;
        let mut live = TagRows::below(self.runbook.rows());
        for step in self.runbook.steps() {
            let number = step.number;
            live.apply(&step.operation);
            let mut report = |(event, count, time), stats| {
                report(Moment { step: number, event, count, time, stats });
            };
            let failed = |cause| PlayError::Step { step: number, cause };
            let done = self.step(index, step, &truths, &live, progress).map_err(failed)?;
            report(done, index.stats());
            if let Some(done) = self.consolidate(index, progress).map_err(|error| failed(error.into()))? {
                report(done, index.stats());
            }
        }
        Ok(())
    }

    /// Builds an index anew over what the last step leaves, and asks it: what is lost against it, the changes have
    /// cost.
    ///
    /// Cost: that of the build and of one search, and a copy of the vectors that are left.
    ///
    /// # Errors
    /// [`PlayError`].
    pub fn fresh(
        &self,
        builder: IndexBuilder<'_>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Fresh, PlayError> {
        self.runbook.check_rows(self.base.len())?;
        let mut live = TagRows::below(self.runbook.rows());
        let steps = self.runbook.steps();
        steps.iter().for_each(|step| live.apply(&step.operation));
        let keys: Vec<Key> = live.iter().map(|(tag, _)| tag.into()).collect();
        let rows: Vec<T> = live.iter().flat_map(|(_, row)| self.base.row(row as usize)).copied().collect();
        let rows = MatrixView::new(&rows, self.base.dimension()).expect("whole rows of the base");
        let begun = Instant::now();
        let (index, _) = builder.keys(&keys).build_with(&rows, progress)?;
        let build_time = begun.elapsed();
        // Files are of searches: what another step leaves has none.
        let last = &steps[steps.len() - 1];
        let folder = self.truths.filter(|_| last.operation == Operation::Search);
        let truths = Self { truths: folder, ..*self }.truths_by(index.metric())?;
        let step = last.number;
        let asked = self.ask(&index, step, &truths, &live, progress);
        let (event, count, time) = asked.map_err(|cause| PlayError::Step { step, cause })?;
        Ok(Fresh { build_time, search: Moment { step, event, count, time, stats: index.stats() } })
    }

    fn truths_by(&self, metric: Metric) -> Result<Truths<'a, T>, PlayError> {
        if self.queries.is_empty() {
            return Err(PlayError::NoQueries);
        }
        let pool = ThreadPoolBuilder::new().num_threads(self.threads).build();
        let pool = pool.map_err(|error| PlayError::Threads(Box::new(error)))?;
        let (base, queries, k, folder) = (self.base, self.queries, self.search.k, self.truths);
        Ok(Truths { base, queries, metric, k, folder, pool })
    }

    fn check(&self, stats: &IndexStats) -> Result<(), PlayError> {
        self.runbook.check_rows(self.base.len())?;
        let (base, queries, index) = (self.base.dimension(), self.queries.dimension(), stats.dimension);
        if base != queries || base != index {
            return Err(PlayError::Dimension { base, queries, index });
        }
        if stats.keys > 0 { Err(PlayError::NotEmpty(stats.keys)) } else { Ok(()) }
    }

    /// Does one step; gives what it was, of how many, and how long it took. `live` is what is live behind it.
    fn step(
        &self,
        index: &Index<T>,
        step: &Step,
        truths: &Truths<'_, T>,
        live: &TagRows,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Event, usize, Duration), StepCause> {
        let rows = |ids: &Range<u32>| self.base.slice(ids.start as usize..ids.end as usize);
        let keys = |tags: &Range<u32>| tags.clone().map(Key::from).collect::<Vec<_>>();
        let begun = Instant::now();
        let (event, count) = match &step.operation {
            Operation::Insert(ids) => {
                index.insert_with(&rows(ids), &keys(ids), progress)?;
                (Event::Insert, ids.len())
            }
            Operation::Replace { tags, ids } => {
                index.upsert(&rows(ids), &keys(tags))?;
                (Event::Replace, ids.len())
            }
            Operation::Delete(tags) => {
                index.delete(&keys(tags))?;
                (Event::Delete, tags.len())
            }
            Operation::Search => return self.ask(index, step.number, truths, live, progress),
        };
        Ok((event, count, begun.elapsed()))
    }

    /// Asks all queries, and compares with what is true.
    fn ask(
        &self,
        index: &Index<T>,
        step: usize,
        truths: &Truths<'_, T>,
        live: &TagRows,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Event, usize, Duration), StepCause> {
        let begun = Instant::now();
        let truth = truths.at(step, live, progress)?;
        let truth_time = begun.elapsed();
        let mut matches = Matches::new(self.queries.len(), self.search.k)?;
        let begun = Instant::now();
        let cost = index.search_to(self.queries, self.search, matches.as_mut())?.cost;
        let time = begun.elapsed();
        let recall = mean_recall(matches.keys(), self.search.k, |query| truth.truth(query));
        Ok((Event::Search { recall, cost, truth_time }, self.queries.len(), time))
    }

    /// Consolidates where tombstones are many.
    fn consolidate(
        &self,
        index: &Index<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Option<(Event, usize, Duration)>, UpdateError> {
        let IndexStats { vertices, deleted, .. } = index.stats();
        if deleted == 0 || (deleted as f64) < self.consolidate_at * (vertices + deleted) as f64 {
            return Ok(None);
        }
        let begun = Instant::now();
        let freed = index.consolidate_with(progress)?.freed;
        Ok(Some((Event::Consolidate, freed, begun.elapsed())))
    }
}
