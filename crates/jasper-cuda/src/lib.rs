//! CUDA devices for Jasper: contexts, streams, memory, typed kernel launches, and graphs in device memory.
//!
//! ```
//! use jasper_cuda::prelude::*;
//! use jasper_cuda::{Context, ErrorKind, Stream};
//!
//! fn round_trip() -> jasper_cuda::Result<Vec<u32>> {
//!     let context = Context::open(0)?;
//!     let stream = Stream::new(&context)?;
//!     let buffer = stream.upload(&[1, 2, 3])?;
//!     stream.download(&buffer)
//! }
//!
//! match round_trip() {
//!     Ok(values) => assert_eq!(values, [1, 2, 3]),
//!     // The driver is loaded at run time: a program starts and runs without it.
//!     Err(error) => assert!(matches!(error.kind, ErrorKind::NoDriver(_) | ErrorKind::NoDevice), "{error}"),
//! }
//! ```
//!
//! The kernels, and the sequences of launches that make up an operation, are in `gpu_kernels`; this crate runs them.
//! The algorithms that the CPU shares are in `jasper_vamana`.
//!
//! | item | for |
//! | --- | --- |
//! | [`DeviceProperties`] | the devices of this machine and their limits |
//! | [`Context`] | the primary context of a device, shared by all threads |
//! | [`Stream`], [`Event`], [`Buffer`] | streams, events, and arrays in device memory; also those of other libraries |
//! | [`device_of`], [`with_current_context_kept`] | sharing devices with other libraries of the process |
//! | [`Pinned`], [`Pipeline`] | pinned memory, and copies that overlap with kernels |
//! | [`Module`] | kernels from other PTX |
//! | [`exact_knn_on_device`] | exact nearest neighbors of vectors in host memory |
//! | [`DeviceGraph`] | the copy of a graph in device memory |
//! | [`HostAndDeviceGraph`], [`DeviceSearcher`] | a graph that is updated in device memory while it is searched |
//! | [`link_on_device`], [`DeviceExecutor`] | building graphs in device memory |
//! | [`KernelSet`], [`KernelPreload`] | compiles kernels ahead of their first launch |
//! | [`MemoryPlan`], [`PeakMemory`] | memory of an operation: predicted and measured |
//! | [`PoolRetention`] | keeps freed device memory in the pool of the process |
//! | [`median_time`], [`copy_bandwidth`], [`DeviceSearcher::profile`] | measurements |
//! | [`Error`] | what failed, and what to do about it |
//!
//! Driver functions, the primary context and modules come from `cust`. Its streams synchronize with the null stream,
//! and its device memory may outlive the context, so this crate has its own types for both.

mod buffer;
mod build;
mod context;
mod device;
mod error;
mod event;
mod graph;
mod kernels;
mod knn;
mod measure;
mod memory_pool;
mod module;
mod pinned;
mod pipeline;
mod preload;
mod profile;
mod ptx;
mod search;
mod staging;
mod stream;
mod virtual_memory;

pub use buffer::Buffer;
pub use build::{DeviceExecutor, QuantizedVectors, link_on_device, plan_build, quantize_on_device};
pub use context::{Context, with_current_context_kept};
pub use device::{DeviceProperties, device_of, driver_version};
pub use error::{Error, ErrorKind, LaunchLimit, Result};
pub use event::Event;
pub use gpu_kernels::search::{DeviceHit, MAX_BEAM_WIDTH, NO_HIT};
pub use graph::{
    DeviceGraph, GraphSnapshot, HostAndDeviceGraph, SearchedGraph, plan_graph, plan_graph_within,
};
pub use jasper_driver::{LibraryAttempt, LoadError};
pub use jasper_vamana::{Bytes, MemoryPlan, MemorySpace, PlanError};
pub use knn::{DeviceKnnError, exact_knn_on_device};
pub use measure::{copy_bandwidth, median_time};
pub use memory_pool::{PeakMemory, PoolRetention};
pub use module::Module;
pub use pinned::Pinned;
pub use pipeline::Pipeline;
pub use preload::{KernelPreload, KernelSet};
pub use ptx::PtxRequirement;
pub use search::{DeviceBatch, DeviceSearcher, GraphView, StartedSearch, hit_from_device};
pub use stream::Stream;

/// The traits of [`Stream`] and [`Buffer`], which the emulator implements too.
pub mod prelude {
    pub use gpu_kernels::{Buffer as _, Stream as _};
}
