//! The nearest rows of one query.

use jasper_core::{Element, MatrixView, Metric};

use super::cutoff::Cutoff;
use super::distance::{distance, squared_norm};

/// The exact `k` nearest of the rows offered so far.
///
/// Rows that their f32 scores cannot rule out are candidates. When there are enough, their exact distances are computed
/// and the best are kept. Rows must be offered in ascending order; of equal ones the earlier is kept.
pub(super) struct Nearest<'a, T> {
    query: &'a [T],
    squared_norm: f64,
    metric: Metric,
    k: usize,
    /// At most `k` rows with their exact distances, nearest first.
    best: Vec<(f64, u32)>,
    candidates: Vec<u32>,
    cutoff: Cutoff,
}

/// Minimum candidates before exact distances are computed. More would compute more distances, fewer would sort more
/// often.
const MIN_CANDIDATES: usize = 32;

impl<'a, T: Element> Nearest<'a, T> {
    pub(super) fn new(query: &'a [T], metric: Metric, k: usize) -> Self {
        let squared_norm = squared_norm(query);
        Self {
            query,
            squared_norm,
            metric,
            k,
            best: Vec::new(),
            candidates: Vec::new(),
            cutoff: Cutoff::OPEN,
        }
    }

    pub(super) fn query(&self) -> &'a [T] {
        self.query
    }

    /// Offers the rows from number `first` on, with the kernel's `sums` and the rows' norms.
    pub(super) fn offer(&mut self, base: MatrixView<'_, T>, first: usize, sums: &[f32], norms: &[f32]) {
        let sign = if self.metric == Metric::L2 { 1.0 } else { -1.0 };
        for (i, (&sum, &norm)) in sums.iter().zip(norms).enumerate() {
            if self.cutoff.rules_out(sign * sum, norm) {
                continue;
            }
            self.candidates.push((first + i) as u32);
            if self.candidates.len() >= self.k.max(MIN_CANDIDATES) {
                self.rank(base);
            }
        }
    }

    /// Computes the exact distances of the candidates, and keeps the best.
    pub(super) fn rank(&mut self, base: MatrixView<'_, T>) {
        if self.candidates.is_empty() {
            return;
        }
        let Self { query, squared_norm, metric, k, .. } = *self;
        let exact = |id| (distance(metric, query, squared_norm, base.row(id as usize)), id);
        self.best.extend(self.candidates.drain(..).map(exact));
        self.best.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.best.truncate(k);
        if self.best.len() == k {
            self.cutoff =
                Cutoff::farther_than::<T>(metric, self.best[k - 1].0, squared_norm.sqrt(), query.len());
        }
    }

    /// The nearest rows, nearest first.
    pub(super) fn best(&self) -> &[(f64, u32)] {
        &self.best
    }
}
