//! The few numbers beside a code, as f16.
//!
//! Squared lengths of bytes exceed what f16 holds (65504), and scales of long rows fall below what it resolves. So each
//! factor is stored in a unit of its own, a power of two near its root mean square over the training rows: scaling by
//! it is exact, and values lie around 1, where f16 has 11 bits. Rows with four factors have what `add` lost by that in
//! the fourth: to codes of 7 and 8 bits it would show.

use half::f16;

use crate::Layout;

/// What the fourth factor is in units of the first: the last of the 11 bits of an f16 near 1.
pub(crate) const LOW: f32 = 1.0 / 2048.0;

/// Rows whose factors choose the units of all: enough for a root mean square.
pub(crate) const UNIT_ROWS: usize = 1024;

/// The factors of one code.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Factors {
    /// What the row adds to every distance.
    pub(crate) add: f32,
    /// What the product of code and query is multiplied with.
    pub(crate) rescale: f32,
    /// The half-width of the bound of the error, for a query at distance 1 from the centre.
    pub(crate) error: f32,
}

/// The units of stored factors: powers of two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Units(pub(crate) Factors);

impl Units {
    /// Units of one.
    pub(crate) const ONE: Self = Self(Factors { add: 1.0, rescale: 1.0, error: 1.0 });

    /// Units that suit these factors.
    pub(crate) fn of(sample: &[Factors]) -> Self {
        let unit = |part: fn(&Factors) -> f32| {
            let squares: f64 = sample.iter().map(|factors| f64::from(part(factors)).powi(2)).sum();
            let rms = (squares / sample.len().max(1) as f64).sqrt();
            // All zero: any unit will do. The bounds keep the unit and its inverse normal numbers.
            if rms > 0.0 { rms.log2().round().clamp(-100.0, 100.0).exp2() as f32 } else { 1.0 }
        };
        Self(Factors { add: unit(|f| f.add), rescale: unit(|f| f.rescale), error: unit(|f| f.error) })
    }

    /// Writes factors into the last bytes of a row.
    ///
    /// What is too large for f16 becomes the largest number there is: a row 250 times as far from the centre as others
    /// are. The error is rounded up, so that a bound stays a bound.
    pub(crate) fn store(&self, factors: Factors, layout: &Layout, row: &mut [u32]) {
        let nearest = |value: f32, unit: f32| {
            let limit = f16::MAX.to_f32();
            f16::from_f32((value / unit).clamp(-limit, limit))
        };
        let pair = |low: f16, high: f16| u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16;
        let at = layout.factor_word();
        let add = nearest(factors.add, self.0.add);
        row[at] = pair(add, nearest(factors.rescale, self.0.rescale));
        if layout.halves() > 2 {
            let mut error = nearest(factors.error, self.0.error);
            if error.to_f32() * self.0.error < factors.error {
                error = f16::from_bits(error.to_bits() + 1);
            }
            let low = factors.add / self.0.add - add.to_f32();
            row[at + 1] = pair(error, nearest(low, LOW));
        }
    }

    /// The factors of a row, by the definition.
    pub(crate) fn load(&self, layout: &Layout, row: &[u32]) -> Factors {
        let half = |i: usize| {
            if i >= layout.halves() {
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
        let units = Units::of(&[factors, Factors { add: 1e7, ..factors }]);
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
        let units = Units::of(&[Factors { add: 2.0, rescale: 0.0, error: 0.0 }]);
        let mut row = vec![0; layout.words()];
        units.store(Factors { add: 1e30, rescale: 0.0, error: 5.0 }, &layout, &mut row);
        assert_eq!(units.load(&layout, &row), Factors { add: 2.0 * 65504.0, rescale: 0.0, error: 0.0 });
    }
}
