//! The seeded random numbers that decide the order of execution.

/// The generator SplitMix64.
pub struct Random(u64);

impl Random {
    /// The sequence number `stream` of `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = Self(seed ^ stream.wrapping_mul(0xA076_1D64_78BD_642F));
        Self(mixed.next())
    }

    /// Returns 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Puts `items` in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// The numbers 0 to 31 in one of 512 orders, for one draw: this is called for every step of a warp.
    pub fn lanes(&mut self) -> impl Iterator<Item = usize> + use<> {
        let bits = self.next() as usize;
        let (first, step) = (bits & 31, (bits >> 5) | 1);
        (0..32).map(move |turn: usize| first.wrapping_add(turn.wrapping_mul(step)) & 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_repeats_and_differs_from_others() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.next(), random.next()]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn orders_are_permutations() {
        let mut random = Random::new(7, 0);
        for _ in 0..100 {
            let mut lanes: Vec<usize> = random.lanes().collect();
            lanes.sort_unstable();
            assert!(lanes.into_iter().eq(0..32));
            let mut items: Vec<usize> = (0..10).collect();
            random.shuffle(&mut items);
            items.sort_unstable();
            assert!(items.into_iter().eq(0..10));
        }
    }
}
