//! The steps of a batch, as launches in one stream.

use std::marker::PhantomData;
use std::sync::Arc;

use gpu_kernels::graph::NO_ROW;
use gpu_kernels::groups::Groups;
use gpu_kernels::prune::{
    COUNTERS, DISTANCES, HOPS, IDENTICAL, Link, LinkArgs, Merge, MergeArgs, PRUNE_DISTANCES, PruneArgs,
    ReverseEdges, ReverseEdgesArgs,
};
use gpu_kernels::search::{Answer, Search, SearchArgs};
use gpu_kernels::sort::{Pairs, SortScratch, sort_pairs};
use gpu_kernels::{Buffer as _, DevicePtr, DevicePtrMut, Stream};
use jasper_core::{BuildParams, Element, VectorId, defaults};
use jasper_graph::Graph;
use jasper_vamana::{CpuExecutor, Linker, SearchCost};

use super::parts::{Candidates, DeviceBackEdges, DeviceLinks, DeviceUpdates, Part};
use crate::DeviceGraph;
use crate::graph::{GraphId, LinkRows};
use crate::search::config::default_launch;

/// Vertices that are searched for before they are pruned: enough to fill a device some ten times, and few enough that
/// their candidates are no more than the sort of the back edges takes in builds of ten million vertices.
pub(super) const SEARCHED_AT_ONCE: usize = 1 << 15;
/// Targets of back edges whose rows are worked out before they are written.
pub(super) const TARGETS_AT_ONCE: u32 = 1 << 18;

/// Links batches of vertices into a graph in the memory of a device: what the CPU executor does, by kernels.
///
/// All of it is queued in one stream. The host waits three times a batch, for a few counters each.
#[derive(Debug)]
pub struct DeviceLinker<T, S = crate::Stream> {
    pub(super) stream: S,
    pub(super) params: BuildParams,
    /// Whose threads do the host's part of updates.
    pub(super) host: Option<Arc<CpuExecutor>>,
    element: PhantomData<fn() -> T>,
}

impl<T: Element, S: Stream> DeviceLinker<T, S> {
    /// A linker for copies of `graph` on the device of `stream`.
    pub fn new(stream: S, graph: &Graph<T>) -> Self {
        Self { stream, params: *graph.params(), host: None, element: PhantomData }
    }

    /// The linker with threads for the host's part of updates, which otherwise is done by the thread that calls.
    #[must_use]
    pub fn with_threads_of(self, host: Arc<CpuExecutor>) -> Self {
        Self { host: Some(host), ..self }
    }

    /// The stream that everything is queued in.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    pub(super) fn counters(&self) -> Result<S::Buffer<u64>, S::Error> {
        let mut counters = self.stream.allocate(COUNTERS)?;
        self.stream.fill(&mut counters, 0)?;
        Ok(counters)
    }

    pub(super) fn prune_args(&self, graph: &DeviceGraph<T, S>, counters: &mut S::Buffer<u64>) -> PruneArgs {
        PruneArgs {
            graph: graph.args(),
            form: graph.form(),
            alpha: self.params.alpha(),
            max_degree: self.params.max_degree() as u32,
            max_candidates: defaults::MAX_CANDIDATES as u32,
            counters: counters.output(),
        }
    }

    /// Each step takes what earlier steps made for the same graph: kernels read and write by it.
    pub(super) fn check(&self, graph: &DeviceGraph<T, S>, parts_of: GraphId) {
        assert_eq!(graph.id(), parts_of, "what a step made is for the graph that it was made of");
    }
}

fn cost_of(counters: &[u64]) -> SearchCost {
    SearchCost {
        hops: counters[HOPS],
        distances: counters[DISTANCES],
        prune_distances: counters[PRUNE_DISTANCES],
    }
}

impl<T: Element, S: Stream> Linker<T> for DeviceLinker<T, S> {
    type Graph = DeviceGraph<T, S>;
    type Error = S::Error;
    type Candidates = Candidates<S>;
    type Links = DeviceLinks<S>;
    type BackEdges = DeviceBackEdges<S>;
    type Updates = DeviceUpdates<S>;

