//! Rows into slots: checked, prepared, and identical rows brought together.

use std::hash::Hasher;
use std::io;
use std::ops::Range;

use jasper_core::{
    Element, Key, MatrixView, Metric, Progress, ProgressFn, Stage, VectorId, VectorSource, padded_len,
};
use jasper_graph::{Graph, KeyError, check_vector, prepare_in_place, prepare_vector, stores_as_given};
use rayon::prelude::*;
use rustc_hash::FxHasher;

use crate::identical::FirstRows;
use crate::insert::Existing;
use crate::{Executor, UpdateError};

/// Checks that `keys` are one a row and distinct, and that new vectors may have them.
pub(crate) fn check_keys<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &Graph<T>,
    keys: &[Key],
    rows: usize,
    existing: Existing,
) -> Result<(), UpdateError> {
    if keys.len() != rows {
        return Err(UpdateError::KeyCount { keys: keys.len(), vectors: rows });
    }
    let refusal = |&key: &Key| match graph.keys().check_unused(key) {
        Err(KeyError::Exists(_)) if existing == Existing::Replace => None,
        result => result.err(),
    };
    executor.install(|| {
        if let Some(error) = keys.par_iter().find_map_first(refusal) {
            return Err(error.into());
        }
        // Most keys are numbers that rise, and then none is there twice.
        if keys.is_sorted_by(|a, b| a < b) {
            return Ok(());
        }
        let mut sorted = keys.to_vec();
        sorted.par_sort_unstable();
        let twice = sorted.windows(2).find(|pair| pair[0] == pair[1]);
        twice.map_or(Ok(()), |pair| Err(UpdateError::RepeatedKey(pair[0])))
    })
}

/// Stores `rows` as hidden vertices without edges; gives the slot of each row. Rows that are the same after
/// preparation, which under cosine includes rows of one direction, get the same slot. Slots rise as first rows do.
///
/// All threads of the executor read, check and copy. `write` runs a change on the graph, so that readers of a shared
/// one do not wait for the reading.
pub(crate) fn add_rows<T: Element, E: Executor<T>>(
    executor: &E,
    rows: &dyn VectorSource<T>,
    metric: Metric,
    mut write: impl FnMut(&mut dyn FnMut(&mut Graph<T>) -> Result<(), UpdateError>) -> Result<(), UpdateError>,
    progress: &mut ProgressFn<'_>,
) -> Result<Vec<VectorId>, UpdateError> {
    let total = rows.len();
    let mut slots = Vec::with_capacity(total);
    let first_rows = executor.install(|| FirstRows::new(total));
    let mut staged = Staged::for_rows_of(rows, metric);
    while slots.len() < total {
        Progress { stage: Stage::Reading, done: slots.len(), total }.report(progress)?;
        staged.read(executor, rows, slots.len())?;
        write(&mut |graph| executor.install(|| staged.store(graph, &first_rows, &mut slots)))?;
    }
    Progress { stage: Stage::Reading, done: total, total }.report(progress)?;
    Ok(slots)
}

/// Temporary memory for ingesting `rows` vectors of `bytes` in total: the table of duplicates, their slots, and the staging
/// buffers.
pub(crate) fn ingest_bytes(rows: usize, bytes: usize) -> usize {
    FirstRows::bytes(rows) + rows * size_of::<VectorId>() + 2 * STAGED_BYTES.min(bytes)
}

/// Bytes per staging buffer: one holds vectors as read, one as stored; if both forms are equal, one buffer of twice the size.
/// Enough work for all threads between two synchronizations.
const STAGED_BYTES: usize = 16 << 20;
/// Bytes per stage for vectors already in memory. A stage has a fixed cost, two milliseconds on a device, and searches wait for
/// it, a tenth of a millisecond per 300 kB.
const GIVEN_BYTES: usize = 64 << 20;
/// Vectors per stage for sources that one thread reads.
const ROWS_AT_ONCE: usize = 1024;
/// Parts of a stage, taken by threads one at a time.
const PARTS: usize = 64;

/// Rows between source and graph: read, prepared and hashed.
struct Staged<'a, T> {
    metric: Metric,
    /// The rows of the source, if they are in memory and the graph has them so too: nothing is copied but into the graph.
    given: Option<MatrixView<'a, T>>,
    dimension: usize,
    width: usize,
    /// Numbers of the rows.
    range: Range<usize>,
    /// The rows as the source has them, `[capacity][dimension]`; none where the graph has them so too.
    raw: Vec<T>,
    /// The rows as the graph has them, `[capacity][width]`; none where they are given.
    prepared: Vec<T>,
    /// Their squared lengths before preparation, and hashes of their content.
    facts: Vec<(f32, u64)>,
}

