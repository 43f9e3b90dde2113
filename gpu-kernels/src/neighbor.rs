//! Entries: a neighbor packed into 64 bits, as `jasper_core::Neighbor`. Frontiers and lists of candidates hold them.
//!
//! From the highest bit down: 32 bits of the distance in an order-preserving form, 31 bits of the vertex, and a flag.
//! Entries compare by distance, then by vertex. The flag means [`UNEXPANDED`] in a search, and `NEW` in a prune.

/// The flag of a search, the lowest bit: set until the search expands the vertex.
pub(crate) const UNEXPANDED: u64 = 1;

/// The flag of a prune, the same bit: clear if an earlier prune kept the entry. A prune does not compare two such
/// entries.
#[cfg(feature = "kernels")]
const NEW: u64 = 1;

/// The entry of no vertex in a frontier: sorts last, and counts as expanded.
pub(crate) const NO_ENTRY: u64 = !UNEXPANDED;

/// The entry of no vertex in a list of candidates: sorts last.
#[cfg(feature = "kernels")]
pub(crate) const NO_CANDIDATE: u64 = u64::MAX;

/// A new entry, with its flag set.
pub(crate) fn entry(distance: f32, slot: u32) -> u64 {
    let bits = (distance + 0.0).to_bits();
    let ordered_bits = bits ^ ((bits as i32 >> 31) as u32 | 1 << 31);
    entry_of_bits(ordered_bits, slot)
}

/// A new entry, with its flag set, from the [`ordered_bits`] of its distance.
pub(crate) fn entry_of_bits(ordered_bits: u32, slot: u32) -> u64 {
    u64::from(ordered_bits) << 32 | u64::from(slot << 1) | UNEXPANDED
}

/// The upper half of an entry: the bits of its distance, changed so that they compare like distances.
pub(crate) fn ordered_bits(entry: u64) -> u32 {
    (entry >> 32) as u32
}

/// An entry that a search has found, as a candidate of a prune that no earlier prune has kept.
#[cfg(feature = "kernels")]
pub(crate) fn new_candidate(entry: u64) -> u64 {
    entry | NEW
}

/// The entry marked as kept by an earlier prune.
#[cfg(feature = "kernels")]
pub(crate) fn kept_before(entry: u64) -> u64 {
    entry & !NEW
}

/// Whether an entry is marked as [`kept_before`].
#[cfg(feature = "kernels")]
pub(crate) fn is_kept_before(entry: u64) -> bool {
    entry & NEW == 0
}

/// The slot of the vertex of an entry.
pub(crate) fn slot(entry: u64) -> u32 {
    entry as u32 >> 1
}

/// The distance of an entry.
pub(crate) fn distance(entry: u64) -> f32 {
    let bits = ordered_bits(entry);
    f32::from_bits(bits ^ ((!bits as i32 >> 31) as u32 | 1 << 31))
}
