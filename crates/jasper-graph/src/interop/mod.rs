//! Graph files of other libraries: what they built can be searched here, and what was built here can be served there.
//!
//! | module | reads | writes | proved against |
//! | --- | --- | --- | --- |
//! | [`diskann`] | the in-memory graph, with frozen points or without | the same, and its data file | diskannpy 0.7.0 |
//! | [`parlay`] | the ParlayANN graph | | its description alone |
//! | [`hnswlib`] | | the base layer, which hnswlib searches on its own | hnswlib 0.8.0 |
//!
//! A foreign graph file holds edges and no vectors: reading takes the rows that it was built from, in their order.
//! Keys are then row numbers. Writing puts the vertices in the order of their keys, so that an index whose keys are
//! row numbers comes out in the order it came in.

pub mod diskann;
mod error;
pub mod hnswlib;
mod import;
pub mod parlay;
mod rows;

pub use error::{ExportError, ImportError, ImportFault};
