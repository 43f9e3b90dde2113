//! The executor on a pool of threads: the reference that every other executor is tested against.

mod beam;
mod exact;
mod frontier;
mod locality;
mod name;
mod neighbor_lists;
mod prune;
mod search;
mod visited;

use std::convert::Infallible;
use std::sync::Mutex;

use jasper_core::{BitSet, BuildParams, Element, Neighbor, Slot, sync, with_element};
use jasper_data::{ThreadPool, parallel, pool_builder};
use jasper_graph::{Graph, VectorTable};

use crate::connectivity::{self, Vertices};
use crate::threads;
use crate::{BeamSize, CandidateSearch, ChunkEdges, Executor, PeerSampling, Published};
use beam::{SEARCHES_PER_THREAD, SearchState};
use locality::order_by_nearness;
pub use name::cpu_name;
use neighbor_lists::{BackEdge, BackEdges, NeighborLists, NewRows};
pub(crate) use prune::Prune;
use prune::kept_prefixes;

/// The [`Executor`] of the CPU, with pools of threads. It also executes queries.
///
/// A pool takes new work when its threads have nothing left to do. Changes therefore have a pool of their own: searches
/// would wait for a phase of a change, seconds on few cores. The operating system divides the cores between both.
#[derive(Debug)]
pub struct CpuExecutor {
    pool: ThreadPool,
    search_pool: ThreadPool,
    /// Buffers of the threads, kept between calls, so that nothing is allocated in the steady state.
    buffers: Mutex<Vec<ThreadBuffers>>,
}

/// The buffers of one thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadBuffers {
    /// Interleaved searches.
    searches: [SearchState; SEARCHES_PER_THREAD],
    prune: Prune,
    candidates: Vec<Neighbor>,
    /// Candidates that take part only in the second round of a prune.
    deferred: Vec<Neighbor>,
    slots: Vec<Slot>,
    distances: Vec<f32>,
}

/// The threads could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// Zero threads were requested.
    #[error("threads (0) must be at least 1; leave it out for one per CPU")]
    Zero,
    /// The operating system refused to start the threads.
    #[error("{} could not be started; ask for fewer", requested(.threads))]
    Refused {
        /// Threads that were requested; `None` for one per CPU.
        threads: Option<usize>,
        /// The reason.
        source: rayon::ThreadPoolBuildError,
    },
}

fn requested(threads: &Option<usize>) -> String {
    threads.map_or_else(|| "one thread per CPU".to_owned(), |threads| format!("{threads} threads"))
}

/// Vertices per task of the thread pool.
pub(crate) const VERTICES_PER_TASK: usize = 8;
/// Number of vertices searched for before they are pruned. Candidates take one or two kilobytes per vertex.
pub(crate) const SEARCH_CHUNK: usize = 16_384;
/// Number of targets of back edges whose rows are computed before they are written. This is enough for many threads,
/// and a megabyte with rows of 256 bytes; the rows of a whole batch may take as much as the graph.
pub(crate) const MERGE_CHUNK: usize = 4096;

