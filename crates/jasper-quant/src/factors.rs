//! The scalar factors of a code, stored as f16.
//!
//! Squared norms of byte vectors exceed the largest f16 (65504), and scales of long vectors fall below its resolution.
//! Each factor is therefore divided by a unit, the power of two nearest its root mean square over the training vectors.
//! The division is exact, and values lie around 1, where f16 has 11 bits.
//!
//! Codes with four factors store the rounding error of `add` in the fourth. It would be visible in codes of 7 and 8
//! bits.

use half::f16;

use crate::Layout;

/// The unit of the fourth factor relative to the first: the last of the 11 bits of an f16 near 1.
pub(crate) const LOW: f32 = 1.0 / 2048.0;

/// Training vectors whose factors determine the units.
pub(crate) const UNIT_ROWS: usize = 1024;

/// The factors of one code.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Factors {
    /// The vector's additive term of every distance.
    pub(crate) add: f32,
    /// The multiplier of the product of code and query.
    pub(crate) rescale: f32,
    /// The half-width of the error bound, for a query at distance 1 from the center.
    pub(crate) error: f32,
}

/// The units of stored factors: powers of two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Units(pub(crate) Factors);

impl Units {
    /// Units of one.
    pub(crate) const ONE: Self = Self(Factors { add: 1.0, rescale: 1.0, error: 1.0 });

    /// The units for factors like these.
    pub(crate) fn from_sample(sample: &[Factors]) -> Self {
        let unit = |part: fn(&Factors) -> f32| {
            let squares: f64 = sample.iter().map(|factors| f64::from(part(factors)).powi(2)).sum();
            let rms = (squares / sample.len().max(1) as f64).sqrt();
            // If all are zero, any unit will do. The clamp keeps the unit and its inverse normal floats.
            if rms > 0.0 { rms.log2().round().clamp(-100.0, 100.0).exp2() as f32 } else { 1.0 }
        };
        Self(Factors { add: unit(|f| f.add), rescale: unit(|f| f.rescale), error: unit(|f| f.error) })
    }

    /// The units of `add`, `rescale` and `error`.
    pub(crate) fn to_array(self) -> [f32; 3] {
        [self.0.add, self.0.rescale, self.0.error]
    }

    /// Writes factors to the last bytes of a code row.
    ///
    /// Factors too large for f16 saturate; this takes a vector 250 times as far from the center as others. `error` is
    /// rounded up, so that it remains a bound.
    pub(crate) fn store(&self, factors: Factors, layout: &Layout, row: &mut [u32]) {
        let nearest = |value: f32, unit: f32| {
            let limit = f16::MAX.to_f32();
            f16::from_f32((value / unit).clamp(-limit, limit))
        };
        let pair = |low: f16, high: f16| u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16;
        let at = layout.factor_word();
        let add = nearest(factors.add, self.0.add);
        row[at] = pair(add, nearest(factors.rescale, self.0.rescale));
        if layout.factors() > 2 {
            let mut error = nearest(factors.error, self.0.error);
            if error.to_f32() * self.0.error < factors.error {
                error = f16::from_bits(error.to_bits() + 1);
            }
            let low = factors.add / self.0.add - add.to_f32();
            row[at + 1] = pair(error, nearest(low, LOW));
        }
    }

    /// Reads the factors of a code row. The reference for kernels.
    pub(crate) fn load(&self, layout: &Layout, row: &[u32]) -> Factors {
        let half = |i: usize| {
            if i >= layout.factors() {
                return 0.0;
            }
            f16::from_bits((row[layout.factor_word() + i / 2] >> (16 * (i % 2))) as u16).to_f32()
        };
        let add = half(0) + half(3) * LOW;
        Factors { add: add * self.0.add, rescale: half(1) * self.0.rescale, error: half(2) * self.0.error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_survive_to_eleven_bits_and_the_sum_to_more() {
        let layout = Layout::uniform(64, 1, 4);
        let factors = Factors { add: 3.1e7, rescale: -4.4e-9, error: 123.4 };
        let units = Units::from_sample(&[factors, Factors { add: 1e7, ..factors }]);
        let mut row = vec![0; layout.words()];
        units.store(factors, &layout, &mut row);
        let loaded = units.load(&layout, &row);
        assert!((loaded.rescale / factors.rescale - 1.0).abs() <= 0.5_f32.powi(11), "{loaded:?}");
        assert!((loaded.add / factors.add - 1.0).abs() <= 0.5_f32.powi(20), "{loaded:?}");
        assert!(loaded.error >= factors.error && loaded.error < factors.error * 1.001);
    }

    #[test]
    fn outliers_saturate_and_zeros_stay() {
        let layout = Layout::mixed([0, 7, 0, 0], 1, 2);
        let units = Units::from_sample(&[Factors { add: 2.0, rescale: 0.0, error: 0.0 }]);
        let mut row = vec![0; layout.words()];
        units.store(Factors { add: 1e30, rescale: 0.0, error: 5.0 }, &layout, &mut row);
        assert_eq!(units.load(&layout, &row), Factors { add: 2.0 * 65504.0, rescale: 0.0, error: 0.0 });
    }
}
