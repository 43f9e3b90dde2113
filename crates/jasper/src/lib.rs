//! A vector index that is fast to search and can be changed while it serves.
//!
//! ```
//! use jasper::{Index, MatrixView, Metric, SearchParams, synthetic::Clusters};
//!
//! let rows: Vec<f32> = Clusters::new(32, 7).rows(2000, 0);
//! let mut index = Index::builder(Metric::L2).build(&MatrixView::new(&rows, 32)?)?;
//!
//! let hits = index.search(&rows[..32], SearchParams::new(10))?;
//! assert_eq!((hits[0].key, hits[0].distance), (0, 0.0));
//!
//! index.delete(&[0])?;
//! assert_ne!(index.search(&rows[..32], SearchParams::new(10))?[0].key, 0);
//! index.insert(&MatrixView::new(&[0.5; 32], 32)?, &[123_456])?;
//! index.consolidate()?;
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("vectors.jasper");
//! index.save(&path)?;
//! let index = Index::<f32>::open(&path)?;
//! assert_eq!(index.search(&[0.5; 32], SearchParams::new(1))?[0].key, 123_456);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Many threads search one [`SharedIndex`] while another changes it:
//!
//! ```
//! use jasper::{Index, MatrixView, Metric, SearchParams, SharedIndex, synthetic::Clusters};
//!
//! let rows: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
//! let index = SharedIndex::new(Index::builder(Metric::Cosine).build(&MatrixView::new(&rows[..8000], 16)?)?);
//! std::thread::scope(|scope| {
//!     scope.spawn(|| index.insert_next(&MatrixView::new(&rows[8000..], 16).unwrap()).unwrap());
//!     scope.spawn(|| assert_eq!(index.search(&rows[..16], SearchParams::new(5)).unwrap().len(), 5));
//! });
//! assert_eq!(index.stats().keys, 1000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where there is a GPU, it searches and changes the index ([`Index::to_device`]; feature `cuda`). Elsewhere the same
//! lines run on the processor:
//!
//! ```
//! # use jasper::{Index, MatrixView, Metric, synthetic::Clusters};
//! # let rows: Vec<f32> = Clusters::new(16, 7).rows(500, 0);
//! # let index = Index::builder(Metric::L2).build(&MatrixView::new(&rows, 16)?)?;
//! use jasper::{Device, SearchParams};
//!
//! let index = index.to_device(Device::Auto)?;
//! assert_eq!(index.search(&rows[..16], SearchParams::new(10))?.len(), 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! Vectors are vertices of a Vamana graph: each has up to 64 out-edges to near vertices and, past those, to some that
//! are farther in every direction. A search walks from a central vertex, always expanding the nearest vertex it has
//! not expanded, and keeps the best `beam_width` it has met. Inserts search for the new vector and link it both ways;
//! deletes hide a vector at once and take it out of the graph later, in [`Index::consolidate`].
//!
//! # Where to look
//!
//! | item | for |
//! | --- | --- |
//! | [`Index`], [`IndexBuilder`] | building, searching, changing, saving |
//! | [`SharedIndex`] | the same from many threads, on the processor or on a GPU |
//! | [`Device`] | where; [`IndexBuilder::device`] builds there |
//! | [`SearchParams`], [`Filter`], [`Hit`] | what is asked and answered |
//! | [`Quantization`], [`Distances`] | codes of vectors, and searches by estimated distances |
//! | [`IndexStats`], [`CheckReport`], [`MemoryPlan`] | what there is, whether it is sound, what it will take |
//! | [`trial`] | the code that suits an index, found by measurement |
//! | [`tune`] | the beam width that reaches a recall, found by measurement |
//! | [`runbook`] | streams of changes and searches, played and measured |
//! | [`Profile`], [`Roof`] | what searches take, and what a device gives at most |
//! | [`VectorSource`], [`MatrixView`], [`data`] | rows from memory and from files |
//!
//! # Features
//!
//! `cuda` (off by default) builds, searches and changes on CUDA devices, and brings in the module `cuda`. Nothing of CUDA is
//! needed to compile it, or to start a program that has it; but set `DOCS_RS=1` when compiling, or build scripts of
//! dependencies look for a toolkit.
//!
//! Rust 1.95 or later. All public types are `Send` and `Sync`.

#![forbid(unsafe_code)]

mod builder;
mod check;
mod device;
mod home;
mod index;
mod processor;
mod profile;
pub mod recall;
pub mod runbook;
mod seat;
mod shared;
mod site;
mod stats;
pub mod trial;
pub mod tune;
mod update;

pub use builder::{BuildError, IndexBuilder};
pub use check::CheckReport;
pub use device::{Device, DeviceError, ParseDeviceError};
pub use index::Index;
pub use processor::processor;
pub use profile::{Profile, Roof};
pub use shared::SharedIndex;
pub use stats::IndexStats;
pub use update::{CompactError, DeleteError};

pub use jasper_core::{
    BitSet, BuildParams, Cancelled, Element, ElementKind, Key, MatrixError, MatrixView, Metric, NO_KEY,
    ParamError, Progress, ProgressFn, Stage, VectorSource, f16, no_progress, synthetic,
};
#[cfg(feature = "cuda")]
pub use jasper_cuda as cuda;
pub use jasper_data as data;
pub use jasper_graph::{
    FileError, FileReport, IndexInfo, KeyError, SaveStats, VectorError, check_file, interop,
};
pub use jasper_vamana::{
    BuildReport, CheckpointError, Checkpoints, CodeReport, CompactReport, ConsolidateError,
    ConsolidateReport, Distances, ExactError, Filter, Hit, InsertError, InsertReport, KeyFilter, Matches,
    MatchesMut, MemoryPlan, MemorySpace, ParseVectorStorageError, Part, PlanError, QuantizeError, SearchCost,
    SearchError, SearchParams, SearchReport, TunedLaunch, TunedSearch, VectorStorage,
};

pub use jasper_quant::{ParseQuantizationError, Quantization};

/// The examples of the README run with those of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
