//! Stores vectors in slots: reads, checks, prepares and deduplicates them in parallel.

use std::hash::Hasher;
use std::io;
use std::ops::Range;

use jasper_core::{
    Element, Key, MatrixView, Metric, Progress, ProgressFn, Slot, Stage, VectorSource, Vectors, padded_len,
    with_element,
};
use jasper_data::ThreadPool;
use jasper_graph::{
    Graph, KeyError, VectorError, check_vector, prepare_in_place, prepare_vector, stores_as_given,
};
use rustc_hash::FxHasher;

use crate::dedup::DedupTable;
use crate::insert::OnConflict;
use crate::threads::{self, map_items};
use crate::{Executor, GraphAccess, MutableGraph, UpdateError};

/// Checks that there is one key per vector, that keys are distinct, and that new vectors may have them.
pub(crate) fn check_keys(
    pool: &ThreadPool,
    graph: &Graph,
    keys: &[Key],
    vectors: usize,
    on_conflict: OnConflict,
) -> Result<(), UpdateError> {
    if keys.len() != vectors {
        return Err(UpdateError::KeyCount { keys: keys.len(), vectors });
    }
    let refusal = |&key: &Key| match graph.keys().check_unused(key) {
        Err(KeyError::Exists(_)) if on_conflict == OnConflict::Replace => None,
        result => result.err(),
    };
    let refusals = map_items(pool, keys.len(), threads::ranges(keys.len()), |range| {
        keys[range].iter().find_map(refusal)
    });
    if let Some(error) = refusals.into_iter().flatten().next() {
        return Err(error.into());
    }
    // The common case: keys that ascend are distinct.
    if keys.is_sorted_by(|a, b| a < b) {
        return Ok(());
    }
    let mut sorted = keys.to_vec();
    threads::sort(pool, &mut sorted);
    let repeated = sorted.windows(2).find(|pair| pair[0] == pair[1]);
    repeated.map_or(Ok(()), |pair| Err(UpdateError::RepeatedKey(pair[0])))
}

/// Stores vectors as tombstones without edges; returns the slot of each. Vectors that are identical once prepared share
/// a slot; under cosine, these include vectors of the same direction. Slots ascend in the order of the first vectors
/// that have them.
///
/// ```text
/// for each chunk of vectors:
///     read, check, prepare and hash them              on all threads; the graph is not locked
///     insert them into the table                      of vectors with equal content, the lowest number is the first
///     add the first ones to the graph                 searches wait for this
/// ```
///
/// The [table](DedupTable) leads from a hash of the content of a vector to the first vector with that content.
pub(crate) fn add_vectors<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    vectors: Vectors<'_>,
    progress: &mut ProgressFn<'_>,
) -> Result<Vec<Slot>, UpdateError> {
    let element = graph.read(|graph| graph.host().element());
    let added = with_element!(element, T => {
        vectors.with_source::<T, _>(|source| add_source(executor, graph, source, progress))
    });
    added.map_err(VectorError::from)?
}

/// [`add_vectors`], of the element type of the graph.
fn add_source<T: Element, E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    vectors: &dyn VectorSource<T>,
    progress: &mut ProgressFn<'_>,
) -> Result<Vec<Slot>, UpdateError> {
    let (total, metric) = (vectors.len(), graph.read(|graph| graph.host().metric()));
    let (pool, table) = (executor.host_pool(), DedupTable::new(total));
    let mut slots = bytemuck::zeroed_vec(total);
    let mut staging = IngestBuffer::new(vectors, metric);
    while staging.range.end < total {
        let done = staging.range.end;
        Progress { stage: Stage::Reading, done, total }.report(progress)?;
        staging.read(pool, vectors, done)?;
        graph.wait_for_free_slots();
        graph.change_host(|host| staging.store(pool, host, &table, &mut slots))??;
    }
    Progress { stage: Stage::Reading, done: total, total }.report(progress)?;
    Ok(slots)
}

/// Temporary memory for ingesting `vectors` of `bytes` in total: the table of first vectors, the slots, and the staging
/// buffer. `is_padded`: whether they are stored with padding.
pub(crate) fn ingest_bytes(vectors: usize, bytes: usize, is_padded: bool) -> usize {
    let staging = if is_padded { 2 * STAGING_BYTES.min(bytes) } else { (2 * STAGING_BYTES).min(bytes) };
    DedupTable::bytes(vectors) + vectors * size_of::<Slot>() + staging
}

