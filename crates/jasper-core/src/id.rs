//! The two names of a vector: the dense slot Jasper works with and the key its owner gave it.

use bytemuck::{Pod, Zeroable};

/// The user's name of a vector: any u64 but [`NO_KEY`], unique among the live vectors of an index.
pub type Key = u64;

/// No vector's key: fills the places of an answer that has fewer than `k` vectors to name.
pub const NO_KEY: Key = Key::MAX;

/// Most vertices an index can hold: a [`crate::Neighbor`] keeps an id in 31 bits.
pub const MAX_VECTORS: usize = (1 << 31) - 1;

/// Slot of a vertex: a dense u32 below [`MAX_VECTORS`], reused after consolidation.
///
/// Never shown to users, who speak in [`Key`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct VectorId(u32);

impl VectorId {
    /// The id of slot `index`.
    #[inline]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The id of slot `index`.
    ///
    /// # Panics
    /// If `index` is not below [`MAX_VECTORS`].
    #[inline]
    pub fn from_index(index: usize) -> Self {
        assert!(index < MAX_VECTORS, "slot {index} is not below {MAX_VECTORS}");
        Self(index as u32)
    }

    /// The slot as a number for indexing.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The slot as stored.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl std::fmt::Display for VectorId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "slot {}", self.0)
    }
}
