//! Vamana: how a graph is built, searched and updated.
//!
//! ```
//! use jasper_core::{BuildParams, MatrixView, Metric, no_progress};
//! use jasper_core::synthetic::Clusters;
//! use jasper_vamana::{CpuExecutor, bulk_build};
//!
//! let rows: Vec<f32> = Clusters::new(16, 1).rows(1000, 0);
//! let executor = CpuExecutor::new(2)?;
//! let view = MatrixView::new(&rows, 16)?;
//! let (graph, report) =
//!     bulk_build(&executor, view, None, Metric::L2, BuildParams::default(), &mut no_progress)?;
//! assert_eq!(graph.keys().live(), 1000);
//! assert!(report.cost.distances > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A vertex of the graph is named by its *slot*, the index of its row in every table. To *link* a vertex is to add
//! edges from it, and edges from other vertices to it. Builds and inserts link batches of vertices by one [`pipeline`]:
//! search the graph as it was before the batch, prune, reverse the new edges, merge them into their targets. The steps
//! are methods of the trait [`Executor`], implemented for the CPU here and for CUDA devices in `jasper-cuda`.
//!
//! | module | holds |
//! | --- | --- |
//! | `bulk`: [`ingest`], [`link_on_host`], [`bulk_build`] | building a graph in three steps |
//! | `bulk_linker`: [`BulkLinker`] | the loop of a bulk build over its batches |
//! | [`insert`], [`consolidate`], [`compact`] | changing a graph |
//! | [`adopt`](adopt()) | taking over a graph of another library |
//! | [`pipeline`] | linking one batch |
//! | [`executor`](Executor) | the trait with the steps of a batch |
//! | [`mutable`](MutableGraph) | graphs in use: locks and transactions |
//! | [`cpu`](CpuExecutor) | the CPU implementation: beam search, robust prune, exact search |
//! | `ingest`, `dedup` | storing vectors; finding identical ones |
//! | `start` | start points |
//! | `top_k` | the nearest of many vertices |
//! | [`connectivity`](unreachable_slots()), `reconnect` | reachability, and edges for unreachable vertices |
//! | `spanning_tree` | keeping every vertex reachable during inserts |
//! | [`effort`](missed_neighbors) | the beam width of builds and inserts, raised where searches miss neighbors |
//! | `checkpoint`: [`Checkpoints`] | checkpoints of a bulk build |
//! | [`encode`], [`quantize`](quantize()), [`code_report`] | quantized codes |
//! | [`scalar_quantizer`](ScalarQuantizer) | SQ8 linking: edges chosen by distances of vectors quantized to bytes |
//! | [`query`](SearchParams), [`filter`](Filter), [`matches`](Matches) | search parameters, filters, results |
//! | [`plan`](SearchPlan) | how a search call is executed: beam search or scan |
//! | [`cost_model`](CostModel) | what searches cost where they run |
//! | [`memory`](MemoryPlan) | memory of a job, planned before it starts |

#![deny(unsafe_code)]

mod adopt;
mod bulk;
mod bulk_linker;
mod checkpoint;
mod codes;
mod compact;
mod connectivity;
mod consolidate;
mod cost;
mod cost_model;
mod cpu;
mod dedup;
mod effort;
mod error;
mod executor;
mod filter;
mod hooks;
mod host_graph;
mod ingest;
mod insert;
mod landmarks;
mod matches;
mod memory;
mod mutable;
mod overlooked;
mod pending;
pub mod pipeline;
mod plan;
mod query;
mod reconnect;
mod scalar_quantizer;
mod spanning_tree;
mod start;
mod threads;
mod top_k;

pub use adopt::adopt;
pub use bulk::{Ingested, Linked, bulk_build, ingest, link_on_host, make_sketches};
pub use bulk_linker::{BulkLinker, largest_batch};
pub use checkpoint::{CheckpointError, Checkpoints, remove_checkpoint};
pub use codes::{
    CodeReport, check_quantizer, code_report, encode, quantize, train_quantizer, training_bytes,
};
pub use compact::{CompactReport, compact, compaction_moves};
pub use connectivity::{Vertices, unreachable_slots};
pub use consolidate::{ConsolidateReport, consolidate};
pub use cost::OperationCounts;
pub use cost_model::{CostModel, DistanceCost, ProductCost};
pub use cpu::{CpuExecutor, PoolError, cpu_name};
pub use effort::{missed_neighbors, widest_build_beam};
pub use error::UpdateError;
pub use executor::{CandidateSearch, ChunkEdges, Executor, PeerSampling, Published};
pub use filter::Filter;
pub use hooks::ChangeHooks;
pub use host_graph::{HostGraph, check_elements};
pub use insert::{InsertReport, NewVectors, OnConflict, check_insert, insert};
pub use jasper_core::LaunchParams;
pub use matches::{Hit, Matches, MatchesMut};
pub use memory::{
    BuildSpec, Bytes, MemoryPlan, MemorySpace, ParseMemorySpaceError, Part, PlanError, SCRATCH, SKETCHES,
    free_host_memory,
};
pub use mutable::{GraphAccess, MutableGraph, SharedGraph, Transaction, transaction, without_edges};
pub use pending::{PendingQuery, QueryQueue};
pub use plan::{BeamSize, Explanation, SearchPlan, Strategy};
pub use query::{Distances, SearchError, SearchParams, SearchReport};
pub use scalar_quantizer::{ScalarQuantizer, sq8_metric};