/// Bytes of vectors as read, and as many bytes of vectors as stored. If both forms are equal, twice as many are read at
/// once. This is enough work for all threads between two synchronizations.
const STAGING_BYTES: usize = 16 << 20;
/// Bytes of vectors in memory that are checked at once. Each chunk has a fixed cost, two milliseconds on a device, and
/// searches wait a tenth of a millisecond per 300 kB.
const IN_MEMORY_BYTES: usize = 64 << 20;
/// Vectors read at once from sources that one thread reads.
const SERIAL_VECTORS: usize = 1024;
/// Tasks of a chunk, taken by threads one at a time.
const TASKS: usize = 64;

/// A chunk of vectors between source and graph: read, prepared and hashed.
struct IngestBuffer<'a, T> {
    metric: Metric,
    /// The vectors of the source, if they are in memory in their stored form. They are then not copied to the buffer.
    in_memory: Option<MatrixView<'a, T>>,
    dimension: usize,
    /// Elements of a padded vector.
    width: usize,
    /// Numbers of the vectors.
    range: Range<usize>,
    /// The vectors as read, `[capacity][dimension]`; empty if they have no padding.
    raw: Vec<T>,
    /// The vectors as stored, `[capacity][width]`; empty if they are in memory.
    prepared: Vec<T>,
    /// `[capacity]`
    norms_and_hashes: Vec<NormAndHash>,
}

/// The squared norm of a vector before preparation, and a hash of it after.
#[derive(Clone, Copy, Default)]
struct NormAndHash {
    squared_norm: f32,
    hash: u64,
}

impl NormAndHash {
    fn new<T: Element>(squared_norm: f32, prepared: &[T]) -> Self {
        let mut hasher = FxHasher::default();
        hasher.write(bytes_of(prepared));
        Self { squared_norm, hash: hasher.finish() }
    }
}

/// Reads a range of vectors.
type ReadVectors<'a, T> = dyn Fn(Range<usize>, &mut [T]) -> io::Result<()> + Sync + 'a;

/// The part of the buffer that one thread fills, from vector `first` on.
struct IngestTask<'a, T> {
    first: usize,
    norms_and_hashes: &'a mut [NormAndHash],
    raw: &'a mut [T],
    prepared: &'a mut [T],
}

impl<'a, T: Element> IngestBuffer<'a, T> {
    fn new(vectors: &'a dyn VectorSource<T>, metric: Metric) -> Self {
        let (dimension, width) = (vectors.dimension(), padded_len::<T>(vectors.dimension()));
        let in_memory = vectors.in_memory().filter(|_| stores_as_given::<T>(metric, dimension));
        let is_padded = width != dimension;
        let bytes = match in_memory {
            Some(_) => IN_MEMORY_BYTES,
            None if is_padded => STAGING_BYTES,
            None => 2 * STAGING_BYTES,
        };
        let capacity = match vectors.concurrent() {
            Some(_) => (bytes / (width * size_of::<T>())).max(TASKS),
            None => SERIAL_VECTORS,
        };
        let capacity = capacity.min(vectors.len());
        Self {
            metric,
            in_memory,
            dimension,
            width,
            range: 0..0,
            raw: vec![T::default(); if is_padded { capacity * dimension } else { 0 }],
            prepared: vec![T::default(); if in_memory.is_some() { 0 } else { capacity * width }],
            norms_and_hashes: vec![NormAndHash::default(); capacity],
        }
    }

    /// Reads as many vectors as fit, from number `start` on, and prepares them. If there are several errors, returns
    /// that of the first vector.
    fn read(
        &mut self,
        pool: &ThreadPool,
        vectors: &dyn VectorSource<T>,
        start: usize,
    ) -> Result<(), UpdateError> {
        self.range = start..vectors.len().min(start + self.norms_and_hashes.len());
        if let Some(vectors) = self.in_memory {
            return self.check_in_memory(pool, vectors);
        }
        let Some(source) = vectors.concurrent() else {
            let raw = if self.raw.is_empty() { &mut self.prepared } else { &mut self.raw };
            vectors
                .read(self.range.clone(), &mut raw[..self.range.len() * self.dimension])
                .map_err(UpdateError::Read)?;
            return self.prepare(pool, &|_, _| Ok(()));
        };
        self.prepare(pool, &|range, raw| source.read(range, raw))
    }

