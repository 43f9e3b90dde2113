//! The index, whose element type is known at run time: vectors of others are converted to it.

mod attributes;
mod codes;
#[cfg(feature = "cuda")]
mod device_search;
mod keys;
mod limits;
mod merge;
mod open;
mod pages;
mod place;
mod progress;
mod search;
mod store;
mod submit;
mod target;
mod update;

use std::fmt;
use std::io;
use std::sync::Arc;

use jasper_core::{ElementKind, Key, MatrixError};
use jasper_graph::{Graph, VectorError};
use jasper_vamana::UpdateError;

#[cfg(doc)]
use crate::ErrorKind;
use crate::IndexStats;
use crate::check::CheckReport;
use crate::error::Result;
use crate::inner::IndexInner;
pub use codes::QuantizeMode;
pub use keys::{DeleteKeys, NewKeys};
pub use limits::SearchLimits;
pub use open::OpenOptions;
pub use pages::Pages;
pub(crate) use progress::Callback;
pub use submit::Update;
pub use target::Target;

/// A vector index: vectors of one element type, each under a key, in host memory or [on a CUDA
/// device](Self::to_device).
///
/// # Vectors
///
/// The index stores coordinates as f32, [`f16`](crate::f16), u8 or i8, and computes distances in this type. Calls take
/// [`Vectors`](crate::Vectors) of any of them: a slice, an array or a `Vec` for one vector, a [`MatrixView`](crate::MatrixView) or a
/// [`VectorFile`](crate::VectorFile) for several. Values are rounded to the element type of the index. What it cannot
/// hold is refused, as are vectors that rounding would change by more than a twentieth of their length.
///
/// # Threads
///
/// Every method except [`Self::to_device`] takes `&self` and may be called from any thread. Searches run concurrently with each other and with changes. On the CPU they wait for no change,
/// and only a change that reuses the memory of deleted vectors waits for searches; on a CUDA device, a change waits for the
/// searches that have begun before it writes, and later ones wait for the write. Changes wait for one another; small ones
/// that wait are made together.
///
/// An insert or delete is visible to every search that starts after the call returns. The vectors of one call become
/// visible at the same moment; on [several devices](crate::Device::cuda_set), at the same moment on each device.
///
/// # Failures
///
/// A call that fails or is cancelled leaves the index as it was, with two exceptions. [`Self::quantize`] may leave
/// it without codes. A device that fails while it compacts, or while it undoes a
/// change, leaves its copy unusable: later calls return the error, and [`Self::rebuild`] makes a new index of what the
/// host has.
///
/// [`Self::with_progress`] adds a callback that receives progress reports of calls and may cancel them.
///
/// See the [crate page](crate) for an example.
pub struct Index {
    pub(crate) inner: Arc<IndexInner>,
    progress: Callback,
}

impl From<IndexInner> for Index {
    fn from(index: IndexInner) -> Self {
        Self { inner: Arc::new(index), progress: Callback::default() }
    }
}

impl fmt::Debug for Index {
    /// Writes the element type and the device, and not the vectors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({}, {})", self.element(), self.device())
    }
}

/// An error of vectors that are converted to the element type of the index.
pub(crate) fn vector_error(error: io::Error) -> VectorError {
    match error.downcast::<MatrixError>() {
        Ok(error) => error.into(),
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory => VectorError::Memory(error),
        Err(error) => VectorError::Read(error),
    }
}

/// An error of vectors of a change.
pub(crate) fn update_error(error: io::Error) -> UpdateError {
    match vector_error(error) {
        VectorError::Read(error) => UpdateError::Read(error),
        error => error.into(),
    }
}

impl Index {
    /// Runs `read` on the graph: vectors, edges and keys.
    /// Searches continue meanwhile. Changes wait: `read` deadlocks if it changes the index.
    ///
    /// On the CPU, this does not wait for a change in progress: `read` sees the graph between two writes of the change,
    /// and the next write waits for `read`. On a CUDA device it waits for the change, then copies the edges to the host if
    /// they have changed or [were freed](Self::to_device) there.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Device`] if the device failed or the index has several shards.
    pub fn read_graph<R>(&self, read: impl FnOnce(&Graph) -> R) -> Result<R> {
        Ok(self.inner.read_graph(read)?)
    }

    /// Verifies every vector, edge and key, and that every vector can be reached. Measures on samples how difficult the
    /// vectors are to search, and how well codes fit them.
    ///
    /// Reads vectors and edges once, traverses the graph once, and makes 512 searches on the CPU. If the index is quantized,
    /// trains a quantizer, which takes seconds. Concurrent searches and
    /// changes behave as in [`Self::read_graph`].
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Device`] if the device failed, or with [`ErrorKind::Cancelled`] by the progress
    /// callback.
    pub fn check(&self) -> Result<CheckReport> {
        self.inner.check(&mut self.progress.report())
    }

    /// Counts, sizes and parameters of the index. Reads counters only.
    pub fn stats(&self) -> IndexStats {
        self.inner.stats()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of coordinates of a vector.
    pub fn dimension(&self) -> usize {
        self.inner.dimension
    }

    /// Type of a coordinate.
    pub(crate) fn element(&self) -> ElementKind {
        self.inner.element
    }

    /// Whether the key is in the index.
    pub fn contains(&self, key: Key) -> bool {
        self.inner.contains(key)
    }

    /// The vector of a key as it is stored, at unit length for cosine distances of floats, in f32, which holds the values of
    /// every element type. `None` if there is no such key, or vectors were [dropped](Self::drop_vectors).
    pub fn vector(&self, key: Key) -> Option<Vec<f32>> {
        self.inner.vector(key)
    }

    /// All keys, in no particular order.
    pub fn keys(&self) -> Vec<Key> {
        self.inner.keys()
    }

    /// Sets the bounds of later searches. They are not saved with the index.
    pub fn set_limits(&self, limits: SearchLimits) {
        self.inner.set_limits(limits);
    }

    /// The bounds of searches.
    pub fn limits(&self) -> SearchLimits {
        self.inner.limits()
    }
}
