//! Plays runbooks on an index, and measures every step.

mod error;
mod tags;
mod truth;

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use jasper::{Error, Index, IndexBuilder, IndexStats, OperationCounts, SearchParams};
use jasper_core::recall::mean_recall;
use jasper_core::{Element, Key, MatrixView, Metric, ProgressFn};
use jasper_data::pool_builder;

use crate::{Operation, Runbook, Step};
pub use error::{PlayError, StepCause};
use tags::TagRows;
use truth::Truths;
pub use truth::{TruthFileError, truth_path};

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// Inserted vectors.
    Insert,
    /// Deleted vectors.
    Delete,
    /// Replaced the vectors of tags.
    Replace,
    /// Consolidated the graph, because the step left many tombstones.
    Consolidate,
    /// Searched for all queries.
    #[non_exhaustive]
    Search {
        /// Mean recall@k among the vectors of this step.
        recall: f64,
        /// Cost of all searches.
        cost: OperationCounts,
        /// Time to compute or read the true neighbors, not part of [`StepReport::time`].
        truth_time: Duration,
    },
}

impl Event {
    /// `insert`, `delete`, `replace`, `consolidate` or `search`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Delete => "delete",
            Self::Replace => "replace",
            Self::Consolidate => "consolidate",
            Self::Search { .. } => "search",
        }
    }
}

/// A step, or a consolidation after one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StepReport {
    /// Number of the step.
    pub step: usize,
    /// The kind of the step.
    pub event: Event,
    /// Number of vectors, freed slots or queries.
    pub count: usize,
    /// Time of the step.
    pub time: Duration,
    /// The index after the step.
    pub stats: IndexStats,
}

/// A new index built from the vectors that the last step of a runbook leaves.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rebuild {
    /// Time of the build.
    pub build_time: Duration,
    /// A search for all queries.
    pub search: StepReport,
}

/// A runbook, its vectors, and how to play it.
#[derive(Clone, Copy, Debug)]
#[must_use = "a player does nothing until `play`"]
pub struct Player<'a, T> {
    runbook: &'a Runbook,
    base: MatrixView<'a, T>,
    queries: MatrixView<'a, T>,
    search: SearchParams<'static>,
    consolidate_at: f64,
    truths: Option<&'a Path>,
    threads: Option<usize>,
}

impl<'a, T: Element> Player<'a, T> {
    /// Default share of tombstones at which the graph is consolidated. Searches traverse tombstones, and a
    /// consolidation costs nearly the same for few of them as for many.
    pub const CONSOLIDATE_AT: f64 = 0.1;

    /// Plays `runbook` with the vectors of `base`. Each search runs all `queries`, for 10 neighbors with a beam width
    /// of 64.
    pub fn new(runbook: &'a Runbook, base: MatrixView<'a, T>, queries: MatrixView<'a, T>) -> Self {
        let search = SearchParams::new(10).beam_width(64);
        let consolidate_at = Self::CONSOLIDATE_AT;
        Self { runbook, base, queries, search, consolidate_at, truths: None, threads: None }
    }

    /// Searches for `k` neighbors with this beam width.
    pub fn search(mut self, k: usize, beam_width: usize) -> Self {
        self.search = SearchParams::new(k).beam_width(beam_width);
        self
    }

    /// Consolidates after a step that leaves at least this share of the vertices as tombstones: 0 means after every
    /// step with deletes, above 1 never. [`Self::CONSOLIDATE_AT`] by default.
    pub fn consolidate_at(mut self, share: f64) -> Self {
        self.consolidate_at = share;
        self
    }

    /// Reads the true neighbors at step N from the file `stepN.gt100` of this folder, as big-ann-benchmarks publishes
    /// them. Missing files are computed and written. Without this, all are computed and none is written.
    pub fn truths(mut self, folder: &'a Path) -> Self {
        self.truths = Some(folder);
        self
    }

