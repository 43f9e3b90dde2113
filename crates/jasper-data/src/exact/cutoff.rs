//! The bound above which an f32 score rules a row out.

use jasper_core::{Element, Metric};

/// A row is ruled out if its score is above `limit + slope * norm`, with `norm` the row's norm.
///
/// A score is the result of the f32 kernel, negated for dot products, so that smaller is nearer. With `t` the exact
/// distance of the k-th best so far, and `error` the [`relative_error`] of the kernel, the bound is:
///
/// - L2 of floats: `t (1 + error)`. All terms are positive, so the error of the sum is relative to it.
/// - Inner product of floats: `t + error |q| |x|`.
/// - Cosine: `(t - 1 + error) |q| |x|`, since `1 - dot / (|q| |x|) <= t` means `-dot <= (t - 1) |q| |x|`.
/// - L2 and inner product of integers: `t` rounded to f32. The score is exact and rounded once, and rounding is
///   monotonic. Below 2^24 rounding is exact, and a tie is ruled out as well, because the earlier row wins.
///
/// Scores that are NaN are never ruled out. Neither are rows whose `norm` is NaN, into which [`bounded`] turns norms
/// whose products could overflow or underflow in f32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cutoff {
    limit: f32,
    slope: f32,
}

/// Half a unit in the last place of 1 in f32: the relative error of one rounding.
const HALF_ULP: f64 = 1.0 / (1 << 24) as f64;

/// A bound of the loss of an L2 score to underflow: 2^15 terms below 2^-149 each.
const UNDERFLOW: f64 = f32::MIN_POSITIVE as f64 / 16.0;

/// Integers up to this are exact in f32.
const EXACT_INTEGERS: f32 = (1 << 24) as f32;

impl Cutoff {
    /// A cutoff that rules out no row.
    pub(super) const OPEN: Self = Self { limit: f32::INFINITY, slope: 0.0 };

    /// Rules out rows farther than the exact distance `worst`. `norm` is that of the query.
    pub(super) fn farther_than<T: Element>(metric: Metric, worst: f64, norm: f64, dimension: usize) -> Self {
        let error = relative_error(dimension);
        let norm = f64::from(bounded(norm));
        match metric {
            Metric::Cosine => Self { limit: 0.0, slope: ((worst - 1.0 + error) * norm) as f32 },
            _ if T::EXACT_SUMS => {
                let limit = worst as f32;
                Self {
                    limit: if limit.abs() < EXACT_INTEGERS { limit.next_down() } else { limit },
                    slope: 0.0,
                }
            }
            Metric::L2 => Self { limit: round_up(worst * (1.0 + error) + UNDERFLOW), slope: 0.0 },
            Metric::InnerProduct => Self { limit: round_up(worst), slope: (error * norm) as f32 },
        }
    }

    /// Whether a row with this score and norm cannot be among the nearest.
    #[inline(always)]
    pub(super) fn rules_out(self, score: f32, norm: f32) -> bool {
        score > self.limit + self.slope * norm
    }
}

/// An upper bound of the relative error of a float kernel and of the filter's own arithmetic.
///
/// Counts roundings: one per 64 coordinates for a partial sum, six for the tree over partial sums, two for a squared
/// difference, five for the filter, and some to spare.
fn relative_error(dimension: usize) -> f64 {
    (dimension.div_ceil(64) + 16) as f64 * HALF_ULP
}

/// A norm as f32; NaN if the product of two such norms could overflow or underflow.
pub(super) fn bounded(norm: f64) -> f32 {
    const RANGE: std::ops::RangeInclusive<f64> = 1.0 / (1_u64 << 40) as f64..=(1_u64 << 40) as f64;
    if norm == 0.0 || RANGE.contains(&norm) { norm as f32 } else { f32::NAN }
}

/// The smallest f32 that is at least `value`.
fn round_up(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) < value { near.next_up() } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::distance::{distance, squared_norm};
    use jasper_core::f16;
    use proptest::prelude::*;

    /// A row must not be ruled out by a k-th best at its own distance; for integers, where ties are ruled out, by one
    /// at the next larger distance.
    fn keeps<T: Element>(query: &[T], row: &[T]) {
        let squared = squared_norm(query);
        let norm = bounded(squared_norm(row).sqrt());
        let fns = T::distance_fns();
        for metric in Metric::ALL {
            if metric == Metric::Cosine && (squared == 0.0 || norm == 0.0) {
                continue;
            }
            let score =
                if metric == Metric::L2 { (fns.squared_l2)(query, row) } else { -(fns.dot)(query, row) };
            let exact = distance(metric, query, squared, row);
            let tie = if T::EXACT_SUMS && metric != Metric::Cosine { 1.0 } else { 0.0 };
            let cutoff = Cutoff::farther_than::<T>(metric, exact + tie, squared.sqrt(), query.len());
            assert!(
                !cutoff.rules_out(score, norm),
                "{metric}: {cutoff:?} rules out {score} of length {norm}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Sums that cancel, underflow and overflow: values of every magnitude, near each other or opposite.
        #[test]
        fn no_neighbor_is_ruled_out(
            values in proptest::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0, any::<bool>()), 1..300),
            powers in (-149..128_i32, -149..128_i32, 0..30_i32),
        ) {
            let size = |value: f32, power: i32, i: usize| value * 2_f32.powi(power - (i as i32 * 7) % (powers.2 + 1));
            let query: Vec<f32> = values.iter().enumerate().map(|(i, v)| size(v.0, powers.0, i)).collect();
            let row: Vec<f32> = values
                .iter()
                .enumerate()
                .map(|(i, v)| if v.2 { query[i] * (1.0 + v.1 * 1e-6) } else { size(v.1, powers.1, i) })
                .collect();
            keeps(&query, &row);
            let half = |v: &[f32]| v.iter().map(|&x| f16::from_f32(x.clamp(-6e4, 6e4))).collect::<Vec<_>>();
            keeps(&half(&query), &half(&row));
            let bytes = |v: &[(f32, f32, bool)], second: bool| {
                v.iter().map(|v| (if second { v.1 } else { v.0 } * 127.0) as i8).collect::<Vec<_>>()
            };
            let (a, b) = (bytes(&values, false), bytes(&values, true));
            keeps(&a, &b);
            keeps::<u8>(bytemuck::cast_slice(&a), bytemuck::cast_slice(&b));
        }
    }

    /// Rows that are clearly farther are ruled out.
    #[test]
    fn the_bound_is_tight() {
        let norm = bounded(2.0);
        for (metric, worst, score) in [(Metric::L2, 1.0, 1.0), (Metric::InnerProduct, -1.0, -1.0)] {
            let floats = Cutoff::farther_than::<f32>(metric, worst, 2.0, 128);
            assert!(!floats.rules_out(score, norm) && floats.rules_out(score + 1e-5, norm));
            let bytes = Cutoff::farther_than::<u8>(metric, worst, 2.0, 128);
            assert!(bytes.rules_out(score, norm) && !bytes.rules_out(score - 1.0, norm));
        }
        let angle = Cutoff::farther_than::<f32>(Metric::Cosine, 0.25, 2.0, 128);
        assert!(!angle.rules_out(-0.75 * 4.0, norm) && angle.rules_out(-0.74999 * 4.0, norm));
        assert!(!Cutoff::OPEN.rules_out(f32::MAX, norm));
        assert!(!angle.rules_out(0.0, bounded(1e20)) && !angle.rules_out(f32::NAN, norm));
    }
}