    /// Checks and hashes vectors in place.
    fn check_in_memory(&mut self, pool: &ThreadPool, vectors: MatrixView<'_, T>) -> Result<(), UpdateError> {
        let (metric, range) = (self.metric, self.range.clone());
        let task_len = range.len().div_ceil(TASKS);
        let tasks = self.norms_and_hashes[..range.len()].chunks_mut(task_len);
        let check = |(first, norms_and_hashes): (usize, &mut [NormAndHash])| {
            for (number, norm_and_hash) in (first..).zip(norms_and_hashes) {
                let vector = vectors.row(number);
                *norm_and_hash = NormAndHash::new(check_vector(metric, number, vector)?, vector);
            }
            Ok(())
        };
        let tasks = (range.start..).step_by(task_len).zip(tasks);
        map_items(pool, range.len(), tasks, check).into_iter().collect()
    }

    /// Prepares and hashes the vectors, those of each task after `read` was called for them.
    fn prepare(&mut self, pool: &ThreadPool, read: &ReadVectors<'_, T>) -> Result<(), UpdateError> {
        let (metric, dimension, width, start) = (self.metric, self.dimension, self.width, self.range.start);
        let task_len = self.range.len().div_ceil(TASKS);
        let norms_and_hashes = self.norms_and_hashes[..self.range.len()].chunks_mut(task_len);
        let mut raw = self.raw.chunks_mut(task_len * dimension);
        let tasks = norms_and_hashes
            .zip(self.prepared.chunks_mut(task_len * width))
            .zip((start..).step_by(task_len))
            .map(|((norms_and_hashes, prepared), first)| {
                let raw = raw.next().unwrap_or_default();
                IngestTask { first, norms_and_hashes, raw, prepared }
            });
        let prepare = |IngestTask { first, norms_and_hashes, raw, prepared }: IngestTask<'_, T>| {
            let (numbers, len) = (first..first + norms_and_hashes.len(), norms_and_hashes.len());
            let out = if raw.is_empty() { &mut prepared[..len * width] } else { &mut raw[..len * dimension] };
            read(numbers.clone(), out).map_err(UpdateError::Read)?;
            let mut raw = raw.chunks_exact(dimension);
            for ((number, prepared), norm_and_hash) in
                numbers.zip(prepared.chunks_exact_mut(width)).zip(norms_and_hashes)
            {
                let squared_norm = match raw.next() {
                    Some(raw) => prepare_vector(metric, number, raw, prepared)?,
                    None => prepare_in_place(metric, number, prepared)?,
                };
                *norm_and_hash = NormAndHash::new(squared_norm, prepared);
            }
            Ok(())
        };
        map_items(pool, self.range.len(), tasks, prepare).into_iter().collect()
    }

    /// Adds the vectors that are not identical to an earlier one to the graph, and writes the slots of all to `slots`,
    /// which holds those of all chunks.
    fn store(
        &self,
        pool: &ThreadPool,
        graph: &mut Graph,
        table: &DedupTable,
        slots: &mut [Slot],
    ) -> Result<(), UpdateError> {
        let start = self.range.start;
        let vector = |number: usize| match number.checked_sub(start) {
            Some(index) => self.vector(index),
            None => graph.vectors().padded(slots[number]),
        };
        let insert = |number: usize| {
            let own = bytes_of(vector(number));
            let hash = self.norms_and_hashes[number - start].hash;
            table.insert(hash, number, |other| bytes_of(vector(other)) == own)
        };
        // The first vector that is identical to each one, and those of the chunk that are the first of their content.
        let len = self.range.len();
        let entries = map_items(pool, len, threads::ranges(len), |range| {
            range.map(|index| insert(start + index)).collect::<Vec<_>>()
        });
        // Only now is every vector of the chunk in the table.
        let firsts: Vec<usize> = entries.into_iter().flatten().map(|entry| table.first(entry)).collect();
        let new: Vec<usize> = (0..len).filter(|&index| firsts[index] == start + index).collect();
        let added = graph.add_vectors(new.len(), |blocks| {
            map_items(pool, new.len(), blocks, |mut block| {
                for i in block.numbers() {
                    block.set(i, self.vector(new[i]), self.norms_and_hashes[new[i]].squared_norm);
                }
            });
        })?;
        let mut added = added.into_iter();
        for (number, &first) in self.range.clone().zip(&firsts) {
            let is_new = first == number;
            slots[number] =
                if is_new { added.next().expect("each new vector was added") } else { slots[first] };
        }
        Ok(())
    }

    /// Vector `index` of the chunk, prepared.
    fn vector(&self, index: usize) -> &[T] {
        match self.in_memory {
            Some(vectors) => vectors.row(self.range.start + index),
            None => &self.prepared[index * self.width..][..self.width],
        }
    }
}

