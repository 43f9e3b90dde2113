//! Ground truth: the true neighbors of a set of queries.

use std::io::{self, Write};
use std::path::Path;

use jasper_core::recall::Truth;

use crate::atomic::AtomicFile;
use crate::error::{ReadCause, ReadError, WriteError};
use crate::read_at::{ReadAt, open_file, read_values, read_words};
use crate::write::WriteCause;

/// The `k` true neighbors of each query of a set, nearest first.
///
/// Ids are row numbers of the base file. There are two file formats, distinguished by extension:
///
/// - `ibin`, or `gt100` for runbooks: u32 queries, u32 k, all ids as u32, and optionally all distances as f32. The
///   length of the file determines whether there are distances.
/// - `ivecs`: one record per query, i32 k followed by i32 ids.
///
/// ```
/// use jasper_data::GroundTruth;
/// let truth = GroundTruth::new(2, vec![7, 4, 0, 1], Some(vec![0.5, 1.0, 0.0, 3.0]))?;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("gt.ibin");
/// truth.write(&path)?;
/// assert_eq!(GroundTruth::read(&path)?, truth);
/// assert_eq!(truth.truth(1).ids, [0, 1]);
/// assert_eq!(jasper_core::recall::recall_at(2, &[1, 9], truth.truth(1)), 0.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GroundTruth {
    k: usize,
    ids: Vec<u32>,
    distances: Option<Vec<f32>>,
}

/// The error of creating ground truth, or of checking it against a base.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TruthError {
    /// The ids are not a whole number of lists.
    #[error("{ids} ids are not a multiple of k ({k}); pass queries x k ids")]
    Ragged {
        /// Ids given.
        ids: usize,
        /// Neighbors per query.
        k: usize,
    },
    /// The number of distances differs from that of ids.
    #[error("{distances} distances for {ids} ids; there must be one each, or none")]
    Distances {
        /// Ids given.
        ids: usize,
        /// Distances given.
        distances: usize,
    },
    /// An id is not a row of the base.
    #[error(
        "neighbor {rank} of query {query} is row {id}, the base has {rows} rows; is this the truth of that base?"
    )]
    Id {
        /// The query.
        query: usize,
        /// Place in its list, from 0.
        rank: usize,
        /// The id.
        id: u32,
        /// Rows of the base.
        rows: usize,
    },
}

impl GroundTruth {
    /// Creates ground truth from `ids` and, if known, `distances`: both `queries x k`, row-major, nearest first.
    ///
    /// # Errors
    /// Returns [`TruthError::Ragged`] or [`TruthError::Distances`].
    pub fn new(k: usize, ids: Vec<u32>, distances: Option<Vec<f32>>) -> Result<Self, TruthError> {
        if k == 0 || !ids.len().is_multiple_of(k) {
            return Err(TruthError::Ragged { ids: ids.len(), k });
        }
        match &distances {
            Some(known) if known.len() != ids.len() => {
                Err(TruthError::Distances { ids: ids.len(), distances: known.len() })
            }
            _ => Ok(Self { k, ids, distances }),
        }
    }

