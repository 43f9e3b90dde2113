//! A vector index for approximate nearest-neighbor search that is fast to build and search, and can be changed while it
//! serves, on CPUs and CUDA GPUs.
//!
//! ```
//! use jasper::bench::synthetic::Clusters;
//! use jasper::{Index, IndexBuilder, MatrixView, Metric, SearchParams};
//!
//! let vectors: Vec<f32> = Clusters::new(32, 7).rows(2000, 0); // 2000 vectors of 32 coordinates.
//! let index = IndexBuilder::new(Metric::L2).build(&MatrixView::new(&vectors, 32)?)?;
//!
//! let hits = index.search(&vectors[..32], SearchParams::new(10))?;
//! assert_eq!((hits[0].key, hits[0].distance), (0, 0.0));
//!
//! index.delete(&[0])?;
//! assert_ne!(index.search(&vectors[..32], SearchParams::new(10))?[0].key, 0);
//! index.insert_one(&[0.5; 32], 123_456)?;
//! index.consolidate()?;
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("vectors.jasper");
//! index.save(&path)?;
//! let index = Index::<f32>::open(&path)?;
//! assert_eq!(index.search(&[0.5; 32], SearchParams::new(1))?[0].key, 123_456);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An [`Index`] is `Send + Sync`, and every method takes `&self`: threads search it while another changes it.
//!
//! ```
//! # use jasper::bench::synthetic::Clusters;
//! # use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
//! # let vectors: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
//! let index = IndexBuilder::new(Metric::Cosine).build(&MatrixView::new(&vectors[..8000], 16)?)?;
//! std::thread::scope(|scope| {
//!     scope.spawn(|| index.insert_auto(&MatrixView::new(&vectors[8000..], 16).unwrap()).unwrap());
//!     scope.spawn(|| assert_eq!(index.search(&vectors[..16], SearchParams::new(5)).unwrap().len(), 5));
//! });
//! assert_eq!(index.len(), 1000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! On a GPU, the same methods search and change the index in device memory:
//!
//! ```
//! # use jasper::bench::synthetic::Clusters;
//! # use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
//! # let vectors: Vec<f32> = Clusters::new(16, 7).rows(500, 0);
//! # let index = IndexBuilder::new(Metric::L2).build(&MatrixView::new(&vectors, 16)?)?;
//! use jasper::Device;
//!
//! let index = index.to_device(Device::Auto)?; // The first GPU with room for it, or the CPU.
//! assert_eq!(index.search(&vectors[..16], SearchParams::new(10))?.len(), 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! Vectors are vertices of a Vamana graph, with up to 64 out-edges each: to near vertices, and to farther ones in other
//! directions. A search starts at a central vertex, repeatedly expands the nearest vertex it has not expanded, and keeps
//! the best `beam_width` it has visited. An insert searches for the new vector and links it both ways. A delete excludes a
//! vector from results at once; [`Index::consolidate`] removes it from the graph later.
//!
//! # Where to look
//!
//! | item | for |
//! | --- | --- |
//! | [`IndexBuilder`], [`Index`] | building; searching, changing, saving |
//! | [`Device`] | where an index is built, searched and changed |
//! | [`AnyIndex`] | an index whose element type is known at run time |
//! | [`SearchParams`], [`KeyFilter`], [`Hit`], [`Matches`] | searches and their results |
//! | [`Quantization`], [`Distances`] | quantized vectors, and searches with estimated distances |
//! | [`tune`] | the fastest search that reaches a recall |
//! | [`IndexStats`], [`CheckReport`], [`MemoryPlan`] | sizes, integrity, memory before a build |
//! | [`VectorSource`], [`MatrixView`], [`data`] | vectors in memory and in files |
//! | [`error`] | the causes of errors |
//! | [`mod@bench`] | synthetic sets, recall, profiles, runbooks |
//!
//! # Features
//!
//! `cuda` (off by default) builds, searches and changes indexes on CUDA devices, and adds the module `cuda`. It needs no
//! CUDA toolkit to compile and no driver to start; set `DOCS_RS=1` when compiling, or build scripts of dependencies look
//! for a toolkit.
//!
//! `serde` (off by default) derives `Serialize` for reports and statistics.
//!
//! `roaring` (off by default) makes a [`KeyFilter`] from a `RoaringTreemap`.
//!
//! The minimum Rust version is 1.95.

#![forbid(unsafe_code)]

mod any;
mod auto_quantize;
mod backend;
pub mod bench;
mod builder;
mod check;
mod cpu_name;
mod device;
pub mod error;
mod index;
mod stats;
pub mod tune;

pub use any::{AnyIndex, AnyVectors};
pub use auto_quantize::{AutoQuantizeError, QuantizeReport, QuantizeTrial};
pub use builder::{BuildError, BuildReport, IndexBuilder};
pub use check::CheckReport;
pub use cpu_name::cpu_name;
pub use device::{Device, DeviceError, MoveError, ParseDeviceError};
pub use index::Index;
pub use stats::IndexStats;

pub use jasper_core::{
    BitSet, BuildParams, Element, ElementKind, Key, MatrixView, Metric, NO_KEY, Progress, ProgressFn, Stage,
    VectorSource, f16, no_progress,
};
#[cfg(feature = "cuda")]
pub use jasper_cuda as cuda;
pub use jasper_data as data;
pub use jasper_graph::{FileError, FileReport, Graph, IndexInfo, SaveStats, check_file, interop};
pub use jasper_quant::{ParseQuantizationError, Quantization};
pub use jasper_vamana::{
    Checkpoints, CodeReport, CompactReport, ConsolidateReport, Distances, Filter, Hit, InsertReport,
    KeyFilter, Matches, MatchesMut, MemoryPlan, MemorySpace, ParseVectorStorageError, Part, SearchCost,
    SearchError, SearchParams, SearchReport, TunedLaunch, TunedSearch, UpdateError, VectorStorage,
};

/// Serializes a value as its name.
#[cfg(feature = "serde")]
fn serialize_name<S: serde::Serializer>(
    value: &impl std::fmt::Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// The examples of the README run with those of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
