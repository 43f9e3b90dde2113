//! The executor on a pool of threads: the reference that every other executor is tested against.

mod answer;
mod back_edges;
mod beam;
mod exact;
mod frontier;
mod locality;
mod prune;
mod seen;
mod updates;

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use jasper_core::{Element, Neighbor, VectorId, defaults};
use jasper_graph::Graph;
use rayon::prelude::*;

use crate::connectivity::{self, Reached};
use crate::ingest::bytes_of;
use crate::{Executor, Linker, Links, PeerSampling, SearchCost};
use back_edges::{BackEdge, BackEdges};
use beam::{Beam, TOGETHER};
use locality::order_by_nearness;
use prune::{Prune, pruned_ends};
use updates::{NeighborLists, Updates};

/// Runs batches and searches on threads of its own.
#[derive(Debug)]
pub struct CpuExecutor {
    pool: rayon::ThreadPool,
    /// What threads need for one vertex or query, kept between calls: nothing is allocated in the steady state.
    scratch: Mutex<Vec<Scratch>>,
}

#[derive(Debug)]
pub(crate) struct Scratch {
    /// Searches that go on together.
    beams: [Beam; TOGETHER],
    prune: Prune,
    candidates: Vec<Neighbor>,
    /// Candidates of the second round of a prune alone.
    deferred: Vec<Neighbor>,
    ids: Vec<VectorId>,
    distances: Vec<f32>,
}

/// The threads could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{threads} threads could not be started; ask for fewer")]
pub struct PoolError {
    threads: usize,
    #[source]
    source: rayon::ThreadPoolBuildError,
}

/// Vertices or queries a thread takes at a time.
pub(crate) const GRAIN: usize = 8;
/// Vertices that are searched for before they are pruned: candidates take a kilobyte or two a vertex.
pub(crate) const SEARCHED_AT_ONCE: usize = 16_384;
/// Targets of back edges whose rows are worked out before they are written: enough for many threads, and with rows of
/// 256 bytes a megabyte, where a whole batch may take as much as the graph.
pub(crate) const TARGETS_AT_ONCE: usize = 4096;

impl CpuExecutor {
    /// An executor on `threads` threads; 0 means one for each processor.
    ///
    /// # Errors
    /// [`PoolError`] when the operating system gives no more threads.
    pub fn new(threads: usize) -> Result<Self, PoolError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("jasper-{i}"))
            .build()
            .map_err(|source| PoolError { threads, source })?;
        Ok(Self { pool, scratch: Mutex::new(Vec::new()) })
    }

    /// Threads it runs on.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// The pool, for other work of the same caller.
    pub fn pool(&self) -> &rayon::ThreadPool {
        &self.pool
    }

    /// Lends scratch memory to `work`.
    pub(crate) fn with_scratch<R>(&self, work: impl FnOnce(&mut Scratch) -> R) -> R {
        let shelf = || self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = shelf().pop().unwrap_or_else(Scratch::new);
        let result = work(&mut scratch);
        shelf().push(scratch);
        result
    }

    /// `work` on every chunk of `items`, in parallel; results in order.
    fn for_chunks<I: Sync, R: Send>(
        &self,
        items: &[I],
        work: impl Fn(&mut Scratch, &[I]) -> R + Sync,
    ) -> Vec<R> {
        self.pool.install(|| {
            items.par_chunks(GRAIN).map(|chunk| self.with_scratch(|scratch| work(scratch, chunk))).collect()
        })
    }

    /// `work` on every list, in parallel, which pushes what becomes of it; in order.
    fn for_lists(
        &self,
        lists: NeighborLists,
        work: impl Fn(&mut Scratch, (VectorId, &[Neighbor]), &mut NeighborLists) + Sync,
    ) -> NeighborLists {
        let rows: Vec<_> = lists.rows().collect();
        let mut all = NeighborLists::join(self.for_chunks(&rows, |scratch, rows| {
            let mut some = NeighborLists::default();
            for &row in rows {
                work(scratch, row, &mut some);
            }
            some
        }));
        all.cost += lists.cost;
        all.identical = lists.identical;
        all
    }
}

impl<T: Element> Linker<T> for CpuExecutor {
    type Graph = Graph<T>;
    type Error = Infallible;
    type Candidates = NeighborLists;
    type Links = NeighborLists;
    type BackEdges = BackEdges;
    type Updates = Vec<Updates>;

    const SEARCHED_AT_ONCE: usize = SEARCHED_AT_ONCE;

