//! The allocation of bits to principal components.
//!
//! ```text
//! for every [w8, w4, w2, w1] with w8 + w4 + w2 + w1 <= words and w8 even:
//!     the leading 4 w8 components get 8 bits, the next 8 w4 get 4, 16 w2 get 2, 32 w1 get 1, the rest none
//!     loss = sum of distortion(bits) * variance over the components
//! return the one with the least loss, of equal ones that with the fewest words
//! ```
//!
//! Prefix sums of the variances make each candidate O(1).

/// A number of bits, with the best uniform quantizer of a Gaussian variable at that number (Max 1960, table II).
pub(super) struct Width {
    pub(super) bits: u32,
    /// Mean squared error as a fraction of the variance.
    pub(super) distortion: f64,
    /// Step in standard deviations.
    pub(super) step: f32,
}

/// Widest first, as the planes of [`crate::Layout::mixed`].
pub(super) const WIDTHS: [Width; 4] = [
    Width { bits: 8, distortion: 0.000_087_7, step: 0.0308 },
    Width { bits: 4, distortion: 0.011_54, step: 0.3352 },
    Width { bits: 2, distortion: 0.118_8, step: 0.9957 },
    Width { bits: 1, distortion: 0.363_4, step: 1.5958 },
];

/// Returns the numbers of words of 8, 4, 2 and 1 bits, at most `words` in all and `max_eights` of 8 bits, that lose the
/// least variance. `variances` must be descending.
///
/// Words of 8 bits come in pairs, so that the dimensions of every plane are a multiple of 8. Tries `words`³ / 6
/// candidates per number of 8-bit words.
pub(super) fn allocate(variances: &[f64], words: usize, max_eights: usize) -> [usize; 4] {
    let mut sums = vec![0.0];
    for variance in variances {
        sums.push(sums[sums.len() - 1] + variance);
    }
    let until = |dimension: usize| sums[dimension.min(variances.len())];
    let left = |plane_words: [usize; 4]| {
        let (mut dimension, mut left) = (0, 0.0);
        for (width, words) in WIDTHS.iter().zip(plane_words) {
            let end = dimension + words * (32 / width.bits as usize);
            left += width.distortion * (until(end) - until(dimension));
            dimension = end;
        }
        left + until(variances.len()) - until(dimension)
    };
    let all = (1..=words).flat_map(|total| {
        let eights = (0..=total.min(max_eights)).step_by(2);
        let fours = eights.flat_map(move |eight| (0..=total - eight).map(move |four| [eight, four]));
        fours.flat_map(move |[eight, four]| {
            let rest = total - eight - four;
            (0..=rest).map(move |two| [eight, four, two, rest - two])
        })
    });
    // `min_by` returns the first minimum, and candidates ascend in words.
    all.min_by(|a, b| left(*a).total_cmp(&left(*b))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distortion of a uniform quantizer of a Gaussian variable, by numeric integration.
    fn distortion(bits: u32, step: f64) -> f64 {
        let largest = f64::from((1_u32 << (bits - 1)) - 1);
        let (mut left, mut weight) = (0.0, 0.0);
        for i in 0..80_000 {
            let x = f64::from(i) * 1e-4;
            let density = (-0.5 * x * x).exp();
            let point = ((x / step).floor().min(largest) + 0.5) * step;
            left += density * (x - point).powi(2);
            weight += density;
        }
        left / weight
    }

    #[test]
    fn steps_are_the_best_for_gaussian_numbers() {
        for Width { bits, distortion: expected, step } in WIDTHS {
            let step = f64::from(step);
            let at = distortion(bits, step);
            assert!((at / expected - 1.0).abs() < 0.005, "{bits} bits leave {at}");
            assert!(at < distortion(bits, step * 1.02) && at < distortion(bits, step * 0.98), "{bits} bits");
        }
    }

    #[test]
    fn flat_spectra_get_one_bit_and_steep_ones_more() {
        // Equal variances: coding the most components loses least.
        assert_eq!(allocate(&[1.0; 1000], 7, 7), [0, 0, 0, 7]);
        // Fewer dimensions than room: the most bits, and no empty words.
        assert_eq!(allocate(&[1.0; 56], 7, 7), [0, 7, 0, 0]);
        assert_eq!(allocate(&[1.0; 56], 15, 0), [0, 7, 0, 0]);
        assert_eq!(allocate(&[1.0; 56], 15, 15), [14, 0, 0, 0]);
        let steep: Vec<f64> = (0..128).map(|i| 0.93_f64.powi(i)).collect();
        let [_, four, two, one] = allocate(&steep, 7, 0);
        assert!(four > 0 && two > 0 && four + two + one == 7, "{four} {two} {one}");
        let [eight, four, ..] = allocate(&steep, 23, 23);
        assert!(eight > 0 && eight % 2 == 0 && four > 0, "{eight} {four}");
    }
}
