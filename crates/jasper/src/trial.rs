//! Which code suits an index: tried on it.
//!
//! ```
//! use jasper::{Index, MatrixView, Metric, no_progress, synthetic::Clusters};
//!
//! let rows: Vec<f32> = Clusters::new(64, 7).rows(3000, 0);
//! let mut index = Index::builder(Metric::L2).build(&MatrixView::new(&rows, 64)?)?;
//! let trial = index.quantize_by_trial(&mut no_progress)?;
//! assert_eq!(index.stats().quantization, Some(trial.chosen));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Rows of the index are held out, as [`crate::tune`] does, and searched for with every code in turn, at the least beam
//! width whose recall is that of the default search by exact distances. The code that asks for the fewest bytes a query
//! is kept: edges of what is expanded, codes of what is met, vectors of what is reranked, in whole sectors of memory. On a
//! GPU bytes are what searches wait for; on a processor they are where rows are long. Nothing is timed, so that the
//! same index gets the same code whatever else a machine does.

use std::cell::Cell;
use std::sync::Arc;

use jasper_core::{Element, Progress, ProgressFn, Stage, padded_len};
use jasper_graph::Graph;
use jasper_quant::{Quantization, SECTOR_BYTES};
use jasper_vamana::{Distances, QuantizeError, SearchReport};

use crate::Index;
use crate::tune::{HeldOut, TuneError, least_width};

/// What [`Index::quantize_by_trial`] found.
#[derive(Clone, Debug, PartialEq)]
pub struct CodeTrial {
    /// The code that is kept.
    pub chosen: Quantization,
    /// Recall@10 that all were to reach.
    pub recall: f64,
    /// Bytes that a query by exact distances asks for.
    pub exact_bytes_per_query: f64,
    /// What each code did.
    pub tried: Vec<CodeTried>,
}

/// What a code did in a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodeTried {
    /// Which code.
    pub code: Quantization,
    /// Bytes of a code.
    pub bytes: usize,
    /// The least beam width that reached the recall, and the bytes that a query asks for there; none where the widest tried
    /// did not reach it.
    pub reached: Option<(usize, f64)>,
}

/// No code was found. The index is as it was, but has no codes any more where some were tried.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// Nothing could be held out, or a search failed.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// Rows could not be coded.
    #[error(transparent)]
    Quantize(#[from] QuantizeError),
    /// No code reaches the recall.
    #[error(
        "no code reaches recall@{K} of {recall:.4} with a beam of {WIDEST}; name one with `Index::quantize`, or search by exact distances"
    )]
    Unreached {
        /// Recall asked for.
        recall: f64,
    },
}

/// Codes that are tried, the smallest of each kind first.
pub(crate) const CODES: [Quantization; 6] = [
    Quantization::Mixed { sectors: 1 },
    Quantization::Mixed { sectors: 2 },
    Quantization::Mixed { sectors: 4 },
    Quantization::Rabitq { bits: 1 },
    Quantization::Rabitq { bits: 2 },
    Quantization::Rabitq { bits: 4 },
];
/// Answers a query.
const K: usize = 10;
/// Rows held out.
const QUERIES: usize = 400;
const SEED: u64 = 2;
/// The beam of exact distances whose recall is to be reached, and the widest that codes may have for it: one that needs
/// more is no bargain.
const BEAM_WIDTH: usize = 64;
const WIDEST: usize = 512;
/// Recall of a few hundred queries is no surer than this.
const SLACK: f64 = 0.001;

impl<T: Element> Index<T> {
    /// Codes all vectors with the code that suits them best: see [`crate::trial`]. Codes that were there are replaced.
    ///
    /// Cost: seven times [`Self::quantize`], some tens of searches of 400 queries with each code, and a distance between each
    /// of those and every vector.
    ///
    /// # Errors
    /// [`TrialError`]; the index is as it was, but has no codes any more where some were tried.
    pub fn quantize_by_trial(&mut self, progress: &mut ProgressFn<'_>) -> Result<CodeTrial, TrialError> {
        self.graph.require_vectors().map_err(QuantizeError::from)?;
        let quantizer = |graph: &Graph<T>| graph.vectors().codes().map(|codes| codes.quantizer().clone());
        let before = quantizer(&self.graph);
        self.graph.begin();
        let tried = self.try_codes(progress);
        // Rows that were held out lead on again.
        self.graph.rollback();
        if !before.zip(quantizer(&self.graph)).is_some_and(|(before, now)| Arc::ptr_eq(&before, &now)) {
            self.graph.clear_codes();
        }
        let (recall, exact_bytes_per_query, tried) = tried?;
        let reached = tried.iter().filter_map(|tried| Some((tried.code, tried.reached?.1)));
        let (chosen, _) =
            reached.min_by(|a, b| a.1.total_cmp(&b.1)).ok_or(TrialError::Unreached { recall })?;
        self.quantize(chosen)?;
        Ok(CodeTrial { chosen, recall, exact_bytes_per_query, tried })
    }

    /// The recall to reach, the bytes of exact searches, and what each code did.
    fn try_codes(&mut self, progress: &mut ProgressFn<'_>) -> Result<(f64, f64, Vec<CodeTried>), TrialError> {
        let step = |done, progress: &mut ProgressFn<'_>| {
            Progress { stage: Stage::Tuning, done, total: CODES.len() + 1 }
                .report(progress)
                .map_err(TuneError::from)
        };
        step(0, progress)?;
        let held_out = HeldOut::sampled(self, QUERIES, K, SEED, progress)?;
        let (recall, exact) = self.recall(&held_out, BEAM_WIDTH, Distances::Exact)?;
        let row = sectors(padded_len::<T>(self.dimension()) * size_of::<T>());
        let exact_bytes = self.bytes(&exact, row, row) / held_out.len() as f64;
        let mut tried = Vec::new();
        for (i, code) in CODES.into_iter().enumerate() {
            step(1 + i, progress)?;
            // One code's memory at a time.
            self.graph.clear_codes();
            self.quantize(code)?;
            let bytes = self.graph.vectors().codes().map_or(0, |codes| codes.quantizer().layout().bytes());
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
            tried.push(CodeTried { code, bytes, reached: width.map(|width| (width, per_query)) });
        }
        step(1 + CODES.len(), progress)?;
        Ok((recall, exact_bytes, tried))
    }

    /// Mean recall of all held out, and what their searches took.
    fn recall(
        &self,
        held_out: &HeldOut<T>,
        width: usize,
        distances: Distances,
    ) -> Result<(f64, SearchReport), TuneError> {
        let mut sum = SearchReport::default();
        let mut recall = 0.0;
        for half in held_out.halves() {
            recall += half.recall(K, width, |queries, params, hits| {
                let report = self.search_into(queries, params.distances(distances), hits)?;
                sum += report;
                Ok(report)
            })? / 2.0;
        }
        Ok((recall, sum))
    }

    /// Bytes that searches asked for, where what is met takes `met` and what is reranked `reranked`.
    fn bytes(&self, report: &SearchReport, met: usize, reranked: usize) -> f64 {
        let links = self.params().max_degree() * size_of::<u32>();
        let met = (report.cost.distances - report.reranked) * met as u64;
        (report.cost.hops * links as u64 + met + report.reranked * reranked as u64) as f64
    }
}

/// Bytes of the sectors that so many bytes lie in.
fn sectors(bytes: usize) -> usize {
    bytes.next_multiple_of(SECTOR_BYTES)
}
