//! Rows into slots: checked, prepared, and identical rows brought together.

use std::collections::HashSet;
use std::error::Error;
use std::hash::Hasher;
use std::io;

use crate::CheckpointError;
use crate::insert::Existing;
use crate::pipeline::LinkError;
use hashbrown::HashTable;
use jasper_core::{Cancelled, Element, Key, Progress, ProgressFn, RowSource, Stage, VectorId};
use jasper_graph::{Graph, KeyError, RowError};
use rustc_hash::{FxBuildHasher, FxHasher};

/// Rows could not be taken into an index; the index is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InsertError {
    /// A row cannot be stored.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A key is in the index already.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key was given twice in one call.
    #[error("key {0} is given twice; every vector needs a key of its own")]
    RepeatedKey(Key),
    /// Keys and rows are not as many.
    #[error("{keys} keys for {rows} rows; give one key a row")]
    KeyCount {
        /// Keys given.
        keys: usize,
        /// Rows given.
        rows: usize,
    },
    /// The rows could not be read.
    #[error("rows could not be read")]
    Read(#[source] io::Error),
    /// The progress closure broke off.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// A checkpoint of a bulk build cannot be written, or not be taken up.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The device failed.
    #[error("the device could not link the vectors")]
    Device(#[source] Box<dyn Error + Send + Sync>),
}

impl InsertError {
    /// The failure of a device.
    pub fn device(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Device(Box::new(error))
    }
}

impl<E: Error + Send + Sync + 'static> From<LinkError<E>> for InsertError {
    fn from(error: LinkError<E>) -> Self {
        match error {
            LinkError::Cancelled(cancelled) => cancelled.into(),
            LinkError::Linker(error) => Self::device(error),
        }
    }
}

/// Rows read at a time: enough to read files in large pieces, little beside any index.
const ROWS_AT_ONCE: usize = 1024;

/// Checks that `keys` are one a row and distinct, and that new vectors may have them.
pub(crate) fn check_keys<T: Element>(
    graph: &Graph<T>,
    keys: &[Key],
    rows: usize,
    existing: Existing,
) -> Result<(), InsertError> {
    if keys.len() != rows {
        return Err(InsertError::KeyCount { keys: keys.len(), rows });
    }
    let mut seen = HashSet::with_capacity_and_hasher(keys.len(), FxBuildHasher);
    for &key in keys {
        if !seen.insert(key) {
            return Err(InsertError::RepeatedKey(key));
        }
        match graph.check_unused(key) {
            Err(KeyError::Exists(_)) if existing == Existing::Replace => {}
            result => result?,
        }
    }
    Ok(())
}

/// Stores `rows` as hidden vertices without edges; gives the slot of each row. Rows that are the same after
/// preparation, which under cosine includes rows of one direction, get the same slot.
///
/// `write` runs a change on the graph, so that readers of a shared one wait only for the copying.
pub(crate) fn add_rows<T: Element>(
    rows: &dyn RowSource<T>,
    mut write: impl FnMut(&mut dyn FnMut(&mut Graph<T>) -> Result<(), InsertError>) -> Result<(), InsertError>,
    progress: &mut ProgressFn<'_>,
) -> Result<Vec<VectorId>, InsertError> {
    let mut slots = Vec::with_capacity(rows.len());
    // Slots alone: what they hold is in the graph, where a row is compared with it.
    let mut known = HashTable::<VectorId>::with_capacity(rows.len());
    let mut buffer = vec![T::default(); ROWS_AT_ONCE.min(rows.len()) * rows.dimension()];
    let mut prepared = Vec::new();
    for start in (0..rows.len()).step_by(ROWS_AT_ONCE) {
        Progress { stage: Stage::Reading, done: start, total: rows.len() }.report(progress)?;
        let range = start..rows.len().min(start + ROWS_AT_ONCE);
        let buffer = &mut buffer[..range.len() * rows.dimension()];
        rows.read(range, buffer).map_err(InsertError::Read)?;
        write(&mut |graph| {
            for (i, row) in buffer.chunks_exact(rows.dimension()).enumerate() {
                let squared_norm = graph.prepare(start + i, row, &mut prepared)?;
                let hash = content_hash(&prepared);
                let slot = match known.find(hash, |&slot| graph.padded_vector(slot) == prepared) {
                    Some(&slot) => slot,
                    None => {
                        let slot = graph.add_row(&prepared, squared_norm)?;
                        known.insert_unique(hash, slot, |&slot| content_hash(graph.padded_vector(slot)));
                        slot
                    }
                };
                slots.push(slot);
            }
            Ok(())
        })?;
    }
    Ok(slots)
}

fn content_hash<T: Element>(row: &[T]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytemuck::cast_slice(row));
    hasher.finish()
}
