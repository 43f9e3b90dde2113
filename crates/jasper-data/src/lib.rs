//! Readers and writers of vector, ground-truth and key files, and exact nearest neighbors.
//!
//! ```
//! use jasper_core::{MatrixView, Metric, no_progress};
//! use jasper_data::{GroundTruth, VectorFile, exact_knn, write_vectors};
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//!
//! // Three vectors and a query, to files and back.
//! write_vectors(folder.join("base.fbin"), MatrixView::new(&[0.0_f32, 0.0, 3.0, 4.0, 1.0, 0.0], 2)?)?;
//! write_vectors(folder.join("query.npy"), MatrixView::new(&[1.0_f32, 1.0], 2)?)?;
//! let base = VectorFile::open(folder.join("base.fbin"))?.map::<f32>()?;
//! let query = VectorFile::open(folder.join("query.npy"))?.load::<f32>()?;
//!
//! // The two nearest vectors, exactly, saved as ground truth.
//! let pool = rayon::ThreadPoolBuilder::new().build()?;
//! let truth = exact_knn(base.view(), query.view(), 2, Metric::L2, &pool, &mut no_progress)?;
//! truth.write(folder.join("gt.ibin"))?;
//! assert_eq!(GroundTruth::read(folder.join("gt.ibin"))?.truth(0).ids, [2, 0]);
//!
//! // A header that claims more than the file holds is an error before anything is allocated.
//! let error = VectorFile::from_bytes("short.u8bin", &[9, 0, 0, 0, 2, 0, 0, 0, 1, 2]).unwrap_err();
//! assert!(error.to_string().starts_with("short.u8bin: header says 9 rows, file holds 1"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | files | read by | written by | formats |
//! | --- | --- | --- | --- |
//! | vectors | [`VectorFile`] (in blocks, loaded or mapped) | [`write_vectors`], [`VectorWriter`] | fvecs, bvecs, fbin, f16bin, u8bin, i8bin, npy: see [`VectorFormat`] |
//! | ground truth | [`GroundTruth::read`] | [`GroundTruth::write`] | ibin with and without distances, ivecs |
//! | keys | [`read_keys`] | [`write_keys`] | text, one unsigned decimal per line; npy of u64 |
//!
//! All readers compute lengths in u64 and compare them with the length of the file before they allocate, accept bytes
//! as well as paths, and name the file in their [`ReadError`]. All writers use [`AtomicFile`], so that a file is
//! replaced as a whole or not at all.
//!
//! [`exact_knn`] finds exact nearest neighbors by brute force, for all elements and metrics, on the caller's thread
//! pool.

#![deny(unsafe_code)]

mod atomic;
mod error;
mod exact;
mod format;
mod keys;
mod layout;
mod npy;
pub mod parallel;
mod read_at;
mod rows;
mod temporary;
mod threads;
mod truth;
mod vectors;
mod write;

pub use atomic::{AtomicFile, CommitError, sync_folder};
pub use error::{NpyError, PathError, ReadCause, ReadError, WriteError};
pub use exact::{KnnError, Side, check_knn, check_knn_base, exact_knn};
pub use format::{ParseFormatError, VectorFormat};
pub use keys::{keys_from_bytes, read_keys, write_keys};
pub use read_at::{ReadAt, open_file};
pub use rows::Rows;
pub use temporary::{FileLock, follow_link, is_temporary, remove_temporary_files};
pub use truth::{GroundTruth, TruthError};
pub use vectors::{VectorFile, VectorFileOptions};
pub use write::{VectorWriter, WriteCause, write_vectors};

/// The thread pool of [`exact_knn`].
pub use rayon::{ThreadPool, ThreadPoolBuilder};
pub use threads::pool_builder;

const _: () =
    assert!(cfg!(target_endian = "little"), "files are little-endian and copied to memory as they are");