pub(crate) fn bytes_of<T: Element>(vector: &[T]) -> &[u8] {
    bytemuck::cast_slice(vector)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use jasper_core::synthetic::rng;
    use jasper_core::{BuildParams, MatrixView, no_progress};
    use rand::RngExt;

    use super::*;
    use crate::CpuExecutor;

    /// Rows that one thread has to read.
    struct Serial<'a, T>(MatrixView<'a, T>);

    impl<T: Element> VectorSource<T> for Serial<'_, T> {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn dimension(&self) -> usize {
            self.0.dimension()
        }

        fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
            self.0.read(range, out)
        }
    }

    fn add(metric: Metric, rows: Vectors<'_>) -> Result<(Graph, Vec<Slot>), UpdateError> {
        let executor = CpuExecutor::new(3).unwrap();
        let mut graph = Graph::new(rows.element(), metric, rows.dimension(), BuildParams::default()).unwrap();
        let slots = add_vectors(&executor, &mut graph, rows, &mut no_progress)?;
        Ok((graph, slots))
    }

    #[test]
    fn identical_rows_share_the_slot_of_the_first() {
        // These are more vectors than are read at once, with fewer distinct contents.
        let count = STAGING_BYTES / 16 + 70_000;
        let mut random = rng(7);
        let rows: Vec<u8> = (0..count * 2).map(|_| random.random()).collect();
        let view = MatrixView::new(&rows, 2).unwrap();
        let mut known = HashMap::new();
        let mut slot_of = |row| {
            let next = Slot::from_index(known.len());
            *known.entry(row).or_insert(next)
        };
        let expected: Vec<Slot> = view.rows().map(&mut slot_of).collect();
        for rows in [Vectors::from(view), Vectors::from_source(&Serial(view))] {
            let (graph, slots) = add(Metric::InnerProduct, rows).unwrap();
            assert!(slots == expected);
            assert_eq!(graph.slots(), known.len());
            for (row, &slot) in view.rows().zip(&slots) {
                assert_eq!(graph.vectors().get::<u8>(slot), row);
            }
            let norm = |row: &[u8]| row.iter().map(|&x| f32::from(x).powi(2)).sum::<f32>();
            let largest = view.rows().map(norm).fold(0.0, f32::max);
            assert_eq!(graph.vectors().center().alpha_offsets(), [largest; 2]);
        }
    }

    /// Vectors with padding and without, which are checked in place.
    #[test]
    fn of_several_bad_rows_the_first_is_named() {
        for dimension in [3, 4] {
            let mut rows = vec![1.0_f32; 4000 * dimension];
            [3999, 1500, 701].into_iter().for_each(|row: usize| rows[row * dimension + 1] = f32::NAN);
            let view = MatrixView::new(&rows, dimension).unwrap();
            for rows in [Vectors::from(view), Vectors::from_source(&Serial(view))] {
                let error = add(Metric::L2, rows).unwrap_err();
                assert!(error.to_string().starts_with("row 701 holds a value that is not finite"), "{error}");
            }
        }
    }

    #[test]
    fn rows_are_stored_alike_wherever_they_come_from() {
        let mut random = rng(8);
        let mut rows: Vec<u8> = (0..3000 * 16).map(|_| random.random()).collect();
        rows.copy_within(..10 * 16, 2000 * 16);
        let view = MatrixView::new(&rows, 16).unwrap();
        let [(given, slots), (read, others)] = [Vectors::from(view), Vectors::from_source(&Serial(view))]
            .map(|rows| add(Metric::Cosine, rows).unwrap());
        assert!(slots == others && given.slots() == 2990);
        let norms = [&given, &read].map(|graph| graph.vectors().terms().unwrap());
        for (row, &slot) in view.rows().zip(&slots) {
            assert_eq!([&given, &read].map(|graph| graph.vectors().get::<u8>(slot)), [row; 2]);
            let norm = row.iter().map(|&x| f32::from(x).powi(2)).sum::<f32>();
            assert_eq!(norms.map(|norms| norms.at(slot.index())), [norm; 2]);
        }
    }
}
