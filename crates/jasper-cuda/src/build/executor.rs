//! The steps of builds and updates, as launches in one stream.

use std::sync::Arc;

use gpu_kernels::edges::{
    FindDetached, FindDetachedArgs, FindRowWithRoom, FindRowWithRoomArgs, ReachableSet,
};
use gpu_kernels::graph::NO_SLOT;
use gpu_kernels::groups::Groups;
use gpu_kernels::prune::{
    COUNTERS, DUPLICATES, FindDuplicates, FindDuplicatesArgs, FindPeers, FindPeersArgs, Merge, MergeArgs,
    PruneArgs, PruneNew, PruneNewArgs, Repair, RepairArgs, ReverseEdges, ReverseEdgesArgs,
};
use gpu_kernels::search::{Search, SearchArgs};
use gpu_kernels::sort::{Pairs, SortScratch, sort_pairs};
use gpu_kernels::{Buffer as _, DevicePtr, DevicePtrMut, Stream};
use jasper_core::{BitSet, BuildParams, Neighbor, Slot};
use jasper_graph::Graph;
use jasper_vamana::{
    BeamSize, CandidateSearch, ChunkEdges, CpuExecutor, Executor, GraphAccess, MutableGraph, OperationCounts,
    PeerSampling, Published, Vertices,
};

use super::candidates::Candidates;
use super::edges::{BackEdges, Edges, NewRows, OrderedDistances, SortedEdges, cost_of};
use super::few::{MergeRoom, ReversedEdges};
use crate::graph::{DeviceGraph, EdgeRows, GraphId, HostAndDeviceGraph, KernelGraph};
use crate::search::launch::{search_args, search_kernel};
use crate::search::params::default_launch;

/// Vertices that are searched for before they are pruned: enough to fill a device some ten times, and few enough that
/// their candidates take no more memory than the sort of the back edges in builds of ten million vertices.
pub(crate) const SEARCH_CHUNK: usize = 1 << 15;
/// Targets of back edges whose rows are computed before they are written.
pub(super) const MERGE_CHUNK: u32 = 1 << 18;
/// Number of peers that a vertex is compared with before the nearest are selected. Together with up to 128 selected
/// ones they take 8 KB of shared memory.
const PEER_CHUNK: u32 = 896;
/// More vertices than this are searched for by SQ4, if there are SQ4 vectors. Teams, which search for few, read SQ8.
const MAX_SEARCHES_BY_SQ8: usize = 256;
/// Candidates and edges that a vertex has room for, at least: a block that prunes has room for one per warp.
const MIN_CANDIDATES: usize = 4;

/// The [`Executor`] of a CUDA device: builds and updates graphs in its memory. Its kernels decide as [`CpuExecutor`]
/// does, but for searches by SQ4.
///
/// All kernels are queued in one stream. In a batch of a bulk build, the host waits for a few counters: once per chunk
/// of searches, once for the back edges, and once per chunk of merges.
#[derive(Debug)]
pub struct DeviceExecutor<S = crate::Stream> {
    pub(super) stream: S,
    params: BuildParams,
    /// Provides the threads for the work on the host.
    cpu: Arc<CpuExecutor>,
    /// Whether updates choose edges by exact distances of float vectors, never by those of SQ8 vectors.
    exact_linking: bool,
}

impl<S: Stream> DeviceExecutor<S> {
    /// An executor for copies of `graph` on the device of `stream`. The threads of `cpu` do the work on the host.
    pub fn new(stream: S, graph: &Graph, cpu: Arc<CpuExecutor>) -> Self {
        let params = *graph.params();
        Self { stream, params, cpu, exact_linking: false }
    }

    /// Sets whether updates choose edges by exact distances of float vectors. Otherwise large ones use distances of SQ8
    /// vectors, quantized on the device to a byte per coordinate, unless a
    /// [trial](jasper_vamana::ScalarQuantizer::accepted) refuses it or there is no room.
    #[must_use]
    pub fn exact_linking(self, exact_linking: bool) -> Self {
        Self { exact_linking, ..self }
    }

