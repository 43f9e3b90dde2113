//! The total order of neighbours, packed into one u64.

use crate::VectorId;

/// A vertex and its distance, ordered by (distance, id).
///
/// One u64, from the top: 32 bits of the distance in an order-preserving form, 31 bits of the id, and the
/// *unvisited* bit of a search frontier. Sorting, merging and equality are therefore single integer compares,
/// on the CPU and in kernels alike, and a visited entry sorts right before an unvisited one of the same vertex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Neighbor(u64);

const UNVISITED: u64 = 1;

impl Neighbor {
    /// Sorts behind every neighbour that exists.
    pub const NONE: Self = Self(u64::MAX);

    /// An entry that no search has expanded.
    ///
    /// NaN must not enter; vectors with NaN are refused where they come in. -0.0 is taken as 0.0, so that equal
    /// distances are equal bits.
    #[inline]
    pub fn new(distance: f32, id: VectorId) -> Self {
        debug_assert!(!distance.is_nan());
        Self(u64::from(orderable(distance)) << 32 | u64::from(id.get()) << 1 | UNVISITED)
    }

    /// The distance as given, but for the sign of a zero.
    #[inline]
    pub fn distance(self) -> f32 {
        from_orderable((self.0 >> 32) as u32)
    }

    /// The vertex.
    #[inline]
    pub const fn id(self) -> VectorId {
        VectorId::new(self.0 as u32 >> 1)
    }

    /// Whether no search has expanded this entry yet.
    #[inline]
    pub const fn is_unvisited(self) -> bool {
        self.0 & UNVISITED != 0
    }

    /// The same entry, expanded.
    #[inline]
    #[must_use]
    pub const fn visited(self) -> Self {
        Self(self.0 & !UNVISITED)
    }

    /// Whether both are the same vertex at the same distance, visited or not.
    #[inline]
    pub const fn is_same(self, other: Self) -> bool {
        (self.0 ^ other.0) >> 1 == 0
    }

    /// The packed form: see the type.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The neighbour of a packed form.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// Bits of a distance that compare as unsigned integers like the distances compare as floats.
#[inline]
fn orderable(distance: f32) -> u32 {
    let bits = (distance + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

#[inline]
fn from_orderable(bits: u32) -> f32 {
    f32::from_bits(if bits >> 31 == 1 { bits & !(1 << 31) } else { !bits })
}

impl std::fmt::Debug for Neighbor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == Self::NONE {
            return f.write_str("none");
        }
        let mark = if self.is_unvisited() { "" } else { " visited" };
        write!(f, "{}@{}{mark}", self.id().get(), self.distance())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_is_distance_then_id(a in any::<(f32, u32)>(), b in any::<(f32, u32)>()) {
            prop_assume!(!a.0.is_nan() && !b.0.is_nan());
            let id = |x: u32| VectorId::new(x >> 1);
            let (x, y) = (Neighbor::new(a.0, id(a.1)), Neighbor::new(b.0, id(b.1)));
            let expected = a.0.partial_cmp(&b.0).unwrap().then(id(a.1).cmp(&id(b.1)));
            prop_assert_eq!(x.cmp(&y), expected);
            prop_assert_eq!(x.distance(), a.0);
            prop_assert_eq!(x.id(), id(a.1));
            prop_assert!(x < Neighbor::NONE);
        }
    }

    #[test]
    fn visiting_keeps_place_and_identity() {
        let entry = Neighbor::new(-1.5, VectorId::new(7));
        assert!(entry.is_unvisited() && !entry.visited().is_unvisited());
        assert!(entry.is_same(entry.visited()));
        assert!(entry.visited() < entry);
        assert_eq!(Neighbor::new(0.0, VectorId::new(1)), Neighbor::new(-0.0, VectorId::new(1)));
    }
}
