//! The kernels of Jasper.
//!
//! One source serves three builds. Without features, this crate is plain host code: the arguments of each kernel, its
//! launch configuration, the sequences of launches that make an operation, and the committed PTX. The feature `kernels`
//! adds the bodies of the kernels: compiled for nvptx64, they are that PTX; on the host, they run in the emulator of
//! `cuda_std`, so that tests need no GPU. The feature `suite` adds those tests as functions over any [`Stream`].
//!
//! | module | holds |
//! | --- | --- |
//! | [`pointer`](mod@pointer) | [`DevicePtr`] and [`DevicePtrMut`]: device memory in the arguments of kernels |
//! | `entry` | [`Entry`]: an entry point, and tables of those that are instances of one function |
//! | [`launch`] | [`Kernel`]: the entry point, arguments and grid of a kernel |
//! | [`stream`] | [`Stream`]: an ordered queue of work on one device, real or emulated |
//! | `emulated` | the emulator as a stream, with the feature `kernels` |
//! | [`bits`] | sets of slots |
//! | [`codes`] | codes of rows and queries in device memory, as kernels read them |
//! | [`edges`] | traversals of the adjacency table: reachability, rows to repair, rows with a free place |
//! | [`encode`] | codes of queries |
//! | [`graph`] | a graph in device memory, as kernels read it |
//! | [`knn`] | exact nearest neighbors |
//! | [`project`] | products of rows with a matrix, in one order |
//! | [`prune`] | robust prune: the rows of new vertices, and back edges merged into rows |
//! | [`residuals`] | residuals of rows, and the fast rotation |
//! | [`rows`] | rows of tables, copied and moved |
//! | [`prefix_sum`] | decoupled look-back, and selections |
//! | [`search`] | beam search |
//! | [`sort`] | pairs sorted by some bits of their keys |
//! | [`groups`] | where runs of equal keys begin |
//! | `suite` | the tests, as functions over a stream |
//!
//! Arrays stand for registers in kernels: loops over them use indices, and are fully unrolled.
//!
//! The docs of device functions say who calls them. *Called by the whole warp*, or *block*, means that all its threads
//! call the function together, with the same arguments unless they are per lane. *With a barrier* means that the
//! function contains a barrier of the block.

#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]
#![cfg_attr(
    feature = "kernels",
    expect(
        clippy::needless_range_loop,
        reason = "an iterator over an array keeps it in memory on the device"
    )
)]

/// Compiles some items only where a condition holds. The name and the syntax are those of the crate `cfg-if`, because
/// rustfmt looks for modules there.
macro_rules! cfg_if {
    (if #[$condition:meta] { $($item:item)* }) => { $(#[$condition] $item)* };
}

pub mod bits;
pub mod codes;
pub mod edges;
#[cfg(all(feature = "kernels", not(target_arch = "nvptx64")))]
pub mod emulated;
pub mod encode;
mod entry;
pub mod graph;
pub mod groups;
pub mod knn;
pub mod pointer;
pub mod prefix_sum;
pub mod project;
pub mod prune;
pub mod residuals;
mod row_shape;
pub mod rows;
pub mod search;
pub mod sort;
#[cfg(feature = "suite")]
pub mod suite;

cfg_if! { if #[cfg(feature = "kernels")] {
    mod collectives;
    mod element;
    mod neighbor;
    mod sums;
    mod tile;
} }

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    pub mod launch;
    mod row_kind;
    pub mod stream;

    pub use entry::Entry;
    pub use launch::{Kernel, LaunchConfig, MAX_SHARED_BYTES, Specialization, max_blocks};
    pub use stream::{Buffer, Stream};
} }

pub use pointer::{DevicePtr, DevicePtrMut};
pub use row_shape::RowShape;

/// The entry points of the kernels that are specialized, each with its constants for rows of `row_bytes`.
#[cfg(not(target_arch = "nvptx64"))]
pub fn specializations(row_bytes: u32) -> Vec<(&'static str, Specialization)> {
    let searches = search::Search::all(row_bytes).chain(search::Search::all_sq4(row_bytes));
    let of_searches = searches.map(|search| (search.entry().name, search.specialization()));
    let scans = knn::Scan::all().map(|scan| (scan.entry().name, scan.specialization()));
    let all = of_searches.chain(prune::specializations(row_bytes)).chain(scans);
    all.filter_map(|(entry, specialization)| Some((entry, specialization?))).collect()
}

/// Lanes of a warp.
pub(crate) const WARP_SIZE: u32 = 32;
#[cfg(feature = "kernels")]
const _: () = assert!(WARP_SIZE == cuda_std::warp::WARP_SIZE);

/// The kernels as an archive of PTX (crate `jasper-ptx`): written by `cargo xtask ptx build`, compiled for a GPU by its
/// driver.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX: &[u8] = include_bytes!("../ptx/kernels.archive");
