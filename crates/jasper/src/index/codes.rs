//! Quantized codes next to the vectors, or instead of them; tuned searches.

use jasper_graph::TunedSearch;
use jasper_quant::Quantization;
use jasper_vamana::{CodeReport, SearchParams, UpdateError};

use super::{Index, typed};
use crate::DeviceChoice;
use crate::error::{AutoQuantizeError, TuneError};
use crate::report::QuantizeReport;
use crate::tune::{Goal, TuneQueries, TuneReport};

impl Index {
    /// Quantizes all vectors, replacing any existing codes. Searches then traverse the graph with estimated distances,
    /// at a fraction of the memory traffic, and rerank their candidates by exact ones; see [`crate::Distances`].
    ///
    /// Codes are updated with every change, and saved. The quantizer is trained on the current vectors: if the data
    /// drifts, call this again (see [`Self::measure_code_error`]).
    ///
    /// Codes that do not tell near vectors apart are refused. In a sample of 32,768 vectors, or all, the 10 nearest
    /// neighbors of 256 of them must be among one in 64 vectors (but no fewer than 64) that are nearest by code. A vector
    /// of which less than 4 are is lost to searches, even with wide beams, and more than 2% are too many. Data of few
    /// far clusters, or of tight ones among others, is like this: the error of a code is in proportion to the distance
    /// of its vector from the mean of all. [`Self::force_quantize`] takes such codes, too.
    ///
    /// Takes seconds of training on the CPU and the time of about one search per vector. The codes take
    /// [`crate::IndexStats::code_bytes`] of memory, and as much on a CUDA device. Searches continue meanwhile, with the
    /// existing codes; changes wait.
    ///
    /// # Errors
    /// Returns [`UpdateError`], which is [`UpdateError::CodesLose`] if codes are refused; the index is unchanged, but
    /// has no codes if the device had no room for them.
    pub fn quantize(&self, quantization: Quantization) -> Result<(), UpdateError> {
        typed!(self, index => index.quantize(quantization, &mut self.progress.report()))
    }

    /// Quantizes as [`Self::quantize`] does, whatever neighbors searches will lose.
    ///
    /// # Errors
    /// Returns [`UpdateError`]; the index is unchanged, but has no codes if the device had no room for them.
    pub fn force_quantize(&self, quantization: Quantization) -> Result<(), UpdateError> {
        typed!(self, index => index.force_quantize(quantization, &mut self.progress.report()))
    }

    /// Tries several quantizations, and quantizes all vectors with the one whose searches cost least on `device`, where
    /// the index need not be; if exact searches cost less, leaves the index without codes. [`DeviceChoice::Auto`] is a
    /// GPU if there is one. On a CPU, where costs are estimates, codes that cost up to a tenth more count as well: of
    /// these RaBitQ is chosen, if there is one, with the narrowest beam. Replaces existing codes.
    ///
    /// ```
    /// use jasper::{IndexBuilder, MatrixView, Metric, bench::synthetic::Clusters};
    ///
    /// let vectors: Vec<f32> = Clusters::new(256, 7).rows(3000, 0);
    /// let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&vectors, 256)?)?;
    /// let report = index.auto_quantize(index.device())?;
    /// assert_eq!(index.quantization(), report.chosen);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// 400 sampled vectors are searched for exactly and with each quantization, at the narrowest beam that reaches the
    /// recall of an exact search with a beam of 64, or 32 on a CPU, where what exact searches with a beam of 512 find
    /// counts as true. Costs are [estimated from counts](crate::report::CostUnit), and nothing is timed: the same index gets the same
    /// quantization on any GPU, and on any CPU.
    ///
    /// A quantization is tried if it would cost less than the best one so far, should its searches visit no more vertices
    /// than exact ones: usually one or two for a GPU, more for a CPU. Each takes the time of [`Self::quantize`] and dozens
    /// of searches of 400 queries. Changes wait meanwhile; searches continue, with the codes being tried.
    ///
    /// # Errors
    /// Returns [`AutoQuantizeError`], also if the index has several shards; the index is as it was, but without codes if
    /// some were tried.
    pub fn auto_quantize(
        &self,
        device: impl Into<DeviceChoice>,
    ) -> Result<QuantizeReport, AutoQuantizeError> {
        self.choose_codes(device.into())
    }

