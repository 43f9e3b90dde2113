//! The graph: vectors, edges and keys, and the changes that concern more than one of them.
//!
//! | module | holds |
//! | --- | --- |
//! | `add` | storing vectors, one or many in parallel |
//! | `compact` | freeing slots and closing gaps |
//! | `snapshot` | the graph for searches, beside the next change |
//! | `transaction` | commit and rollback; the log of changes for copies on devices |

mod add;
mod compact;
mod snapshot;
mod transaction;

pub use add::VectorChunk;
pub use snapshot::Snapshot;
pub use transaction::ChangedSlots;

use std::io;

use jasper_core::{BuildParams, ElementKind, MAX_DIMENSION, MatrixError, Metric};

use crate::{Adjacency, KeyMap, VectorTable};
pub(crate) use snapshot::Readers;

/// A Vamana graph over vectors of one [element type](VectorTable::element): see the [crate page](crate) for an example.
///
/// A *slot* is a row of every table: a vector, its out-edges and its keys.
#[derive(Debug)]
pub struct Graph {
    pub(crate) params: BuildParams,
    pub(crate) vectors: VectorTable,
    pub(crate) adjacency: Adjacency,
    pub(crate) keys: KeyMap,
    /// Bytes of the file's section `tuned searches`.
    pub(crate) tuned: Vec<u8>,
    pub(crate) readers: Readers,
    /// The parameters at the begin of the transaction, if one is active.
    pub(crate) begun_with: Option<BuildParams>,
}

impl Graph {
    /// Creates a graph without vertices for vectors of `dimension` coordinates of this type.
    ///
    /// # Errors
    /// Returns [`MatrixError::Dimension`] if it is out of range.
    pub fn new(
        element: ElementKind,
        metric: Metric,
        dimension: usize,
        params: BuildParams,
    ) -> Result<Self, MatrixError> {
        if dimension == 0 || dimension > MAX_DIMENSION {
            return Err(MatrixError::Dimension(dimension));
        }
        Ok(Self {
            params,
            vectors: VectorTable::zeroed(element, metric, dimension, 0)
                .expect("an empty table needs no memory"),
            adjacency: Adjacency::new(params.max_degree()),
            keys: KeyMap::new(),
            tuned: Vec::new(),
            readers: Readers::default(),
            begun_with: None,
        })
    }

    /// Returns the build parameters.
    pub fn params(&self) -> &BuildParams {
        &self.params
    }

    /// Sets the beam width of later build searches and inserts, and the alpha of later prunes.
    pub fn set_effort(&mut self, beam_width: usize, alpha: f32) {
        self.params = self.params.with_effort(beam_width, alpha);
    }

    /// Returns the type of a coordinate.
    pub fn element(&self) -> ElementKind {
        self.vectors.element
    }

    /// Returns the metric.
    pub fn metric(&self) -> Metric {
        self.vectors.metric
    }

    /// Returns the number of coordinates of a vector.
    pub fn dimension(&self) -> usize {
        self.vectors.dimension
    }

    /// Returns the number of slots: live, tombstones and free.
    pub fn slots(&self) -> usize {
        self.adjacency.slots()
    }

    /// Returns the vectors, with their norms, sketches and codes.
    #[inline]
    pub fn vectors(&self) -> &VectorTable {
        &self.vectors
    }

    /// Returns the vectors mutably, to build or free sketches and vectors of bytes.
    #[doc(hidden)]
    pub fn vectors_mut(&mut self) -> &mut VectorTable {
        &mut self.vectors
    }

    /// Returns the edges and start points.
    #[inline]
    pub fn adjacency(&self) -> &Adjacency {
        &self.adjacency
    }

    /// Returns the edges and start points mutably.
    #[inline]
    #[doc(hidden)]
    pub fn adjacency_mut(&mut self) -> &mut Adjacency {
        &mut self.adjacency
    }

    /// Returns the keys, and which slots are live.
    #[inline]
    pub fn keys(&self) -> &KeyMap {
        &self.keys
    }

    /// Returns the keys mutably.
    #[doc(hidden)]
    pub fn keys_mut(&mut self) -> &mut KeyMap {
        &mut self.keys
    }

    /// Returns the bytes of the file's section `tuned searches`, which [`TunedSearch`](crate::TunedSearch) encodes;
    /// empty where there are none. Quantizing and its reverse clear them: they were measured on other distances.
    #[doc(hidden)]
    pub fn encoded_tuned_searches(&self) -> &[u8] {
        &self.tuned
    }

    /// Sets [`Self::encoded_tuned_searches`], in records of 128 bytes.
    #[doc(hidden)]
    pub fn set_encoded_tuned_searches(&mut self, records: Vec<u8>) {
        self.tuned = records;
    }

    /// Returns a checksum that changes when vertices are added, removed or get another number of edges: that of the
    /// file's section `params`, which holds parameters and counts. Cost: one pass over the degrees.
    #[doc(hidden)]
    pub fn fingerprint(&self) -> u32 {
        crate::file::fingerprint(self)
    }

    /// Copies a mapped file into memory with huge pages; see [`crate::Segments::load`].
    ///
    /// # Errors
    /// Returns an error if memory cannot be allocated.
    #[doc(hidden)]
    pub fn load(&mut self) -> io::Result<()> {
        self.vectors.load()?;
        self.adjacency.load()?;
        self.keys.load()
    }

    /// Copies the graph, without sketches. The same changes of both give equal graphs, byte for byte.
    ///
    /// Cost: the memory of the graph, and one pass over it.
    ///
    /// # Errors
    /// Returns an error if memory cannot be reserved.
    #[doc(hidden)]
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            params: self.params,
            vectors: self.vectors.try_clone()?,
            adjacency: self.adjacency.try_clone()?,
            keys: self.keys.try_clone()?,
            tuned: self.tuned.clone(),
            readers: Readers::default(),
            begun_with: None,
        })
    }

    /// Sets the number of slots in every table.
    fn resize(&mut self, slots: usize) -> io::Result<()> {
        self.vectors.resize(slots)?;
        self.keys.resize(slots)?;
        // The adjacency table is resized last: `slots` reads its length, so a failure before leaves the number
        // unchanged.
        self.adjacency.resize(slots)
    }
}
