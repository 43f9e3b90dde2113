//! Searches for queries in device memory.

use std::time::Duration;

use anyhow::Result;
use gpu_kernels::search::{Answer, Search, SearchArgs};
use gpu_kernels::{Buffer as _, DevicePtr, DevicePtrMut, Stream};
use jasper_core::{Element, MatrixView};
use jasper_cuda::{DeviceGraph, median_time};
use jasper_graph::Graph;

use super::point::{Point, Setting};
use super::set::Set;

/// A graph and its queries, both in device memory.
pub struct DeviceSearch<'a, T: Element, S: Stream = jasper_cuda::Stream> {
    pub(super) stream: &'a S,
    pub(super) graph: DeviceGraph<T, S>,
    pub(super) queries: S::Buffer<T>,
}

/// The arguments and result buffers of a batch.
pub(super) struct Batch<S: Stream> {
    pub(super) args: SearchArgs,
    /// `[queries][k]`
    answers: S::Buffer<Answer>,
    /// `[queries][2]`
    work: S::Buffer<u32>,
}

/// The results of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchResults {
    /// `[queries][k]`: keys, nearest first.
    pub keys: Vec<u64>,
    /// Vertices expanded per query.
    pub hops: f64,
    /// distances computed a query.
    pub distances: f64,
}

/// Launches that are timed together, back to back.
const TOGETHER: usize = 100;
/// Rounds of a measurement, and how long they may take together: a launch that takes long varies little.
const ROUNDS: usize = 5;
const TIMED: f64 = 0.4;

impl<'a, T: Element, S: Stream> DeviceSearch<'a, T, S> {
    /// Copies `count` queries to the device of `stream`, which holds `copy`, a copy of `graph`. The `queries` are repeated.
    pub fn new(
        stream: &'a S,
        graph: &Graph<T>,
        copy: DeviceGraph<T, S>,
        queries: MatrixView<'_, T>,
        count: usize,
    ) -> Result<Self> {
        let (mut rows, mut row) = (Vec::new(), Vec::new());
        for i in 0..count.min(queries.len()) {
            graph.vectors().prepare(i, queries.row(i), &mut row)?;
            rows.extend_from_slice(&row);
        }
        let (distinct, all) = (rows.len(), count * row.len());
        rows.reserve_exact(all - distinct);
        while rows.len() < all {
            rows.extend_from_within(..distinct.min(all - rows.len()));
        }
        Ok(Self { stream, graph: copy, queries: stream.upload(&rows)? })
    }

    /// The kernel that the library would use.
    pub fn kernel(&self, setting: Setting) -> Search {
        let row_bytes = self.graph.args().row_bytes;
        Search::for_rows(T::KIND, self.graph.measure(), row_bytes, setting.beam_width, setting.launch.warps)
    }

    pub(super) fn batch(&self, setting: Setting, queries: usize) -> Result<Batch<S>> {
        let Setting { k, beam_width, launch } = setting;
        let mut answers = self.stream.allocate::<Answer>(queries * k as usize)?;
        let mut work = self.stream.allocate::<u32>(queries * 2)?;
        let args = SearchArgs {
            graph: self.graph.args(),
            queries: self.queries.input().cast(),
            query_rows: DevicePtr::null(),
            allowed: DevicePtr::null(),
            answers: answers.output(),
            rest: DevicePtr::null(),
            candidates: DevicePtrMut::null(),
            work: work.output(),
            log: DevicePtrMut::null(),
            queries_len: queries as u32,
            k,
            beam_width,
            max_hops: u32::MAX,
            expansions: launch.expansions,
            visited_slots: launch.visited_slots,
            starts_stride: 0,
            candidates_len: 0,
            form: self.graph.form(),
        };
        assert!(queries * self.graph.row_len() <= self.queries.len(), "{queries} queries were not copied");
        Ok(Batch { args, answers, work })
    }

    fn launch(&self, kernel: &Search, batch: &Batch<S>) -> Result<(), S::Error> {
        // SAFETY: the graph is that of `upload`, the queries are rows of its length and as many as `batch` has checked,
        // and answers and work have room for them; nobody else uses the two.
        unsafe { self.stream.launch(kernel, batch.args) }
    }

    pub(super) fn read(&self, batch: &Batch<S>) -> Result<SearchResults> {
        let answers = self.stream.download(&batch.answers)?;
        let keys = answers.iter().map(|&[low, high, ..]| u64::from(high) << 32 | u64::from(low)).collect();
        let work = self.stream.download(&batch.work)?;
        let mean = |of: usize| {
            let sum: u64 = work.iter().skip(of).step_by(2).map(|&count| u64::from(count)).sum();
            sum as f64 / f64::from(batch.args.queries_len)
        };
        Ok(SearchResults { keys, hops: mean(0), distances: mean(1) })
    }

    /// Asks the first `queries` queries, untimed.
    pub fn ask(&self, kernel: &Search, setting: Setting, queries: usize) -> Result<SearchResults> {
        let batch = self.batch(setting, queries)?;
        self.launch(kernel, &batch)?;
        self.read(&batch)
    }

