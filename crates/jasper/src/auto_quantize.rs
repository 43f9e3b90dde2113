//! The quantization trial: chooses between exact distances and several quantizations by measuring.
//!
//! Sampled vectors are held out, as in [`crate::tune`], and searched for exactly and with one quantization after another,
//! at the narrowest beam that reaches the recall of an exact search with a beam of 128, or 32 on a CPU. What costs least is
//! kept or, where costs are estimates, a robust one of those that may cost least. Counts of hops and distances are weighed,
//! and nothing is timed, so the choice does not depend on the load of the machine.
//!
//! Training and encoding take nearly all of the time, so what cannot win is not tried. The counts of exact searches tell
//! what each quantization would cost if its estimates were exact. They are tried in this order, until the next would cost
//! more than the best one does. True neighbors are those of wide exact searches, because brute force would take as long as
//! a build.
//!
//! **On a GPU**, the cost is the bytes that searches read, in whole sectors of memory: the edges of expanded vertices,
//! the codes or vectors of visited ones, and the vectors of reranked ones. An estimate takes longer than reading its code,
//! which counts as the bytes of vectors that are read in that time.
//!
//! **On a CPU**, bytes do not decide: codes of several planes read few of them and take many instructions, and a vector
//! of bytes is compared as fast as a code. The cost is an estimate of the time, from counts of
//! steps whose times were measured once (docs/notebook/experiments.md#cpu-the-times-of-the-trial-after-the-prefetches).

use std::cell::Cell;
use std::sync::Arc;

use jasper_core::{Cancelled, Key, Progress, ProgressFn, Slot, Stage};
use jasper_quant::{Layout, Quantization, Quantizer, SECTOR_BYTES};
use jasper_vamana::{Distances, Matches, SearchError, SearchParams, SearchReport, UpdateError};

use crate::error::{Error, Result};
use crate::inner::{CodeCheck, IndexInner};
use crate::journal::{Change, Record};
use crate::tune::error::TuneError;
use crate::tune::{HeldOut, least_width};
use crate::{Device, backend};

/// The result of [`Index::quantize`](crate::Index::quantize).
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct QuantizeReport {
    /// The quantization that the index has now; `None` if it has no codes.
    pub quantization: Option<Quantization>,
    /// How [`QuantizeMode::Auto`](crate::QuantizeMode::Auto) chose it.
    pub trial: Option<QuantizeTrial>,
}

/// The trial of several quantizations, of which the one whose searches cost least is kept, or none if exact searches do.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct QuantizeTrial {
    /// Recall@10 that every search had to reach, of what exact searches with a beam of 512 find.
    pub recall: f64,
    /// What costs are measured in.
    pub unit: CostUnit,
    /// Cost of an exact search, per query.
    pub exact_cost: f64,
    /// The results, one per quantization that was tried: others would cost more even at the recall of exact distances.
    pub tried: Vec<TriedQuantization>,
}

/// What the cost of a search is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum CostUnit {
    /// Bytes of vectors and edges that a GPU reads in the time of a search.
    Bytes,
    /// Estimated time of a search on a CPU core.
    Nanoseconds,
}

/// The result of one quantization that was tried.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TriedQuantization {
    /// The quantization.
    pub quantization: Quantization,
    /// Bytes per code.
    pub bytes: usize,
    /// The narrowest beam that reached the recall; `None` if the widest did not, or the codes lose most neighbors of
    /// some vectors.
    pub beam_width: Option<usize>,
    /// Cost of a search with this beam, per query.
    pub cost: Option<f64>,
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
/// Memory that a quantization trial takes for its queries and their searches, besides training and codes: the measured
/// difference between the peaks of builds with and without a trial.
pub(crate) const QUANTIZATION_TRIAL_BYTES: u64 = 10 << 20;
/// Memory that the sampling of queries takes per vector.
pub(crate) const QUANTIZATION_TRIAL_ROW_BYTES: u64 =
    (2 * size_of::<Slot>() + size_of::<(Slot, Key)>()) as u64;
/// Hits per query.
const K: usize = 10;
/// Sampled queries.
const QUERIES: usize = 400;
const SEED: u64 = 2;
/// The largest beam width that is tried.
const WIDEST: usize = 512;
/// Tolerance of the recall, which is no more precise than this for a few hundred queries.
const SLACK: f64 = 0.001;

