//! Quantized codes next to the vectors, or instead of them; tuned searches.

use jasper_quant::Quantization;

use super::Index;
use crate::Device;
#[cfg(doc)]
use crate::ErrorKind;
use crate::QuantizeReport;
use crate::error::Result;
use crate::tune::{Goal, TuneQueries, TuneReport, TunedSearches};

/// How [`Index::quantize`] quantizes vectors. A [`Quantization`] means [`Self::Checked`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantizeMode {
    /// This quantization, unless its codes do not tell near vectors apart.
    ///
    /// In a sample of 32,768 vectors, or all, the 10 nearest neighbors of 256 of them must be among one in 64 vectors (but
    /// no fewer than 64) that are nearest by code. A vector of which less than 4 are is lost to searches, even with wide
    /// beams, and more than 2% are too many. Data of few far clusters, or of tight ones among others, is like this: the
    /// error of a code is in proportion to the distance of its vector from the mean of all.
    Checked(Quantization),
    /// This quantization, whatever neighbors searches will lose.
    Forced(Quantization),
    /// The one of several quantizations whose searches cost least on this device, where the index need not be; or none, if
    /// exact searches cost less. [`Device::AUTO`] is a GPU if there is one, and for
    /// [a builder](crate::IndexBuilder::quantize) the device that builds the index.
    ///
    /// Costs are estimates, and codes that cost up to a tenth more count as well: of these the one with the narrowest beam is
    /// chosen, on a CPU RaBitQ if there is one.
    ///
    /// 400 sampled vectors are searched for exactly and with each quantization, at the narrowest beam that reaches the
    /// recall of an exact search with a beam of 64, or 32 on a CPU, where what exact searches with a beam of 512 find
    /// counts as true. Costs are [estimated from counts](crate::CostUnit), and nothing is timed: the same index
    /// gets the same quantization on any GPU, and on any CPU.
    ///
    /// A quantization is tried if it would cost less than the best one so far, should its searches visit no more vertices
    /// than exact ones: often one or two for a GPU, more for a CPU. Each takes the time of [`Self::Checked`] and dozens of
    /// searches of 400 queries, unless the check refuses it. Changes wait meanwhile; searches continue, with the codes being
    /// tried.
    Auto(Device),
    /// No codes: existing ones are dropped, and searches are exact again.
    None,
    /// Sketches beside the vectors, and beside codes if there are some. They speed up exact searches of f32 vectors on the
    /// CPU, with the same results: one byte per coordinate, a quarter of the vectors' memory, rules out most vectors without
    /// reading them. They are updated with every change and not saved. They do nothing for other element types, or for
    /// searches on a CUDA device.
    Sketches,
}

impl From<Quantization> for QuantizeMode {
    fn from(quantization: Quantization) -> Self {
        Self::Checked(quantization)
    }
}

impl From<Option<Quantization>> for QuantizeMode {
    fn from(quantization: Option<Quantization>) -> Self {
        quantization.map_or(Self::None, Self::Checked)
    }
}

impl Index {
    /// Quantizes all vectors, replacing any existing codes. Searches then traverse the graph with estimated distances,
    /// at a fraction of the memory traffic, and rerank their candidates by exact ones; see [`crate::Distances`].
    /// [`QuantizeMode`] says with which quantization, or drops the codes.
    ///
    /// ```
    /// use jasper::{Device, IndexBuilder, MatrixView, Metric, Quantization, QuantizeMode};
    /// use jasper_core::synthetic::Clusters;
    ///
    /// let vectors: Vec<f32> = Clusters::new(256, 7).rows(3000, 0);
    /// let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&vectors, 256)?)?;
    /// index.quantize(Quantization::Rabitq { bits: 4 })?;
    /// let report = index.quantize(QuantizeMode::Auto(Device::AUTO))?;
    /// assert_eq!(index.stats().quantization, report.quantization);
    /// index.quantize(None)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Codes are updated with every change, and saved. The quantizer is trained on the current vectors: if the data
    /// drifts, call this again (see [`CheckReport::codes`](crate::CheckReport::codes)).
    ///
    /// Takes seconds of training on the CPU and the time of about one search per vector. The codes take
    /// [`crate::IndexStats::code_bytes`] of memory, and as much on a CUDA device. Searches continue meanwhile, with the
    /// existing codes; changes wait.
    ///
    /// # Errors
    /// The index is unchanged, but has no codes if several were tried, or if the device had no room for them. Fails
    /// with
    /// - [`ErrorKind::InvalidInput`] if codes are refused, or there are too few vectors to train on or to try;
    /// - [`ErrorKind::Unsupported`] if vectors were [dropped](Self::drop_vectors);
    /// - [`ErrorKind::Device`] if the device failed, or several quantizations are to be tried and the index has several
    ///   shards; [`ErrorKind::OutOfMemory`] if there is no room;
    /// - [`ErrorKind::Io`] if the index is durable and its journal cannot be written;
    /// - [`ErrorKind::Cancelled`] by the progress callback.
    pub fn quantize(&self, mode: impl Into<QuantizeMode>) -> Result<QuantizeReport> {
        self.quantize_as(mode.into())
    }

    fn quantize_as(&self, mode: QuantizeMode) -> Result<QuantizeReport> {
        self.inner.quantize_as(mode, &mut self.progress.report())
    }

    /// Drops the vectors of a [quantized](Self::quantize) index, which are most of its memory. Searches return
    /// estimated distances, and keys can be deleted and restored; inserts, consolidation and quantizing are refused.
    ///
    /// # Errors
    /// The index is unchanged. Fails with [`ErrorKind::Unsupported`] if there are no codes, or with [`ErrorKind::Io`]
    /// if the index is durable and its journal cannot be written.
    pub fn drop_vectors(&self) -> Result<()> {
        Ok(self.inner.drop_vectors()?)
    }

    /// Finds the fastest searches that reach `goal` on the device of the index, and stores them with it: see
    /// [`crate::tune`]. Replaces searches tuned before for the same goal and device.
    ///
    /// Changes wait meanwhile. Searches do not, but their recall is slightly lower if queries are sampled, because the
    /// sampled vectors have no edges meanwhile.
    ///
    /// The cost is dozens of searches of all queries, and a second of timing, or twenty on a GPU. For a sample,
    /// and for queries without their true neighbors, the distance of each to every vector is also computed.
    ///
    /// # Errors
    /// The index is unchanged. Fails with
    /// - [`ErrorKind::RecallNotReached`] if the widest beam does not reach the recall;
    /// - [`ErrorKind::InvalidParameter`] if `k` or the recall is out of bounds;
    /// - [`ErrorKind::InvalidInput`] if there are too few queries or true neighbors, or they do not match;
    /// - [`ErrorKind::Device`] if the device failed, or the true neighbors of queries are to be found and the index has
    ///   several shards;
    /// - [`ErrorKind::Io`] if the index is durable and its journal cannot be written;
    /// - [`ErrorKind::Cancelled`] by the progress callback.
    pub fn tune(&self, goal: Goal, queries: TuneQueries<'_>) -> Result<TuneReport> {
        self.inner.tune(goal, queries, &mut self.progress.report())
    }

    /// The [tuned](Self::tune) searches stored with the index, and the one for a goal.
    pub fn tuned(&self) -> TunedSearches {
        self.inner.tuned()
    }
}
