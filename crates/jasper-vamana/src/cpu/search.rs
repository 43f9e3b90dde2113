//! Executes queries on the CPU.

use jasper_core::{Element, Neighbor, Slot, VectorView, with_element};
use jasper_data::parallel;
use jasper_graph::{ComputeDistances, DistanceComputer, Graph, VectorError};

use super::{SEARCHES_PER_THREAD, SearchState, ThreadBuffers, order_by_nearness};
use crate::top_k::TopK;
use crate::{
    CostModel, CpuExecutor, Filter, Hit, Matches, MatchesMut, OperationCounts, PendingQuery, SearchError,
    SearchParams, SearchPlan, SearchReport, Strategy, check_elements,
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
    pub fn search_batch(
        &self,
        graph: &Graph,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        if let Some(Filter::PerQuery(_)) = params.filter {
            return self.search_each(graph, queries, params, matches);
        }
        self.search_planned(&SearchPlan::new(graph, params, queries.len(), CostModel::CPU)?, queries, matches)
    }

    /// Searches for each of `queries` with its own filter.
    fn search_each(
        &self,
        graph: &Graph,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        params.check_filters(queries.len())?;
        check(graph, params.k, queries, &matches)?;
        self.search_tasks(params.k, queries, matches, |buffers, queries| {
            let mut sum = SearchReport::default();
            for query in queries {
                let plan = SearchPlan::new(graph, params.of_query(query.row), 1, CostModel::CPU)?;
                sum += buffers.search_task(&plan, std::slice::from_mut(query))?;
            }
            Ok(sum)
        })
    }

    /// Searches for each of `queries` by a plan, which may be one for a device: its results can then be compared with
    /// those of the CPU.
    ///
    /// # Errors
    /// Returns [`SearchError`]; the contents of `matches` are then unspecified.
    pub fn search_planned(
        &self,
        plan: &SearchPlan<'_>,
        queries: &[VectorView<'_>],
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        check(plan.graph, plan.params.k, queries, &matches)?;
        let search = |buffers: &mut ThreadBuffers, queries: &mut [PendingQuery<'_>]| {
            buffers.search_task(plan, queries)
        };
        self.search_tasks(plan.params.k, queries, matches, search)
    }

    /// Calls `search` for parts of the queries, in parallel; returns the sum of the reports.
    fn search_tasks(
        &self,
        k: usize,
        queries: &[VectorView<'_>],
        matches: MatchesMut<'_>,
        search: impl Fn(&mut ThreadBuffers, &mut [PendingQuery<'_>]) -> Result<SearchReport, SearchError> + Sync,
    ) -> Result<SearchReport, SearchError> {
        let Some(first) = queries.first() else { return Ok(SearchReport::default()) };
        let order = with_element!(first.element(), T => {
            let rows: Vec<&[T]> = queries.iter().map(VectorView::of).collect();
            order_by_nearness(self.search_pool(), &rows)
        });
        let mut outputs: Vec<Option<MatchesMut<'_>>> = matches.rows(k).map(Some).collect();
        let mut tasks: Vec<PendingQuery<'_>> = order
            .into_iter()
            .map(|row| row as usize)
            .filter_map(|row| Some(PendingQuery::new(row, queries[row], outputs[row].take()?)))
            .collect();
        if let [query] = &mut tasks[..] {
            return self.with_buffers(|buffers| search(buffers, std::slice::from_mut(query)));
        }
        let task_len = tasks
            .len()
            .div_ceil(TASKS_PER_THREAD * self.threads())
            .next_multiple_of(SEARCHES_PER_THREAD)
            .clamp(SEARCHES_PER_THREAD, MAX_QUERIES_PER_TASK);
        let reports = parallel::map_on(Some(self.search_pool()), tasks.chunks_mut(task_len), |queries| {
            self.with_buffers(|buffers| search(buffers, queries))
        });
        let mut sum = SearchReport::default();
        for report in reports {
            sum += report?;
        }
        Ok(sum)
    }

    /// Searches for one vector. Returns `k` hits, or as many as there are.
    ///
    /// # Errors
    /// Returns [`SearchError`].
    pub fn search_one(
        &self,
        graph: &Graph,
        query: VectorView<'_>,
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        params.check_filters(1)?;
        check_elements(graph, &[query])?;
        let plan = SearchPlan::new(graph, params.of_query(0), 1, CostModel::CPU)?;
        let mut matches = Matches::new(1, params.k.min(graph.keys().len()))?;
        let mut query = [PendingQuery::new(0, query, matches.as_mut())];
        self.with_buffers(|buffers| buffers.search_task(&plan, &mut query))?;
        Ok(matches.hits(0).collect())
    }
}

/// Checks the element type and the lengths of all queries, and the length of the arrays for their results.
fn check(
    graph: &Graph,
    k: usize,
    queries: &[VectorView<'_>],
    matches: &MatchesMut<'_>,
) -> Result<(), SearchError> {
    matches.check(queries.len(), k)?;
    check_elements(graph, queries)?;
    let expected = graph.dimension();
    match queries.iter().position(|query| query.len() != expected) {
        Some(row) => Err(VectorError::Dimension { row, given: queries[row].len(), expected }.into()),
        None => Ok(()),
    }
}

impl ThreadBuffers {
    /// Searches for the queries of one task, and again for those with too few hits. Orders the queries as it likes.
    fn search_task(
        &mut self,
        plan: &SearchPlan<'_>,
        queries: &mut [PendingQuery<'_>],
    ) -> Result<SearchReport, SearchError> {
        with_element!(plan.graph.element(), T => self.search_task_of::<T>(plan, queries))
    }

    fn search_task_of<T: Element>(
        &mut self,
        plan: &SearchPlan<'_>,
        queries: &mut [PendingQuery<'_>],
    ) -> Result<SearchReport, SearchError> {
        let graph = plan.graph;
        let mut prepared = vec![Vec::new(); queries.len()];
        for (prepared, query) in prepared.iter_mut().zip(&*queries) {
            graph.vectors().prepare(query.row, query.vector.of::<T>(), prepared)?;
        }
        let is_estimated = plan.strategy != Strategy::Scan || !graph.has_vectors();
        let codes = plan.rerank.filter(|_| is_estimated).and_then(|_| graph.vectors().codes());
        let estimators =
            codes.map(|codes| codes.distance_computers(prepared.iter().map(|prepared| &**prepared)));
        let mut report = SearchReport::default();
        for (first, queries) in
            (0..).step_by(SEARCHES_PER_THREAD).zip(queries.chunks_mut(SEARCHES_PER_THREAD))
        {
            let range = first..first + queries.len();
            let computers =
                prepared[range.clone()].iter().map(|prepared| graph.vectors().distance_computer(prepared));
            let computers: Vec<_> = match &estimators {
                Some(_) => computers.collect(),
                None => computers.map(DistanceComputer::sketched).collect(),
            };
            match (plan.strategy, &estimators) {
                (Strategy::Beam(size), Some(estimators)) => {
                    SearchState::search(&mut self.searches, &estimators[range], graph, size, usize::MAX);
                }
                (Strategy::Beam(size), None) => {
                    SearchState::search(&mut self.searches, &computers, graph, size, usize::MAX);
                }
                (Strategy::Scan, _) => {}
            }
            for (i, (query, computer)) in queries.iter_mut().zip(&computers).enumerate() {
                report += match &estimators {
                    Some(estimators) if !graph.has_vectors() => {
                        self.finish(plan, i, &estimators[first + i], query)
                    }
                    _ => self.finish(plan, i, computer, query),
                };
            }
        }
        let needs_scan =
            |query: &PendingQuery<'_>| plan.strategy != Strategy::Scan && plan.needs_scan(query.filled);
        queries.sort_by_key(|query| !needs_scan(query));
        let short = queries.partition_point(needs_scan);
        if short > 0 {
            report += self.search_task_of::<T>(&plan.as_scan(), &mut queries[..short])?;
        }
        Ok(report)
    }

    /// Writes the results of the interleaved search `i`, or of a scan. `computer` computes exact distances, or estimates
    /// if there are no vectors.
    fn finish(
        &mut self,
        plan: &SearchPlan<'_>,
        i: usize,
        computer: &impl ComputeDistances,
        query: &mut PendingQuery<'_>,
    ) -> SearchReport {
        let mut report = SearchReport::default();
        if plan.strategy == Strategy::Scan {
            let mut found = Vec::new();
            if plan.needs_scan(0) {
                found = scan(plan, computer, &mut report.cost);
                report.scanned = 1;
            }
            query.filled = plan.fill(pairs(&found), &mut query.out);
            return report;
        }
        report.cost += self.searches[i].cost;
        self.candidates.clear();
        self.candidates.extend_from_slice(self.searches[i].found());
        if let Some(rerank) = plan.rerank {
            report.reranked = self.rerank(computer, rerank) as u64;
            report.cost.distances += report.reranked;
        }
        query.filled = plan.fill(pairs(&self.candidates), &mut query.out);
        report
    }

    /// Computes the distances of the first `count` candidates and sorts them by distance. Returns the number of
    /// distances.
    fn rerank(&mut self, computer: &impl ComputeDistances, count: usize) -> usize {
        let count = count.min(self.candidates.len());
        let Self { candidates, slots, distances, .. } = self;
        let candidates = &mut candidates[..count];
        slots.clear();
        slots.extend(candidates.iter().map(|near| near.slot()));
        distances.resize(count, 0.0);
        computer.prefetch_distances(slots);
        computer.compute(slots, distances);
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
fn scan(
    plan: &SearchPlan<'_>,
    computer: &impl ComputeDistances,
    cost: &mut OperationCounts,
) -> Vec<Neighbor> {
    let allowed = plan.list_allowed();
    let mut distances = vec![0.0; allowed.len()];
    computer.compute(allowed, &mut distances);
    cost.distances += allowed.len() as u64;
    let mut nearest = TopK::new(plan.params.k);
    distances.iter().zip(allowed).for_each(|(&d, &slot)| nearest.add(Neighbor::new(d, slot)));
    nearest.into_sorted()
}
