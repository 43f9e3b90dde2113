//! An index whose vectors are dealt to several graphs, the *shards*, by a hash of their keys.
//!
//! ```text
//! a search:  every shard searches for k; the answers are merged by (distance, key)
//! an insert: each shard inserts the vectors whose keys it has, at the same time; all make them visible, or none
//! a delete:  as an insert
//! ```
//!
//! The number of shards is that of the build, and remains. Shards may be on different devices, or several on one.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::mem;
use std::ops::{AddAssign, RangeInclusive};
use std::sync::{Arc, Mutex};

use jasper_core::{DeviceError, Key, Slot, VectorView, Vectors, sync};
use jasper_graph::{Graph, KeptVectors};
use jasper_vamana::{
    ChangeHooks, CompactReport, ConsolidateReport, CpuExecutor, Explanation, Hit, InsertReport, Matches,
    MatchesMut, MemorySpace, NewVectors, SearchError, SearchParams, SearchReport, UpdateError,
};

use super::sources::{RowsByShard, ShardVectors, in_memory};
use super::vote::Vote;
use super::{Backend, at_once, joined_names};
use crate::Device;

/// Maximum number of shards.
pub(crate) const MAX_SHARDS: usize = 256;

/// The shard of a key, by the high bits of a hash: SplitMix64 with the key as its state. `jasper.ray` hashes keys without
/// the increment, so the keys of one of its shards are in all of these.
pub(crate) fn shard_of(key: Key, shards: usize) -> usize {
    let mut hash = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let high = (hash ^ hash >> 31) >> 32;
    ((high * shards as u64) >> 32) as usize
}

/// Several backends, each with a part of the vectors.
pub(crate) struct Sharded {
    shards: Vec<Arc<dyn Backend>>,
    /// Merges answers.
    executor: Arc<CpuExecutor>,
    /// The arrays of a finished call for the answers of each shard: allocating others takes a quarter of the time of a
    /// search.
    idle: Mutex<Vec<Matches>>,
}

/// Bytes of the answers to the queries that all shards search for before they are merged.
const ANSWER_BYTES: usize = 64 << 20;
/// Fewest and most of these queries.
const CHUNK_LEN: RangeInclusive<usize> = 2048..=1 << 16;
/// Queries whose answers one task of the thread pool merges.
const MERGED: usize = 512;

impl Sharded {
    /// The graphs of the shards, in their order; there is at least one.
    pub(crate) fn new(shards: Vec<Arc<dyn Backend>>, executor: Arc<CpuExecutor>) -> Self {
        Self { shards, executor, idle: Mutex::default() }
    }

    fn first(&self) -> &dyn Backend {
        &*self.shards[0]
    }

    /// Undoes a change of the first shards, of which `kept` is what they had. If a device has no memory for the codes that
    /// its shard had, no shard keeps codes.
    fn restore(&self, kept: &[KeptVectors]) {
        let drop_codes = |graph: &mut Graph| {
            if graph.has_vectors() {
                graph.drop_codes();
            }
        };
        let is_changed =
            |(shard, kept): &(&Arc<dyn Backend>, &KeptVectors)| !shard.read(|graph| graph.has_kept(kept));
        let changed: Vec<_> = self.shards.iter().zip(kept).filter(is_changed).collect();
        // First, so that there is room for those that come back.
        changed.iter().for_each(|(shard, _)| drop(shard.change(drop_codes)));
        let is_restored =
            changed.iter().all(|(shard, kept)| shard.change(|graph| graph.restore_vectors(kept)).is_ok());
        if !is_restored {
            self.shards.iter().for_each(|shard| drop(shard.change(drop_codes)));
        }
    }