    const SEARCHED_AT_ONCE: usize = SEARCHED_AT_ONCE;

    fn search(&self, graph: &DeviceGraph<T, S>, batch: &[VectorId]) -> Result<Candidates<S>, S::Error> {
        assert!(
            batch.iter().all(|vertex| vertex.index() < graph.slots()),
            "a batch is of slots of the graph"
        );
        let (stream, beam_width) = (&self.stream, self.params.build_beam_width());
        let most = self.params.max_hops() as u32;
        let launch = default_launch(batch.len(), stream.multiprocessors(), graph.args().row_bytes);
        let batch = stream.upload::<u32>(bytemuck::cast_slice(batch))?;
        let mut keys = stream.allocate(batch.len() * most as usize)?;
        let mut work = stream.allocate(batch.len() * 2)?;
        let mut answers = stream.allocate::<Answer>(batch.len())?;
        let args = SearchArgs {
            graph: graph.args(),
            queries: graph.args().rows,
            query_rows: batch.input(),
            allowed: DevicePtr::null(),
            answers: answers.output(),
            rest: DevicePtr::null(),
            candidates: DevicePtrMut::null(),
            work: work.output(),
            log: keys.output(),
            queries_len: batch.len() as u32,
            k: 1,
            beam_width: beam_width as u32,
            max_hops: most,
            expansions: launch.expansions,
            visited_slots: launch.visited_slots,
            starts_stride: 0,
            candidates_len: 0,
            form: graph.form(),
        };
        let kernel = Search::for_rows(
            T::KIND,
            graph.form().measure(),
            args.graph.row_bytes,
            beam_width as u32,
            launch.warps,
        );
        let mut identical = stream.allocate(batch.len())?;
        stream.fill(&mut identical, NO_ROW.to_ne_bytes()[0])?;
        // SAFETY: the arrays have just been made in these shapes, and are given back behind the launch; the batch holds
        // slots of the graph, as asserted.
        unsafe { stream.launch(&kernel, args)? };
        let (counters, graph) = (self.counters()?, graph.id());
        Ok(Candidates { batch, keys, work, identical, batch_candidates: None, counters, most, graph })
    }

    fn prune(
        &self,
        graph: &DeviceGraph<T, S>,
        mut candidates: Candidates<S>,
    ) -> Result<DeviceLinks<S>, S::Error> {
        self.check(graph, candidates.graph);
        let (stream, lists) = (&self.stream, candidates.lists());
        let stride = graph.args().links_stride;
        let mut rows = LinkRows::allocate(stream, lists, stride)?;
        let mut distances = stream.allocate(rows.ids.len())?;
        let args = LinkArgs {
            prune: self.prune_args(graph, &mut candidates.counters),
            batch: candidates.batch.input(),
            candidates: candidates.keys.input(),
            batch_candidates: candidates
                .batch_candidates
                .as_ref()
                .map_or(DevicePtr::null(), |keys| keys.input()),
            work: candidates.work.input(),
            identical: candidates.identical.input(),
            vertices: rows.vertices.output(),
            ids: rows.ids.output(),
            distances: distances.output(),
            lists,
            candidates_stride: candidates.most,
        };
        // SAFETY: the arrays have just been made in these shapes, and are given back behind the launch; the candidates
        // are those of a search of this graph.
        unsafe {
            stream.launch(&Link::for_rows(T::KIND, args.prune.form, args.prune.graph.row_bytes), args)?
        };
        let counters = stream.download(&candidates.counters)?;
        let mut same = Vec::new();
        if counters[IDENTICAL] > 0 {
            let vertices =
                stream.download(&candidates.batch)?.into_iter().zip(stream.download(&candidates.identical)?);
            let named = vertices.filter(|&(_, other)| other != NO_ROW);
            same.extend(named.map(|(vertex, other)| (VectorId::new(vertex), VectorId::new(other))));
        }
        let slot_bits = usize::BITS - graph.slots().leading_zeros();
        let part = Part { rows, distances, slot_bits, graph: graph.id() };
        Ok(DeviceLinks { parts: vec![part], identical: same, cost: cost_of(&counters) })
    }

