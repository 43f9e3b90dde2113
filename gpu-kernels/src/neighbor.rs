//! Keys: neighbors packed into 64 bits, as `jasper_core::Neighbor`.
//!
//! From the top: 32 bits of the distance in an order-preserving form, 31 bits of the id, and the unvisited bit.

/// The lowest bit: set while a search has not visited the vertex.
pub(crate) const UNVISITED: u64 = 1;

/// The key of an unvisited vertex.
#[inline(always)]
pub(crate) fn key(distance: f32, id: u32) -> u64 {
    let bits = (distance + 0.0).to_bits();
    let orderable = bits ^ ((bits as i32 >> 31) as u32 | 1 << 31);
    edge(orderable, id)
}

/// The key of an unvisited vertex, from the upper half of a key and an id.
#[inline(always)]
pub(crate) fn edge(orderable: u32, id: u32) -> u64 {
    u64::from(orderable) << 32 | u64::from(id << 1) | UNVISITED
}

/// The upper half of a key: its distance, in the order-preserving form.
#[inline(always)]
pub(crate) fn orderable(key: u64) -> u32 {
    (key >> 32) as u32
}

/// The vertex of a key.
#[inline(always)]
pub(crate) fn id(key: u64) -> u32 {
    key as u32 >> 1
}

/// The distance of a key.
#[inline(always)]
pub(crate) fn distance(key: u64) -> f32 {
    let bits = orderable(key);
    f32::from_bits(bits ^ ((!bits as i32 >> 31) as u32 | 1 << 31))
}