    /// Bytes of rows and edges that a query asks for.
    fn bytes(&self, found: &SearchResults) -> f64 {
        let graph = self.graph.args();
        let norm = if graph.squared_norms.is_null() { 0 } else { size_of::<f32>() as u32 };
        found.distances * f64::from(graph.row_bytes + norm)
            + found.hops * f64::from(graph.links_stride * size_of::<u32>() as u32)
    }
}

impl<T: Element> DeviceSearch<'_, T> {
    /// What `kernel` takes on `queries` queries, without the way to the device and back: launches after each other, each
    /// of the next ones.
    pub fn time_alone(&self, kernel: &Search, setting: Setting, queries: usize) -> Result<Duration> {
        let mut batch = self.batch(setting, queries)?;
        let (first, len) = (batch.args.queries, queries * batch.args.graph.row_bytes as usize);
        let all = self.queries.len() / (queries * self.graph.row_len());
        let work = || {
            for launch in 0..TOGETHER {
                batch.args.queries = first.add(launch % all * len);
                self.launch(kernel, &batch)?;
            }
            Ok::<(), anyhow::Error>(())
        };
        Ok(median_time(self.stream, ROUNDS, || Ok(()), work)? / TOGETHER as u32)
    }

    /// Times `kernel` on the first `queries` queries of `set`.
    pub fn measure(&self, kernel: &Search, set: &Set, setting: Setting, queries: usize) -> Result<Point> {
        let batch = self.batch(setting, queries)?;
        let taken = self.time(&mut || self.launch(kernel, &batch))?;
        let found = self.read(&batch)?;
        Ok(self.point(set, setting, queries, taken, &found, self.bytes(&found)))
    }

    /// The median time of some launches, as many as make a measurement.
    pub(super) fn time(
        &self,
        launch: &mut dyn FnMut() -> Result<(), jasper_cuda::Error>,
    ) -> Result<Duration> {
        let mut time = |rounds| median_time(self.stream, rounds, || Ok(()), &mut *launch);
        let once = time(1)?;
        let rounds = ((TIMED / once.as_secs_f64()) as usize).min(ROUNDS);
        Ok(if rounds > 1 { time(rounds)? } else { once })
    }

    /// What a batch that took so long says of a setting, of which a query asks for `bytes`.
    pub(super) fn point(
        &self,
        set: &Set,
        setting: Setting,
        queries: usize,
        taken: Duration,
        found: &SearchResults,
        bytes: f64,
    ) -> Point {
        let rate = queries as f64 / taken.as_secs_f64();
        Point {
            setting,
            queries,
            recall: set.recall(setting.k as usize, &found.keys),
            rate,
            hops: found.hops,
            distances: found.distances,
            bytes_per_second: bytes * rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::emulator::Emulator;
    use gpu_kernels::emulated::EmulatedStream;
    use jasper_core::synthetic::Clusters;
    use jasper_core::{BuildParams, Metric, no_progress};
    use jasper_cuda::VectorStorage;
    use jasper_vamana::{CpuExecutor, Matches, SearchParams, bulk_build};

    use super::*;

    /// A small graph, and its first rows as queries.
    fn graph() -> (Graph<i8>, Vec<i8>) {
        let rows: Vec<i8> = Clusters::new(20, 3).rows(300, 0);
        let (view, cpu) = (MatrixView::new(&rows, 20).unwrap(), CpuExecutor::new(1).unwrap());
        let (graph, _) =
            bulk_build(&cpu, &view, None, Metric::L2, BuildParams::default(), &mut no_progress).unwrap();
        (graph, rows[..4 * 20].to_vec())
    }

    #[test]
    fn the_device_answers_as_the_cpu_does() {
        let (graph, queries) = graph();
        let queries = MatrixView::new(&queries, 20).unwrap();
        let stream = EmulatedStream::new(Emulator::new(5));
        let copy = DeviceGraph::upload(&stream, &graph, VectorStorage::Host).unwrap();
        let search = DeviceSearch::new(&stream, &graph, copy, queries, 6).unwrap();
        for beam_width in [5, 150] {
            let setting = Setting::new(5, beam_width);
            let found = search.ask(&search.kernel(setting), setting, 6).unwrap();
            let mut matches = Matches::new(4, 5).unwrap();
            let params = SearchParams::new(5).beam_width(beam_width as usize);
            let cpu = CpuExecutor::new(1).unwrap();
            let report = cpu.answer(&graph, queries, params, matches.as_mut()).unwrap();
            let expected: Vec<u64> = matches.keys().iter().chain(&matches.keys()[..2 * 5]).copied().collect();
            assert_eq!(found.keys, expected, "the first two queries come again");
            let alone = search.ask(&search.kernel(setting), setting, 4).unwrap();
            assert_eq!((alone.hops, &alone.keys[..]), (report.cost.hops as f64 / 4.0, &expected[..20]));
            assert_eq!(search.bytes(&alone), alone.distances * 32.0 + alone.hops * 64.0 * 4.0);
        }
    }
}
