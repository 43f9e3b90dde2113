//! Vamana: how a graph is built, searched and updated.
//!
//! ```
//! use jasper_vamana::{CpuExecutor, bulk_build};
//! use jasper_core::{BuildParams, MatrixView, Metric, no_progress, synthetic::Clusters};
//!
//! let rows: Vec<f32> = Clusters::new(16, 1).rows(1000, 0);
//! let executor = CpuExecutor::new(2)?;
//! let view = MatrixView::new(&rows, 16)?;
//! let (graph, report) =
//!     bulk_build(&executor, &view, None, Metric::L2, BuildParams::default(), &mut no_progress)?;
//! assert_eq!(graph.live(), 1000);
//! assert!(report.cost.distances > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! One pipeline builds and inserts ([`pipeline`]): search the frozen graph, prune, turn the new edges around, merge
//! them into their targets, publish. What differs between processors is behind [`Linker`]. Where to look:
//!
//! | module | holds |
//! | --- | --- |
//! | [`executor`](Linker) | the steps of a batch |
//! | [`mutable`](MutableGraph) | a graph in use, on the host or beside a device |
//! | [`cpu`](CpuExecutor) | those steps on a pool of threads: beam search, robust prune, back edges |
//! | [`pipeline`] | the order of the steps, and of the batches |
//! | [`bulk`](bulk_build), [`insert`] | a graph from rows; rows into a graph |
//! | [`quantized_linking`](Ingested::quantize_vectors) | links worked out on rows rounded to bytes |
//! | [`checkpoint`](Checkpoints) | bulk builds that are taken up where a kill left them |
//! | [`ingest`], `identical` | rows into slots; identical rows to one vertex |
//! | [`codes`](quantize()) | codes for the rows of a graph |
//! | [`memory`](MemoryPlan) | what a job takes, before it begins |
//! | [`consolidate`], [`compact`] | deleted vertices out of the graph, holes out of memory |
//! | [`connectivity`], `reconnect` | whether every live vertex can be reached; edges for those that cannot |
//! | [`query`](SearchParams) | what users ask of a search, and what they get |
//! | [`plan`](SearchPlan) | how a search is answered by any executor: filters, tombstones, the exact scan |

#![forbid(unsafe_code)]

mod bulk;
mod checkpoint;
mod codes;
mod compact;
pub mod connectivity;
mod consolidate;
mod cost;
mod cpu;
mod error;
mod executor;
mod filter;
mod identical;
mod ingest;
mod insert;
mod link_progress;
mod matches;
mod memory;
mod mutable;
pub mod pipeline;
mod plan;
mod quantized_linking;
mod query;
mod reconnect;
mod start;
mod tuned;

pub use bulk::{BuildReport, Ingested, Linked, bulk_build, connect, ingest, link_on_host};
pub use checkpoint::{CheckpointError, Checkpoints};
pub use codes::{CodeReport, code_report, quantize};
pub use compact::{CompactReport, compact, moves};
pub use consolidate::{ConsolidateReport, consolidate};
pub use cost::SearchCost;
pub use cpu::{CpuExecutor, PoolError};
pub use error::UpdateError;
pub use executor::{Executor, Linker, Links, PeerSampling};
pub use filter::{Filter, KeyFilter};
pub use insert::{Existing, InsertReport, insert};
pub use link_progress::{LinkProgress, largest_batch};
pub use matches::{Hit, Matches, MatchesMut};
pub use memory::{
    BuildShape, Bytes, MemoryPlan, MemorySpace, ParseVectorStorageError, Part, PlanError, SKETCHES,
    VectorStorage, free_host_memory,
};
pub use mutable::{MutableGraph, transaction};
pub use pipeline::{Exclusive, GraphLock, LinkError};
pub use plan::{SearchPlan, Strategy};
pub use quantized_linking::quantized_metric;
pub use query::{Distances, SearchError, SearchParams, SearchReport};
pub use tuned::{TunedLaunch, TunedSearch};
