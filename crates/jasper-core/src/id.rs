//! The two names of a vector: its slot inside the index, and the user's key.

use bytemuck::{Pod, Zeroable};

/// The user's name for a vector: any u64 but [`NO_KEY`]. A key names at most one live vector of an index.
pub type Key = u64;

/// The key of no vector. Pads results with fewer than `k` hits.
pub const NO_KEY: Key = Key::MAX;

/// The maximum number of vertices of an index: a [`crate::Neighbor`] stores a slot in 31 bits.
pub const MAX_VECTORS: usize = (1 << 31) - 1;

/// The slot of a vertex: a dense index below [`MAX_VECTORS`], reused after consolidation.
///
/// Slots are internal to an index. Users name vectors by [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct Slot(u32);

impl Slot {
    /// The slot with this index.
    #[inline]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The slot with this index.
    ///
    /// # Panics
    /// Panics if `index` is not below [`MAX_VECTORS`].
    #[inline]
    pub fn from_index(index: usize) -> Self {
        assert!(index < MAX_VECTORS, "slot {index} is not below {MAX_VECTORS}");
        Self(index as u32)
    }

    /// The slot as an array index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The slot as stored in adjacency rows and files.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "slot {}", self.0)
    }
}