    fn choose_codes(&self, device: DeviceChoice) -> Result<QuantizeReport, AutoQuantizeError> {
        typed!(self, index => index.auto_quantize(device, &mut self.progress.report()))
    }

    /// Drops the codes. Searches are exact again.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if the index has codes only, or is durable and the change cannot be written to its
    /// journal ([`UpdateError::Journal`]).
    pub fn drop_codes(&self) -> Result<(), UpdateError> {
        typed!(self, index => index.drop_codes())
    }

    /// Drops the vectors of a [quantized](Self::quantize) index, which are most of its memory. Searches return
    /// estimated distances, and keys can be deleted and restored; inserts, consolidation and quantizing are refused.
    ///
    /// # Errors
    /// Returns [`UpdateError::NoCodes`], or [`UpdateError::Journal`] if the index is durable and the change cannot be
    /// written to its journal; the index is unchanged.
    pub fn drop_vectors(&self) -> Result<(), UpdateError> {
        typed!(self, index => index.drop_vectors())
    }

    /// Measures the error of the codes on a sample of the current vectors, and the error of newly trained codes.
    /// Returns `None` if there are no codes or no vectors.
    ///
    /// If [`CodeReport::has_drifted`], quantizing again is worth its time.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if no quantizer can be trained on the vectors, the device failed, or the index has
    /// several shards ([`DeviceError::Sharded`](crate::DeviceError::Sharded)).
    pub fn measure_code_error(&self) -> Result<Option<CodeReport>, UpdateError> {
        typed!(self, index => index.measure_code_error())
    }

    /// Speeds up exact searches of f32 vectors on the CPU, with the same results. Stores a sketch of each vector, with
    /// one byte per coordinate, which rules out most vectors without reading them. Sketches take a quarter of the
    /// vectors' memory. They are updated with every change and not saved. They do nothing for other element types, or
    /// for searches on a CUDA device. Searches continue while they are made; changes wait.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if there is no memory for the sketches.
    pub fn build_sketches(&self) -> Result<(), UpdateError> {
        typed!(self, index => index.build_sketches())
    }

    /// Finds the fastest searches that reach `goal` on the device of the index, and stores them with it: see
    /// [`crate::tune`]. Replaces searches tuned before for the same goal and device.
    ///
    /// Changes wait meanwhile. Searches do not, but their recall is slightly lower if queries are sampled, because the
    /// sampled vectors have no edges meanwhile.
    ///
    /// The cost is dozens of searches of all queries, and a second of timing, or twenty on a GPU. For a sample, the
    /// distance from each of its vectors to every other is also computed.
    ///
    /// # Errors
    /// Returns [`TuneError`], also if queries are sampled and the index has several shards; the index is unchanged.
    pub fn tune(&self, goal: Goal, queries: TuneQueries<'_>) -> Result<TuneReport, TuneError> {
        typed!(self, index => index.tune(goal, queries, &mut self.progress.report()))
    }

    /// Returns the search [tuned](Self::tune) for `goal`, or for the next higher recall, in calls of about `queries`
    /// queries. Returns a search tuned on another device if there is none of this one, and `None` if there is none at
    /// all.
    pub fn tuned(&self, goal: Goal, queries: usize) -> Option<SearchParams<'static>> {
        typed!(self, index => index.tuned(goal, queries))
    }

    /// All tuned searches stored with the index.
    pub fn tuned_searches(&self) -> Vec<TunedSearch> {
        typed!(self, index => index.tuned_searches())
    }
}
