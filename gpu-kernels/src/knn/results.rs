//! The results of an exact search.

use crate::graph::NO_SLOT;

/// The `k` nearest rows of each query, in order of (distance, row).
#[derive(Clone, Debug, PartialEq)]
pub struct KnnResults {
    k: usize,
    ids: Vec<u32>,
    distances: Vec<f64>,
}

impl KnnResults {
    /// The results of these arrays, both `[queries][k]`, [`NO_SLOT`] at infinity where there are fewer rows.
    pub(super) fn new(k: usize, ids: Vec<u32>, distances: Vec<f64>) -> Self {
        debug_assert_eq!(ids.len(), distances.len());
        Self { k, ids, distances }
    }

    /// Neighbors of each query.
    pub fn k(&self) -> usize {
        self.k
    }

    /// `[queries][k]`: rows, the nearest first; [`NO_SLOT`] where there are fewer.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// `[queries][k]`: their distances, infinity where there are fewer.
    pub fn distances(&self) -> &[f64] {
        &self.distances
    }

    /// Merges the results of a search among other rows, whose first is row `first_row` of all: for rows that are
    /// searched in parts.
    ///
    /// # Panics
    /// If the two differ in queries or k.
    pub fn merge(&mut self, other: &Self, first_row: u32) {
        assert_eq!((self.k, self.ids.len()), (other.k, other.ids.len()));
        let lists = self.ids.chunks_mut(self.k).zip(self.distances.chunks_mut(self.k));
        let others = other.ids.chunks(self.k).zip(other.distances.chunks(self.k));
        let mut all: Vec<(f64, u32)> = Vec::with_capacity(2 * self.k);
        for ((ids, distances), (other_ids, other_distances)) in lists.zip(others) {
            all.clear();
            all.extend(distances.iter().copied().zip(ids.iter().copied()));
            let moved = |id| if id == NO_SLOT { NO_SLOT } else { first_row + id };
            all.extend(other_distances.iter().copied().zip(other_ids.iter().map(|&id| moved(id))));
            all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            for ((id, distance), best) in ids.iter_mut().zip(distances).zip(&all) {
                (*distance, *id) = *best;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_merge_to_the_whole() {
        let inf = f64::INFINITY;
        let mut found = KnnResults::new(3, vec![1, 0, NO_SLOT, 0, 1, 2], vec![1.0, 4.0, inf, 0.0, 1.0, 2.0]);
        let other =
            KnnResults::new(3, vec![0, 2, 1, 0, NO_SLOT, NO_SLOT], vec![1.0, 2.0, 9.0, 0.0, inf, inf]);
        found.merge(&other, 10);
        assert_eq!(found.ids(), [1, 10, 12, 0, 10, 1]);
        assert_eq!(found.distances(), [1.0, 1.0, 2.0, 0.0, 0.0, 1.0]);
    }
}
