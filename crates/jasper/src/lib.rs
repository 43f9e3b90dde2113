//! A vector index for approximate nearest-neighbor search on CPUs and CUDA GPUs. It is fast to build and to search, and
//! can be changed while it serves.
//!
//! ```
//! use jasper::{Index, IndexBuilder, MatrixView, Metric, SearchParams};
//!
//! // 2,000 vectors of 32 coordinates, one after another.
//! let vectors: Vec<f32> = (0..2_000 * 32_u64).map(|i| (i * i % 65_521) as f32 / 65_521.0).collect();
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
//! # use jasper::{IndexBuilder, MatrixView, Metric, NewKeys, SearchParams};
//! # use jasper_core::synthetic::Clusters;
//! # let vectors: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
//! let index = IndexBuilder::new(Metric::Cosine).build(MatrixView::new(&vectors[..8000], 16)?)?;
//! std::thread::scope(|scope| {
//!     scope.spawn(|| index.insert(&MatrixView::new(&vectors[8000..], 16).unwrap(), NewKeys::NEXT).unwrap());
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
//! # use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
//! # use jasper_core::synthetic::Clusters;
//! # let vectors: Vec<f32> = Clusters::new(16, 7).rows(500, 0);
//! use jasper::Device;
//!
//! let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&vectors, 16)?)?;
//! // The first GPU with room, or the CPU; without the feature `cuda`, the CPU.
//! let index = index.to_device(Device::AUTO)?;
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
//! | [`Device`] | where an index is built, searched and changed |
//! | [`Vectors`], [`MatrixView`], [`VectorFile`], [`VectorSource`] | vectors and queries in memory and in files |
//! | [`Target`], [`SearchParams`], [`KeyFilter`], [`Hit`], [`Matches`], [`Pages`] | searches and their results |
//! | [`attributes`] | attributes of keys, and filters by them |
//! | [`Quantization`], [`Distances`] | quantized vectors, and searches with estimated distances |
//! | [`tune`] | the fastest search that reaches a recall |
//! | [`Index::with_progress`] | progress and cancellation of calls |
//! | [`IndexBuilder::memory_plan`], [`Device::memory_plan`] | memory of a build or an index, before it is allocated |
//! | [`StoredIndex`], [`IndexInfo`] | what is stored in a file or a folder |
//! | [`Error`], [`ErrorKind`] | what failed |
//! | [`Profile`] | what searches cost |
//!
//! Many of these items come from other crates of Jasper, and their examples name those crates. You need to depend on
//! one of them only for what is not listed here:
//!
//! | crate | has |
//! | --- | --- |
//! | `jasper-data` | writing files of vectors, keys and true neighbors; exact search |
//! | `jasper-graph` | the graph that [`Index::read_graph`] reads; checks of index files |
//! | `jasper-interop` | graph files of other libraries |
//! | `jasper-cuda` | CUDA devices: memory, streams, errors; exact search there |
//! | `jasper-core` | synthetic vectors, recall |
//!
//! Builds, opening, saving, inserts, upserts, consolidation, compaction, quantizing, checking and tuning can report
//! their progress to a callback, which may cancel them: see [`Index::with_progress`]. Searches and
//! [`Index::to_device`] do not.
//!
//! # Features
//!
//! `cuda` (off by default) builds, searches and changes indexes on CUDA devices. Compiling needs no CUDA toolkit, and
//! starting needs no driver. Set `DOCS_RS=1` when compiling, or build scripts of
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
mod builder;
mod changes;
mod check;
mod device;
mod error;
mod index;
mod inner;
mod journal;
mod profile;
mod stats;
mod stored;
pub mod tune;

pub use auto_quantize::{CostUnit, QuantizeReport, QuantizeTrial, TriedQuantization};
pub use batcher::Pending;
pub use builder::{BuildReport, IndexBuilder};
pub use check::CheckReport;
pub use device::{Device, DeviceInfo};
pub use error::{Error, ErrorKind};
pub use index::{DeleteKeys, Index, NewKeys, OpenOptions, Pages, QuantizeMode, SearchLimits, Target, Update};
pub use profile::Profile;
pub use stats::IndexStats;
pub use stored::StoredIndex;

pub use jasper_core::{
    Element, ElementKind, Key, MatrixView, Metric, NO_KEY, Progress, Stage, VectorSource, Vectors, f16,
};
pub use jasper_data::VectorFile;
pub use jasper_graph::{IndexInfo, KeyFilter, SaveStats};
pub use jasper_quant::Quantization;
pub use jasper_vamana::{
    CompactReport, ConsolidateReport, Distances, Explanation, Filter, Hit, InsertReport, LaunchParams,
    Matches, MemoryPlan, MemorySpace, OperationCounts, SearchParams, SearchReport,
};

/// Attributes of keys, and filter expressions over them.
pub mod attributes {
    pub use jasper_attributes::{ColumnKind, Expression, Frame, Value, column};
}

/// The examples of the README and of the book run with those of this crate.
#[cfg(doctest)]
mod pages {
    macro_rules! pages {
        ($($Page:ident: $path:literal,)*) => {$(
            #[doc = include_str!(concat!("../../../", $path))]
            struct $Page;
        )*};
    }

    pages! {
        Readme: "README.md",
        QuickStart: "docs/src/quick-start.md",
        Filters: "docs/src/filters.md",
        Updates: "docs/src/updates.md",
        Tuning: "docs/src/tuning.md",
        Gpu: "docs/src/gpu.md",
        SeveralGpus: "docs/src/several-gpus.md",
        Security: "docs/src/security.md",
    }
}
