//! A vector index for approximate nearest-neighbor search on CPUs and CUDA GPUs. It is fast to build and to search, and
//! can be changed while it serves.
//!
//! ```
//! use jasper::bench::synthetic::Clusters;
//! use jasper::{Index, IndexBuilder, MatrixView, Metric, SearchParams};
//!
//! let vectors: Vec<f32> = Clusters::new(32, 7).rows(2000, 0); // 2000 vectors of 32 coordinates.
//! let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&vectors, 32)?)?;
//!
//! let hits = index.search(&vectors[..32], SearchParams::new(10))?;
//! assert_eq!((hits[0].key, hits[0].distance), (0, 0.0));
//!
//! index.delete(&[0])?;
//! assert_ne!(index.search(&vectors[..32], SearchParams::new(10))?[0].key, 0);
//! index.insert(&[0.5_f32; 32], &[123_456])?;
//! index.consolidate()?;
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("vectors.jasper");
//! index.save(&path)?;
//! let index = Index::open(&path)?;
//! assert_eq!(index.search(&[0.5_f32; 32], SearchParams::new(1))?[0].key, 123_456);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An [`Index`] is `Send + Sync`. Every method except [`Index::to_device`] takes `&self`, so threads search it while
//! another changes it.
//!
//! ```
//! # use jasper::bench::synthetic::Clusters;
//! # use jasper::{IndexBuilder, MatrixView, Metric, NewKeys, SearchParams};
//! # let vectors: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
//! let index = IndexBuilder::new(Metric::Cosine).build(MatrixView::new(&vectors[..8000], 16)?)?;
//! std::thread::scope(|scope| {
//!     scope.spawn(|| index.insert(&MatrixView::new(&vectors[8000..], 16).unwrap(), NewKeys::Next).unwrap());
//!     scope.spawn(|| assert_eq!(index.search(&vectors[..16], SearchParams::new(5)).unwrap().len(), 5));
//! });
//! assert_eq!(index.len(), 1000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `cuda`, a GPU that has room builds the index and leaves it in host memory; a device that is
//! [named](IndexBuilder::device) keeps it. On a GPU, the same methods search and change it:
//!
//! ```
//! # use jasper::bench::synthetic::Clusters;
//! # use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
//! # let vectors: Vec<f32> = Clusters::new(16, 7).rows(500, 0);
//! use jasper::DeviceChoice;
//!
//! let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&vectors, 16)?)?;
//! // The first GPU with room, or the CPU; without the feature `cuda`, the CPU.
//! let index = index.to_device(DeviceChoice::Auto)?;
//! assert_eq!(index.search(&vectors[..16], SearchParams::new(10))?.len(), 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! Vectors are vertices of a Vamana graph, with up to 64 out-edges each: to near vertices, and to farther ones in other
//! directions. A search starts at the medoid, which is a central vector, and in large graphs at up to 127 other start
//! points. It repeatedly expands the nearest vertex that it has not expanded, and keeps the nearest `beam_width` vertices
//! that it has visited. An insert searches for the new vector and links it both ways. A delete excludes a vector from
//! results at once; [`Index::consolidate`] removes it from the graph later.
//!
//! # Where to look
//!
//! | item | for |
//! | --- | --- |
//! | [`IndexBuilder`], [`OpenOptions`], [`Index`] | building; opening; searching, changing, saving |
//! | [`Device`], [`DeviceChoice`], [`DeviceOptions`], [`CudaSet`], [`Spread`] (replicas or shards) | where an index is built, searched and changed |
//! | [`Vectors`], [`MatrixView`], [`VectorSource`], [`data`] | vectors and queries in memory and in files |
//! | [`Target`], [`SearchParams`], [`KeyFilter`], [`Hit`], [`Matches`] | searches and their results |
//! | [`Quantization`], [`Distances`] | quantized vectors, and searches with estimated distances |
//! | [`tune`] | the fastest search that reaches a recall |
//! | [`Index::with_progress`], [`report`] | progress and cancellation of calls; what they did |
//! | [`memory`] | memory of a build or an index, before it is allocated |
//! | [`file`](mod@file) | what an index file contains, and whether it is intact |
//! | [`graph`] | the graph itself |
//! | `cuda` | CUDA devices: memory, streams, errors; with the feature `cuda` |
//! | [`error`] | all errors and their causes |
//! | [`mod@bench`] | synthetic sets, recall, profiles |
//!
//! Many of these items come from `jasper-core`, `jasper-data`, `jasper-graph`, `jasper-quant` and `jasper-vamana`, and
//! their examples name those crates. You do not need to depend on these crates: `jasper` exports each item, in the
//! module that the table gives or at its root.
//!
//! Builds, opening, saving, inserts, upserts, consolidation, compaction, quantizing, checking and tuning can report
//! their progress to a callback, which may cancel them: see [`Index::with_progress`]. Searches and
//! [`Index::to_device`] do not.
//!
//! # Features
//!
//! `cuda` (off by default) builds, searches and changes indexes on CUDA devices, and adds the module `cuda`. Compiling
//! needs no CUDA toolkit, and starting needs no driver. Set `DOCS_RS=1` when compiling, or build scripts of
//! dependencies look for a toolkit.
//!
//! `serde` (off by default) derives `Serialize` for reports and statistics.
//!
//! `roaring` (off by default) makes a [`KeyFilter`] from a `RoaringTreemap`.
//!
//! The minimum Rust version is 1.95.

