//! A candidate of a search, packed into one u64 with a total order.

use crate::Slot;

/// A vertex with its distance from a query, ordered by (distance, slot).
///
/// ```text
/// bit 63 .. 32   distance, in a form that compares as an unsigned integer
/// bit 31 .. 1    slot
/// bit 0          in a search: 1 until the vertex is expanded; in a prune: 0 if an earlier prune kept the entry
/// ```
///
/// Sorting, merging and equality are single integer comparisons, on the CPU and in kernels. An expanded entry sorts
/// right before an unexpanded one of the same vertex. The order is total, so ties never depend on threads or platforms.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Neighbor(u64);

/// The flag of a search: set until the vertex is expanded.
const UNEXPANDED: u64 = 1;
/// The flag of a prune, the same bit: clear if an earlier prune kept the entry.
const NEW: u64 = 1;

impl Neighbor {
    /// No neighbor; sorts after every real one.
    pub const NONE: Self = Self(u64::MAX);

    /// Creates an entry that is neither expanded nor kept before.
    ///
    /// `distance` must not be NaN; vectors with NaN are rejected on insertion. -0.0 becomes 0.0, so that equal
    /// distances have equal bits.
    #[inline]
    pub fn new(distance: f32, slot: Slot) -> Self {
        debug_assert!(!distance.is_nan());
        Self(u64::from(ordered_bits(distance)) << 32 | u64::from(slot.get()) << 1 | UNEXPANDED)
    }

    /// The distance, with -0.0 replaced by 0.0.
    #[inline]
    pub fn distance(self) -> f32 {
        from_ordered_bits((self.0 >> 32) as u32)
    }

    /// The vertex.
    #[inline]
    pub const fn slot(self) -> Slot {
        Slot::new(self.0 as u32 >> 1)
    }

    /// Whether no search has expanded the vertex yet.
    #[inline]
    pub const fn is_unexpanded(self) -> bool {
        self.0 & UNEXPANDED != 0
    }

    /// The entry marked as expanded.
    #[inline]
    #[must_use]
    pub const fn expanded(self) -> Self {
        Self(self.0 & !UNEXPANDED)
    }

    /// The entry marked as kept by an earlier prune: it is not *new*. A prune does not compare two such entries.
    #[inline]
    #[must_use]
    pub const fn kept_before(self) -> Self {
        Self(self.0 & !NEW)
    }

    /// Whether the entry is marked as [`Self::kept_before`].
    #[inline]
    pub const fn is_kept_before(self) -> bool {
        self.0 & NEW == 0
    }

    /// Whether both are the same vertex at the same distance, whatever their flags.
    #[inline]
    pub const fn is_same(self, other: Self) -> bool {
        (self.0 ^ other.0) >> 1 == 0
    }

    /// The packed form described at [`Neighbor`].
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The entry with this packed form.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// Maps floats to integers of the same order: sets the sign bit of non-negative numbers, inverts all bits of negative
/// ones.
#[inline]
fn ordered_bits(distance: f32) -> u32 {
    let bits = (distance + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

#[inline]
fn from_ordered_bits(bits: u32) -> f32 {
    f32::from_bits(if bits >> 31 == 1 { bits & !(1 << 31) } else { !bits })
}

impl std::fmt::Debug for Neighbor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == Self::NONE {
            return f.write_str("none");
        }
        let mark = if self.is_unexpanded() { "" } else { " expanded" };
        write!(f, "{}@{}{mark}", self.slot().get(), self.distance())
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
            let slot = |x: u32| Slot::new(x >> 1);
            let (x, y) = (Neighbor::new(a.0, slot(a.1)), Neighbor::new(b.0, slot(b.1)));
            let expected = a.0.partial_cmp(&b.0).unwrap().then(slot(a.1).cmp(&slot(b.1)));
            prop_assert_eq!(x.cmp(&y), expected);
            prop_assert_eq!(x.distance(), a.0);
            prop_assert_eq!(x.slot(), slot(a.1));
            prop_assert!(x < Neighbor::NONE);
        }
    }

    #[test]
    fn expanding_keeps_place_and_identity() {
        let entry = Neighbor::new(-1.5, Slot::new(7));
        assert!(entry.is_unexpanded() && !entry.expanded().is_unexpanded());
        assert!(entry.is_same(entry.expanded()));
        assert!(entry.expanded() < entry);
        assert_eq!(Neighbor::new(0.0, Slot::new(1)), Neighbor::new(-0.0, Slot::new(1)));
    }
}
