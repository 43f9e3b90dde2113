//! Executes queries on the CPU.

use jasper_core::{Element, Neighbor, Slot};
use jasper_graph::{Graph, Score, Scorer, VectorError};
use rayon::prelude::*;

use super::{Beam, SEARCHES_PER_THREAD, Scratch, order_by_nearness};
use crate::top_k::TopK;
use crate::{
    CostModel, CpuExecutor, Hit, Matches, MatchesMut, OperationCounts, SearchError, SearchParams, SearchPlan,
    SearchReport, Strategy,
};

/// Maximum number of queries per task. Quantizing them reads the rotation matrix once per task.
const MAX_QUERIES_PER_TASK: usize = 32;
/// Tasks per thread if there are few queries. Searches differ in length, and threads should end at about the same time.
const TASKS_PER_THREAD: usize = 4;

impl CpuExecutor {
    /// Searches for each of `queries` and writes the results to `matches`, `k` entries per query.
    ///
    /// Queries run in parallel. The results of a query do not depend on the others.
    ///
    /// # Errors
    /// Returns [`SearchError`]; the contents of `matches` are then unspecified.
    pub fn search_batch<T: Element>(
        &self,
        graph: &Graph<T>,
        queries: &[&[T]],
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        self.search_planned(&SearchPlan::new(graph, params, queries.len(), CostModel::CPU)?, queries, matches)
    }

    /// Searches for each of `queries` by a plan, which may be one for a device: its results can then be compared with
    /// those of the CPU.
    ///
    /// # Errors
    /// Returns [`SearchError`]; the contents of `matches` are then unspecified.
    pub fn search_planned<T: Element>(
        &self,
        plan: &SearchPlan<'_, T>,
        queries: &[&[T]],
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        plan.check_size(queries.len(), &matches)?;
        let expected = plan.graph.dimension();
        if let Some((row, query)) = queries.iter().enumerate().find(|(_, query)| query.len() != expected) {
            return Err(VectorError::Dimension { row, given: query.len(), expected }.into());
        }
        let order = order_by_nearness(self.pool(), queries);
        let mut outputs: Vec<Option<MatchesMut<'_>>> = matches.rows(plan.params.k).map(Some).collect();
        let mut tasks: Vec<Query<'_, T>> = order
            .into_iter()
            .map(|row| row as usize)
            .filter_map(|row| Some(Query { row, vector: queries[row], out: outputs[row].take()?, filled: 0 }))
            .collect();
        if let [query] = &mut tasks[..] {
            return self.with_scratch(|scratch| scratch.search_task(plan, std::slice::from_mut(query)));
        }
        let task_len = tasks
            .len()
            .div_ceil(TASKS_PER_THREAD * self.threads())
            .next_multiple_of(SEARCHES_PER_THREAD)
            .clamp(SEARCHES_PER_THREAD, MAX_QUERIES_PER_TASK);
        let reports: Result<Vec<_>, SearchError> = self.pool().install(|| {
            tasks
                .par_chunks_mut(task_len)
                .map(|queries| self.with_scratch(|scratch| scratch.search_task(plan, queries)))
                .collect()
        });
        let mut sum = SearchReport::default();
        reports?.into_iter().for_each(|report| sum += report);
        Ok(sum)
    }

    /// Searches for one vector. Returns `k` hits, or as many as there are.
    ///
    /// # Errors
    /// Returns [`SearchError`].
    pub fn search_one<T: Element>(
        &self,
        graph: &Graph<T>,
        query: &[T],
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        let plan = SearchPlan::new(graph, params, 1, CostModel::CPU)?;
        let mut matches = Matches::new(1, params.k.min(graph.keys().len()))?;
        let mut query = [Query { row: 0, vector: query, out: matches.as_mut(), filled: 0 }];
        self.with_scratch(|scratch| scratch.search_task(&plan, &mut query))?;
        Ok(matches.hits(0).collect())
    }
}

/// A query and the arrays for its results.
struct Query<'a, T> {
    row: usize,
    vector: &'a [T],
    out: MatchesMut<'a>,
    /// Number of hits.
    filled: usize,
}