    /// Calls `work` for each shard, at the same time, with the progress of the first. Returns the sum of the results.
    fn change_all<R: Send + Default + AddAssign>(
        &self,
        hooks: ChangeHooks<'_>,
        work: impl Fn(usize, &dyn Backend, ChangeHooks<'_>) -> Result<R, UpdateError> + Sync,
    ) -> Result<R, UpdateError> {
        let change = |shard: usize, hooks: ChangeHooks<'_>| work(shard, &*self.shards[shard], hooks);
        let results = Vote::make_all(self.shards.len(), true, hooks, change);
        let mut results = results.map_err(UpdateError::Thread)?;
        // One shard's error cancels the others.
        let is_cause = |result: &Result<R, UpdateError>| matches!(result, Err(error) if !matches!(error, UpdateError::Cancelled(_)));
        match results.iter().position(is_cause) {
            Some(shard) => Err(results.swap_remove(shard).err().expect("the cause")),
            None => results.into_iter().try_fold(R::default(), |mut sum, report| {
                sum += report?;
                Ok(sum)
            }),
        }
    }

    /// Searches every shard for a chunk of queries, and writes the answers of each to one of `answers`.
    fn search_chunk(
        &self,
        chunk: &[VectorView<'_>],
        params: SearchParams<'_>,
        answers: &mut [Matches],
    ) -> Result<SearchReport, SearchError> {
        let entries = chunk.len() * params.k;
        let mut searches = self.shards.iter().zip(answers).map(|(shard, answer)| {
            let answer = answer.as_mut().split_at(entries).0;
            move || shard.search_batch(chunk, params, answer)
        });
        let reports: Vec<_> = if self.is_on_cpu() {
            // Each takes all threads.
            searches.map(|search| search()).collect()
        } else {
            at_once(searches.next().expect("there is a shard"), searches).map_err(SearchError::Thread)?
        };
        let mut sum = SearchReport::default();
        for report in reports {
            sum += report?;
        }
        Ok(sum)
    }

    /// Arrays for the answers of each shard to `queries` queries, and possibly more.
    fn answers(&self, queries: usize, k: usize) -> Result<Vec<Matches>, SearchError> {
        let idle = mem::take(&mut *sync::lock(&self.idle));
        if idle.first().is_some_and(|answer| answer.k() == k && answer.queries() >= queries) {
            return Ok(idle);
        }
        self.shards.iter().map(|_| Matches::new(queries, k)).collect()
    }

    /// Merges the answers of all shards.
    fn merge(&self, answers: &[Matches], queries: usize, k: usize, mut matches: MatchesMut<'_>) {
        self.executor.search_pool().scope(|scope| {
            for first in (0..queries).step_by(MERGED) {
                let count = MERGED.min(queries - first);
                let (rows, rest) = mem::take(&mut matches).split_at(count * k);
                matches = rest;
                scope.spawn(move |_| {
                    let [mut merged, mut answer, mut next] = [const { Vec::new() }; 3];
                    for (query, mut row) in rows.rows(k).enumerate() {
                        load(&mut merged, &answers[0], first + query);
                        for other in &answers[1..] {
                            load(&mut answer, other, first + query);
                            next.resize(k, Hit::NONE);
                            merge(&merged, &answer, &mut next);
                            mem::swap(&mut merged, &mut next);
                        }
                        row.fill(merged.iter().copied());
                    }
                });
            }
        });
    }
}

/// Makes `list` the answer for a query, sorted by distance and key, with [`Hit::NONE`] at the end. Answers are sorted by
/// distance.
fn load(list: &mut Vec<Hit>, answer: &Matches, query: usize) {
    let entries = query * answer.k()..(query + 1) * answer.k();
    let entries = answer.keys()[entries.clone()].iter().zip(&answer.distances()[entries]);
    list.clear();
    list.extend(entries.map(|(&key, &distance)| Hit { key, distance }));
    // Keys of equal distances may be in any order.
    if !list.is_sorted_by(|a, b| !is_before(b, a)) {
        sort(list);
    }
}

/// Merges two lists into `out`; all three have the same length. No branch depends on the hits: it would be mispredicted
/// half of the time.
fn merge(one: &[Hit], other: &[Hit], out: &mut [Hit]) {
    let (mut i, mut j) = (0, 0);
    for out in out {
        let is_other = is_before(&other[j], &one[i]);
        *out = if is_other { other[j] } else { one[i] };
        i += usize::from(!is_other);
        j += usize::from(is_other);
    }
}

/// Sorts by distance and key.
fn sort(hits: &mut [Hit]) {
    // Not by `total_cmp`, which orders -0.0 before 0.0: they are equal here, as in `is_before`.
    hits.sort_unstable_by(|a, b| match () {
        () if is_before(a, b) => Ordering::Less,
        () if is_before(b, a) => Ordering::Greater,
        () => Ordering::Equal,
    });
}

/// Compares by distance and key.
fn is_before(a: &Hit, b: &Hit) -> bool {
    a.distance < b.distance || a.distance == b.distance && a.key < b.key
}

impl Backend for Sharded {
    fn shards(&self) -> &[Arc<dyn Backend>] {
        &self.shards
    }

    fn device(&self) -> Device {
        Device::several(self.shards.iter().map(|shard| shard.device()))
    }

    fn device_name(&self) -> String {
        joined_names(self.shards.iter().map(|shard| &**shard))
    }

    fn is_on_cpu(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_on_cpu())
    }

    fn device_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.device_bytes()).sum()
    }

    fn vector_storage(&self) -> MemorySpace {
        self.first().vector_storage()
    }

    fn stores_vectors_in(&self, storage: MemorySpace) -> bool {
        self.shards.iter().all(|shard| shard.stores_vectors_in(storage))
    }

    fn max_beam_width(&self) -> usize {
        self.shards.iter().map(|shard| shard.max_beam_width()).min().unwrap_or(usize::MAX)
    }

    fn read_graph(&self, read: &mut dyn FnMut(&Graph)) {
        self.first().read_graph(read);
    }

    fn change_graph(&self, change: &mut dyn FnMut(&mut Graph)) -> Result<(), DeviceError> {
        // Changes of keys are made shard by shard, by callers that undo them.
        let kept: Vec<_> = self.shards.iter().map(|shard| shard.read(Graph::keep_vectors)).collect();
        for (at, shard) in self.shards.iter().enumerate() {
            shard.change_graph(change).inspect_err(|_| self.restore(&kept[..=at]))?;
        }
        Ok(())
    }

    fn sync_host_edges(&self) -> Result<(), DeviceError> {
        self.shards.iter().try_for_each(|shard| shard.sync_host_edges())
    }

    fn into_graphs(self: Arc<Self>) -> Vec<Graph> {
        let this = Arc::into_inner(self).expect("the caller holds the only reference");
        this.shards.into_iter().flat_map(Backend::into_graphs).collect()
    }

    fn warm_up(&self) -> Result<(), DeviceError> {
        self.shards.iter().try_for_each(|shard| shard.warm_up())
    }

    fn explain(&self, params: SearchParams<'_>, queries: usize) -> Result<Explanation, SearchError> {
        let (first, others) = self.shards.split_first().expect("there is a shard");
        let mut sum = first.explain(params, queries)?;
        for shard in others {
            sum += shard.explain(params, queries)?;
        }
        Ok(sum)
    }

    fn search_one(&self, query: VectorView<'_>, params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        let mut searches = self.shards.iter().map(|shard| move || shard.search_one(query, params));
        let found: Result<Vec<_>, _> = if self.is_on_cpu() {
            // Starting threads takes as long as a search.
            searches.map(|search| search()).collect()
        } else {
            let found = at_once(searches.next().expect("there is a shard"), searches);
            found.map_err(SearchError::Thread)?.into_iter().collect()
        };
        let mut hits = found?.concat();
        sort(&mut hits);
        hits.truncate(params.k);
        Ok(hits)
    }

    fn search_batch(
        &self,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
        mut matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        params.check()?;
        params.check_filters(queries.len())?;
        matches.check(queries.len(), params.k)?;
        let mut sum = SearchReport::default();
        let answer_bytes =
            self.shards.len().saturating_mul(params.k).saturating_mul(size_of::<Key>() + size_of::<f32>());
        let chunk_len = (ANSWER_BYTES / answer_bytes).clamp(*CHUNK_LEN.start(), *CHUNK_LEN.end());
        let mut answers = self.answers(queries.len().min(chunk_len), params.k)?;
        // An empty batch is checked as well.
        let chunks = queries.chunks(chunk_len).chain(queries.is_empty().then_some(queries));
        for (number, chunk) in chunks.enumerate() {
            let first = number * chunk_len;
            let params = params.of_queries(first..first + chunk.len());
            let searched = self.search_chunk(chunk, params, &mut answers);
            sum += searched.map_err(|error| error.map_row(|row| first + row))?;
            let (rows, rest) = matches.split_at(chunk.len() * params.k);
            matches = rest;
            self.merge(&answers, chunk.len(), params.k, rows);
        }
        *sync::lock(&self.idle) = answers;
        Ok(sum)
    }

    fn insert(&self, new: NewVectors<'_>, hooks: ChangeHooks<'_>) -> Result<InsertReport, UpdateError> {
        let NewVectors { vectors, keys, on_conflict, attributes, .. } = new;
        if keys.len() != vectors.len() {
            return Err(UpdateError::KeyCount { keys: keys.len(), vectors: vectors.len() });
        }
        let (element, mut buffer) = (vectors.element(), None);
        let all = in_memory(vectors, &mut buffer)?;
        let pool = self.executor.pool();
        let rows = pool.install(|| RowsByShard::new(Some(keys), keys.len(), self.shards.len()));
        let mut report = self.change_all(hooks, |shard, backend, hooks| {
            let vectors = ShardVectors::new(&all, &rows, shard);
            let keys = pool.install(|| rows.keys(shard));
            let attributes = attributes.map(|all| {
                let rows: Vec<usize> = (0..keys.len()).map(|row| vectors.row_in_source(row)).collect();
                all.select(&rows)
            });
            let of_shard = Vectors::of_element(element, &vectors);
            let new = NewVectors::new(of_shard, &keys, on_conflict).with_attributes(attributes.as_ref());
            backend.insert(new, hooks).map_err(|error| match error {
                UpdateError::Vector(error) => {
                    UpdateError::Vector(error.map_row(|row| vectors.row_in_source(row)))
                }
                error => error,
            })
        })?;
        report.first_key = keys.first().copied();
        Ok(report)
    }

    fn consolidate(&self, hooks: ChangeHooks<'_>) -> Result<ConsolidateReport, UpdateError> {
        self.change_all(hooks, |_, backend, hooks| backend.consolidate(hooks))
    }

    fn compact(&self) -> Result<CompactReport, UpdateError> {
        let mut sum = CompactReport::default();
        for shard in &self.shards {
            sum += shard.compact()?;
        }
        Ok(sum)
    }

    #[cfg(feature = "cuda")]
    fn search_on_device(
        &self,
        _: &jasper_cuda::Stream,
        _: SearchParams<'_>,
        _: super::DeviceArrays<'_>,
    ) -> Result<(), SearchError> {
        Err(DeviceError::Sharded("a search for queries in device memory").into())
    }

    fn without_edges(&self, _: &[Slot], _: &mut dyn FnMut()) -> Result<(), DeviceError> {
        // Slots are those of one graph.
        Err(DeviceError::Sharded("tuning on a sample of indexed vectors"))
    }
}