/// What one thread prepares: places for facts, for rows as the source has them, if those differ, and as the graph has them.
struct Part<'a, T> {
    first: usize,
    facts: &'a mut [(f32, u64)],
    raw: &'a mut [T],
    prepared: &'a mut [T],
}

impl<'a, T: Element> Staged<'a, T> {
    fn for_rows_of(rows: &'a dyn VectorSource<T>, metric: Metric) -> Self {
        let (dimension, width) = (rows.dimension(), padded_len::<T>(rows.dimension()));
        let given = rows.in_memory().filter(|_| stores_as_given::<T>(metric, dimension));
        let is_raw = width != dimension;
        let staged = match given {
            Some(_) => GIVEN_BYTES,
            None if is_raw => STAGED_BYTES,
            None => 2 * STAGED_BYTES,
        };
        let capacity = match rows.concurrent() {
            Some(_) => (staged / (width * size_of::<T>())).max(PARTS),
            None => ROWS_AT_ONCE,
        };
        let capacity = capacity.min(rows.len());
        Self {
            metric,
            given,
            dimension,
            width,
            range: 0..0,
            raw: vec![T::default(); if is_raw { capacity * dimension } else { 0 }],
            prepared: vec![T::default(); if given.is_some() { 0 } else { capacity * width }],
            facts: vec![(0.0, 0); capacity],
        }
    }

    /// Reads as many rows as fit, from `start` on, and prepares them. Of several errors that of the first row counts.
    fn read<E: Executor<T>>(
        &mut self,
        executor: &E,
        rows: &dyn VectorSource<T>,
        start: usize,
    ) -> Result<(), UpdateError> {
        self.range = start..rows.len().min(start + self.facts.len());
        if let Some(given) = self.given {
            return executor.install(|| self.look_at(given));
        }
        let Some(source) = rows.concurrent() else {
            let raw = if self.raw.is_empty() { &mut self.prepared } else { &mut self.raw };
            rows.read(self.range.clone(), &mut raw[..self.range.len() * self.dimension])
                .map_err(UpdateError::Read)?;
            return executor.install(|| self.prepare(|_, _| Ok(())));
        };
        executor.install(|| self.prepare(|range, raw| source.read(range, raw)))
    }

    /// Checks and hashes the rows where they are.
    fn look_at(&mut self, given: MatrixView<'_, T>) -> Result<(), UpdateError> {
        let (metric, range) = (self.metric, self.range.clone());
        let facts = self.facts[..range.len()].par_iter_mut().zip(range);
        let refusal = |(facts, number): (&mut (f32, u64), usize)| {
            let row = given.row(number);
            match check_vector(metric, number, row) {
                Ok(squared_norm) => *facts = (squared_norm, content_hash(row)),
                Err(error) => return Some(error),
            }
            None
        };
        facts.find_map_first(refusal).map_or(Ok(()), |error| Err(error.into()))
    }

    /// Prepares and hashes the rows, each part of them after `read` was called for it.
    fn prepare(
        &mut self,
        read: impl Fn(Range<usize>, &mut [T]) -> io::Result<()> + Sync,
    ) -> Result<(), UpdateError> {
        let (metric, dimension, width, start) = (self.metric, self.dimension, self.width, self.range.start);
        let part = self.range.len().div_ceil(PARTS);
        let facts = self.facts[..self.range.len()].chunks_mut(part);
        let mut raw = self.raw.chunks_mut(part * dimension);
        let parts: Vec<Part<'_, T>> = facts
            .zip(self.prepared.chunks_mut(part * width))
            .zip((start..).step_by(part))
            .map(|((facts, prepared), first)| Part {
                first,
                facts,
                raw: raw.next().unwrap_or_default(),
                prepared,
            })
            .collect();
        let prepare = |Part { first, facts, raw, prepared }: Part<'_, T>| {
            let (numbers, rows) = (first..first + facts.len(), facts.len());
            let into =
                if raw.is_empty() { &mut prepared[..rows * width] } else { &mut raw[..rows * dimension] };
            read(numbers.clone(), into).map_err(UpdateError::Read)?;
            let mut raw = raw.chunks_exact(dimension);
            for ((row, prepared), facts) in numbers.zip(prepared.chunks_exact_mut(width)).zip(facts) {
                let squared_norm = match raw.next() {
                    Some(raw) => prepare_vector(metric, row, raw, prepared)?,
                    None => prepare_in_place(metric, row, prepared)?,
                };
                *facts = (squared_norm, content_hash(prepared));
            }
            Ok(())
        };
        let results: Vec<Result<(), UpdateError>> = parts.into_par_iter().map(prepare).collect();
        results.into_iter().collect()
    }

    /// Stores those rows that none before is identical to, and appends the slots of all of them to those of the rows
    /// before.
    fn store(
        &self,
        graph: &mut Graph<T>,
        first_rows: &FirstRows,
        slots: &mut Vec<VectorId>,
    ) -> Result<(), UpdateError> {
        let content = |row: usize| match row.checked_sub(self.range.start) {
            Some(place) => self.row(place),
            None => graph.vectors().padded(slots[row]),
        };
        let enter = |row: usize| {
            let place = row - self.range.start;
            let (hash, own) = (self.facts[place].1, bytes_of(self.row(place)));
            first_rows.enter(hash, row, |other| bytes_of(content(other)) == own)
        };
        let mut firsts: Vec<usize> = self.range.clone().into_par_iter().map(enter).collect();
        // Only now is every row of the stage entered.
        firsts.par_iter_mut().for_each(|place| *place = first_rows.first(*place));
        let new: Vec<usize> = self
            .range
            .clone()
            .zip(&firsts)
            .filter(|(row, first)| row == *first)
            .map(|(row, _)| row - self.range.start)
            .collect();
        let added = graph.add_vectors(new.len(), |blocks| {
            blocks.into_par_iter().for_each(|mut block| {
                for number in block.numbers() {
                    block.set(number, self.row(new[number]), self.facts[new[number]].0);
                }
            });
        })?;
        let mut added = added.into_iter();
        for (row, first) in self.range.clone().zip(firsts) {
            let slot = if first == row { added.next() } else { Some(slots[first]) };
            slots.extend(slot);
        }
        Ok(())
    }

    /// The row in a place of the stage, prepared.
    fn row(&self, place: usize) -> &[T] {
        match self.given {
            Some(given) => given.row(self.range.start + place),
            None => &self.prepared[place * self.width..][..self.width],
        }
    }
}