#![forbid(unsafe_code)]

mod auto_quantize;
mod backend;
mod batcher;
pub mod bench;
mod builder;
mod changes;
mod check;
mod device;
mod device_set;
pub mod error;
mod index;
mod journal;
mod stats;
pub mod tune;
mod typed;

pub use batcher::Pending;
pub use builder::IndexBuilder;
pub use device::{Device, DeviceChoice, DeviceOptions};
pub use device_set::{CudaSet, Spread};
pub use error::{
    BuildError, DeviceError, FileError, JournalError, MoveError, OpenError, SearchError, UpdateError,
};
pub use index::{
    DeleteKeys, Entries, Index, NewKeys, OpenOptions, QuantizeMode, SearchLimits, Target, Update,
    WithProgress,
};
pub use stats::IndexStats;

#[doc(hidden)]
pub use jasper_core::with_element;
pub use jasper_core::{
    BitSet, BuildParams, Element, ElementKind, Key, MatrixView, Metric, NO_KEY, Progress, ProgressFn, Stage,
    VectorSource, Vectors, f16, no_progress,
};
pub use jasper_graph::KeyFilter;
pub use jasper_quant::Quantization;
pub use jasper_vamana::{
    Distances, Filter, Hit, LaunchParams, Matches, MatchesMut, MemorySpace, SearchParams,
};

/// CUDA devices: their memory, streams and errors; searches for queries that are there.
#[cfg(feature = "cuda")]
pub mod cuda {
    pub use crate::index::DeviceSearch;
    pub use jasper_cuda::{
        Buffer, Context, DeviceBatch, DeviceHit, DeviceKnnError, DeviceProperties, Error, ErrorKind,
        LaunchLimit, LibraryAttempt, LoadError, MAX_BEAM_WIDTH, NO_HIT, PtxRequirement, Result, Stream,
        device_of, driver_version, exact_knn_on_device, hit_from_device, prelude, with_current_context_kept,
    };
}

/// Files of vectors, keys and true neighbors; exact search.
///
/// ```
/// use jasper::data::{VectorFile, write_vectors};
/// use jasper::{IndexBuilder, Key, KeyFilter, MatrixView, Metric, SearchParams};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("vectors.npy");
/// write_vectors(&path, MatrixView::new(&[0.0_f32, 0.0, 3.0, 4.0, 3.0, 5.0], 2)?)?;
/// let file = VectorFile::open(&path)?; // Its extension is its format: here an array of numpy.
/// let keys: [Key; 3] = [0x1f83_d9ab_fb41_bd6b, 17, 4]; // One per vector, of any size.
/// let index = IndexBuilder::new(Metric::L2).keys(&keys).build(&file)?;
///
/// let some: KeyFilter = keys[..2].iter().copied().collect();
/// let vectors = file.load::<f32>()?; // All of them, in memory.
/// let hits = index.search(vectors.view().row(2), SearchParams::new(1).filter(&some))?;
/// assert_eq!((hits[0].key, hits[0].distance), (17, 1.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod data {
    pub use jasper_data::{
        GroundTruth, KnnError, NpyError, ParseFormatError, PathError, ReadCause, ReadError, Rows, Side,
        ThreadPool, ThreadPoolBuilder, TruthError, VectorFile, VectorFileOptions, VectorFormat, VectorWriter,
        WriteCause, WriteError, exact_knn, pool_builder, read_keys, write_keys, write_vectors,
    };
}

/// Attributes of keys, and filter expressions over them.
pub mod attributes {
    pub use jasper_attributes::{
        AttributeError, Column, ColumnKind, Expression, ExpressionError, Frame, Value, column,
    };
}

/// The graph of an index, to [read](crate::Index::read_graph), and to exchange with other libraries through the crate
/// `jasper-interop`.
pub mod graph {
    pub use jasper_core::Slot;
    pub use jasper_graph::{Adjacency, Graph, KeyMap, StructureFault, StructureReport, VectorTable};
}

/// Index files: what they contain, whether they are intact, and checkpoints of builds.
pub mod file {
    pub use crate::journal::{DurableInfo, check_new_durable, is_durable};
    pub use crate::typed::{is_sharded, shard_files};
    pub use jasper_graph::{FileReport, IndexInfo, SaveStats, Section, SectionReport, check_file};
    pub use jasper_vamana::remove_checkpoint;
}

/// Memory plans: what a [build](crate::IndexBuilder::memory_plan) or an index needs, by part and
/// [space](crate::MemorySpace).
pub mod memory {
    pub use crate::index::plan_on_device;
    pub use jasper_vamana::{MemoryPlan, Part};
}

/// Reports and statistics that calls return.
pub mod report {
    pub use crate::auto_quantize::{CostUnit, QuantizeReport, QuantizeTrial, TriedQuantization};
    pub use crate::builder::BuildReport;
    pub use crate::check::CheckReport;
    pub use crate::device::DeviceInfo;
    pub use jasper_vamana::{
        CodeReport, CompactReport, ConsolidateReport, Explanation, InsertReport, OperationCounts,
        SearchReport,
    };
}

/// The examples of the README run with those of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The examples of the page on filters.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/filters.md")]
struct Filters;