impl CpuExecutor {
    /// An executor with this number of threads for changes and as many for searches, but at most one of each per CPU;
    /// `None` means one per CPU.
    ///
    /// # Errors
    /// Returns [`PoolError`] if `threads` is 0, or the threads cannot be started.
    pub fn new(threads: impl Into<Option<usize>>) -> Result<Self, PoolError> {
        let threads = threads.into();
        if threads == Some(0) {
            return Err(PoolError::Zero);
        }
        let start = |name: &'static str| {
            let builder = pool_builder(threads).thread_name(move |i| format!("{name}-{i}"));
            builder.build().map_err(|source| PoolError::Refused { threads, source })
        };
        Ok(Self { pool: start("jasper")?, search_pool: start("jasper-search")?, buffers: Mutex::default() })
    }

    /// The number of threads for changes, and of those for searches.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// The threads for changes and other long work.
    pub fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    /// The threads for searches. They may wait for a graph to be unlocked: who has locked it must not wait for them.
    pub fn search_pool(&self) -> &ThreadPool {
        &self.search_pool
    }

    /// Lends buffers to `work`.
    pub(crate) fn with_buffers<R>(&self, work: impl FnOnce(&mut ThreadBuffers) -> R) -> R {
        let pool = || sync::lock(&self.buffers);
        let mut buffers = pool().pop().unwrap_or_default();
        let result = work(&mut buffers);
        pool().push(buffers);
        result
    }

    /// Runs `work` on chunks of `items` in parallel; returns the results in order.
    fn for_chunks<I: Sync, R: Send>(
        &self,
        items: &[I],
        work: impl Fn(&mut ThreadBuffers, &[I]) -> R + Sync,
    ) -> Vec<R> {
        // One task stays here. On busy CPUs, a thread of the pool would begin milliseconds later.
        let pool = (items.len() > VERTICES_PER_TASK).then_some(&self.pool);
        parallel::map_on(pool, items.chunks(VERTICES_PER_TASK), |chunk| {
            self.with_buffers(|buffers| work(buffers, chunk))
        })
    }

    /// Runs `work` on each of `items` in parallel; returns what it adds to the outputs of the chunks, in order.
    fn for_items<I: Sync, R: Default + Send>(
        &self,
        items: &[I],
        work: impl Fn(&mut ThreadBuffers, &I, &mut R) + Sync,
    ) -> Vec<R> {
        self.for_chunks(items, |buffers, items| {
            let mut out = R::default();
            items.iter().for_each(|item| work(buffers, item, &mut out));
            out
        })
    }

    /// Runs `work` on every list in parallel; joins the lists that it pushes, in order.
    fn map_lists(
        &self,
        lists: NeighborLists,
        work: impl Fn(&mut ThreadBuffers, &(Slot, &[Neighbor]), &mut NeighborLists) + Sync,
    ) -> NeighborLists {
        let items: Vec<_> = lists.iter().collect();
        let mut mapped = NeighborLists::join(self.for_items(&items, work));
        mapped.cost += lists.cost;
        mapped.duplicates = lists.duplicates;
        mapped
    }
}

/// Evaluates an expression with the vectors by which a graph is linked, its own or those [quantized to
/// bytes](VectorTable::sq8), and with their type.
macro_rules! link_by {
    ($graph:ident, |$vectors:ident, $V:ident| $result:expr) => {{
        let $vectors = $graph.vectors().sq8().unwrap_or($graph.vectors());
        with_element!($vectors.element(), $V => $result)
    }};
}

impl Executor for CpuExecutor {
    type Graph = Graph;
    type Error = Infallible;
    type Candidates = NeighborLists;
    type Edges = NeighborLists;
    type BackEdges = BackEdges;
    type NewRows = Vec<NewRows>;

    const SEARCH_CHUNK: usize = SEARCH_CHUNK;

    fn host_pool(&self) -> &ThreadPool {
        &self.pool
    }

    fn find_candidates(
        &self,
        graph: &Graph,
        chunk: &[Slot],
        search: CandidateSearch,
    ) -> Result<NeighborLists, Infallible> {
        Ok(link_by!(graph, |vectors, V| {
            let rows: Vec<_> = chunk.iter().map(|&vertex| vectors.padded::<V>(vertex)).collect();
            let order = order_by_nearness(&self.pool, &rows);
            let vertices: Vec<_> = order.into_iter().map(|i| chunk[i as usize]).collect();
            NeighborLists::join(self.for_chunks(&vertices, |buffers, vertices| {
                let mut candidates = NeighborLists::default();
                for vertices in vertices.chunks(SEARCHES_PER_THREAD) {
                    buffers.find_candidates::<V>(vectors, graph, vertices, search, &mut candidates);
                }
                candidates
            }))
        }))
    }

    fn nearest_candidates(
        &self,
        candidates: NeighborLists,
        k: usize,
    ) -> Result<Vec<(Slot, Vec<Slot>)>, Infallible> {
        let nearest = |(vertex, found): (Slot, &[Neighbor])| {
            (vertex, found.iter().take(k).map(|near| near.slot()).collect())
        };
        Ok(candidates.iter().map(nearest).collect())
    }

    fn find_duplicates(
        &self,
        graph: &Graph,
        mut candidates: NeighborLists,
    ) -> Result<NeighborLists, Infallible> {
        link_by!(graph, |vectors, V| {
            candidates.remove_duplicates(|vertex, found| duplicate_of::<V>(vectors, graph, vertex, found));
        });
        Ok(candidates)
    }

