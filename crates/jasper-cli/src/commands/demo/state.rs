//! The index of the demonstration, and the vectors it should hold.

use std::collections::HashSet;

use anyhow::Result;
use jasper::{Index, Key, MatrixView, Metric, SearchParams};
use jasper_core::no_progress;
use jasper_core::recall::mean_recall;
use jasper_core::synthetic::permutation;
use jasper_data::{GroundTruth, ThreadPool, exact_knn, pool_builder};

use super::dictionary::Entries;
use crate::terminal::timed;

/// Neighbors per query.
pub const K: usize = 10;

/// An index, and the vectors that it should hold.
pub struct State {
    /// The index.
    pub index: Index,
    vectors: Vec<f32>,
    keys: Vec<Key>,
    pool: ThreadPool,
}

impl State {
    /// The state of an index just built over `entries`, whose keys are their positions. Brute force uses `threads`
    /// threads.
    pub fn new(index: Index, entries: &Entries, threads: Option<usize>) -> Result<Self> {
        let keys = (0..entries.texts.len() as Key).collect();
        Ok(Self { index, vectors: entries.vectors.clone(), keys, pool: pool_builder(threads).build()? })
    }

    /// The true neighbors of `queries` among the current vectors, by brute force, and the time in seconds. Ids are
    /// keys.
    pub fn truth(&self, queries: MatrixView<'_, f32>, k: usize) -> Result<(GroundTruth, f64)> {
        self.exact(&self.vectors, &self.keys, queries, k)
    }

    /// [`Self::truth`] among the vectors whose keys are allowed.
    pub fn truth_among(
        &self,
        allows: &dyn Fn(Key) -> bool,
        queries: MatrixView<'_, f32>,
        k: usize,
    ) -> Result<(GroundTruth, f64)> {
        let kept: Vec<usize> = (0..self.keys.len()).filter(|&row| allows(self.keys[row])).collect();
        let keys: Vec<Key> = kept.iter().map(|&row| self.keys[row]).collect();
        self.exact(&self.gather(&kept), &keys, queries, k)
    }

    fn exact(
        &self,
        vectors: &[f32],
        keys: &[Key],
        queries: MatrixView<'_, f32>,
        k: usize,
    ) -> Result<(GroundTruth, f64)> {
        let base = MatrixView::new(vectors, self.index.dimension())?;
        let search = || exact_knn(base, queries, k, Metric::Cosine, &self.pool, &mut no_progress);
        let (rows, seconds) = timed(search);
        let rows = rows?;
        let keys = rows.ids().iter().map(|&row| keys[row as usize] as u32).collect();
        Ok((GroundTruth::new(k, keys, rows.distances().map(<[f32]>::to_vec))?, seconds))
    }

    /// The vectors of some rows.
    fn gather(&self, rows: &[usize]) -> Vec<f32> {
        let dimension = self.index.dimension();
        rows.iter().flat_map(|row| &self.vectors[row * dimension..][..dimension]).copied().collect()
    }

    /// Recall against the current true neighbors.
    pub fn recall(&self, queries: MatrixView<'_, f32>, beam_width: usize) -> Result<f64> {
        let (truth, _) = self.truth(queries, K)?;
        let params = SearchParams::new(K).beam_width(beam_width);
        let matches = self.index.search_batch(queries, params)?;
        Ok(mean_recall(matches.keys(), K, |query| truth.truth(query)))
    }

    /// Inserts entries under the next keys.
    pub fn insert(&mut self, entries: &Entries) -> Result<()> {
        let attributes = entries.attributes()?;
        let report = self.index.insert(entries.view(), &attributes)?;
        self.vectors.extend_from_slice(&entries.vectors);
        self.keys.extend((report.first_key.unwrap_or(0)..).take(report.keys));
        Ok(())
    }

    /// Deletes a random tenth of all keys.
    pub fn delete_tenth(&mut self) -> Result<()> {
        let chosen = permutation(self.keys.len(), 1);
        let gone: Vec<Key> = chosen[..chosen.len() / 10].iter().map(|&row| self.keys[row as usize]).collect();
        self.index.delete(&gone)?;
        let gone: HashSet<Key> = gone.into_iter().collect();
        let kept: Vec<usize> = (0..self.keys.len()).filter(|&row| !gone.contains(&self.keys[row])).collect();
        self.vectors = self.gather(&kept);
        self.keys.retain(|key| !gone.contains(key));
        Ok(())
    }
}
