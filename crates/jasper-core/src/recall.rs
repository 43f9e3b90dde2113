//! Recall@k, with ties.
//!
//! Definition (that of big-ann-benchmarks): of the `k` answers given, the
//! share that belongs to the true `k` nearest *or lies exactly as far as the k-th of them*. An id given twice counts
//! once. Ground truth should therefore be deeper than `k`.

/// True neighbours of one query, nearest first: ids, of 32 bits as in files or whole keys, and distances where they are
/// known.
#[derive(Clone, Copy, Debug)]
pub struct Truth<'a, I = u32> {
    /// Keys of the true neighbours.
    pub ids: &'a [I],
    /// Their distances; without them ties cannot be seen.
    pub distances: Option<&'a [f32]>,
}

impl<I> Truth<'_, I> {
    /// How many of the first entries are right answers at `k`: `k`, and those that tie with the k-th.
    fn accepted(&self, k: usize) -> usize {
        let Some(distances) = self.distances else { return k.min(self.ids.len()) };
        let Some(&last) = k.checked_sub(1).and_then(|i| distances.get(i)) else { return self.ids.len() };
        k + distances[k..].iter().take_while(|&&d| d == last).count()
    }
}

/// Recall@k of one query: the share of `k` (or of what there is to find, if that is less) that `answers` got right.
/// Only the first `k` answers count. 1.0 when there is nothing to find.
///
/// ```
/// use jasper_core::recall::{Truth, recall_at};
/// let truth = Truth { ids: &[4_u32, 9, 2], distances: Some(&[0.5, 1.0, 1.0]) };
/// assert_eq!(recall_at(2, &[4, 2], truth), 1.0); // 2 lies exactly as far as 9
/// assert_eq!(recall_at(2, &[4, 4], truth), 0.5); // the same id twice is one answer
/// ```
pub fn recall_at<I: Copy + Into<u64>>(k: usize, answers: &[u64], truth: Truth<'_, I>) -> f64 {
    let wanted = k.min(truth.ids.len());
    if wanted == 0 {
        return 1.0;
    }
    let right = &truth.ids[..truth.accepted(k)];
    let answers = &answers[..k.min(answers.len())];
    let hits = right.iter().filter(|&&id| answers.contains(&id.into())).count();
    hits.min(wanted) as f64 / wanted as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_right() {
        let truth = Truth { ids: &[1_u32, 2, 3, 4], distances: Some(&[1.0, 2.0, 2.0, 3.0]) };
        assert_eq!(recall_at(2, &[1, 3], truth), 1.0);
        assert_eq!(recall_at(2, &[3, 2], truth), 1.0);
        assert_eq!(recall_at(2, &[4, 9], truth), 0.0);
        assert_eq!(recall_at(3, &[1, 2], truth), 2.0 / 3.0);
        assert_eq!(recall_at(9, &[4, 3, 2, 1], truth), 1.0);
        assert_eq!(recall_at(2, &[], truth), 0.0);
        let bare = Truth { distances: None, ..truth };
        assert_eq!(recall_at(2, &[1, 3], bare), 0.5);
        assert_eq!(recall_at(0, &[], bare), 1.0);
        let keys = Truth { ids: &[u64::MAX - 1, 5], distances: None };
        assert_eq!(recall_at(2, &[5, u64::MAX], keys), 0.5);
    }
}