    fn counters(&self) -> Result<S::Buffer<u64>, S::Error> {
        let mut counters = self.stream.allocate(COUNTERS)?;
        self.stream.fill(&mut counters, 0)?;
        Ok(counters)
    }

    pub(super) fn prune_args(
        &self,
        host: &Graph,
        graph: &KernelGraph,
        counters: DevicePtrMut<u64>,
    ) -> PruneArgs {
        // Those of the executor may be older: a build widens its beam.
        let params = host.params();
        PruneArgs {
            graph: graph.args,
            form: graph.form,
            alpha: params.alpha(),
            max_degree: params.max_degree() as u32,
            min_degree: params.min_degree(host.metric()) as u32,
            max_candidates: params.max_candidates() as u32,
            counters,
        }
    }

    /// The vertices that these rows, once written, cut off from their parents in the spanning tree, if there is one.
    fn detached(&self, graph: &DeviceGraph<S>, rows: &EdgeRows<S>) -> Result<Vec<Slot>, S::Error> {
        let Some(parents) = &graph.parents else { return Ok(Vec::new()) };
        let mut detached = self.stream.allocate(rows.edges_len().min(parents.len()))?;
        let mut detached_len = self.stream.upload(&[0])?;
        let args = FindDetachedArgs {
            edges: self.stream.input(&graph.edges),
            parents: self.stream.input(parents),
            row_vertices: rows.vertices(&self.stream),
            neighbors: rows.neighbors(&self.stream),
            detached: self.stream.output(&mut detached),
            detached_len: self.stream.output(&mut detached_len),
            rows_len: rows.len(),
            edges_stride: graph.edges_stride(),
        };
        // SAFETY: the graph has a row and a parent for each slot, and there is a new row for each vertex, which are
        // distinct slots; a vertex has one parent, and is in the list once at most.
        unsafe { self.stream.launch(&FindDetached, args)? };
        let len = self.stream.download(&detached_len)?[0];
        if len == 0 {
            return Ok(Vec::new());
        }
        Ok(self.stream.download_range(&detached, 0..len as usize)?.into_iter().map(Slot::new).collect())
    }

    /// Waits until the new rows are computed, so that publishing them takes little time.
    fn wait_until_computed(
        &self,
        rows: EdgeRows<S>,
        counters: &S::Buffer<u64>,
        graph: GraphId,
    ) -> Result<NewRows<S>, S::Error> {
        let cost = cost_of(&self.stream.download(counters)?);
        Ok(NewRows { rows, graph, cost, detached: Vec::new(), is_small: false, detached_rows: None })
    }

    /// Panics unless an earlier step computed its result from this graph: kernels use its slots as indices.
    fn assert_same_graph(&self, graph: &DeviceGraph<S>, id: GraphId) {
        assert_eq!(graph.id, id, "the result of a step is for the graph that it was computed from");
    }
}

impl<S: Stream<Error: Clone>> DeviceExecutor<S> {
    /// The copy of `graph`, whose arrays belong to the stream of this executor.
    fn device_graph<'a>(&self, graph: &'a HostAndDeviceGraph<S>) -> &'a DeviceGraph<S> {
        let graph = graph.on_device();
        self.stream.check_owner(&graph.edges);
        graph
    }
}

impl<S: Stream<Error: Clone>> Executor for DeviceExecutor<S> {
    type Graph = HostAndDeviceGraph<S>;
    type Error = S::Error;
    type Candidates = Candidates<S>;
    type Edges = Edges<S>;
    type BackEdges = BackEdges<S>;
    type NewRows = NewRows<S>;

    const SEARCH_CHUNK: usize = SEARCH_CHUNK;