impl Scratch {
    /// Searches for the queries of one task, and again for those with too few hits. Orders the queries as it likes.
    fn search_task<T: Element>(
        &mut self,
        plan: &SearchPlan<'_, T>,
        queries: &mut [Query<'_, T>],
    ) -> Result<SearchReport, SearchError> {
        let graph = plan.graph;
        let mut prepared = vec![Vec::new(); queries.len()];
        for (prepared, query) in prepared.iter_mut().zip(&*queries) {
            graph.vectors().prepare(query.row, query.vector, prepared)?;
        }
        let is_estimated = plan.strategy != Strategy::Scan || !graph.has_vectors();
        let codes = plan.rerank.filter(|_| is_estimated).and_then(|_| graph.vectors().codes());
        let estimators = codes.map(|codes| codes.scorers(prepared.iter().map(|prepared| &**prepared)));
        let mut report = SearchReport::default();
        for (first, queries) in
            (0..).step_by(SEARCHES_PER_THREAD).zip(queries.chunks_mut(SEARCHES_PER_THREAD))
        {
            let range = first..first + queries.len();
            let scorers = prepared[range.clone()].iter().map(|prepared| graph.vectors().scorer(prepared));
            let scorers: Vec<_> = match &estimators {
                Some(_) => scorers.collect(),
                None => scorers.map(Scorer::sketched).collect(),
            };
            match (plan.strategy, &estimators) {
                (Strategy::Beam(size), Some(estimators)) => {
                    Beam::search(&mut self.beams, &estimators[range], graph, size, usize::MAX);
                }
                (Strategy::Beam(size), None) => {
                    Beam::search(&mut self.beams, &scorers, graph, size, usize::MAX);
                }
                (Strategy::Scan, _) => {}
            }
            for (i, (query, scorer)) in queries.iter_mut().zip(&scorers).enumerate() {
                report += match &estimators {
                    Some(estimators) if !graph.has_vectors() => {
                        self.finish(plan, i, &estimators[first + i], query)
                    }
                    _ => self.finish(plan, i, scorer, query),
                };
            }
        }
        let wants_more =
            |query: &Query<'_, T>| plan.strategy != Strategy::Scan && plan.wants_more(query.filled);
        queries.sort_by_key(|query| !wants_more(query));
        let short = queries.partition_point(wants_more);
        if short > 0 {
            report += self.search_task(&plan.as_scan(), &mut queries[..short])?;
        }
        Ok(report)
    }

    /// Writes the results of the search in beam `i`, or of a scan. `scorer` computes exact distances, or estimates if
    /// there are no vectors.
    fn finish<T: Element>(
        &mut self,
        plan: &SearchPlan<'_, T>,
        i: usize,
        scorer: &impl Score,
        query: &mut Query<'_, T>,
    ) -> SearchReport {
        let mut report = SearchReport::default();
        if plan.strategy == Strategy::Scan {
            if plan.wants_more(0) {
                let found = scan(plan, scorer, &mut report.cost);
                query.filled = plan.fill(pairs(&found), &mut query.out);
                report.scanned = 1;
            }
            return report;
        }
        report.cost += self.beams[i].cost;
        self.candidates.clear();
        self.candidates.extend_from_slice(self.beams[i].found());
        if let Some(rerank) = plan.rerank {
            report.reranked = self.rerank(scorer, rerank) as u64;
            report.cost.distances += report.reranked;
        }
        query.filled = plan.fill(pairs(&self.candidates), &mut query.out);
        report
    }

    /// Computes the distances of the first `count` candidates and sorts them by distance. Returns the number of
    /// distances.
    fn rerank(&mut self, scorer: &impl Score, count: usize) -> usize {
        let count = count.min(self.candidates.len());
        let Self { candidates, slots, distances, .. } = self;
        let candidates = &mut candidates[..count];
        slots.clear();
        slots.extend(candidates.iter().map(|near| near.slot()));
        distances.resize(count, 0.0);
        scorer.prefetch_score(slots);
        scorer.score(slots, distances);
        for (candidate, (&slot, &distance)) in candidates.iter_mut().zip(slots.iter().zip(&*distances)) {
            *candidate = Neighbor::new(distance, slot);
        }
        candidates.sort_unstable();
        count
    }
}

fn pairs(found: &[Neighbor]) -> impl Iterator<Item = (Slot, f32)> {
    found.iter().map(|near| (near.slot(), near.distance()))
}

/// The nearest `k` vertices with a key that may be returned, by brute force.
fn scan<T: Element>(
    plan: &SearchPlan<'_, T>,
    scorer: &impl Score,
    cost: &mut OperationCounts,
) -> Vec<Neighbor> {
    let allowed = plan.list_allowed();
    let mut distances = vec![0.0; allowed.len()];
    scorer.score(&allowed, &mut distances);
    cost.distances += allowed.len() as u64;
    let mut nearest = TopK::new(plan.params.k);
    distances.iter().zip(allowed).for_each(|(&d, slot)| nearest.add(Neighbor::new(d, slot)));
    nearest.into_sorted()
}
