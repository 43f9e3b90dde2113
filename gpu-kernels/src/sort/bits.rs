//! The bits of the keys that a sort uses.

#[cfg(not(target_arch = "nvptx64"))]
use std::ops::Range;

/// Bits per pass, at most.
pub(crate) const DIGIT_BITS: u32 = 8;

/// The bits `begin..end` of a u64, bit 0 the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Bits {
    begin: u32,
    end: u32,
}

impl Bits {
    /// The bits of `range`.
    ///
    /// # Panics
    /// Panics if the range ends past bit 64, or before it begins.
    #[cfg(not(target_arch = "nvptx64"))]
    pub fn new(range: Range<u32>) -> Self {
        let Range { start: begin, end } = range;
        assert!(begin <= end && end <= u64::BITS, "bits {begin}..{end} of a key are not in the order 0..=64");
        Self { begin, end }
    }

    /// The number of digits, and so of passes.
    pub const fn passes(self) -> u32 {
        (self.end - self.begin).div_ceil(DIGIT_BITS)
    }

    /// The bits of digit `pass`.
    #[must_use]
    pub const fn digit(self, pass: u32) -> Self {
        let begin = self.begin + pass * DIGIT_BITS;
        let end = if begin + DIGIT_BITS < self.end { begin + DIGIT_BITS } else { self.end };
        Self { begin, end }
    }

    /// These bits of `key`, shifted to bit 0: the value of a digit.
    pub const fn extract(self, key: u64) -> u32 {
        (key >> self.begin) as u32 & ((1 << (self.end - self.begin)) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_cover_the_bits_once() {
        for (begin, end) in [(0, 64), (0, 0), (3, 3), (3, 4), (5, 24), (31, 64), (56, 64), (60, 61)] {
            let bits = Bits::new(begin..end);
            let digits: Vec<Bits> = (0..bits.passes()).map(|pass| bits.digit(pass)).collect();
            let ends = digits.iter().fold(begin, |at, digit| {
                assert_eq!(digit.begin, at, "{digits:?}");
                assert!(digit.end > at && digit.end - at <= DIGIT_BITS, "{digits:?}");
                digit.end
            });
            assert_eq!(ends, end, "{digits:?}");
        }
    }

    #[test]
    fn a_digit_has_the_bits_of_its_place() {
        let bits = Bits::new(4..23);
        let key = 0xfedc_ba98_7654_3210;
        let digits: Vec<u32> = (0..bits.passes()).map(|pass| bits.digit(pass).extract(key)).collect();
        assert_eq!(digits, [0x21, 0x43, 0x5]);
        assert_eq!(Bits::new(56..64).extract(key), 0xfe);
    }

    #[test]
    #[should_panic = "bits 9..65 of a key"]
    fn a_key_has_64_bits() {
        let _ = Bits::new(9..65);
    }
}