    fn host_pool(&self) -> &jasper_data::ThreadPool {
        self.cpu.pool()
    }

    fn quantize_for_linking(
        &self,
        graph: &mut dyn GraphAccess<HostAndDeviceGraph<S>>,
        new: &[Slot],
        distances: u64,
    ) -> Result<(), S::Error> {
        if self.exact_linking {
            return Ok(());
        }
        HostAndDeviceGraph::quantize_sq8(graph, self.cpu.pool(), new, distances)
    }

    fn find_candidates(
        &self,
        graph: &HostAndDeviceGraph<S>,
        chunk: &[Slot],
        search: CandidateSearch,
    ) -> Result<Candidates<S>, S::Error> {
        let graph = self.device_graph(graph);
        graph.check_vertices(chunk);
        let input = graph.linking_input();
        let (stream, beam) = (&self.stream, BeamSize::new(search.beam_width));
        let room = MIN_CANDIDATES.saturating_sub(self.params.max_degree());
        let stride = search.max_hops.max(room) as u32;
        let mut candidates = Candidates::new(stream, chunk, stride, graph.edges_stride(), graph.id)?;
        if search.max_hops == 0 {
            candidates.set_none(stream)?;
            return Ok(candidates);
        }
        let sq4 = graph.sq4_input().filter(|_| chunk.len() > MAX_SEARCHES_BY_SQ8);
        let searches = if sq4.is_some() { usize::MAX } else { chunk.len() };
        let launch = default_launch(searches, stream.multiprocessors(), input.args.shape.row_bytes());
        let frontier_len = beam.frontier_len as u32;
        let kernel = match &sq4 {
            Some(sq4) => Search::for_sq4(input.form.op(), sq4.shape.row_bytes(), frontier_len),
            None => search_kernel(&input, frontier_len, launch),
        };
        let mut searched = sq4.unwrap_or(input.args);
        let (entries, costs) = candidates.outputs(stream);
        let vertices = candidates.new_vertices(stream);
        if search.from_vertex {
            (searched.start_points, searched.start_points_len) = (vertices, 1);
        }
        let mut args = SearchArgs {
            graph: searched,
            queries: searched.vectors,
            query_rows: vertices,
            costs,
            queries_len: candidates.len(),
            k: 0,
            ..search_args(&input, beam, launch)
        };
        (args.beam.expanded_entries, args.beam.max_hops) = (entries, search.max_hops as u32);
        args.start.stride = search.from_vertex.into();
        // SAFETY: the arrays have just been allocated in these shapes, and are freed after the launch; the batch holds
        // slots of the graph, as checked.
        unsafe { stream.launch(&kernel, args)? };
        if sq4.is_some() {
            // SAFETY: the graph has the SQ8 vectors of its slots.
            unsafe { candidates.rescore(stream, &input)? };
        }
        Ok(candidates)
    }

    fn nearest_candidates(
        &self,
        candidates: Candidates<S>,
        k: usize,
    ) -> Result<Vec<(Slot, Vec<Slot>)>, S::Error> {
        candidates.nearest(&self.stream, k)
    }

    fn find_duplicates(
        &self,
        graph: &HostAndDeviceGraph<S>,
        mut candidates: Candidates<S>,
    ) -> Result<Candidates<S>, S::Error> {
        let (graph, stream) = (self.device_graph(graph), &self.stream);
        self.assert_same_graph(graph, candidates.graph);
        let args = FindDuplicatesArgs {
            rows: graph.args().vectors,
            candidates: candidates.args(stream),
            duplicate_of: candidates.duplicates(stream),
            row_bytes: graph.row_bytes(),
        };
        // SAFETY: the arrays have an entry or a row for each list; candidates are slots of this graph, as checked.
        unsafe { stream.launch(&FindDuplicates, args)? };
        Ok(candidates)
    }