    fn add_peers(
        &self,
        graph: &Graph,
        candidates: NeighborLists,
        sampling: PeerSampling,
    ) -> Result<NeighborLists, Infallible> {
        let batch = candidates.batch();
        let params = graph.params();
        Ok(link_by!(graph, |vectors, V| self.map_lists(candidates, |buffers, &(vertex, found), lists| {
            lists.cost.distances += buffers.add_peers::<V>(vectors, params, vertex, &batch, sampling, found);
            lists.push(vertex, &buffers.candidates);
        })))
    }

    fn prune(
        &self,
        graph: &Graph,
        candidates: NeighborLists,
        with_rows: bool,
    ) -> Result<ChunkEdges<NeighborLists>, Infallible> {
        let params = graph.params();
        let mut edges =
            link_by!(graph, |vectors, V| self.map_lists(candidates, |buffers, &(vertex, found), edges| {
                buffers.candidates.clear();
                if with_rows {
                    let row = graph.adjacency().neighbors(vertex);
                    buffers.compute::<V>(vectors, vertex, row.iter().copied());
                    edges.cost.prune_distances += row.len() as u64;
                }
                buffers.candidates.extend_from_slice(found);
                buffers.order_candidates(params);
                let ThreadBuffers { prune, candidates, .. } = buffers;
                prune.keep::<V>(
                    vectors,
                    vectors.origin(vertex),
                    candidates,
                    &[],
                    params.max_degree(),
                    params.alpha(),
                );
                let kept = prune.fill(candidates, &[], params.min_degree(graph.metric()));
                // The list is free for the reversed edges now.
                candidates.clear();
                candidates.extend(kept.iter().map(|&near| vectors.reversed(vertex, near)));
                edges.push(vertex, candidates);
                edges.cost.prune_distances += prune.take_distances();
            }));
        let (duplicates, cost) = (std::mem::take(&mut edges.duplicates), edges.cost);
        Ok(ChunkEdges { edges, duplicates, cost })
    }

    fn publish_edges(&self, graph: &mut Graph, chunks: &[NeighborLists]) -> Result<(), Infallible> {
        chunks.iter().for_each(|edges| edges.write(graph));
        Ok(())
    }

    fn reverse_edges(&self, chunks: Vec<NeighborLists>) -> Result<BackEdges, Infallible> {
        Ok(BackEdges::new(&chunks, |edges| threads::sort(&self.pool, edges)))
    }

    fn merge(
        &self,
        graph: &Graph,
        back_edges: &mut BackEdges,
        max_kept: Option<usize>,
    ) -> Result<Option<Vec<NewRows>>, Infallible> {
        let targets = back_edges.next(MERGE_CHUNK);
        let new_rows = link_by!(graph, |vectors, V| {
            self.for_items(&targets, |buffers, edges, out| {
                buffers.merge::<V>(vectors, graph, edges, max_kept, out)
            })
        });
        let merged = targets.into_iter().map(<[_]>::len).sum();
        back_edges.advance(merged);
        Ok((merged > 0).then_some(new_rows))
    }

    fn publish_rows(&self, graph: &mut Graph, new_rows: Vec<NewRows>) -> Result<Published, Infallible> {
        let mut published = Published::default();
        for part in new_rows {
            part.write(graph);
            published.cost += part.cost;
            published.detached.extend(part.detached);
        }
        Ok(published)
    }

    fn incoming_edges(&self, graph: &Graph) -> Result<Vec<u32>, Infallible> {
        Ok(parallel::install(&self.pool, || connectivity::incoming_edges(graph)))
    }

    fn rows_to_repair(&self, graph: &Graph) -> Result<Vec<Slot>, Infallible> {
        Ok(parallel::install(&self.pool, || connectivity::rows_to_repair(graph)))
    }

    fn repair_rows(&self, graph: &Graph, vertices: &[Slot]) -> Result<Vec<NewRows>, Infallible> {
        Ok(link_by!(graph, |vectors, V| {
            self.for_items(vertices, |buffers, &vertex, out| {
                buffers.repair_row::<V>(vectors, graph, vertex, out)
            })
        }))
    }