    fn search(&self, graph: &Graph<T>, batch: &[VectorId]) -> Result<NeighborLists, Infallible> {
        let rows: Vec<_> = batch.iter().map(|&vertex| graph.vectors().padded(vertex)).collect();
        let order = order_by_nearness(&self.pool, &rows);
        let vertices: Vec<_> = order.into_iter().map(|i| batch[i as usize]).collect();
        Ok(NeighborLists::join(self.for_chunks(&vertices, |scratch, vertices| {
            let mut candidates = NeighborLists::default();
            for vertices in vertices.chunks(TOGETHER) {
                scratch.search(graph, vertices, &mut candidates);
            }
            candidates
        })))
    }

    fn prune(&self, graph: &Graph<T>, candidates: NeighborLists) -> Result<NeighborLists, Infallible> {
        let params = graph.params();
        Ok(self.for_lists(candidates, |scratch, (vertex, found), links| {
            let found = &found[..found.len().min(defaults::MAX_CANDIDATES)];
            links.push(vertex, scratch.prune.keep(graph, found, &[], params.max_degree(), params.alpha()));
            links.cost.prune_distances += scratch.prune.take_distances();
        }))
    }

    fn publish_links(&self, graph: &mut Graph<T>, links: &NeighborLists) -> Result<(), Infallible> {
        links.write(graph);
        Ok(())
    }

    fn reverse_edges(&self, links: NeighborLists) -> Result<BackEdges, Infallible> {
        Ok(self.pool.install(|| BackEdges::of(&links)))
    }

    fn merge(
        &self,
        graph: &Graph<T>,
        back_edges: &mut BackEdges,
    ) -> Result<Option<Vec<Updates>>, Infallible> {
        let targets = back_edges.next(TARGETS_AT_ONCE);
        let updates = self.for_chunks(&targets, |scratch, targets| {
            let mut updates = Updates::default();
            for edges in targets {
                scratch.merge(graph, edges, &mut updates);
            }
            updates
        });
        let merged = targets.into_iter().map(<[_]>::len).sum();
        back_edges.take(merged);
        Ok((merged > 0).then_some(updates))
    }

    fn publish(&self, graph: &mut Graph<T>, updates: Vec<Updates>) -> Result<SearchCost, Infallible> {
        let mut cost = SearchCost::default();
        for part in updates {
            part.write(graph);
            cost += part.cost;
        }
        Ok(cost)
    }
}

impl<T: Element> Executor<T> for CpuExecutor {
    type Live = Graph<T>;

    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.pool.install(work)
    }

    fn find_duplicates(
        &self,
        graph: &Graph<T>,
        mut candidates: NeighborLists,
    ) -> Result<NeighborLists, Infallible> {
        candidates.find_duplicates(|vertex, found| identical(graph, vertex, found));
        Ok(candidates)
    }

    fn batch_candidates(
        &self,
        graph: &Graph<T>,
        candidates: NeighborLists,
        peers: PeerSampling,
    ) -> Result<NeighborLists, Infallible> {
        let batch = candidates.batch();
        Ok(self.for_lists(candidates, |scratch, (vertex, found), joined| {
            let first = batch.partition_point(|(other, _)| *other < vertex) / peers.group * peers.group;
            let group = &batch[first..batch.len().min(first + peers.group)];
            joined.cost.distances += scratch.add_peers(graph, vertex, group, peers, found);
            joined.push(vertex, &scratch.candidates);
        }))
    }

    fn rows_to_repair(&self, graph: &Graph<T>) -> Result<Vec<VectorId>, Infallible> {
        let leads_to_hidden = |&vertex: &VectorId| {
            graph.keys().is_live(vertex)
                && graph.adjacency().neighbors(vertex).iter().any(|&slot| graph.keys().is_tombstone(slot))
        };
        let slots = (0..graph.slots()).into_par_iter().map(VectorId::from_index);
        Ok(self.pool.install(|| slots.filter(leads_to_hidden).collect()))
    }

    fn repair_rows(&self, graph: &Graph<T>, vertices: &[VectorId]) -> Result<Vec<Updates>, Infallible> {
        Ok(self.for_chunks(vertices, |scratch, vertices| {
            let mut updates = Updates::default();
            for &vertex in vertices {
                scratch.repair_rows(graph, vertex, &mut updates);
            }
            updates
        }))
    }

    fn reachable(&self, graph: &Graph<T>, start: VectorId) -> Result<Reached, Infallible> {
        Ok(self.pool.install(|| connectivity::from(graph, start)))
    }

    fn nearest_with_room(
        &self,
        graph: &Graph<T>,
        candidates: NeighborLists,
        reached: &Reached,
    ) -> Result<Vec<(VectorId, Neighbor)>, Infallible> {
        let most = graph.params().max_degree();
        let has_room = |near: &&Neighbor| {
            reached.contains(near.id()) && graph.adjacency().neighbors(near.id()).len() < most
        };
        let nearest =
            candidates.rows().filter_map(|(vertex, found)| Some((vertex, *found.iter().find(has_room)?)));
        Ok(nearest.collect())
    }

    fn neighbors(&self, graph: &Graph<T>, vertices: &[VectorId]) -> Result<Vec<Vec<VectorId>>, Infallible> {
        Ok(vertices.iter().map(|&vertex| graph.adjacency().neighbors(vertex).to_vec()).collect())
    }

    fn set_neighbors(
        &self,
        graph: &mut Graph<T>,
        vertices: &[VectorId],
        neighbors: &[Vec<VectorId>],
    ) -> Result<(), Infallible> {
        vertices
            .iter()
            .zip(neighbors)
            .for_each(|(&vertex, row)| graph.adjacency_mut().set_neighbors(vertex, row));
        Ok(())
    }
}