    fn add_peers(
        &self,
        graph: &HostAndDeviceGraph<S>,
        mut candidates: Candidates<S>,
        sampling: PeerSampling,
    ) -> Result<Candidates<S>, S::Error> {
        let (host, graph, stream) = (graph.host(), self.device_graph(graph), &self.stream);
        self.assert_same_graph(graph, candidates.graph);
        if candidates.len() == 1 {
            return Ok(candidates);
        }
        let input = graph.linking_input();
        let mut peers = stream.allocate(candidates.len() as usize * self.params.max_degree())?;
        let args = FindPeersArgs {
            prune: self.prune_args(host, &input, candidates.counters(stream)),
            candidates: candidates.args(stream),
            duplicate_of: candidates.duplicate_of(stream),
            peers: stream.output(&mut peers),
            stride: sampling.stride as u32,
            second_round: sampling.second_round as u32,
            chunk_len: PEER_CHUNK,
        };
        // SAFETY: the arrays have an entry or a row for each list; vertices are slots of this graph, as checked.
        unsafe { stream.launch(&input.kernel(FindPeers::for_rows), args)? };
        candidates.peers = Some(peers);
        Ok(candidates)
    }

    fn prune(
        &self,
        graph: &HostAndDeviceGraph<S>,
        mut candidates: Candidates<S>,
        with_rows: bool,
    ) -> Result<ChunkEdges<Edges<S>>, S::Error> {
        let (host, graph) = (graph.host(), self.device_graph(graph));
        self.assert_same_graph(graph, candidates.graph);
        let input = graph.linking_input();
        let stream = &self.stream;
        let slot_bits = usize::BITS - graph.slots().leading_zeros();
        let edges_stride = graph.edges_stride();
        let prune = self.prune_args(host, &input, candidates.counters(stream));
        let (args, duplicate_of) = (candidates.args(stream), candidates.duplicate_of(stream));
        let peers = candidates.peers.take();
        let args = PruneNewArgs {
            prune,
            candidates: args,
            peers: peers.as_ref().map_or(DevicePtr::null(), |entries| stream.input(entries)),
            with_rows: with_rows.into(),
            duplicate_of,
            row_vertices: DevicePtrMut::null(),
            neighbors: DevicePtrMut::null(),
            ordered_distances: DevicePtrMut::null(),
        };
        let kernel = input.kernel(PruneNew::for_rows);
        let len = candidates.len() as usize;
        if candidates.has_rows() {
            // The array of the candidates becomes that of the rows; their entries are freed after the launch.
            let (mut rows, entries, first) = candidates.into_rows(edges_stride);
            let (row_vertices, neighbors) = rows.outputs(stream);
            let ordered_distances = stream.output(rows.array_mut()).add(first);
            let args = PruneNewArgs { row_vertices, neighbors, ordered_distances, ..args };
            // SAFETY: the array has room for the rows and distances of a small batch, and is freed after the launch; the
            // candidates are those of a search of this graph.
            unsafe { stream.launch(&kernel, args)? };
            drop((entries, peers));
            // While the device is busy.
            let room = MergeRoom::new(stream, graph, len)?;
            let words = stream.download(rows.array())?;
            rows.set_on_host(&words);
            let on_host = words[first..].to_vec();
            let distances = OrderedDistances::AfterRows { first, on_host, are_new: !with_rows, room };
            let counters = Candidates::<S>::counters_in(&words);
            let duplicates = Candidates::<S>::duplicates_in(&words, len);
            let edges = Edges { rows, distances, slot_bits, graph: graph.id };
            return Ok(ChunkEdges { edges, duplicates, cost: cost_of(&counters) });
        }
        let mut rows = EdgeRows::allocate(stream, candidates.len(), edges_stride)?;
        let mut ordered_distances = stream.allocate(rows.edges_len())?;
        let (row_vertices, neighbors) = rows.outputs(stream);
        let args = PruneNewArgs {
            row_vertices,
            neighbors,
            ordered_distances: stream.output(&mut ordered_distances),
            ..args
        };
        // SAFETY: the arrays have just been allocated in these shapes, and are freed after the launch; the candidates
        // are those of a search of this graph.
        unsafe { stream.launch(&kernel, args)? };
        let counters = Candidates::<S>::counters_in(&candidates.download_counters(stream)?);
        let duplicates = match counters[DUPLICATES] {
            0 => Vec::new(),
            _ => Candidates::<S>::duplicates_in(&candidates.download(stream)?, len),
        };
        let distances = OrderedDistances::Array(ordered_distances);
        let edges = Edges { rows, distances, slot_bits, graph: graph.id };
        Ok(ChunkEdges { edges, duplicates, cost: cost_of(&counters) })
    }