    fn reachable(&self, graph: &Graph, start: Slot, vertices: Vertices) -> Result<BitSet, Infallible> {
        Ok(parallel::install(&self.pool, || connectivity::reachable(graph, start, vertices)))
    }

    fn spanning_tree(&self, graph: &Graph, start: Slot) -> Result<Vec<u32>, Infallible> {
        Ok(parallel::install(&self.pool, || connectivity::spanning_tree(graph, start)))
    }

    fn nearest_with_room(
        &self,
        graph: &Graph,
        candidates: NeighborLists,
        reached: &BitSet,
    ) -> Result<Vec<(Slot, Neighbor)>, Infallible> {
        let is_allowed = |near: &&Neighbor| {
            reached.contains(near.slot().index())
                && graph.adjacency().neighbors(near.slot()).len() < graph.params().max_degree()
        };
        let nearest = |(vertex, found): (Slot, &[Neighbor])| Some((vertex, *found.iter().find(is_allowed)?));
        Ok(candidates.iter().filter_map(nearest).collect())
    }

    fn edge_rows(&self, graph: &Graph, vertices: &[Slot]) -> Result<Vec<Vec<Slot>>, Infallible> {
        Ok(vertices.iter().map(|&vertex| graph.adjacency().neighbors(vertex).to_vec()).collect())
    }

    fn new_rows(
        &self,
        _graph: &Graph,
        vertices: &[Slot],
        rows: &[Vec<Slot>],
    ) -> Result<Vec<NewRows>, Infallible> {
        let mut new_rows = NewRows::default();
        for (&vertex, row) in vertices.iter().zip(rows) {
            new_rows.replace(vertex, row.iter().copied());
        }
        Ok(vec![new_rows])
    }

    fn sync_host_edges(&self, _graph: &mut Graph) -> Result<(), Infallible> {
        Ok(())
    }
}

impl ThreadBuffers {
    /// Searches for the vectors of at most [`SEARCHES_PER_THREAD`] `vertices`. Their candidates are the expanded
    /// vertices.
    fn find_candidates<V: Element>(
        &mut self,
        vectors: &VectorTable,
        graph: &Graph,
        vertices: &[Slot],
        search: CandidateSearch,
        candidates: &mut NeighborLists,
    ) {
        let CandidateSearch { beam_width, max_hops, from_vertex } = search;
        if max_hops == 0 {
            vertices.iter().for_each(|&vertex| candidates.push(vertex, &[]));
            return;
        }
        let computers: Vec<_> =
            vertices.iter().map(|&vertex| vectors.slot_distance_computer::<V>(vertex).sketched()).collect();
        let starts = |i: usize| if from_vertex { &vertices[i..=i] } else { graph.adjacency().start_points() };
        let size = BeamSize::new(beam_width);
        SearchState::search_from(&mut self.searches, &computers, graph, starts, size, max_hops);
        for (search, &vertex) in self.searches.iter().zip(vertices) {
            candidates.cost += search.cost;
            self.candidates.clear();
            self.candidates.extend(search.expanded.iter().filter(|found| found.slot() != vertex));
            self.candidates.sort_unstable();
            candidates.push(vertex, &self.candidates);
        }
    }

    /// Sets the candidates to those `found` by a search and the nearest peers of the vertex. The batch lists vertices,
    /// and whether each is linked. Returns the number of distances computed.
    fn add_peers<V: Element>(
        &mut self,
        vectors: &VectorTable,
        params: &BuildParams,
        vertex: Slot,
        batch: &[(Slot, bool)],
        sampling: PeerSampling,
        found: &[Neighbor],
    ) -> u64 {
        let max_degree = params.max_degree();
        let bound = found.get(max_degree - 1);
        let (mut near, mut distances) = (Vec::new(), 0);
        for round in 0..PeerSampling::ROUNDS {
            if near.len() < PeerSampling::required(round, max_degree) {
                break;
            }
            let sample = sampling.positions(round, batch.len()).map(|position| batch[position]);
            let others = sample.filter(|(slot, is_linked)| *is_linked && *slot != vertex);
            self.candidates.clear();
            self.compute::<V>(vectors, vertex, others.map(|(slot, _)| slot));
            distances += self.slots.len() as u64;
            near.extend(self.candidates.iter().filter(|near| bound.is_none_or(|bound| near < &bound)));
        }
        near.sort_unstable();
        // There are at most as many peers as a row holds, because the cost of a prune grows with the square of the
        // candidates.
        near.truncate(max_degree);
        self.candidates.clear();
        self.candidates.extend_from_slice(&near);
        self.candidates.extend_from_slice(found);
        self.order_candidates(params);
        distances
    }

