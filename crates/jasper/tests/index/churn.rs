//! Measures recall over rounds that replace some vectors of an index by others.

use std::error::Error;

use jasper::{Element, Index, IndexBuilder, Key, MatrixView, SearchParams};
use jasper_core::no_progress;
use jasper_core::recall::{Truth, recall_at};
use jasper_core::synthetic::permutation;
use jasper_data::{ThreadPoolBuilder, exact_knn};

/// The parameters of the rounds and of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Churn {
    /// Number of vectors in the index. The others replace them.
    pub live: usize,
    /// Number of rounds.
    pub rounds: usize,
    /// Share of the vectors that a round replaces.
    pub share: f64,
    /// Share of deleted vertices from which on a round ends with a consolidation; 0 is every round.
    pub consolidate_at: f64,
    /// Results per query.
    pub k: usize,
    /// Beam width of the searches.
    pub beam_width: usize,
}

/// The state after a round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Rounds done; the build is round 0.
    pub number: usize,
    /// Recall among the vectors in the index.
    pub recall: f64,
    /// Deleted vertices that are still traversed.
    pub deleted: usize,
    /// Vectors that no search can find.
    pub unreachable: usize,
}

impl Churn {
    /// Plays all rounds, and calls `report` after each. Returns the recall of a new build over the last round's
    /// vectors.
    ///
    /// `rows` are the vectors, with their row numbers as keys. A round inserts those that have been out of the index
    /// for the longest, and deletes random ones.
    pub fn play<T: Element>(
        &self,
        builder: IndexBuilder<'_>,
        rows: MatrixView<'_, T>,
        queries: MatrixView<'_, T>,
        mut report: impl FnMut(Round),
    ) -> Result<f64, Box<dyn Error>> {
        let replaced = (self.live as f64 * self.share) as usize;
        let mut inside: Vec<Key> = (0..self.live as Key).collect();
        let mut outside: Vec<Key> = (self.live as Key..rows.len() as Key).collect();
        if outside.len() < replaced {
            return Err(
                format!("{} rows are too few to replace {replaced} of {}", rows.len(), self.live).into()
            );
        }
        let index = builder.build(view(&gather(rows, &inside), rows))?;
        report(self.measure(&index, 0, rows, queries, &inside)?);
        for number in 1..=self.rounds {
            let order = permutation(inside.len(), number as u64);
            let gone: Vec<Key> = order[..replaced].iter().map(|&i| inside[i as usize]).collect();
            let come: Vec<Key> = outside.drain(..replaced).collect();
            index.delete(&gone)?;
            index.insert(view(&gather(rows, &come), rows), &come)?;
            order[..replaced].iter().zip(&come).for_each(|(&i, &key)| inside[i as usize] = key);
            outside.extend(gone);
            let stats = index.stats();
            if stats.tombstones as f64 >= self.consolidate_at * stats.live_vertices as f64
                || number == self.rounds
            {
                index.consolidate()?;
            }
            report(self.measure(&index, number, rows, queries, &inside)?);
        }
        let fresh = builder.keys(&inside).build(view(&gather(rows, &inside), rows))?;
        recall(&fresh, rows, &inside, queries, self.search())
    }

    fn measure<T: Element>(
        &self,
        index: &Index,
        number: usize,
        rows: MatrixView<'_, T>,
        queries: MatrixView<'_, T>,
        inside: &[Key],
    ) -> Result<Round, Box<dyn Error>> {
        let recall = recall(index, rows, inside, queries, self.search())?;
        Ok(Round {
            number,
            recall,
            deleted: index.stats().tombstones,
            unreachable: index.check()?.unreachable.len(),
        })
    }

    fn search(&self) -> SearchParams<'static> {
        SearchParams::new(self.k).beam_width(self.beam_width)
    }
}

/// Mean recall over the queries of an index that holds the rows `inside` under their numbers, against the exact
/// neighbors among these.
pub fn recall<T: Element>(
    index: &Index,
    rows: MatrixView<'_, T>,
    inside: &[Key],
    queries: MatrixView<'_, T>,
    params: SearchParams<'_>,
) -> Result<f64, Box<dyn Error>> {
    let held = gather(rows, inside);
    let pool = ThreadPoolBuilder::new().build()?;
    // More than k neighbors are found, so that ties with the k-th are recognized.
    let depth = (2 * params.k).min(inside.len());
    let truth = exact_knn(view(&held, rows), queries, depth, index.stats().metric, &pool, &mut no_progress)?;
    let matches = index.search_batch(queries, params)?;
    let recalls = matches.iter().enumerate().map(|(query, hits)| {
        let Truth { ids, distances } = truth.truth(query);
        let ids: Vec<u32> = ids.iter().map(|&id| inside[id as usize] as u32).collect();
        let answers: Vec<Key> = hits.map(|hit| hit.key).collect();
        recall_at(params.k, &answers, Truth { ids: &ids, distances })
    });
    Ok(recalls.sum::<f64>() / queries.len() as f64)
}

/// The rows of some keys, one after another.
fn gather<T: Element>(rows: MatrixView<'_, T>, keys: &[Key]) -> Vec<T> {
    keys.iter().flat_map(|&key| rows.row(key as usize)).copied().collect()
}

/// A view of gathered rows with the dimension of `from`.
fn view<'a, T: Element>(gathered: &'a [T], from: MatrixView<'_, T>) -> MatrixView<'a, T> {
    MatrixView::new(gathered, from.dimension()).expect("whole rows of a valid dimension")
}
