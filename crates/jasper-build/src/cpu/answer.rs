//! Answers for users on the processor.

use jasper_core::{Element, MatrixView, Neighbor, VectorId};
use jasper_graph::{Graph, Scorer};
use rayon::prelude::*;

use super::{Beam, Scratch, TOGETHER, order_by_nearness};
use crate::{CpuExecutor, Hit, Request, SearchError, SearchParams, SearchReport, Way, Work};

impl CpuExecutor {
    /// Answers every row of `queries` into `hits`, `k` places a query: nearest first, by (distance, vertex), then
    /// [`Hit::NONE`].
    ///
    /// Queries run in parallel; the answers do not depend on how many there are.
    ///
    /// # Errors
    /// [`SearchError`]; what `hits` holds then means nothing.
    pub fn answer<T: Element>(
        &self,
        graph: &Graph<T>,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, SearchError> {
        let request = Request::new(graph, params, usize::MAX)?;
        request.check_places(queries.len(), hits)?;
        let rows: Vec<_> = queries.rows().collect();
        let order = order_by_nearness(&rows);
        let mut places: Vec<Option<&mut [Hit]>> = hits.chunks_mut(params.k).map(Some).collect();
        let mut tasks: Vec<Task<'_, T>> = order
            .into_iter()
            .map(|row| row as usize)
            .filter_map(|row| Some(Task { row, vector: rows[row], hits: places[row].take()? }))
            .collect();
        if let [task] = &mut tasks[..] {
            return self.with_scratch(|scratch| scratch.answer(&request, std::slice::from_mut(task)));
        }
        let reports: Result<Vec<_>, SearchError> = self.pool().install(|| {
            tasks
                .par_chunks_mut(TOGETHER)
                .map(|tasks| self.with_scratch(|scratch| scratch.answer(&request, tasks)))
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
        let request = Request::new(graph, params, usize::MAX)?;
        let mut hits = vec![Hit::NONE; params.k.min(graph.keys())];
        let mut task = [Task { row: 0, vector: query, hits: &mut hits }];
        self.with_scratch(|scratch| scratch.answer(&request, &mut task))?;
        hits.retain(|hit| *hit != Hit::NONE);
        Ok(hits)
    }
}

/// A query and the places for its answers.
struct Task<'a, T> {
    row: usize,
    vector: &'a [T],
    hits: &'a mut [Hit],
}

impl Scratch {
    /// Answers a few queries, at most [`TOGETHER`].
    fn answer<T: Element>(
        &mut self,
        request: &Request<'_, T>,
        tasks: &mut [Task<'_, T>],
    ) -> Result<SearchReport, SearchError> {
        let graph = request.graph();
        let mut prepared: [Vec<T>; TOGETHER] = Default::default();
        for (prepared, task) in prepared.iter_mut().zip(&*tasks) {
            graph.prepare(task.row, task.vector, prepared)?;
        }
        let scorers: Vec<_> =
            prepared[..tasks.len()].iter().map(|prepared| graph.scorer(prepared).sketched()).collect();
        if let Way::Beam(width) = request.way() {
            Beam::search(&mut self.beams, &scorers, graph, width, usize::MAX);
        }
        let mut report = SearchReport::default();
        for ((task, scorer), beam) in tasks.iter_mut().zip(&scorers).zip(&self.beams) {
            let mut found = &[][..];
            if request.way() != Way::Scan {
                report.work += beam.work();
                found = beam.found();
            }
            let filled = request.fill(pairs(found), task.hits);
            if request.wants_scan(filled) {
                let found = scan(request, scorer, &mut report.work);
                request.fill(pairs(&found), task.hits);
                report.scanned += 1;
            }
        }
        Ok(report)
    }
}

fn pairs(found: &[Neighbor]) -> impl Iterator<Item = (VectorId, f32)> {
    found.iter().map(|near| (near.id(), near.distance()))
}

/// The nearest `k` vertices with a key that may be returned, by looking at all.
fn scan<T: Element>(request: &Request<'_, T>, scorer: &Scorer<'_, T>, work: &mut Work) -> Vec<Neighbor> {
    let matching: Vec<VectorId> = request.matching().collect();
    let mut distances = vec![0.0; matching.len()];
    scorer.score(&matching, &mut distances);
    work.distances += matching.len() as u64;
    let mut found: Vec<_> = distances.iter().zip(matching).map(|(&d, slot)| Neighbor::new(d, slot)).collect();
    if found.len() > request.k() {
        found.select_nth_unstable(request.k() - 1);
        found.truncate(request.k());
    }
    found.sort_unstable();
    found
}
