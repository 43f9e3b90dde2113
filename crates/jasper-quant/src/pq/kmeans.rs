//! Centroids by k-means (Lloyd 1982).

use super::codebook::Codebook;

/// Most rounds; what moves afterwards changes the error in the third digit.
const ROUNDS: usize = 20;

/// Learns `2^bits` centroids of `parts` (`n x dimension`, n at least 1, in random order).
///
/// Centroids begin as the first parts that differ; where there are too few of these, the same serve again.
pub(super) fn train(parts: &[f32], dimension: usize, bits: u32) -> Codebook {
    let mut codebook = Codebook::zeros(dimension, 1 << bits);
    let mut starts: Vec<&[f32]> = Vec::new();
    for part in parts.chunks_exact(dimension) {
        if starts.len() == codebook.centroids() {
            break;
        }
        if !starts.contains(&part) {
            starts.push(part);
        }
    }
    for (centroid, start) in (0..codebook.centroids()).zip(starts.into_iter().cycle()) {
        codebook.set(centroid, start.iter().copied());
    }
    refined(codebook, parts)
}

/// Moves centroids to the means of the parts that they are nearest to, again and again. One that is nearest to nothing
/// becomes the part that lies farthest from its own centroid.
fn refined(mut codebook: Codebook, parts: &[f32]) -> Codebook {
    let dimension = codebook.dimension();
    let part = |i: usize| &parts[i * dimension..][..dimension];
    let mut before = Vec::new();
    for _ in 0..ROUNDS {
        let nearest: Vec<(u8, f32)> =
            parts.chunks_exact(dimension).map(|part| codebook.nearest(part)).collect();
        if nearest == before {
            break;
        }
        let mut sums = vec![0.0_f64; codebook.centroids() * dimension];
        let mut members = vec![0_u32; codebook.centroids()];
        for (part, (centroid, _)) in parts.chunks_exact(dimension).zip(&nearest) {
            let centroid = usize::from(*centroid);
            members[centroid] += 1;
            let sum = &mut sums[centroid * dimension..][..dimension];
            sum.iter_mut().zip(part).for_each(|(sum, x)| *sum += f64::from(*x));
        }
        let mut far = farthest(&nearest, members.iter().filter(|members| **members == 0).count()).into_iter();
        for (centroid, (sum, members)) in sums.chunks_exact(dimension).zip(&members).enumerate() {
            if *members > 0 {
                codebook.set(centroid, sum.iter().map(|sum| (sum / f64::from(*members)) as f32));
            } else if let Some(i) = far.next() {
                codebook.set(centroid, part(i).iter().copied());
            }
        }
        before = nearest;
    }
    codebook
}

/// Up to `count` parts that are not their own centroid, the farthest from it first.
fn farthest(nearest: &[(u8, f32)], count: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..nearest.len()).filter(|i| nearest[*i].1 > 0.0).collect();
    let order = |a: &usize, b: &usize| nearest[*b].1.total_cmp(&nearest[*a].1).then(a.cmp(b));
    if count < all.len() {
        all.select_nth_unstable_by(count, order);
        all.truncate(count);
    }
    all.sort_unstable_by(order);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `codebook` leaves of `parts`.
    fn left(codebook: &Codebook, parts: &[f32]) -> f32 {
        parts.chunks_exact(codebook.dimension()).map(|part| codebook.nearest(part).1).sum()
    }

    #[test]
    fn centroids_of_nothing_move_to_what_lies_far() {
        // All begin as the first point, which 200 parts are; there are 15 others.
        let mut parts = vec![0.0; 2 * 200];
        parts.extend((1..16).flat_map(|i| [i as f32, -(i as f32)]));
        assert_eq!(left(&refined(Codebook::zeros(2, 16), &parts), &parts), 0.0);
    }

    #[test]
    fn fewer_parts_than_centroids_are_kept_as_they_are() {
        let parts: Vec<f32> = (0..30).map(|i| (i as f32).sin()).collect();
        let codebook = train(&parts, 3, 8);
        assert_eq!((left(&codebook, &parts), codebook.centroids()), (0.0, 256));
    }

    #[test]
    fn centroids_of_a_line_lie_evenly() {
        // The best 16 points for 0 to 1 leave 1 / (12 * 16²) each; what Lloyd finds is near that.
        let parts: Vec<f32> =
            jasper_core::synthetic::permutation(4096, 1).iter().map(|i| *i as f32 / 4096.0).collect();
        let mean = left(&train(&parts, 1, 4), &parts) / 4096.0;
        let best = 1.0 / (12.0 * 256.0);
        assert!((0.99..1.3).contains(&(mean / best)), "{}", mean / best);
    }
}
