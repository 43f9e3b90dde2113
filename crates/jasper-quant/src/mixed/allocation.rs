//! How many bits each principal component gets.

/// A width, the share of a Gaussian coordinate's variance that a uniform quantizer of so many bits leaves, and the step
/// of that quantizer in standard deviations: the least error there is (Max 1960, table II).
pub(super) struct Width {
    pub(super) bits: u32,
    pub(super) distortion: f64,
    pub(super) step: f32,
}

/// From the widest, in the order of the planes of [`crate::Layout::mixed`].
pub(super) const WIDTHS: [Width; 3] = [
    Width { bits: 4, distortion: 0.011_54, step: 0.3352 },
    Width { bits: 2, distortion: 0.118_8, step: 0.9957 },
    Width { bits: 1, distortion: 0.363_4, step: 1.5958 },
];

/// The words of 4, 2 and 1 bits, at most `words` of them, that leave the least variance: tried all, `words`² of them.
///
/// `variances` fall. A word of wide bits holds fewer dimensions; what gets no bits is left whole.
pub(super) fn allocate(variances: &[f64], words: usize) -> [usize; 3] {
    let mut sums = vec![0.0];
    for variance in variances {
        sums.push(sums[sums.len() - 1] + variance);
    }
    let until = |dimension: usize| sums[dimension.min(variances.len())];
    let left = |plane_words: [usize; 3]| {
        let (mut dimension, mut left) = (0, 0.0);
        for (width, words) in WIDTHS.iter().zip(plane_words) {
            let end = dimension + words * (32 / width.bits as usize);
            left += width.distortion * (until(end) - until(dimension));
            dimension = end;
        }
        left + until(variances.len()) - until(dimension)
    };
    let all = (0..=words).flat_map(|four| (0..=words - four).map(move |two| [four, two, words - four - two]));
    all.min_by(|a, b| left(*a).total_cmp(&left(*b))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_spectra_get_one_bit_and_steep_ones_more() {
        // All alike: the widest reach leaves least.
        assert_eq!(allocate(&[1.0; 1000], 7), [0, 0, 7]);
        // Fewer dimensions than room: as many bits as there are.
        assert_eq!(allocate(&[1.0; 56], 7), [7, 0, 0]);
        let steep: Vec<f64> = (0..128).map(|i| 0.93_f64.powi(i)).collect();
        let [four, two, one] = allocate(&steep, 7);
        assert!(four > 0 && two > 0 && four + two + one == 7, "{four} {two} {one}");
    }
}
