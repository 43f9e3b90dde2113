//! CUDA devices: memory, streams, and launches whose arguments are checked when compiled.
//!
//! ```
//! use jasper_cuda::prelude::*;
//! use jasper_cuda::{Context, Error, Stream};
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
//!     // The program starts and goes on where there is no CUDA.
//!     Err(error) => assert!(matches!(error, Error::NoDriver(_) | Error::NoDevice), "{error}"),
//! }
//! ```
//!
//! The kernels and the sequences of launches that make an operation are those of `gpu_kernels`; this crate is where
//! they run. It holds no algorithm that the CPU also has.
//!
//! | item | for |
//! | --- | --- |
//! | [`Device`] | what is here, and its limits |
//! | [`Context`] | a device in use, shared by all threads |
//! | [`Stream`], [`Buffer`], [`Event`] | ordered work, arrays, marks and times |
//! | [`Pinned`], [`Pipeline`] | copies at full speed, beside kernels |
//! | [`Module`] | PTX of one's own |
//! | [`exact_knn`] | exact neighbours of vectors in host memory |
//! | [`encode_on_device`] | codes of vectors in host memory |
//! | [`Searcher`], [`DeviceGraph`] | beam search on a graph in device memory |
//! | [`MutableDeviceGraph`], [`SearchContexts`] | a graph that is changed there while it is searched |
//! | [`link_on_device`], [`DeviceLinker`], [`KernelPreload`] | graphs built in device memory |
//! | [`MemoryPlan`], [`PoolRetention`], [`PeakMemory`] | what a job takes, before it is begun; what stays between its allocations; what it took |
//! | [`median_time`], [`copy_bandwidth`] | how fast work and memory are |
//! | [`Error`] | what went wrong, and what to do |
//!
//! Underneath is `cust`, for the driver's functions, the primary context and modules. Its streams block one another
//! and its slices of device memory may outlive it, so those types are ours.

mod buffer;
mod build;
mod context;
mod device;
mod encode;
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
mod profile;
mod ptx;
mod search;
mod staging;
mod stream;
mod virtual_memory;

pub use buffer::Buffer;
pub use build::{DeviceLinker, KernelPreload, link_on_device, plan_build};
pub use context::Context;
pub use device::{Device, driver_version};
pub use encode::encode_on_device;
pub use error::{Error, LaunchLimit, Result};
pub use event::Event;
pub use gpu_kernels::search::{Answer, MAX_BEAM_WIDTH, NO_ANSWER};
pub use graph::{DeviceGraph, MutableDeviceGraph};
pub use jasper_driver::{Attempt, LoadError};
pub use jasper_vamana::{Bytes, MemoryPlan, MemorySpace, Part, PlanError, VectorStorage};
pub use knn::{KnnError, exact_knn};
pub use measure::{copy_bandwidth, median_time};
pub use memory_pool::{PeakMemory, PoolRetention};
pub use module::Module;
pub use pinned::Pinned;
pub use pipeline::Pipeline;
pub use profile::LaunchProfile;
pub use ptx::Requirement;
pub use search::{DeviceBatch, GraphView, SearchContexts, Searcher, hit_from_answer};
pub use stream::Stream;

/// What [`Stream`] and [`Buffer`] can do, which the emulator can too.
pub mod prelude {
    pub use gpu_kernels::{Buffer as _, Stream as _};
}
