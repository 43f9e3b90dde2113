//! What a Jasper index is made of: vectors, the edges between them, keys, tombstones, start points, and its file.
//!
//! ```
//! use jasper_core::{BuildParams, Metric};
//! use jasper_graph::Graph;
//!
//! let mut graph = Graph::<f32>::new(Metric::L2, 2, BuildParams::default())?;
//! let mut row = Vec::new();
//! for (key, vector) in [(10, [0.0, 0.0]), (11, [3.0, 4.0])] {
//!     let squared_norm = graph.prepare(0, &vector, &mut row)?;
//!     let slot = graph.add_vector(&row, squared_norm)?;
//!     graph.assign_key(key, slot)?;
//! }
//! let slot = graph.slot_of(11).unwrap();
//! assert_eq!(graph.row_scorer(slot).score_one(graph.slot_of(10).unwrap()), 25.0);
//! graph.delete_key(11)?;
//! assert_eq!((graph.live(), graph.tombstones()), (1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here searches. Where to look:
//!
//! | module | holds |
//! | --- | --- |
//! | [`graph`](Graph) | the graph: what may be asked, and the few ways it changes |
//! | [`vector`](VectorError) | how a user's vector becomes a stored row, and which are refused |
//! | [`space`](Scorer) | distances of stored rows, by metric |
//! | [`keys`](KeyError) | which key means which slot |
//! | [`codes`](Codes) | codes of rows, by which distances are estimated |
//! | `sketch` | rows of f32 at a quarter of their bytes, to rule rows out unread |
//! | [`segments`](Segments) | tables that grow without moving |
//! | [`structure`](StructureReport) | whether edges, rows and keys are as they must be |
//! | [`tuned`](TunedSearch) | the searches that were measured to reach a recall |
//! | [`file`](IndexInfo) | the index file: saved, opened, mapped, checked |
//! | [`interop`] | graph files of DiskANN, ParlayANN and hnswlib |
//! | `journal` | what a failed batch puts back |
//! | [`changes`](Changes) | what a copy elsewhere has yet to follow |

mod changes;
mod codes;
mod file;
#[doc(hidden)]
pub mod fuzz;
mod graph;
pub mod interop;
mod journal;
mod keys;
mod segments;
mod sketch;
mod space;
mod structure;
mod tuned;
mod vector;

pub use changes::Changes;
pub use codes::{CodeBlock, CodeScorer, Codes};
pub use file::{
    Checkpoint, CheckpointFile, FORMAT_VERSION, FileFault, FileReport, IndexInfo, OpenError, SaveError,
    SaveStats, Section, SectionReport, check_file,
};
pub use graph::{Graph, TakenRows, VectorBlock};
pub use keys::KeyError;
pub use segments::{SEGMENT_ROWS, Segments};
pub use space::{Scorer, needs_norms};
pub use structure::{StructureFault, StructureReport};
pub use tuned::{TunedLaunch, TunedSearch};
pub use vector::{VectorError, check_vector, prepare_in_place, prepare_vector, stores_as_given};