/// On a GPU, the time of an estimate, in the time that vectors of the same bytes are read in
/// (docs/notebook/experiments.md#gpu-what-an-estimate-costs).
const CODE_TIME: f64 = 3.8;
/// Time of a hop of a search on a CPU core. This and the times that follow are fitted to measurements.
const HOP_NS: f64 = 150.0;
/// Time of a distance, with its insertion into the frontier.
const DISTANCE_NS: f64 = 14.5;
/// Time of each cache line that a distance reads.
const LINE_NS: f64 = 2.3;
/// Time of each 64 dimensions of a vector, or of a plane of a code.
const GROUP_NS: f64 = 1.6;
/// Time of the projection of a query to the dimensions of mixed codes, per coordinate.
const PROJECTION_NS: f64 = 11.4;
/// The relative error of costs: of two that differ by less, either may be the least.
const COST_ERROR: f64 = 0.1;
const LINE_BYTES: usize = 64;
const GROUP: usize = 64;

impl CostUnit {
    /// What searches on `device` are limited by.
    fn of(device: Device) -> Self {
        // Without a GPU or its driver, `ordinals` is an error.
        let is_cpu = device.is_cpu()
            || device.is_auto() && backend::ordinals().map_or(true, |devices| devices.is_empty());
        if is_cpu { Self::Nanoseconds } else { Self::Bytes }
    }

    /// The cost of expanding a vertex.
    fn hop(self, max_degree: usize) -> f64 {
        match self {
            Self::Bytes => (max_degree * size_of::<u32>()) as f64,
            Self::Nanoseconds => HOP_NS,
        }
    }

    /// The cost of a distance to a vector or code of this size, with this number of [`GROUP`]s of dimensions.
    fn distance(self, bytes: usize, groups: usize) -> f64 {
        match self {
            Self::Bytes => bytes.next_multiple_of(SECTOR_BYTES) as f64,
            Self::Nanoseconds => {
                DISTANCE_NS + bytes.div_ceil(LINE_BYTES) as f64 * LINE_NS + groups as f64 * GROUP_NS
            }
        }
    }

    /// The cost of an estimated distance.
    fn estimate(self, layout: &Layout) -> f64 {
        let groups = layout.planes().iter().map(|plane| plane.dimensions.div_ceil(GROUP));
        self.code(layout.bytes(), groups.sum())
    }

    /// The cost of a distance to a code of this size, with this number of [`GROUP`]s of dimensions.
    fn code(self, bytes: usize, groups: usize) -> f64 {
        let read = self.distance(bytes, groups);
        match self {
            Self::Bytes => CODE_TIME * read,
            Self::Nanoseconds => read,
        }
    }

    /// The cost of quantizing a query.
    fn query(self, quantization: Quantization, dimension: usize) -> f64 {
        match (self, quantization) {
            (Self::Nanoseconds, Quantization::Mixed { .. }) => dimension as f64 * PROJECTION_NS,
            _ => 0.0,
        }
    }

    /// The beam width of the exact searches whose recall must be reached.
    fn beam_width(self) -> usize {
        match self {
            // Queries of difficult data need such beams. At narrower ones, codes cost least that reach no high recall.
            Self::Bytes => 128,
            // Users of a CPU take narrower beams, at which coarse codes lose more recall.
            Self::Nanoseconds => 32,
        }
    }
}

impl IndexInner {
    pub(crate) fn auto_quantize(
        &self,
        device: Device,
        progress: &mut ProgressFn<'_>,
    ) -> Result<QuantizeReport> {
        self.change_codes(progress, |change, progress| {
            self.choose_codes(CostUnit::of(device), change, progress)
        })
    }
}