    /// Threads that compute true neighbors; `None`, the default, means one per CPU.
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Plays all steps on an empty index, which may [report its progress](Index::with_progress). Calls `report` after each
    /// step, and `progress` while true neighbors are computed.
    ///
    /// The cost is that of the steps, and at each search without a file the distance from every query to every live
    /// vector. In addition to the index, this takes 4 bytes of memory per vector of the base, and 256 MB of vectors
    /// while true neighbors are computed.
    ///
    /// # Errors
    /// Returns [`PlayError`].
    pub fn play(
        &self,
        index: &Index,
        progress: &mut ProgressFn<'_>,
        report: &mut dyn FnMut(StepReport),
    ) -> Result<(), PlayError> {
        let stats = index.stats();
        self.check(&stats)?;
        let truths = self.truths_by(stats.metric)?;
        let mut live = TagRows::below(self.runbook.rows());
        for step in self.runbook.steps() {
            let number = step.number;
            live.apply(&step.operation);
            let mut report = |(event, count, time), stats| {
                report(StepReport { step: number, event, count, time, stats });
            };
            let failed = |cause| PlayError::Step { step: number, cause };
            let done = self.step(index, step, &truths, &live, progress).map_err(failed)?;
            report(done, index.stats());
            if let Some(done) = self.consolidate(index).map_err(|error| failed(error.into()))? {
                report(done, index.stats());
            }
        }
        Ok(())
    }

    /// Builds a new index from the vectors that the last step leaves, and searches it. The difference in recall is the
    /// effect of the updates.
    ///
    /// The cost is that of one build, one search, and a copy of the vectors.
    ///
    /// # Errors
    /// Returns [`PlayError`].
    pub fn rebuild(
        &self,
        builder: IndexBuilder<'_>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Rebuild, PlayError> {
        self.runbook.check_rows(self.base.len())?;
        let mut live = TagRows::below(self.runbook.rows());
        let steps = self.runbook.steps();
        steps.iter().for_each(|step| live.apply(&step.operation));
        let keys: Vec<Key> = live.iter().map(|(tag, _)| tag.into()).collect();
        let rows: Vec<T> = live.iter().flat_map(|(_, row)| self.base.row(row as usize)).copied().collect();
        let (builder, begun) = (builder.keys(&keys), Instant::now());
        let rows = MatrixView::new(&rows, self.base.dimension()).map_err(Error::from)?;
        let index = builder.build(rows)?;
        let build_time = begun.elapsed();
        // Only searches have files of true neighbors.
        let last = &steps[steps.len() - 1];
        let folder = self.truths.filter(|_| last.operation == Operation::Search);
        let truths = Self { truths: folder, ..*self }.truths_by(index.stats().metric)?;
        let step = last.number;
        let searched = self.search_all(&index, step, &truths, &live, progress);
        let (event, count, time) = searched.map_err(|cause| PlayError::Step { step, cause })?;
        Ok(Rebuild { build_time, search: StepReport { step, event, count, time, stats: index.stats() } })
    }

    fn truths_by(&self, metric: Metric) -> Result<Truths<'a, T>, PlayError> {
        if self.queries.is_empty() {
            return Err(PlayError::NoQueries);
        }
        let pool = pool_builder(self.threads).build();
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

    /// Plays one step; `live` are the vectors after it. Returns its kind, the number of vectors or queries, and its
    /// time.
    fn step(
        &self,
        index: &Index,
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
                index.insert(rows(ids), &keys(ids))?;
                (Event::Insert, ids.len())
            }
            Operation::Replace { tags, ids } => {
                index.upsert(rows(ids), &keys(tags))?;
                (Event::Replace, ids.len())
            }
            Operation::Delete(tags) => {
                index.delete(&keys(tags))?;
                (Event::Delete, tags.len())
            }
            Operation::Search => {
                return self.search_all(index, step.number, truths, live, progress);
            }
        };
        Ok((event, count, begun.elapsed()))
    }

    /// Runs all queries and compares the results with the true neighbors.
    fn search_all(
        &self,
        index: &Index,
        step: usize,
        truths: &Truths<'_, T>,
        live: &TagRows,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Event, usize, Duration), StepCause> {
        let begun = Instant::now();
        let truth = truths.at(step, live, progress)?;
        let truth_time = begun.elapsed();
        let begun = Instant::now();
        let matches = index.search_batch(self.queries, self.search)?;
        let time = begun.elapsed();
        let recall = mean_recall(matches.keys(), self.search.k, |query| truth.truth(query));
        let cost = matches.report().cost;
        Ok((Event::Search { recall, cost, truth_time }, self.queries.len(), time))
    }

    /// Consolidates if there are many tombstones.
    fn consolidate(&self, index: &Index) -> Result<Option<(Event, usize, Duration)>, Error> {
        let IndexStats { live_vertices: vertices, tombstones: deleted, .. } = index.stats();
        if deleted == 0 || (deleted as f64) < self.consolidate_at * (vertices + deleted) as f64 {
            return Ok(None);
        }
        let begun = Instant::now();
        let freed = index.consolidate()?.freed;
        Ok(Some((Event::Consolidate, freed, begun.elapsed())))
    }
}
