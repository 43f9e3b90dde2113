//! Graph files of other libraries, in one binary.

#[path = "../../../jasper-data/tests/data/allocation.rs"]
mod allocation;
mod damage;
#[path = "../../../jasper-graph/tests/graph/damaged.rs"]
mod damaged;
mod formats;
mod fuzz;
mod golden;
mod hnsw;
