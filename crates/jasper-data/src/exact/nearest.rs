//! The nearest rows of one query, as rows are offered to it.

use jasper_core::{Element, MatrixView, Metric};

use super::distance::{distance, squared_norm};
use super::filter::Filter;

/// The `k` nearest of the rows offered so far, exactly.
///
/// A row that its f32 score cannot rule out waits with its number; when enough wait, their exact distances are
/// computed and the best stay. Rows come in rising order, so among equals the earlier one stays.
pub(super) struct Nearest<'a, T> {
    query: &'a [T],
    squared_norm: f64,
    metric: Metric,
    k: usize,
    /// Nearest first, with exact distances; at most `k`.
    best: Vec<(f64, u32)>,
    waiting: Vec<u32>,
    filter: Filter,
}

/// Rows that wait before exact distances are computed, at least: more rank more rows, fewer sort more often.
const WAITING: usize = 32;

impl<'a, T: Element> Nearest<'a, T> {
    pub(super) fn new(query: &'a [T], metric: Metric, k: usize) -> Self {
        let squared_norm = squared_norm(query);
        Self { query, squared_norm, metric, k, best: Vec::new(), waiting: Vec::new(), filter: Filter::OPEN }
    }

    pub(super) fn query(&self) -> &'a [T] {
        self.query
    }

    /// Looks at rows from number `first` on, with the kernel's `sums` and the rows' lengths.
    pub(super) fn offer(&mut self, base: MatrixView<'_, T>, first: usize, sums: &[f32], norms: &[f32]) {
        let sign = if self.metric == Metric::L2 { 1.0 } else { -1.0 };
        for (i, (&sum, &norm)) in sums.iter().zip(norms).enumerate() {
            if self.filter.rules_out(sign * sum, norm) {
                continue;
            }
            self.waiting.push((first + i) as u32);
            if self.waiting.len() >= self.k.max(WAITING) {
                self.rank(base);
            }
        }
    }

    /// Computes the exact distances of the rows that wait.
    pub(super) fn rank(&mut self, base: MatrixView<'_, T>) {
        if self.waiting.is_empty() {
            return;
        }
        let Self { query, squared_norm, metric, k, .. } = *self;
        let exact = |id| (distance(metric, query, squared_norm, base.row(id as usize)), id);
        self.best.extend(self.waiting.drain(..).map(exact));
        self.best.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.best.truncate(k);
        if self.best.len() == k {
            self.filter = Filter::behind::<T>(metric, self.best[k - 1].0, squared_norm.sqrt(), query.len());
        }
    }

    /// The nearest rows, nearest first.
    pub(super) fn best(&self) -> &[(f64, u32)] {
        &self.best
    }
}