    fn publish_edges(&self, graph: &mut HostAndDeviceGraph<S>, chunks: &[Edges<S>]) -> Result<(), S::Error> {
        let graph = graph.on_device_mut();
        chunks.iter().try_for_each(|edges| {
            self.assert_same_graph(graph, edges.graph);
            // The merge of a small batch follows, and the end of its change, which waits for both.
            match edges.distances {
                OrderedDistances::AfterRows { are_new: true, .. } => graph.queue_new_rows(&edges.rows),
                OrderedDistances::AfterRows { are_new: false, .. } => graph.queue_rows(&edges.rows, None),
                OrderedDistances::Array(_) => graph.publish_rows(&edges.rows),
            }
        })
    }

    fn reverse_edges(&self, mut chunks: Vec<Edges<S>>) -> Result<BackEdges<S>, S::Error> {
        let stream = &self.stream;
        let graph = chunks.first().map(|chunk| chunk.graph);
        assert!(chunks.iter().all(|chunk| Some(chunk.graph) == graph), "edges are of one graph");
        if let [Edges { rows, distances, .. }] = &mut chunks[..]
            && let OrderedDistances::AfterRows { on_host: distances, room, .. } = distances
            && let Some(rows) = &rows.on_host
        {
            let edges = ReversedEdges::new(rows, distances, room.take());
            return Ok(BackEdges { edges: SortedEdges::OnHost(Some(edges)), graph });
        }
        let len: usize = chunks.iter().map(|chunk| chunk.rows.edges_len()).sum();
        let len = u32::try_from(len).expect("a batch has fewer than 2^32 edges, with padding");
        let mut edges = Pairs::allocate(stream, len)?;
        let mut first = 0;
        let slot_bits = chunks.iter().map(|chunk| chunk.slot_bits).max().unwrap_or(0);
        for chunk in chunks {
            let rows = &chunk.rows;
            let args = ReverseEdgesArgs {
                row_vertices: rows.vertices(stream),
                neighbors: rows.neighbors(stream),
                ordered_distances: chunk.distances(stream),
                sort_keys: stream.output(&mut edges.keys).add(first),
                sources: stream.output(&mut edges.values).add(first),
                vertices_len: rows.len(),
                edges_stride: (rows.edges_len() / rows.len() as usize) as u32,
            };
            // SAFETY: the array holds the edges of all chunks, and each chunk writes after those before it.
            unsafe { stream.launch(&ReverseEdges, args)? };
            first += rows.edges_len();
        }
        let mut scratch = SortScratch::allocate(stream, len)?;
        sort_pairs(stream, &mut edges, len, 0..u32::BITS + slot_bits, &mut scratch)?;
        drop(scratch);
        let mut targets = Groups::allocate(stream, len)?;
        targets.find(stream, &edges.keys, len, u32::BITS)?;
        let targets_len = stream.download(&targets.count)?[0];
        Ok(BackEdges { edges: SortedEdges::OnDevice { edges, targets, targets_len, merged: 0 }, graph })
    }