    fn publish_links(&self, graph: &mut DeviceGraph<T, S>, links: &DeviceLinks<S>) -> Result<(), S::Error> {
        links.parts.iter().try_for_each(|part| {
            self.check(graph, part.graph);
            graph.publish_links(&self.stream, &part.rows)
        })
    }

    fn reverse_edges(&self, links: DeviceLinks<S>) -> Result<DeviceBackEdges<S>, S::Error> {
        let stream = &self.stream;
        let len: usize = links.parts.iter().map(|part| part.rows.ids.len()).sum();
        let mut edges = Pairs::allocate(stream, len as u32)?;
        let mut first = 0;
        let slot_bits = links.parts.iter().map(|part| part.slot_bits).max().unwrap_or(0);
        let graph = links.parts.first().map(|part| part.graph);
        assert!(links.parts.iter().all(|part| Some(part.graph) == graph), "links are of one graph");
        for Part { rows, distances, .. } in links.parts {
            let args = ReverseEdgesArgs {
                vertices: rows.vertices.input(),
                ids: rows.ids.input(),
                distances: distances.input(),
                keys: edges.keys.output().add(first),
                sources: edges.values.output().add(first),
                lists: rows.len(),
                links_stride: (rows.ids.len() / rows.vertices.len()) as u32,
            };
            // SAFETY: there is room for the links of all parts, and each writes behind those before it.
            unsafe { stream.launch(&ReverseEdges, args)? };
            first += rows.ids.len();
        }
        let mut scratch = SortScratch::allocate(stream, len as u32)?;
        sort_pairs(stream, &mut edges, len as u32, 0..u32::BITS + slot_bits, &mut scratch)?;
        drop(scratch);
        let mut targets = Groups::allocate(stream, len as u32)?;
        targets.find(stream, &edges.keys, len as u32, u32::BITS)?;
        let targets_len = stream.download(&targets.count)?[0];
        Ok(DeviceBackEdges { edges, targets, targets_len, merged: 0, graph })
    }

    fn merge(
        &self,
        graph: &DeviceGraph<T, S>,
        back_edges: &mut DeviceBackEdges<S>,
    ) -> Result<Option<DeviceUpdates<S>>, S::Error> {
        let DeviceBackEdges { edges, targets, targets_len, merged, graph: parts_of } = back_edges;
        let len = (*targets_len - *merged).min(TARGETS_AT_ONCE);
        let (Some(parts_of), 1..) = (*parts_of, len) else { return Ok(None) };
        self.check(graph, parts_of);
        let mut counters = self.counters()?;
        let mut rows = LinkRows::allocate(&self.stream, len, graph.args().links_stride)?;
        let args = MergeArgs {
            prune: self.prune_args(graph, &mut counters),
            keys: edges.keys.input(),
            sources: edges.values.input(),
            begins: targets.begins.input().add(*merged as usize),
            vertices: rows.vertices.output(),
            ids: rows.ids.output(),
            targets: len,
        };
        // SAFETY: the rows have just been made in these shapes; the edges are sorted, lead from and to slots of the
        // graph, and are grouped by their targets, of which there are as many.
        unsafe {
            self.stream
                .launch(&Merge::for_rows(T::KIND, args.prune.form, args.prune.graph.row_bytes), args)?;
        }
        *merged += len;
        Ok(Some(DeviceUpdates { rows, counters, graph: parts_of }))
    }

    fn publish(
        &self,
        graph: &mut DeviceGraph<T, S>,
        updates: DeviceUpdates<S>,
    ) -> Result<SearchCost, S::Error> {
        self.check(graph, updates.graph);
        graph.publish_links(&self.stream, &updates.rows)?;
        Ok(cost_of(&self.stream.download(&updates.counters)?))
    }
}
