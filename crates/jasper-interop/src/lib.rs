//! Graph files of other libraries: reading graphs that they built, and writing graphs that they can search.
//!
//! | module | reads | writes | tested with |
//! | --- | --- | --- | --- |
//! | [`diskann`] | the in-memory graph, with frozen points or without | the same, and its data file | diskannpy 0.7.0 |
//! | [`parlay`] | the ParlayANN graph | | its specification only |
//! | [`hnswlib`] | | the base layer, which hnswlib searches on its own | hnswlib 0.8.0 |
//! | [`faiss`] | | the same, as `IndexHNSWFlat` in an `IndexIDMap` | faiss 1.15 |
//!
//! `is_graph` of a format that is written tells its files from others by their first bytes.
//!
//! Graph files hold edges and no vectors: reading takes the vectors that the graph was built from, in their order, and
//! their positions become the keys. Writing orders vertices by key, so that an index whose keys are positions keeps its
//! order.

#![forbid(unsafe_code)]

pub mod diskann;
mod error;
pub mod faiss;
pub mod hnswlib;
mod import;
pub mod parlay;
mod rows;

pub use error::{ExportError, ImportError, ImportFault};