pub(crate) fn bytes_of<T: Element>(row: &[T]) -> &[u8] {
    bytemuck::cast_slice(row)
}

fn content_hash<T: Element>(row: &[T]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes_of(row));
    hasher.finish()
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

    fn add<T: Element>(rows: &dyn VectorSource<T>) -> Result<(Graph<T>, Vec<VectorId>), UpdateError> {
        let executor = CpuExecutor::new(3).unwrap();
        let mut graph = Graph::new(Metric::InnerProduct, rows.dimension(), BuildParams::default()).unwrap();
        let write = |change: &mut dyn FnMut(&mut Graph<T>) -> Result<(), UpdateError>| change(&mut graph);
        let slots = add_rows(&executor, rows, Metric::InnerProduct, write, &mut no_progress)?;
        Ok((graph, slots))
    }

    #[test]
    fn identical_rows_share_the_slot_of_the_first() {
        // More than are read at once, of fewer contents.
        let count = STAGED_BYTES / 16 + 70_000;
        let mut random = rng(7);
        let rows: Vec<u8> = (0..count * 2).map(|_| random.random()).collect();
        let view = MatrixView::new(&rows, 2).unwrap();
        let mut known = HashMap::new();
        let mut slot_of = |row| {
            let next = VectorId::from_index(known.len());
            *known.entry(row).or_insert(next)
        };
        let expected: Vec<VectorId> = view.rows().map(&mut slot_of).collect();
        for rows in [&view as &dyn VectorSource<u8>, &Serial(view)] {
            let (graph, slots) = add(rows).unwrap();
            assert!(slots == expected);
            assert_eq!(graph.slots(), known.len());
            for (row, &slot) in view.rows().zip(&slots) {
                assert_eq!(graph.vectors().get(slot), row);
            }
            let norm = |row: &[u8]| row.iter().map(|&x| f32::from(x).powi(2)).sum::<f32>();
            let norms = graph.vectors().squared_norms().unwrap();
            assert!(view.rows().zip(&slots).all(|(row, slot)| norms.at(slot.index()) == norm(row)));
            assert_eq!(graph.vectors().largest_squared_norm(), view.rows().map(norm).fold(0.0, f32::max));
        }
    }

    /// With padding and without, in which case rows in memory are looked at where they are.
    #[test]
    fn of_several_bad_rows_the_first_is_named() {
        for dimension in [3, 4] {
            let mut rows = vec![1.0_f32; 4000 * dimension];
            [3999, 1500, 701].into_iter().for_each(|row: usize| rows[row * dimension + 1] = f32::NAN);
            let view = MatrixView::new(&rows, dimension).unwrap();
            for rows in [&view as &dyn VectorSource<f32>, &Serial(view)] {
                let error = add(rows).unwrap_err();
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
        let [(given, slots), (read, others)] = [add(&view).unwrap(), add(&Serial(view)).unwrap()];
        assert!(slots == others && given.slots() == 2990);
        let norms = [&given, &read].map(|graph| graph.vectors().squared_norms().unwrap());
        for (row, &slot) in view.rows().zip(&slots) {
            assert_eq!((given.vectors().get(slot), read.vectors().get(slot)), (row, row));
            assert_eq!(norms[0].at(slot.index()), norms[1].at(slot.index()));
        }
    }
}
