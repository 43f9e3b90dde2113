//! The quantization trial: chooses a quantization by measuring several.
//!
//! Sampled vectors are held out, as in [`crate::tune`], and searched for with each quantization in turn, at the
//! narrowest beam that reaches the recall of the default exact search. The quantization whose searches read the fewest
//! bytes per query is kept. These bytes are the edges of expanded vertices, the codes of visited vertices and the
//! vectors of reranked ones, in whole sectors of memory. They limit searches on a GPU, and on a CPU if vectors are
//! long. Nothing is timed, so the choice does not depend on the load of the machine.

use std::cell::Cell;
use std::sync::Arc;

use jasper_core::{Cancelled, Element, Key, Progress, ProgressFn, Slot, Stage, no_progress, padded_len};
use jasper_graph::Graph;
use jasper_quant::{Quantization, SECTOR_BYTES};
use jasper_vamana::{Distances, SearchReport};

use crate::error::TuneError;
use crate::journal::{Change, Record};
use crate::tune::{HeldOut, least_width};
use crate::{Index, UpdateError, WithProgress};

/// The result of [`Index::auto_quantize`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct QuantizeReport {
    /// The quantization that is kept.
    pub chosen: Quantization,
    /// Recall@10 that every quantization had to reach.
    pub recall: f64,
    /// Bytes that an exact search reads per query.
    pub exact_bytes_per_query: f64,
    /// The results, one per quantization.
    pub tried: Vec<QuantizeTrial>,
}

/// The result of one quantization that was tried.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct QuantizeTrial {
    /// The quantization.
    pub quantization: Quantization,
    /// Bytes per code.
    pub bytes: usize,
    /// The narrowest beam that reached the recall; `None` if the widest did not.
    pub beam_width: Option<usize>,
    /// Bytes that searches with this beam read per query; `None` if no beam reached the recall.
    pub bytes_per_query: Option<f64>,
}

/// The quantizations to try, the smallest of each kind first.
pub(crate) const CANDIDATES: [Quantization; 6] = [
    Quantization::Mixed { sectors: 1 },
    Quantization::Mixed { sectors: 2 },
    Quantization::Mixed { sectors: 4 },
    Quantization::Rabitq { bits: 1 },
    Quantization::Rabitq { bits: 2 },
    Quantization::Rabitq { bits: 4 },
];
/// Memory that a quantization trial takes besides training and codes: its queries and their searches, measured as the
/// difference between the peaks of builds with and without one, ...
pub(crate) const QUANTIZATION_TRIAL_BYTES: u64 = 10 << 20;
/// ... and for each vector, what samples them.
pub(crate) const QUANTIZATION_TRIAL_ROW_BYTES: u64 =
    (2 * size_of::<Slot>() + size_of::<(Slot, Key)>()) as u64;
/// Hits per query.
pub(crate) const K: usize = 10;
/// Sampled queries.
const QUERIES: usize = 400;
const SEED: u64 = 2;
/// The beam width of the exact searches whose recall must be reached, and the largest beam width of a quantized search
/// that reaches it.
const BEAM_WIDTH: usize = 64;
pub(crate) const WIDEST: usize = 512;
/// Tolerance of the recall, which is no more precise than this for a few hundred queries.
const SLACK: f64 = 0.001;

impl<T: Element> Index<T> {
    /// Tries several quantizations, and quantizes all vectors with the one whose searches read the fewest bytes.
    /// Replaces existing codes.
    ///
    /// ```
    /// use jasper::{IndexBuilder, MatrixView, Metric, bench::synthetic::Clusters};
    ///
    /// let vectors: Vec<f32> = Clusters::new(64, 7).rows(3000, 0);
    /// let index = IndexBuilder::new(Metric::L2).build(&MatrixView::new(&vectors, 64)?)?;
    /// let report = index.auto_quantize()?;
    /// assert_eq!(index.quantization(), Some(report.chosen));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// 400 sampled vectors are searched for with each quantization, at the narrowest beam that reaches the recall of
    /// the default exact search. Bytes are counted, not time: the same index gets the same quantization on any machine.
    ///
    /// The cost is seven times that of [`Self::quantize`], dozens of searches of 400 queries with each quantization,
    /// and the distance from each query to every vector. Changes wait meanwhile; searches continue, with the codes
    /// being tried.
    ///
    /// # Errors
    /// Returns [`TuneError`], also if the index has several shards; the index is as it was, but without codes if some
    /// were tried.
    pub fn auto_quantize(&self) -> Result<QuantizeReport, TuneError> {
        self.with_progress(&mut no_progress).auto_quantize()
    }