impl Scratch {
    fn new() -> Self {
        Self {
            beams: std::array::from_fn(|_| Beam::new()),
            prune: Prune::default(),
            candidates: Vec::new(),
            deferred: Vec::new(),
            ids: Vec::new(),
            distances: Vec::new(),
        }
    }

    /// What searches for the rows of `vertices`, at most [`TOGETHER`], expand.
    fn search<T: Element>(
        &mut self,
        graph: &Graph<T>,
        vertices: &[VectorId],
        candidates: &mut NeighborLists,
    ) {
        let scorers: Vec<_> =
            vertices.iter().map(|&vertex| graph.vectors().slot_scorer(vertex).sketched()).collect();
        let params = graph.params();
        Beam::search(&mut self.beams, &scorers, graph, params.build_beam_width(), params.max_hops());
        for (beam, &vertex) in self.beams.iter().zip(vertices) {
            candidates.cost += beam.cost();
            self.candidates.clear();
            self.candidates.extend(beam.visited().iter().filter(|found| found.id() != vertex));
            self.candidates.sort_unstable();
            candidates.push(vertex, &self.candidates);
        }
    }

    /// What was found for a vertex, and the nearest of its group, of which those count that are linked. Gives the distances
    /// that were worked out.
    fn add_peers<T: Element>(
        &mut self,
        graph: &Graph<T>,
        vertex: VectorId,
        group: &[(VectorId, bool)],
        peers: PeerSampling,
        found: &[Neighbor],
    ) -> u64 {
        let max_degree = graph.params().max_degree();
        let bound = found.get(max_degree - 1);
        let (mut near, mut distances) = (Vec::new(), 0);
        for round in 0..PeerSampling::ROUNDS {
            if near.len() < PeerSampling::wanted(round, max_degree) {
                break;
            }
            let part = peers.places(round, group.len()).map(|place| group[place]);
            let others = part.filter(|(id, is_linked)| *is_linked && *id != vertex);
            self.candidates.clear();
            self.score(graph, vertex, others.map(|(id, _)| id));
            distances += self.ids.len() as u64;
            near.extend(self.candidates.iter().filter(|near| bound.is_none_or(|bound| near < &bound)));
        }
        near.sort_unstable();
        // More of its own batch than a row holds would crowd the prune: its cost grows with the square.
        near.truncate(max_degree);
        self.candidates.clear();
        self.candidates.extend_from_slice(&near);
        self.candidates.extend_from_slice(found);
        self.order_candidates();
        distances
    }

    /// The row of a target with the edges that are new to it.
    fn merge<T: Element>(&mut self, graph: &Graph<T>, edges: &[BackEdge], updates: &mut Updates) {
        let Some(&(target, _)) = edges.first() else { return };
        let (params, old) = (graph.params(), graph.adjacency().neighbors(target));
        self.candidates.clear();
        let sources = edges.iter().map(|&(_, source)| source);
        self.candidates.extend(sources.filter(|source| !old.contains(&source.id())));
        if old.len() + self.candidates.len() <= params.max_degree() {
            // Room for all: no prune, and the row keeps its order.
            updates.append(target, &self.candidates);
            return;
        }
        let new = self.candidates.len();
        self.score(graph, target, old.iter().copied());
        let row = &mut self.candidates[new..];
        // What an earlier prune kept is not compared again; what it kept in its second round enters the second round.
        let [first, pruned] = pruned_ends(row, params.alpha());
        row[..pruned].iter_mut().for_each(|neighbor| *neighbor = neighbor.visited());
        self.deferred.clear();
        self.deferred.extend_from_slice(&row[first..pruned]);
        self.order_candidates();
        let Self { candidates, deferred, .. } = self;
        // `order_candidates` may have cut the list; a deferred neighbor that fell out is no candidate.
        let farthest = candidates.last().copied();
        deferred.retain(|&neighbor| Some(neighbor) <= farthest);
        candidates.retain(|neighbor| !deferred.contains(neighbor));
        let kept = self.prune.keep(graph, candidates, deferred, params.max_degree(), params.alpha());
        updates.replace(target, kept);
        updates.cost.prune_distances += self.ids.len() as u64 + self.prune.take_distances();
    }