impl IndexInner {
    /// Tries candidates. Returns the trial, and the quantizer of each candidate whose codes were not refused.
    fn try_candidates(
        &self,
        unit: CostUnit,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(QuantizeTrial, Vec<Arc<dyn Quantizer>>)> {
        step(0, progress)?;
        let (held_out, vertices) = HeldOut::sampled(self, QUERIES, K, SEED, |queries, k| {
            let params = SearchParams::new(k).beam_width(WIDEST).distances(Distances::Exact);
            let mut matches = Matches::new(queries.len(), k)?;
            self.backend.search_batch(queries, params, matches.as_mut())?;
            Ok(matches.iter().map(|hits| hits.map(|hit| (hit.key, hit.distance)).collect()).collect())
        })?;
        if held_out.len() < 2 {
            return Err(TuneError::TooFew.into());
        }
        self.without_edges(&vertices, || {
            let (recall, _) = self.recall(&held_out, unit.beam_width(), Distances::Exact)?;
            let (dimension, queries) = (self.dimension, held_out.len() as f64);
            let hop = unit.hop(self.params().max_degree());
            let row_bytes = self.backend.read(|graph| graph.vectors().row_bytes());
            let vector = unit.distance(row_bytes, dimension.div_ceil(GROUP));
            // The narrowest beam that reaches the recall, and what its searches did.
            let narrowest = |distances, widest| {
                let last = Cell::default();
                let width = least_width(1, widest, |width| {
                    let (found, report) = self.recall(&held_out, width, distances)?;
                    let reaches = found + SLACK >= recall;
                    if reaches {
                        last.set(Some(report));
                    }
                    Ok::<_, Error>(reaches)
                })?;
                Ok::<_, Error>(width.zip(last.take()))
            };
            // The cost of a query, if a visited vertex costs `visited`.
            let cost = |report: &SearchReport, visited: f64| {
                let all = report.cost.hops as f64 * hop
                    + (report.cost.distances - report.reranked) as f64 * visited
                    + report.reranked as f64 * vector;
                all / queries
            };
            let (width, exact) = narrowest(Distances::Exact, unit.beam_width())?
                .expect("the widest of these beams gave the recall");
            let exact_cost = cost(&exact, vector);
            // Codes visit about as many vertices as exact distances at best, and rerank the beam.
            let floor = |quantization: Quantization| {
                let code = unit.code(quantization.bytes(dimension), 0);
                unit.query(quantization, dimension) + cost(&exact, code) + width as f64 * vector
            };
            let mut candidates = CANDIDATES.map(|quantization| (quantization, floor(quantization)));
            candidates.sort_by(|(_, a), (_, b)| a.total_cmp(b));
            let (mut tried, mut quantizers, mut least) = (Vec::new(), Vec::new(), exact_cost);
            self.backend.change(|graph| graph.drop_codes())?;
            for (i, (quantization, floor)) in candidates.into_iter().enumerate() {
                if floor > least * (1.0 + COST_ERROR) {
                    break;
                }
                step(1 + i, progress)?;
                // Only the codes of one candidate are in memory at a time.
                self.backend.change(|graph| graph.drop_codes())?;
                match self.encode_locked(quantization, CodeCheck::Refuse, progress) {
                    // Some vectors would not be found, which a wider beam hides in the mean.
                    Err(UpdateError::CodesLose { .. }) => {
                        let bytes = quantization.bytes(dimension);
                        tried.push(TriedQuantization { quantization, bytes, beam_width: None, cost: None });
                        continue;
                    }
                    codes => self.set_codes_locked(codes?)?,
                }
                let quantizer = self.quantizer().expect("just quantized");
                let (bytes, estimate) = (quantizer.layout().bytes(), unit.estimate(quantizer.layout()));
                quantizers.push(quantizer);
                let estimated = Distances::Quantized { rerank: usize::MAX };
                let (beam_width, report) = narrowest(estimated, WIDEST)?.unzip();
                let cost = report.map(|report| cost(&report, estimate) + unit.query(quantization, dimension));
                least = cost.map_or(least, |cost| cost.min(least));
                tried.push(TriedQuantization { quantization, bytes, beam_width, cost });
            }
            step(1 + CANDIDATES.len(), progress)?;
            Ok((QuantizeTrial { recall, unit, exact_cost, tried }, quantizers))
        })
    }

    /// Mean recall of all held-out queries, and the report of their searches.
    fn recall(
        &self,
        held_out: &HeldOut,
        width: usize,
        distances: Distances,
    ) -> Result<(f64, SearchReport), SearchError> {
        let mut sum = SearchReport::default();
        let mut recall = 0.0;
        for half in held_out.halves() {
            recall += half.recall(K, width, |queries, params, matches| {
                let report = self.backend.search_batch(queries, params.distances(distances), matches)?;
                sum += report;
                Ok(report)
            })? / 2.0;
        }
        Ok((recall, sum))
    }
}

impl IndexInner {
    fn choose_codes(
        &self,
        unit: CostUnit,
        change: &mut Change<'_>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<QuantizeReport> {
        let index = self;
        index.backend.require_one_graph("trying quantizations")?;
        index.backend.read(|graph| graph.require_vectors())?;
        let before = index.quantizer();
        let trial = index.try_candidates(unit, progress);
        let chosen = trial.as_ref().map_or(None, |(trial, _)| choose(unit, trial.exact_cost, &trial.tried));
        let now = index.quantizer();
        let is_before = before.zip(now.as_ref()).is_some_and(|(before, now)| Arc::ptr_eq(&before, now));
        // The codes that were tried last are often those chosen.
        let is_chosen = now.is_some_and(|now| Some(now.quantization()) == chosen);
        if !is_before && !is_chosen {
            index.backend.change(|graph| graph.drop_codes())?;
        }
        let (trial, quantizers) = trial?;
        if let Some(chosen) = chosen {
            if let Err(error) = change.log(&Record::Quantize(chosen)) {
                index.backend.change(|graph| graph.drop_codes())?;
                return Err(error.into());
            }
            if !is_chosen {
                // Its codes were dropped for those of a later candidate. There is one graph.
                let quantizer = quantizers.into_iter().find(|quantizer| quantizer.quantization() == chosen);
                let quantizer = quantizer.expect("trained in the trial");
                let codes = index.encode_shard(&*index.backend, quantizer, CodeCheck::Skip, progress)?;
                index.set_codes_locked(vec![codes])?;
            }
        }
        Ok(QuantizeReport { quantization: chosen, trial: Some(trial) })
    }
}

/// The quantization that costs least, if it costs less than exact distances. Of those that may cost least, one whose
/// estimates are as good for queries that are unlike the vectors: on a CPU, RaBitQ before mixed codes, and then the
/// narrowest beam.
fn choose(unit: CostUnit, exact_cost: f64, tried: &[TriedQuantization]) -> Option<Quantization> {
    let cost = |tried: &TriedQuantization| tried.cost.unwrap_or(f64::INFINITY);
    let least = tried.iter().map(cost).fold(f64::INFINITY, f64::min);
    let most = least * (1.0 + COST_ERROR);
    let may_be_least = tried.iter().filter(|tried| cost(tried) <= most && cost(tried) < exact_cost);
    let is_mixed = |tried: &TriedQuantization| matches!(tried.quantization, Quantization::Mixed { .. });
    may_be_least
        .min_by_key(|tried| (unit == CostUnit::Nanoseconds && is_mixed(tried), tried.beam_width))
        .map(|tried| tried.quantization)
}

fn step(done: usize, progress: &mut ProgressFn<'_>) -> Result<(), Cancelled> {
    Progress { stage: Stage::Tuning, done, total: CANDIDATES.len() + 1 }.report(progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_do_not_make_a_gpu_of_the_cpu() {
        let device = Device::CPU.sharded(true).vector_storage(jasper_vamana::MemorySpace::Host);
        assert_eq!(CostUnit::of(device), CostUnit::Nanoseconds);
        assert_eq!(CostUnit::of(Device::cuda(0)), CostUnit::Bytes);
    }

    #[test]
    fn on_a_gpu_codes_cost_more_than_to_read_them() {
        let [gpu, cpu] = [CostUnit::Bytes, CostUnit::Nanoseconds];
        assert_eq!(gpu.code(40, 1), CODE_TIME * 64.0);
        assert_eq!(cpu.code(40, 1), cpu.distance(40, 1));
    }

    #[test]
    fn of_codes_that_may_cost_least_a_robust_one_with_a_narrow_beam_is_chosen() {
        let [mixed, small, large] = [
            Quantization::Mixed { sectors: 2 },
            Quantization::Rabitq { bits: 2 },
            Quantization::Rabitq { bits: 4 },
        ];
        let trial =
            |quantization, beam_width, cost| TriedQuantization { quantization, bytes: 64, beam_width, cost };
        let tried = [
            trial(mixed, Some(36), Some(100.0)),
            trial(small, Some(31), Some(105.0)),
            trial(large, Some(27), Some(109.0)),
            trial(Quantization::Rabitq { bits: 1 }, None, None),
        ];
        assert_eq!(choose(CostUnit::Nanoseconds, 150.0, &tried), Some(large));
        assert_eq!(choose(CostUnit::Nanoseconds, 107.0, &tried), Some(small));
        assert_eq!(choose(CostUnit::Nanoseconds, 100.0, &tried), None);
        let wide = trial(small, Some(40), Some(100.0));
        assert_eq!(choose(CostUnit::Nanoseconds, 150.0, &[tried[0], wide]), Some(small));
        assert_eq!(choose(CostUnit::Bytes, 150.0, &[tried[0], wide]), Some(mixed));
        let far = [tried[0], trial(large, Some(27), Some(111.0)), tried[3]];
        assert_eq!(choose(CostUnit::Nanoseconds, 150.0, &far), Some(mixed));
        assert_eq!(choose(CostUnit::Nanoseconds, 150.0, &tried[3..]), None);
    }
}
