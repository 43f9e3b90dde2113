//! Item types of sections, and the rules for their values.

use std::ops::BitAnd;

use jasper_core::ElementKind;

/// Codes of item types in the section table. Element types come first, with [`ElementKind::code`].
pub(super) mod item {
    pub(crate) const U16: u32 = 4;
    pub(crate) const U32: u32 = 5;
    pub(crate) const U64: u32 = 6;
    /// A structure described with its section.
    pub(crate) const RECORD: u32 = 7;
}

/// A condition on every item of a section, which makes it safe to use. Checked while the bytes are in cache.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// Anything.
    Any,
    /// f32, neither NaN nor infinite.
    FiniteF32,
    /// f16, neither NaN nor infinite.
    FiniteF16,
    /// u32 below the bound.
    Below(u32),
    /// u16 up to the bound.
    AtMost(u16),
    /// Rows of u32, of which those from `first` on hold pairs of f16. All must be finite except the third, which bounds
    /// an error.
    FiniteFactors {
        /// u32 per row.
        words: usize,
        /// Index of the first with factors.
        first: usize,
    },
}

impl Rule {
    /// Returns the rule for coordinates.
    pub(super) const fn for_element(element: ElementKind) -> Self {
        match element {
            ElementKind::F32 => Self::FiniteF32,
            ElementKind::F16 => Self::FiniteF16,
            ElementKind::U8 | ElementKind::I8 => Self::Any,
        }
    }

    /// Whether all items of `bytes` obey. `bytes` must be aligned for the items and hold whole ones.
    pub(super) fn holds(self, bytes: &[u8]) -> bool {
        match self {
            Self::Any => true,
            // All exponent bits are set in NaN and infinity, and only there.
            Self::FiniteF32 => all(bytes, |bits: u32| bits & 0x7F80_0000 != 0x7F80_0000),
            Self::FiniteF16 => all(bytes, |bits: u16| bits & 0x7C00 != 0x7C00),
            Self::Below(bound) => all(bytes, |id: u32| id < bound),
            Self::AtMost(bound) => all(bytes, |degree: u16| degree <= bound),
            Self::FiniteFactors { words, first } => bytes.chunks_exact(words * size_of::<u32>()).all(|row| {
                let factors = row[first * size_of::<u32>()..].chunks_exact(size_of::<u16>());
                factors.enumerate().all(|(i, half)| i == 2 || Self::FiniteF16.holds(half))
            }),
        }
    }

    /// Rounds `bytes` down to whole items, at least one.
    pub(super) fn whole_items(self, bytes: usize) -> usize {
        match self {
            Self::FiniteFactors { words, .. } => {
                (bytes / (words * size_of::<u32>())).max(1) * words * size_of::<u32>()
            }
            _ => bytes,
        }
    }

    /// Describes what is wrong with a section that breaks the rule.
    pub(super) fn broken(self) -> String {
        match self {
            Self::Any => unreachable!("nothing breaks it"),
            Self::FiniteF32 | Self::FiniteF16 | Self::FiniteFactors { .. } => {
                "it contains a value that is not finite".into()
            }
            Self::Below(slots) => format!("it contains a slot that is not below {slots}"),
            Self::AtMost(degree) => format!("it contains a degree above {degree}"),
        }
    }
}

/// Whether `test` holds for all items. No early exit, so that the loop vectorizes.
fn all<I: bytemuck::AnyBitPattern + bytemuck::NoUninit>(bytes: &[u8], test: impl Fn(I) -> bool) -> bool {
    bytemuck::cast_slice(bytes).iter().map(|&item| test(item)).fold(true, BitAnd::bitand)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::f16;

    fn holds<I: bytemuck::NoUninit>(rule: Rule, items: &[I]) -> bool {
        rule.holds(bytemuck::cast_slice(items))
    }

    #[test]
    fn rules_find_what_breaks_them() {
        assert!(holds(Rule::FiniteF32, &[0.0, -1.5, f32::MAX, f32::MIN_POSITIVE / 2.0]));
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(!holds(Rule::FiniteF32, &[1.0, bad, 2.0]));
        }
        assert!(holds(Rule::FiniteF16, &[f16::MAX, f16::MIN, f16::ZERO]));
        assert!(!holds(Rule::FiniteF16, &[f16::ZERO, f16::NAN]));
        assert!(!holds(Rule::FiniteF16, &[f16::NEG_INFINITY]));
        assert!(holds(Rule::Below(3), &[0_u32, 2]) && !holds(Rule::Below(3), &[0_u32, 3]));
        assert!(holds(Rule::AtMost(3), &[0_u16, 3]) && !holds(Rule::AtMost(3), &[4_u16]));
        let rows = [0x7C00_u32, 0x7C00, 0x7BFF, 0xFC00, 0, 0x3C00_3C00];
        assert!(holds(Rule::FiniteFactors { words: 3, first: 2 }, &rows));
        assert!(!holds(Rule::FiniteFactors { words: 3, first: 0 }, &rows));
        assert!(holds(Rule::FiniteFactors { words: 2, first: 0 }, &[0x3C00_u32, 0x3C00_7C00]));
        assert!(!holds(Rule::FiniteFactors { words: 2, first: 0 }, &[0x3C00_u32, 0x7C00_3C00]));
        assert_eq!(Rule::FiniteFactors { words: 3, first: 2 }.whole_items(100), 96);
        assert_eq!(Rule::Any.whole_items(100), 100);
        assert!(holds::<u32>(Rule::Below(0), &[]));
    }
}
