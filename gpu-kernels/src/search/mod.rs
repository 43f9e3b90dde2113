//! Beam search on the graph: one kernel from the query to its answers, whose state never leaves the multiprocessor.
//!
//! Algorithm 2 of the paper with distinct frontier entries, step for step what the CPU executor does, so that both give
//! the same answers. A *team* of one or more warps takes a query:
//!
//! 1. the frontier, a sorted list of keys (distance, id, unvisited), begins with the start points;
//! 2. the nearest unvisited entries are picked, one or more a step;
//! 3. their neighbours are gathered; those that the filter of seen ids knows are dropped;
//! 4. the others are scored, all loads of a batch in flight at once;
//! 5. what beats the last entry goes into the frontier; until nothing is unvisited.
//!
//! Distances are exact, of the rows themselves, or estimates, of codes: these need a tenth of the bytes or less. What is
//! nearest by estimates, the *candidates*, gets exact distances at the end: the same kernels do it, for which candidates
//! are start points without a graph behind them.
//!
//! One warp a query and a block is fastest where there are queries enough; teams of more warps, of which one has the
//! frontier and the others score ahead of its turn, make one query short.

#[cfg(feature = "kernels")]
mod buffered_list;
#[cfg(feature = "kernels")]
mod entries;
#[cfg(feature = "kernels")]
mod frontier;
#[cfg(feature = "kernels")]
mod list;
#[cfg(not(target_arch = "nvptx64"))]
mod plan;
mod quantized;
#[cfg(feature = "kernels")]
mod registers;
#[cfg(feature = "kernels")]
mod results;
#[cfg(feature = "kernels")]
mod score;
#[cfg(not(target_arch = "nvptx64"))]
mod sequence;
pub(crate) mod shape;
mod shared_layout;
#[cfg(feature = "kernels")]
mod solo;
#[cfg(feature = "kernels")]
mod team;
#[cfg(test)]
mod tests;
#[cfg(feature = "kernels")]
mod visited;

#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{QuantizedSearch, Search};
#[cfg(not(target_arch = "nvptx64"))]
pub use sequence::{Rerank, RerankStream, quantized_search};

pub use quantized::QuantizedSearchArgs;

use crate::graph::{DistanceForm, GraphArgs};
use crate::{DevicePtr, DevicePtrMut};

/// The widest beam.
pub const MAX_BEAM_WIDTH: u32 = 1024;

/// An answer, 16 bytes: `[key low, key high, distance bits, slot]`; [`NO_ANSWER`] where there is none.
pub type Answer = [u32; 4];

/// The place of an answer that there is none for: no key, infinitely far.
pub const NO_ANSWER: Answer = [u32::MAX, u32::MAX, f32::INFINITY.to_bits(), u32::MAX];

/// Arguments of every search kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SearchArgs {
    /// What is searched.
    pub graph: GraphArgs,
    /// `[queries][row_bytes]`: in the form of rows; of unit length where those are.
    pub queries: DevicePtr<u8>,
    /// `[queries]`: which row of `queries` each query is. Null if they are just the rows in order.
    pub query_rows: DevicePtr<u32>,
    /// A bit for each slot, 32 a word: whether it may be an answer. Null if all may.
    pub allowed: DevicePtr<u32>,
    /// `[queries][k]`: nearest first, then those of `rest`.
    pub answers: DevicePtrMut<Answer>,
    /// `[queries][k]`: answers of a search before, that come behind those of this one. Null for [`NO_ANSWER`].
    pub rest: DevicePtr<Answer>,
    /// `[queries][candidates_len]`: the first entries of the frontier, which are no answers then, but are to be scored
    /// again; behind them [`NO_ROW`](crate::graph::NO_ROW).
    pub candidates: DevicePtrMut<u32>,
    /// `[queries][2]`: vertices expanded, and distances worked out.
    pub work: DevicePtrMut<u32>,
    /// `[queries][max_hops]`: keys of the vertices expanded, in order. Null if nobody asks.
    pub log: DevicePtrMut<u64>,
    /// Queries.
    pub queries_len: u32,
    /// Answers of each, at most the beam width.
    pub k: u32,
    /// Entries of the frontier, 1 to [`MAX_BEAM_WIDTH`].
    pub beam_width: u32,
    /// Expansions after which a search ends; none makes it a scan of the start points.
    pub max_hops: u32,
    /// Vertices expanded in one step, at least 1; those that a team has scored or is at work at.
    pub expansions: u32,
    /// Places of the filter of seen ids: a power of two from 32 on, or none.
    pub visited_slots: u32,
    /// From the start points of a query to those of the next: 0 if all begin at the same ones. Where each has its own,
    /// [`NO_ROW`](crate::graph::NO_ROW) may be among them.
    pub starts_stride: u32,
    /// Entries that are no answers, at most the beam width.
    pub candidates_len: u32,
    /// What is made of the sums.
    pub form: DistanceForm,
}
