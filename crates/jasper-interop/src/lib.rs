//! Graph files of other libraries: reading graphs that they built, and writing graphs that they can search.
//!
//! | module | reads | writes | tested with |
//! | --- | --- | --- | --- |
//! | [`diskann`] | the in-memory graph, with frozen points or without | the same, and its data file | diskannpy 0.7.0 |
//! | [`parlay`] | the ParlayANN graph | | its specification only |
//! | [`hnswlib`] | the graph of all layers, vectors, labels and deleted elements | the base layer, which hnswlib searches on its own | hnswlib 0.8.0 |
//! | [`faiss`] | the same of `IndexHNSWFlat` and `IndexHNSWSQ`, and the ids of an `IndexIDMap` | `IndexHNSWFlat` with a base layer, in an `IndexIDMap` | faiss 1.15 |
//!
//! [`GraphFormat::of_file`] tells the files of all but ParlayANN from others by their first bytes.
//!
//! Files of DiskANN and ParlayANN hold edges and no vectors: reading takes the vectors that the graph was built from, in
//! their order, and their positions become the keys. Those of hnswlib and faiss are read as they are. A graph that was
//! read has the start point of its file. `OpenOptions::import_graph` of the crate `jasper` makes an index of it, with
//! more start points, and edges where paths are missing.
//!
//! Writing orders vertices by key, so that an index whose keys are positions keeps its order.

#![forbid(unsafe_code)]

pub mod diskann;
mod error;
pub mod faiss;
mod format;
pub mod hnswlib;
mod import;
pub mod parlay;
mod rows;
mod source;

pub use error::{ExportError, ImportError, ImportFault};
pub use format::{GraphFormat, ParseGraphFormatError};