    /// The row of a live vertex without its deleted neighbors.
    ///
    /// ```text
    /// stay         = live neighbors
    /// replacements = live neighbors of the deleted ones, nearest first, that no neighbor occludes
    /// row          = stay + replacements, until it is as long as it was or half full
    /// ```
    ///
    /// FreshDiskANN (Algorithm 4) prunes both together, and so drops neighbors for replacements that are a little nearer.
    /// Where a tenth was deleted, that left 0.006 to 0.013 less recall@10 than a fresh build at a frontier of 10, and
    /// this 0.000 to 0.004, with fewer edges (12,000 vectors, R = 32 and 64). Replacements join the part of the row whose round
    /// they were kept in, so that later prunes find it as they would find their own.
    ///
    /// They join until the row is as long as it was, or half full: else rows grow from one consolidation to the next, and
    /// searches get slower for recall that nobody asked for (docs: experiments).
    fn repair_rows<T: Element>(&mut self, graph: &Graph<T>, vertex: VectorId, updates: &mut Updates) {
        let (params, old) = (graph.params(), graph.adjacency().neighbors(vertex));
        self.candidates.clear();
        self.score(
            graph,
            vertex,
            old.iter().copied().filter(|&neighbor| !graph.keys().is_tombstone(neighbor)),
        );
        let staying = self.candidates.len();
        let beyond = old
            .iter()
            .filter(|&&n| graph.keys().is_tombstone(n))
            .flat_map(|&deleted| graph.adjacency().neighbors(deleted));
        let mut replacements: Vec<_> = beyond.copied().collect();
        replacements.retain(|&candidate| {
            candidate != vertex && graph.keys().is_live(candidate) && !old.contains(&candidate)
        });
        replacements.sort_unstable();
        replacements.dedup();
        self.score(graph, vertex, replacements.into_iter());
        let (stay, replacements) = self.candidates.split_at_mut(staying);
        let [first, pruned] = pruned_ends(stay, params.alpha());
        stay.iter_mut().for_each(|neighbor| *neighbor = neighbor.visited());
        replacements.sort_unstable();
        updates.cost.prune_distances += self.candidates.len() as u64;
        self.candidates.truncate(defaults::MAX_CANDIDATES);
        let most = old.len().max(params.max_degree() / 2);
        let kept = self.prune.keep(graph, &self.candidates, &[], most, params.alpha()).to_vec();
        let (stay, replacements) = kept.split_at(staying);
        let (first_replacements, second_replacements) =
            replacements.split_at(self.prune.kept_first().max(staying) - staying);
        let run = |stay: &[Neighbor], replacements: &[Neighbor]| {
            let mut run = [stay, replacements].concat();
            run.sort_unstable();
            run
        };
        let row = [
            run(&stay[..first], first_replacements),
            run(&stay[first..pruned], second_replacements),
            stay[pruned..].to_vec(),
        ]
        .concat();
        updates.replace(vertex, &row);
        updates.cost.prune_distances += self.prune.take_distances();
    }

    /// Adds `ids`, with their distances from `vertex`, to the candidates.
    fn score<T: Element>(&mut self, graph: &Graph<T>, vertex: VectorId, ids: impl Iterator<Item = VectorId>) {
        self.ids.clear();
        self.ids.extend(ids);
        self.distances.resize(self.ids.len(), 0.0);
        graph.vectors().slot_scorer(vertex).score(&self.ids, &mut self.distances);
        let scored = self.ids.iter().zip(&self.distances);
        self.candidates.extend(scored.map(|(&id, &distance)| Neighbor::new(distance, id)));
    }

    /// Candidates as a prune wants them: rising, distinct, not too many.
    fn order_candidates(&mut self) {
        self.candidates.sort_unstable();
        self.candidates.dedup();
        self.candidates.truncate(defaults::MAX_CANDIDATES);
    }
}

/// The first of `candidates` whose row is that of `vertex`: as far away as the vertex is from itself.
fn identical<T: Element>(graph: &Graph<T>, vertex: VectorId, candidates: &[Neighbor]) -> Option<VectorId> {
    let own = Neighbor::new(graph.vectors().slot_scorer(vertex).score_one(vertex), vertex).distance();
    let row = bytes_of(graph.vectors().padded(vertex));
    let ties = candidates.iter().filter(|candidate| candidate.distance() == own);
    ties.map(|candidate| candidate.id()).find(|&id| bytes_of(graph.vectors().padded(id)) == row)
}