    /// Merges back edges into the row of their target: appends them where they fit, else prunes old and new edges
    /// together to at most `max_kept`; appends what fits if that is `None`.
    fn merge<V: Element>(
        &mut self,
        vectors: &VectorTable,
        graph: &Graph,
        edges: &[BackEdge],
        max_kept: Option<usize>,
        new_rows: &mut NewRows,
    ) {
        let Some(&(target, _)) = edges.first() else { return };
        let (params, old) = (graph.params(), graph.adjacency().neighbors(target));
        self.candidates.clear();
        let sources = edges.iter().map(|&(_, source)| source);
        self.candidates.extend(sources.filter(|source| !old.contains(&source.slot())));
        let room = params.max_degree() - old.len();
        let (true, Some(max_kept)) = (self.candidates.len() > room, max_kept) else {
            if room > 0 {
                new_rows.append(target, self.candidates.iter().map(|new| new.slot()).take(room));
            }
            return;
        };
        let new = self.candidates.len();
        self.compute::<V>(vectors, target, old.iter().copied());
        let row = &mut self.candidates[new..];
        // A row holds first-round edges, nearest first, then second-round edges, nearest first, then appended edges.
        // Edges that an earlier prune kept are not compared again. Edges of its second round take part only in the
        // second round.
        let [first, kept_before] = kept_prefixes(row, params.alpha());
        row[..kept_before].iter_mut().for_each(|neighbor| *neighbor = neighbor.kept_before());
        self.deferred.clear();
        self.deferred.extend_from_slice(&row[first..kept_before]);
        self.order_candidates(params);
        let Self { candidates, deferred, .. } = self;
        // `order_candidates` may have cut the list. A deferred neighbor beyond its end is no candidate.
        let farthest = candidates.last().copied();
        deferred.retain(|&neighbor| Some(neighbor) <= farthest);
        candidates.retain(|neighbor| !deferred.contains(neighbor));
        self.prune.keep::<V>(vectors, vectors.origin(target), candidates, deferred, max_kept, params.alpha());
        let min_degree = params.min_degree(graph.metric()).min(max_kept);
        let kept = self.prune.fill(candidates, deferred, min_degree);
        new_rows.replace(target, kept.iter().map(|kept| kept.slot()));
        if let Some(tree) = graph.adjacency().spanning_tree() {
            let children = old.iter().copied().filter(|&slot| tree.parent(slot) == Some(target));
            new_rows.detached.extend(children.filter(|&slot| kept.iter().all(|kept| kept.slot() != slot)));
        }
        new_rows.cost.prune_distances += self.slots.len() as u64 + self.prune.take_distances();
    }

