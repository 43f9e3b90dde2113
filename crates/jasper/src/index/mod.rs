//! The index, whose element type is known at run time. Each call finds the [`TypedIndex`] of this type once, and converts
//! vectors to it.

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

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use jasper_core::{Element, ElementKind, Key, MatrixError, f16};
use jasper_graph::{Graph, VectorError};
use jasper_vamana::SearchError;

#[cfg(doc)]
use crate::ErrorKind;
use crate::IndexStats;
use crate::check::CheckReport;
use crate::error::Result;
use crate::typed::TypedIndex;
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
/// The index stores coordinates as f32, [`f16`](struct@f16), u8 or i8, and computes distances in this type. Calls take
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
    pub(crate) typed: Typed,
    progress: Callback,
}

/// The index of one of the element types.
pub(crate) enum Typed {
    F32(Arc<TypedIndex<f32>>),
    F16(Arc<TypedIndex<f16>>),
    U8(Arc<TypedIndex<u8>>),
    I8(Arc<TypedIndex<i8>>),
}

/// Evaluates an expression on the [`TypedIndex`] of an [`Index`].
macro_rules! typed {
    ($index:expr, $typed:ident => $body:expr) => {
        match &$index.typed {
            $crate::index::Typed::F32($typed) => $body,
            $crate::index::Typed::F16($typed) => $body,
            $crate::index::Typed::U8($typed) => $body,
            $crate::index::Typed::I8($typed) => $body,
        }
    };
}
pub(crate) use typed;

impl Typed {
    /// Another reference to the index.
    fn share(&self) -> Self {
        match self {
            Self::F32(index) => Self::F32(Arc::clone(index)),
            Self::F16(index) => Self::F16(Arc::clone(index)),
            Self::U8(index) => Self::U8(Arc::clone(index)),
            Self::I8(index) => Self::I8(Arc::clone(index)),
        }
    }
}

impl<T: Element> From<TypedIndex<T>> for Index {
    fn from(index: TypedIndex<T>) -> Self {
        fn downcast<T: Element, U: Element>(index: TypedIndex<T>) -> Arc<TypedIndex<U>> {
            let index: Box<dyn Any> = Box::new(index);
            Arc::from(index.downcast::<TypedIndex<U>>().expect("an index of this element"))
        }
        let typed = match T::KIND {
            ElementKind::F32 => Typed::F32(downcast(index)),
            ElementKind::F16 => Typed::F16(downcast(index)),
            ElementKind::U8 => Typed::U8(downcast(index)),
            ElementKind::I8 => Typed::I8(downcast(index)),
        };
        Self { typed, progress: Callback::default() }
    }
}

impl fmt::Debug for Index {
    /// Writes the element type and the device, and not the vectors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({}, {})", self.element(), self.device())
    }
}

/// An error of vectors that are converted to the element type of the index.
pub(crate) fn vector_error(error: std::io::Error) -> VectorError {
    match error.downcast::<MatrixError>() {
        Ok(error) => error.into(),
        Err(error) => VectorError::Read(error),
    }
}

impl Index {
    /// Runs `read` on the graph: vectors, edges and keys, with the [element](crate::IndexStats::element) of the index.
    /// Searches continue meanwhile. Changes wait: `read` deadlocks if it changes the index.
    ///
    /// On the CPU, this does not wait for a change in progress: `read` sees the graph between two writes of the change,
    /// and the next write waits for `read`. On a CUDA device it waits for the change, then copies the edges to the host if
    /// they have changed or [were freed](Self::to_device) there.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::InvalidInput`] if `T` is not the element of the index, or with [`ErrorKind::Device`] if
    /// the device failed or the index has several shards.
    pub fn read_graph<T: Element, R>(&self, read: impl FnOnce(&Graph<T>) -> R) -> Result<R> {
        Ok(self.of::<T>().map_err(SearchError::from)?.read_graph(read)?)
    }

    /// The index of this element type.
    pub(crate) fn of<T: Element>(&self) -> Result<&TypedIndex<T>, VectorError> {
        let error = VectorError::Element { given: T::KIND, expected: self.element() };
        typed!(self, index => (&**index as &dyn Any).downcast_ref().ok_or(error))
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
        typed!(self, index => index.check(&mut self.progress.report()))
    }

    /// Counts, sizes and parameters of the index. Reads counters only.
    pub fn stats(&self) -> IndexStats {
        typed!(self, index => index.stats())
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        typed!(self, index => index.len())
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of coordinates of a vector.
    pub fn dimension(&self) -> usize {
        typed!(self, index => index.dimension())
    }

    /// Type of a coordinate.
    pub(crate) fn element(&self) -> ElementKind {
        fn kind<T: Element>(_: &TypedIndex<T>) -> ElementKind {
            T::KIND
        }
        typed!(self, index => kind(index))
    }

    /// Whether the key is in the index.
    pub fn contains(&self, key: Key) -> bool {
        typed!(self, index => index.contains(key))
    }

    /// The vector of a key as it is stored, at unit length for cosine distances of floats, in f32, which holds the values of
    /// every element type. `None` if there is no such key, or vectors were [dropped](Self::drop_vectors).
    pub fn vector(&self, key: Key) -> Option<Vec<f32>> {
        typed!(self, index => Some(index.vector(key)?.into_iter().map(Element::to_f32).collect()))
    }

    /// All keys, in no particular order.
    pub fn keys(&self) -> Vec<Key> {
        typed!(self, index => index.keys())
    }

    /// Sets the bounds of later searches. They are not saved with the index.
    pub fn set_limits(&self, limits: SearchLimits) {
        typed!(self, index => index.set_limits(limits));
    }

    /// The bounds of searches.
    pub fn limits(&self) -> SearchLimits {
        typed!(self, index => index.limits())
    }
}