    /// Returns the recall to reach, the bytes per query of exact searches, and the result of each candidate.
    fn try_candidates(
        &self,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(f64, f64, Vec<QuantizeTrial>), TuneError> {
        step(0, progress)?;
        let (held_out, vertices) = HeldOut::sampled(self, QUERIES, K, SEED, progress)?;
        self.without_edges(&vertices, || {
            let (recall, exact) = self.recall(&held_out, BEAM_WIDTH, Distances::Exact)?;
            let row = sectors(padded_len::<T>(self.dimension()) * size_of::<T>());
            let exact_bytes = self.bytes(&exact, row, row) / held_out.len() as f64;
            let mut tried = Vec::new();
            for (i, quantization) in CANDIDATES.into_iter().enumerate() {
                step(1 + i, progress)?;
                // Only the codes of one candidate are in memory at a time.
                self.backend.change(|graph| graph.drop_codes())?;
                self.quantize_locked(quantization, progress)?;
                let bytes = self.backend.read(|graph| {
                    graph.vectors().codes().map_or(0, |codes| codes.quantizer().layout().bytes())
                });
                let estimated = Distances::Quantized { rerank: usize::MAX };
                let last = Cell::new(SearchReport::default());
                let width = least_width(K, WIDEST, |width| {
                    let (found, report) = self.recall(&held_out, width, estimated)?;
                    let reaches = found + SLACK >= recall;
                    if reaches {
                        last.set(report);
                    }
                    Ok::<_, TuneError>(reaches)
                })?;
                let per_query = self.bytes(&last.get(), sectors(bytes), row) / held_out.len() as f64;
                tried.push(QuantizeTrial {
                    quantization,
                    bytes,
                    beam_width: width,
                    bytes_per_query: width.map(|_| per_query),
                });
            }
            step(1 + CANDIDATES.len(), progress)?;
            Ok((recall, exact_bytes, tried))
        })
    }

    /// Mean recall of all held-out queries, and the report of their searches.
    fn recall(
        &self,
        held_out: &HeldOut<T>,
        width: usize,
        distances: Distances,
    ) -> Result<(f64, SearchReport), TuneError> {
        let mut sum = SearchReport::default();
        let mut recall = 0.0;
        for half in held_out.halves() {
            recall += half.recall(K, width, |queries, params, matches| {
                let report = self.backend.search_matrix(queries, params.distances(distances), matches)?;
                sum += report;
                Ok(report)
            })? / 2.0;
        }
        Ok((recall, sum))
    }

    /// Bytes that searches read: the edges of each expanded vertex, `visited` bytes per visited vertex, and `reranked`
    /// bytes per reranked one.
    fn bytes(&self, report: &SearchReport, visited: usize, reranked: usize) -> f64 {
        let edges = self.params().max_degree() * size_of::<u32>();
        let visited = (report.cost.distances - report.reranked) * visited as u64;
        (report.cost.hops * edges as u64 + visited + report.reranked * reranked as u64) as f64
    }
}

impl<T: Element> WithProgress<'_, &Index<T>> {
    /// See [`Index::auto_quantize`].
    ///
    /// # Errors
    /// Returns [`TuneError`].
    pub fn auto_quantize(self) -> Result<QuantizeReport, TuneError> {
        let Self { inner: index, progress } = self;
        index.change_codes(Change::begin(index.journal.as_ref()), |change| {
            index.choose_codes(change, progress)
        })
    }
}

impl<T: Element> Index<T> {
    fn choose_codes(
        &self,
        change: &mut Change<'_>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<QuantizeReport, TuneError> {
        let index = self;
        index.backend.require_one_graph("trying quantizations").map_err(UpdateError::from)?;
        index.backend.read(|graph| graph.require_vectors()).map_err(UpdateError::from)?;
        let quantizer = |graph: &Graph<T>| graph.vectors().codes().map(|codes| codes.quantizer().clone());
        let before = index.backend.read(quantizer);
        let tried = index.try_candidates(progress);
        if !before.zip(index.backend.read(quantizer)).is_some_and(|(before, now)| Arc::ptr_eq(&before, &now))
        {
            index.backend.change(|graph| graph.drop_codes())?;
        }
        let (recall, exact_bytes_per_query, tried) = tried?;
        let reached = tried.iter().filter_map(|tried| Some((tried.quantization, tried.bytes_per_query?)));
        let (chosen, _) =
            reached.min_by(|a, b| a.1.total_cmp(&b.1)).ok_or(TuneError::NoQuantization { recall })?;
        change.log::<T>(&Record::Quantize(chosen))?;
        index.quantize_locked(chosen, progress)?;
        Ok(QuantizeReport { chosen, recall, exact_bytes_per_query, tried })
    }
}

fn step(done: usize, progress: &mut ProgressFn<'_>) -> Result<(), Cancelled> {
    Progress { stage: Stage::Tuning, done, total: CANDIDATES.len() + 1 }.report(progress)
}

/// Rounds up to whole sectors of memory.
fn sectors(bytes: usize) -> usize {
    bytes.next_multiple_of(SECTOR_BYTES)
}