    fn merge(
        &self,
        graph: &HostAndDeviceGraph<S>,
        back_edges: &mut BackEdges<S>,
        max_kept: Option<usize>,
    ) -> Result<Option<NewRows<S>>, S::Error> {
        let (host, graph, stream) = (graph.host(), self.device_graph(graph), &self.stream);
        let max_kept = max_kept.unwrap_or(0) as u32;
        let BackEdges { edges, graph: id } = back_edges;
        let Some(id) = *id else { return Ok(None) };
        self.assert_same_graph(graph, id);
        let (edges, targets, targets_len, merged) = match edges {
            SortedEdges::OnDevice { edges, targets, targets_len, merged } => {
                (edges, targets, targets_len, merged)
            }
            SortedEdges::OnHost(edges) => {
                let edges = edges.take().filter(|edges| edges.targets() > 0);
                return edges.map(|edges| self.merge_few(host, graph, edges, max_kept)).transpose();
            }
        };
        let len = (*targets_len - *merged).min(MERGE_CHUNK);
        if len == 0 {
            return Ok(None);
        }
        let input = graph.linking_input();
        let mut counters = self.counters()?;
        let mut rows = EdgeRows::allocate(stream, len, graph.edges_stride())?;
        let (row_vertices, neighbors) = rows.outputs(stream);
        let args = MergeArgs {
            prune: self.prune_args(host, &input, stream.output(&mut counters)),
            sort_keys: stream.input(&edges.keys),
            sources: stream.input(&edges.values),
            offsets: stream.input(&targets.offsets).add(*merged as usize),
            row_vertices,
            neighbors,
            targets_len: len,
            max_kept,
        };
        // SAFETY: the rows have just been made in these shapes; the edges are sorted, lead from and to slots of the
        // graph, and are grouped by their targets, of which there are as many.
        unsafe { stream.launch(&input.kernel(Merge::for_rows), args)? };
        *merged += len;
        let detached = self.detached(graph, &rows)?;
        Ok(Some(NewRows { detached, ..self.wait_until_computed(rows, &counters, id)? }))
    }

    fn publish_rows(
        &self,
        graph: &mut HostAndDeviceGraph<S>,
        new_rows: NewRows<S>,
    ) -> Result<Published, S::Error> {
        let graph = graph.on_device_mut();
        self.assert_same_graph(graph, new_rows.graph);
        if new_rows.is_small {
            graph.queue_rows(&new_rows.rows, new_rows.detached_rows.as_ref())?;
        } else {
            graph.publish_rows(&new_rows.rows)?;
        }
        Ok(Published { cost: new_rows.cost, detached: new_rows.detached })
    }

    fn incoming_edges(&self, graph: &HostAndDeviceGraph<S>) -> Result<Vec<u32>, S::Error> {
        self.device_graph(graph).incoming_edges()
    }

    fn rows_to_repair(&self, graph: &HostAndDeviceGraph<S>) -> Result<Vec<Slot>, S::Error> {
        self.device_graph(graph).rows_to_repair()
    }

    fn repair_rows(&self, graph: &HostAndDeviceGraph<S>, vertices: &[Slot]) -> Result<NewRows<S>, S::Error> {
        let (host, graph, stream) = (graph.host(), self.device_graph(graph), &self.stream);
        graph.check_vertices(vertices);
        let input = graph.linking_input();
        let mut counters = self.counters()?;
        let mut rows = EdgeRows::for_vertices(stream, vertices, graph.edges_stride())?;
        let (row_vertices, neighbors) = rows.outputs(stream);
        let args = RepairArgs {
            prune: self.prune_args(host, &input, stream.output(&mut counters)),
            live: stream.input(graph.live_bits()),
            row_vertices: row_vertices.cast_const(),
            neighbors,
            rows_len: rows.len(),
        };
        // SAFETY: the rows have just been made in these shapes, of slots of the graph, as checked, which has a bit for
        // each.
        unsafe { stream.launch(&input.kernel(Repair::for_rows), args)? };
        self.wait_until_computed(rows, &counters, graph.id)
    }

