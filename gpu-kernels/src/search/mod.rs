//! Beam search on the graph. One kernel takes a query to its results, and its state never leaves the multiprocessor.
//!
//! A vertex is named by its *slot*, the index of its row in every table. A search keeps the nearest vertices
//! it has found in the *frontier*, a sorted list of *entries*: 64 bits each, for distance, slot and whether the vertex
//! is yet to be expanded. The first `beam.width` entries (DiskANN's `L`) are the *beam*: only they are expanded.
//!
//! | module | holds |
//! | --- | --- |
//! | `args` | the arguments of all: of a beam, a filter, start points and candidates |
//! | `kernels` | the kernels |
//! | `launches`, `variant` | [`Search`] and [`QuantizedSearch`]: which kernel, and its launch |
//! | `sequence` | [`quantized_search`] and [`scan_in_parts`]: a search, and another of its candidates |
//! | `one_warp` | the search by one warp: the algorithm, step for step that of the CPU |
//! | `team` | the search by a team of warps, for few queries |
//! | `frontier` | the trait of frontiers, which `register_list`, `sorted_list` and `buffered_list` implement |
//! | `visited` | the visited cache |
//! | `distances` | distance computers: of exact distances, or of estimates from codes (quantized vectors) |
//! | `shared_layout` | shared memory |
//! | `slots` | [`ListPart`] and [`SlotTest`]: what a query scans, and what may be its results |
//! | `results` | the output |
//!
//! A quantized search reads codes, a fraction of the bytes of vectors. The entries nearest by estimated distance, its
//! *candidates*, get exact distances in a second launch, the *rerank*: a search whose start points are these
//! candidates, and that expands no vertex.

mod args;
mod kernels;
mod quantized;
mod shared_layout;
mod slots;
#[cfg(test)]
mod tests;

cfg_if! { if #[cfg(feature = "kernels")] {
    mod buffered_list;
    mod frontier;
    mod one_warp;
    mod register_list;
    mod results;
    mod distances;
    mod sorted_list;
    mod team;
    mod visited;
} }

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    mod launches;
    mod sequence;
    mod variant;

    pub use launches::{QuantizedSearch, Search};
    pub use sequence::{Rerank, RerankStream, quantized_search, scan_in_parts};
    pub use variant::MIN_TEAM_WARPS;
} }

pub use args::{BeamArgs, CandidateArgs, FilterArgs, SearchArgs, StartArgs};
pub use quantized::QuantizedSearchArgs;
pub use slots::{ListPart, SlotTest};

use crate::graph::NO_SLOT;

/// The widest beam, and the longest frontier.
pub const MAX_BEAM_WIDTH: u32 = 1024;

/// A result in device memory; [`NO_HIT`] where there are fewer. Kernels store its 16 bytes at once.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct DeviceHit {
    /// The first key of the vertex; identical vectors share a vertex, so it may have more, which the host looks up.
    pub key: u64,
    /// The distance from the query.
    pub distance: f32,
    /// The slot of the vertex.
    pub slot: u32,
}

impl DeviceHit {
    /// The bytes in the order of memory.
    #[cfg(feature = "kernels")]
    fn to_words(self) -> [u32; 4] {
        [self.key as u32, (self.key >> 32) as u32, self.distance.to_bits(), self.slot]
    }
}

/// No result: no key, at infinite distance.
pub const NO_HIT: DeviceHit = DeviceHit { key: u64::MAX, distance: f32::INFINITY, slot: NO_SLOT };
