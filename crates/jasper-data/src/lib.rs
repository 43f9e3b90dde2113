//! Vector, ground-truth and key files, checked before they are trusted; and exact nearest neighbours.

#![deny(unsafe_code)]

mod atomic;
mod error;
mod exact;
mod format;
mod keys;
mod layout;
mod npy;
mod read_at;
mod rows;
mod truth;
mod vectors;
mod write;

pub use atomic::AtomicFile;
pub use error::{NpyError, ReadCause, ReadError};
pub use exact::{KnnError, Side, exact_knn};
pub use format::{ParseFormatError, VectorFormat};
pub use keys::{keys_from_bytes, read_keys, write_keys};
pub use read_at::ReadAt;
pub use rows::Rows;
pub use truth::{GroundTruth, TruthError};
pub use vectors::{OpenOptions, VectorFile};
pub use write::{VectorWriter, WriteCause, WriteError, write_vectors};

const _: () =
    assert!(cfg!(target_endian = "little"), "files are little-endian, and so are values read from them");
