//! The data of an index: vectors, edges, keys, tombstones and start points, and the index file.
//!
//! ```
//! use jasper_core::{BuildParams, ElementKind, Metric};
//! use jasper_graph::Graph;
//!
//! let mut graph = Graph::new(ElementKind::F32, Metric::L2, 2, BuildParams::default())?;
//! let mut row = Vec::new();
//! for (key, vector) in [(10, [0.0_f32, 0.0]), (11, [3.0, 4.0])] {
//!     let squared_norm = graph.vectors().prepare(0, &vector, &mut row)?;
//!     let slot = graph.add_vector(&row, squared_norm)?;
//!     graph.keys_mut().assign(key, slot)?;
//! }
//! let slots = [10, 11].map(|key| graph.keys().slot_of(key).unwrap());
//! assert_eq!(graph.vectors().slot_distance_computer::<f32>(slots[1]).distance_to(slots[0]), 25.0);
//! graph.keys_mut().delete(11)?;
//! assert_eq!((graph.keys().live(), graph.keys().tombstones()), (1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Graph`] consists of three parts, each with its own methods: [`VectorTable`], [`Adjacency`] and [`KeyMap`]. The graph
//! itself has the changes that concern several of them, transactions, and the file. This crate does not search.
//!
//! | module | holds |
//! | --- | --- |
//! | [`graph`](Graph) | adding vectors, freeing slots, transactions |
//! | [`vectors`](VectorTable) | the vectors, their norms, sketches and codes; exact distances |
//! | [`adjacency`](Adjacency) | the edges and start points |
//! | [`keys`](KeyMap) | keys, tombstones and free slots |
//! | [`spanning_tree`](SpanningTree) | a proof that vertices are reachable |
//! | [`segments`](Segments) | tables that grow without moving |
//! | `parts` | collections whose clones share memory |
//! | [`structure`](StructureReport) | checking edges, vectors and keys |
//! | [`file`](IndexInfo) | the index file: saved, opened, mapped, checked |

mod adjacency;
mod file;
mod graph;
mod keys;
mod parts;
mod segments;
mod spanning_tree;
mod structure;
mod vectors;

pub use adjacency::Adjacency;
#[doc(hidden)]
pub use file::check_source;
pub use file::{
    Checkpoint, CheckpointFile, FORMAT_VERSION, FileError, FileFault, FileReport, IndexInfo, SaveStats,
    Section, SectionReport, TunedSearch, check_file, header_checksum, write_file,
};
pub use graph::{ChangedSlots, Graph, Snapshot, VectorChunk};
pub use keys::{AllowedSlots, KeyError, KeyFilter, KeyMap};
pub use segments::{SEGMENT_ROWS, Segments};
pub use spanning_tree::{NO_PARENT, SpanningTree};
pub use structure::{StructureFault, StructureReport};
pub use vectors::prepare::VectorError;
pub use vectors::{
    Center, CodeChunk, CodeDistanceComputer, Codes, ComputeDistances, DistanceComputer, KeptVectors, Origin,
    SketchChunk, Sketches, VectorTable, check_element, check_vector, needs_terms, prepare_in_place,
    prepare_vector, stores_as_given,
};