    fn reachable(
        &self,
        graph: &HostAndDeviceGraph<S>,
        start: Slot,
        vertices: Vertices,
    ) -> Result<BitSet, S::Error> {
        let avoided = vertices.avoided(graph.host());
        let graph = self.device_graph(graph);
        let mut reached = ReachableSet::avoiding(&self.stream, graph.slots() as u32, &avoided)?;
        reached.extend(&self.stream, &graph.edges, graph.edges_stride(), &[start.get()], None)?;
        let reached = self.stream.download(reached.bits())?.into_iter().zip(avoided);
        Ok(BitSet::from_words(reached.map(|(word, avoided)| word & !avoided).collect()))
    }

    fn spanning_tree(&self, graph: &HostAndDeviceGraph<S>, start: Slot) -> Result<Vec<u32>, S::Error> {
        let (graph, stream) = (graph.on_device(), &self.stream);
        let mut parents = stream.allocate(graph.slots())?;
        stream.fill(&mut parents, NO_SLOT.to_ne_bytes()[0])?;
        let mut reached = ReachableSet::empty(stream, graph.slots() as u32)?;
        let stride = graph.edges_stride();
        reached.extend(stream, &graph.edges, stride, &[start.get()], Some(&mut parents))?;
        let mut parents = stream.download(&parents)?;
        parents[start.index()] = start.get();
        Ok(parents)
    }

    fn nearest_with_room(
        &self,
        graph: &HostAndDeviceGraph<S>,
        candidates: Candidates<S>,
        reached: &BitSet,
    ) -> Result<Vec<(Slot, Neighbor)>, S::Error> {
        let graph = self.device_graph(graph);
        self.assert_same_graph(graph, candidates.graph);
        let stream = &self.stream;
        let reached = stream.upload(reached.words())?;
        assert!(
            reached.len() * u32::BITS as usize >= graph.slots(),
            "there is a bit for each slot of the graph"
        );
        let mut nearest = stream.allocate(candidates.len() as usize)?;
        let args = FindRowWithRoomArgs {
            edges: stream.input(&graph.edges),
            reached: stream.input(&reached),
            candidates: candidates.args(stream),
            duplicate_of: candidates.duplicate_of(stream),
            nearest: stream.output(&mut nearest),
            edges_stride: graph.edges_stride(),
            max_degree: self.params.max_degree() as u32,
        };
        // SAFETY: the arrays have an entry or a row for each list; candidates are slots of this graph, as checked;
        // there is a bit for each, as asserted.
        unsafe { stream.launch(&FindRowWithRoom, args)? };
        let vertices = candidates.download_vertices(stream)?.into_iter().zip(stream.download(&nearest)?);
        let found = vertices.filter(|&(_, nearest)| nearest != u64::MAX);
        Ok(found.map(|(vertex, key)| (Slot::new(vertex), Neighbor::from_bits(key))).collect())
    }

    fn edge_rows(
        &self,
        graph: &HostAndDeviceGraph<S>,
        vertices: &[Slot],
    ) -> Result<Vec<Vec<Slot>>, S::Error> {
        graph.on_device().download_rows(vertices)
    }

    fn new_rows(
        &self,
        graph: &HostAndDeviceGraph<S>,
        vertices: &[Slot],
        rows: &[Vec<Slot>],
    ) -> Result<NewRows<S>, S::Error> {
        let rows = graph.on_device().upload_rows(vertices, rows)?;
        let (graph, cost) = (graph.on_device().id, OperationCounts::default());
        Ok(NewRows { rows, graph, cost, detached: Vec::new(), is_small: false, detached_rows: None })
    }

    fn sync_host_edges(&self, graph: &mut HostAndDeviceGraph<S>) -> Result<(), S::Error> {
        graph.sync_host_edges(self.cpu.pool())
    }
}
