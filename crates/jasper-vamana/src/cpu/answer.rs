//! Answers for users on the processor.

use jasper_core::{Element, MatrixView, Neighbor, VectorId};
use jasper_graph::{Graph, Scorer};
use rayon::prelude::*;

use super::beam::Score;
use super::{Beam, Scratch, TOGETHER, order_by_nearness};
use crate::{
    CpuExecutor, Hit, Matches, MatchesMut, SearchCost, SearchError, SearchParams, SearchPlan, SearchReport,
    Strategy,
};

/// Queries that a thread takes at a time where there are many: what codes them reads a matrix once for all of a block.
const BLOCK: usize = 32;
/// Blocks a thread where there are few: searches differ in length, and nobody should wait for the last.
const SHARES: usize = 4;

impl CpuExecutor {
    /// Searches for every row of `queries` and writes the results to `matches`, `k` entries per query.
    ///
    /// Queries run in parallel; the results of one do not depend on the others.
    ///
    /// # Errors
    /// [`SearchError`]; the contents of `matches` are then unspecified.
    pub fn answer<T: Element>(
        &self,
        graph: &Graph<T>,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        let plan = SearchPlan::new(graph, params, usize::MAX)?;
        plan.check_size(queries.len(), &matches)?;
        let rows: Vec<_> = queries.rows().collect();
        let order = order_by_nearness(self.pool(), &rows);
        let mut outputs: Vec<Option<MatchesMut<'_>>> = matches.rows(params.k).map(Some).collect();
        let mut tasks: Vec<Task<'_, T>> = order
            .into_iter()
            .map(|row| row as usize)
            .filter_map(|row| Some(Task { row, vector: rows[row], out: outputs[row].take()? }))
            .collect();
        if let [task] = &mut tasks[..] {
            return self.with_scratch(|scratch| scratch.answer(&plan, std::slice::from_mut(task)));
        }
        let shares = tasks.len().div_ceil(SHARES * self.threads());
        let block = shares.next_multiple_of(TOGETHER).clamp(TOGETHER, BLOCK);
        let reports: Result<Vec<_>, SearchError> = self.pool().install(|| {
            tasks
                .par_chunks_mut(block)
                .map(|tasks| self.with_scratch(|scratch| scratch.answer(&plan, tasks)))
                .collect()
        });
        Ok(reports?.into_iter().fold(SearchReport::default(), |mut sum, report| {
            sum += report;
            sum
        }))
    }

    /// The answers to one query: `k`, or as many as there are.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn answer_one<T: Element>(
        &self,
        graph: &Graph<T>,
        query: &[T],
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        let plan = SearchPlan::new(graph, params, usize::MAX)?;
        let mut matches = Matches::new(1, params.k.min(graph.keys().len()))?;
        let mut task = [Task { row: 0, vector: query, out: matches.as_mut() }];
        self.with_scratch(|scratch| scratch.answer(&plan, &mut task))?;
        Ok(matches.hits(0).collect())
    }
}

/// A query and where its results go.
struct Task<'a, T> {
    row: usize,
    vector: &'a [T],
    out: MatchesMut<'a>,
}