    /// Replaces the tombstones in the row of a live vertex.
    ///
    /// ```text
    /// live         = live neighbors of the vertex
    /// replacements = live neighbors of its tombstones that are not in live, the nearest first
    /// row          = live, then each of replacements that no vertex of the row occludes (as in a robust prune),
    ///                until the row is as long as before, or half of max_degree if that is longer
    /// sort the replacements into the parts of the row whose prune round kept them
    /// ```
    ///
    /// Deviations from FreshDiskANN (Algorithm 4), and why each is right:
    /// 1. **Live neighbors are not pruned** with the replacements, which would drop neighbors for replacements that are
    ///    a little nearer. After a tenth was deleted, that left 0.006 to 0.013 less recall@10 than a fresh build at a
    ///    beam width of 10; this leaves 0.000 to 0.004 less, with fewer edges (12,000 vectors, max degree 32 and 64).
    /// 2. **Rows do not grow** beyond their length or half of `max_degree`. Without this bound, replacements would fill
    ///    them, and searches would become slower for recall that was not asked for
    ///    (docs/notebook/experiments.md#consolidation-row-length). Room is for the edges that restore lost paths, which
    ///    are added later.
    /// 3. **Replacements join the part of the row** whose prune round kept them, so that later prunes find it as they
    ///    would find their own.
    fn repair_row<V: Element>(
        &mut self,
        vectors: &VectorTable,
        graph: &Graph,
        vertex: Slot,
        new_rows: &mut NewRows,
    ) {
        let (params, old) = (graph.params(), graph.adjacency().neighbors(vertex));
        let is_tombstone = |&slot: &Slot| graph.keys().is_tombstone(slot);
        self.candidates.clear();
        self.compute::<V>(vectors, vertex, old.iter().copied().filter(|slot| !is_tombstone(slot)));
        let live_count = self.candidates.len();
        let tombstones = old.iter().copied().filter(is_tombstone);
        let mut replacements: Vec<_> =
            tombstones.flat_map(|slot| graph.adjacency().neighbors(slot)).copied().collect();
        replacements.retain(|&slot| slot != vertex && graph.keys().is_live(slot) && !old.contains(&slot));
        replacements.sort_unstable();
        replacements.dedup();
        self.compute::<V>(vectors, vertex, replacements.into_iter());
        let (live, replacements) = self.candidates.split_at_mut(live_count);
        let [first, kept_before] = kept_prefixes(live, params.alpha());
        live.iter_mut().for_each(|neighbor| *neighbor = neighbor.kept_before());
        replacements.sort_unstable();
        new_rows.cost.prune_distances += self.candidates.len() as u64;
        self.candidates.truncate(params.max_candidates());
        let max_len = old.len().max(params.max_degree() / 2);
        let origin = vectors.origin(vertex);
        let kept =
            self.prune.keep::<V>(vectors, origin, &self.candidates, &[], max_len, params.alpha()).to_vec();
        let (live, replacements) = kept.split_at(live_count);
        let (first_round, second_round) =
            replacements.split_at(self.prune.kept_first.max(live_count) - live_count);
        let merged = |live: &[Neighbor], replacements: &[Neighbor]| {
            let mut merged = [live, replacements].concat();
            merged.sort_unstable();
            merged
        };
        let row = [
            merged(&live[..first], first_round),
            merged(&live[first..kept_before], second_round),
            live[kept_before..].to_vec(),
        ];
        new_rows.replace(vertex, row.iter().flatten().map(|neighbor| neighbor.slot()));
        new_rows.cost.prune_distances += self.prune.take_distances();
    }

    /// Adds `slots` and their distances from `vertex` to the candidates.
    fn compute<V: Element>(
        &mut self,
        vectors: &VectorTable,
        vertex: Slot,
        slots: impl Iterator<Item = Slot>,
    ) {
        self.slots.clear();
        self.slots.extend(slots);
        self.distances.resize(self.slots.len(), 0.0);
        vectors.slot_distance_computer::<V>(vertex).compute(&self.slots, &mut self.distances);
        let found = self.slots.iter().zip(&self.distances);
        self.candidates.extend(found.map(|(&slot, &distance)| Neighbor::new(distance, slot)));
    }

    /// Sorts the candidates, removes repeated ones, and keeps as many as a prune takes.
    fn order_candidates(&mut self, params: &BuildParams) {
        self.candidates.sort_unstable();
        self.candidates.dedup();
        self.candidates.truncate(params.max_candidates());
    }
}

/// The first of `candidates` with the same vector as `vertex`. Its distance is that of the vertex from itself.
fn duplicate_of<V: Element>(
    vectors: &VectorTable,
    graph: &Graph,
    vertex: Slot,
    candidates: &[Neighbor],
) -> Option<Slot> {
    let own =
        Neighbor::new(vectors.slot_distance_computer::<V>(vertex).distance_to(vertex), vertex).distance();
    let vector = graph.vectors().padded_bytes(vertex);
    let ties = candidates.iter().filter(|candidate| candidate.distance() == own);
    ties.map(|candidate| candidate.slot()).find(|&slot| graph.vectors().padded_bytes(slot) == vector)
}