    /// Neighbors per query.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.ids.len() / self.k
    }

    /// Whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// All ids, `queries x k`.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// All distances, `queries x k`, if known.
    pub fn distances(&self) -> Option<&[f32]> {
        self.distances.as_deref()
    }

    /// The true neighbors of one query, for [`jasper_core::recall`].
    ///
    /// # Panics
    /// Panics if `query` is not below [`Self::len`].
    pub fn truth(&self, query: usize) -> Truth<'_> {
        let list = query * self.k..(query + 1) * self.k;
        Truth { ids: &self.ids[list.clone()], distances: self.distances().map(|distances| &distances[list]) }
    }

    /// Checks that every id is a row of a base of `rows` rows.
    ///
    /// # Errors
    /// Returns [`TruthError::Id`] for the first id that is not.
    pub fn check_ids(&self, rows: usize) -> Result<(), TruthError> {
        match self.ids.iter().position(|&id| id as usize >= rows) {
            Some(at) => Err(TruthError::Id { query: at / self.k, rank: at % self.k, id: self.ids[at], rows }),
            None => Ok(()),
        }
    }

    /// Reads the file `path`, `ibin`, `gt100` or `ivecs`.
    ///
    /// # Errors
    /// Returns [`ReadError`] if the extension is unknown or the length of the file is wrong, or on an I/O error.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let path = path.as_ref();
        let file = open_file(path).map_err(|error| ReadError::new(path, error))?;
        Self::read_from(&file, path)
    }

    /// Reads `bytes` as the content of a file named `name`.
    ///
    /// # Errors
    /// Returns the errors of [`Self::read`].
    pub fn from_bytes(name: impl AsRef<Path>, bytes: &[u8]) -> Result<Self, ReadError> {
        Self::read_from(&bytes, name.as_ref())
    }

    fn read_from(source: &impl ReadAt, name: &Path) -> Result<Self, ReadError> {
        let read = match is_ivecs(name) {
            Some(false) => read_ibin(source),
            Some(true) => read_ivecs(source),
            None => Err(ReadCause::UnknownFormat { known: KNOWN }),
        };
        read.map_err(|cause| ReadError::new(name, cause))
    }

    /// Writes the file `path`: `ibin` or `gt100`, with distances if known, or `ivecs`, without.
    ///
    /// # Errors
    /// Returns [`WriteError`] if the extension is unknown or a number does not fit the header, or on an I/O error.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), WriteError> {
        let path = path.as_ref();
        let write = || -> Result<(), WriteCause> {
            let is_ivecs = is_ivecs(path).ok_or(WriteCause::UnknownFormat { known: KNOWN })?;
            let too_many = |_| WriteCause::TooManyRows(self.len() as u64);
            let queries = u32::try_from(self.len()).map_err(too_many)?;
            let k = u32::try_from(self.k).map_err(|_| WriteCause::TooManyRows(self.k as u64))?;
            let mut file = AtomicFile::create(path)?;
            if is_ivecs {
                for list in self.ids.chunks_exact(self.k) {
                    file.write_all(&k.to_le_bytes())?;
                    file.write_all(bytemuck::cast_slice(list))?;
                }
            } else {
                file.write_all(bytemuck::cast_slice(&[queries, k]))?;
                file.write_all(bytemuck::cast_slice(&self.ids))?;
                file.write_all(bytemuck::cast_slice(self.distances().unwrap_or_default()))?;
            }
            Ok(file.commit().map_err(io::Error::from)?)
        };
        write().map_err(|cause| WriteError::new(path, cause))
    }
}

const KNOWN: &str = "ibin, gt100, ivecs";

/// Whether the format of a file name is `ivecs`, and not `ibin`; `None` if it is unknown.
fn is_ivecs(path: &Path) -> Option<bool> {
    let extension = path.extension()?;
    let known = [("ibin", false), ("gt100", false), ("ivecs", true)];
    known.into_iter().find(|(known, _)| extension.eq_ignore_ascii_case(known)).map(|(_, is_ivecs)| is_ivecs)
}

fn read_ibin(source: &impl ReadAt) -> Result<GroundTruth, ReadCause> {
    let held = source.size()?;
    let [queries, k] = read_words(source, held)?.map(u64::from);
    if k == 0 {
        return Err(ReadCause::NoNeighbors);
    }
    // The claimed length may overflow a u64; no file is that long.
    let sized = |values: u64| {
        4_u64.saturating_mul(values).saturating_mul(queries).saturating_mul(k).saturating_add(8)
    };
    let (bare, full) = (sized(1), sized(2));
    if held != bare && held != full {
        return Err(ReadCause::TruthLength { queries, k, bare, full, held });
    }
    let entries = (bare - 8) / 4;
    let ids = read_values(source, 8, entries)?;
    let distances = if held == full { Some(read_values(source, bare, entries)?) } else { None };
    Ok(GroundTruth { k: k as usize, ids, distances })
}

fn read_ivecs(source: &impl ReadAt) -> Result<GroundTruth, ReadCause> {
    let size = source.size()?;
    let [k] = read_words(source, size)?;
    if k == 0 {
        return Err(ReadCause::NoNeighbors);
    }
    let record = 4 + 4 * u64::from(k);
    let (held, rest) = (size / record, size % record);
    if rest != 0 {
        return Err(ReadCause::CutRecord { record, held, rest });
    }
    let expected = k as usize;
    let mut ids: Vec<u32> = read_values(source, 0, size / 4)?;
    for row in 0..held as usize {
        let found = ids[row * (expected + 1)];
        if found != k {
            return Err(ReadCause::RecordDimension { row, found: found as i32, expected });
        }
        // Removes the counts in place. Lists move to the front in order, so none is overwritten before it has moved.
        ids.copy_within(row * (expected + 1) + 1..(row + 1) * (expected + 1), row * expected);
    }
    ids.truncate(held as usize * expected);
    Ok(GroundTruth { k: expected, ids, distances: None })
}