impl Scratch {
    /// Answers the queries of a block.
    fn answer<T: Element>(
        &mut self,
        plan: &SearchPlan<'_, T>,
        tasks: &mut [Task<'_, T>],
    ) -> Result<SearchReport, SearchError> {
        let graph = plan.graph();
        let mut prepared = vec![Vec::new(); tasks.len()];
        for (prepared, task) in prepared.iter_mut().zip(&*tasks) {
            graph.vectors().prepare(task.row, task.vector, prepared)?;
        }
        let is_estimated = plan.strategy() != Strategy::Scan || !graph.has_vectors();
        let codes = plan.rerank().filter(|_| is_estimated).and_then(|_| graph.vectors().codes());
        let estimators = codes.map(|codes| codes.scorers(prepared.iter().map(|query| &**query)));
        let mut report = SearchReport::default();
        for (first, tasks) in (0..).step_by(TOGETHER).zip(tasks.chunks_mut(TOGETHER)) {
            let range = first..first + tasks.len();
            let scorers = prepared[range.clone()].iter().map(|prepared| graph.vectors().scorer(prepared));
            let scorers: Vec<_> = match &estimators {
                Some(_) => scorers.collect(),
                None => scorers.map(Scorer::sketched).collect(),
            };
            match (plan.strategy(), &estimators) {
                (Strategy::Beam(width), Some(estimators)) => {
                    Beam::search(&mut self.beams, &estimators[range], graph, width, usize::MAX);
                }
                (Strategy::Beam(width), None) => {
                    Beam::search(&mut self.beams, &scorers, graph, width, usize::MAX);
                }
                (Strategy::Scan, _) => {}
            }
            for (place, (task, scorer)) in tasks.iter_mut().zip(&scorers).enumerate() {
                report += match &estimators {
                    Some(estimators) if !graph.has_vectors() => {
                        self.finish(plan, place, &estimators[first + place], &mut task.out)
                    }
                    _ => self.finish(plan, place, scorer, &mut task.out),
                };
            }
        }
        Ok(report)
    }

    /// Writes the answers to the query whose search beam `place` did; `scorer` gives the best distances that there are.
    fn finish<T: Element>(
        &mut self,
        plan: &SearchPlan<'_, T>,
        place: usize,
        scorer: &impl Score,
        out: &mut MatchesMut<'_>,
    ) -> SearchReport {
        let mut report = SearchReport::default();
        self.candidates.clear();
        if plan.strategy() != Strategy::Scan {
            report.cost += self.beams[place].cost();
            self.candidates.extend_from_slice(self.beams[place].found());
        }
        if let Some(rerank) = plan.rerank() {
            report.reranked = self.rerank(scorer, rerank) as u64;
            report.cost.distances += report.reranked;
        }
        let filled = plan.fill(pairs(&self.candidates), out);
        if plan.wants_scan(filled) {
            let found = scan(plan, scorer, &mut report.cost);
            plan.fill(pairs(&found), out);
            report.scanned = 1;
        }
        report
    }

    /// Gives the first `count` candidates exact distances, and orders them by those; tells how many there were.
    fn rerank(&mut self, scorer: &impl Score, count: usize) -> usize {
        let count = count.min(self.candidates.len());
        let Self { candidates, ids, distances, .. } = self;
        let candidates = &mut candidates[..count];
        ids.clear();
        ids.extend(candidates.iter().map(|near| near.id()));
        distances.resize(count, 0.0);
        scorer.prefetch_score(ids);
        scorer.score(ids, distances);
        for (candidate, (&id, &distance)) in candidates.iter_mut().zip(ids.iter().zip(&*distances)) {
            *candidate = Neighbor::new(distance, id);
        }
        candidates.sort_unstable();
        count
    }
}

fn pairs(found: &[Neighbor]) -> impl Iterator<Item = (VectorId, f32)> {
    found.iter().map(|near| (near.id(), near.distance()))
}

/// The nearest `k` vertices with a key that may be returned, by looking at all.
fn scan<T: Element>(plan: &SearchPlan<'_, T>, scorer: &impl Score, cost: &mut SearchCost) -> Vec<Neighbor> {
    let matching: Vec<VectorId> = plan.matching().collect();
    let mut distances = vec![0.0; matching.len()];
    scorer.score(&matching, &mut distances);
    cost.distances += matching.len() as u64;
    let mut found: Vec<_> = distances.iter().zip(matching).map(|(&d, slot)| Neighbor::new(d, slot)).collect();
    if found.len() > plan.k() {
        found.select_nth_unstable(plan.k() - 1);
        found.truncate(plan.k());
    }
    found.sort_unstable();
    found
}
