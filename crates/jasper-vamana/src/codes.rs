//! Quantizes the vectors of a graph, and measures how well the codes fit.

use std::sync::Arc;

use jasper_core::synthetic::permutation;
use jasper_core::{
    Element, MatrixView, Neighbor, Progress, ProgressFn, Slot, Stage, no_progress, with_element,
};
use jasper_data::parallel;
use jasper_graph::{CodeChunk, Codes, Graph};
use jasper_quant::{CodeTable, EncodeBuffers, Quantization, Quantizer};

use crate::top_k::TopK;
use crate::{CpuExecutor, UpdateError};

/// Maximum number of vectors that a quantizer is trained on and checked with. More would not improve its mean and
/// components.
const SAMPLE_VECTORS: usize = 32_768;

/// Vectors of the sample whose nearest neighbors are looked for by code, to check codes.
const CHECKED_VECTORS: usize = 256;
/// Of these, how many are compared with the sample at a time.
const CHECKED_AT_ONCE: usize = 4;
/// Bytes of the vectors that they are compared with at a time, which stay in a cache.
const CACHED_BYTES: usize = 1 << 17;
/// Neighbors that are looked for.
const CHECKED_NEIGHBORS: usize = 10;
/// A neighbor is found if it is among one in this many that are nearest by code, or among as many as usual beams hold.
const WITHIN_ONE_IN: usize = 64;
const WITHIN_AT_LEAST: usize = 64;
/// A vector of which fewer neighbors than this share are found is lost.
const MIN_KEPT: f64 = 0.4;
/// The share of the vectors that may be lost.
const MAX_LOST: f64 = 0.02;

/// Chunks encoded between two progress reports.
const CHUNKS_PER_REPORT: usize = 64;

/// Quantizes all vectors of `graph`, replacing any existing codes. Later changes of the graph update them.
///
/// # Errors
/// Returns the errors of [`train_quantizer`] and [`encode`].
pub fn quantize(
    executor: &CpuExecutor,
    graph: &mut Graph,
    quantization: Quantization,
) -> Result<(), UpdateError> {
    let quantizer = train_quantizer(executor, graph, quantization)?;
    let codes = encode(executor, graph, quantizer, &mut no_progress)?;
    graph.set_codes(codes);
    Ok(())
}

/// Trains a quantizer on a sample of the vectors of `graph`. The cost is that of [`Quantization::train`].
///
/// # Errors
/// Returns [`UpdateError`] if the vectors were dropped or cannot be quantized.
pub fn train_quantizer(
    executor: &CpuExecutor,
    graph: &Graph,
    quantization: Quantization,
) -> Result<Arc<dyn Quantizer>, UpdateError> {
    graph.require_vectors()?;
    let rows = rows_of(graph, &sample(graph).take(SAMPLE_VECTORS).collect::<Vec<_>>());
    let rows = MatrixView::new(&rows, graph.dimension()).expect("whole rows");
    Ok(quantization.train(graph.metric(), rows, executor.pool())?)
}

/// Refuses a quantizer by whose codes searches would lose most neighbors of some vectors. The cost is that of encoding a
/// sample, and 256 distances and estimates of each of its vectors.
///
/// # Errors
/// Returns [`UpdateError::CodesLose`], or an error if the vectors were dropped.
pub fn check_quantizer(
    executor: &CpuExecutor,
    graph: &Graph,
    quantizer: &dyn Quantizer,
) -> Result<(), UpdateError> {
    graph.require_vectors()?;
    let (recall, lost) = kept_neighbors(executor, graph, quantizer);
    if lost > MAX_LOST {
        let quantization = quantizer.quantization();
        return Err(UpdateError::CodesLose { quantization, recall, lost: 100.0 * lost });
    }
    Ok(())
}

/// Encodes all vectors of `graph`, for [`Graph::set_codes`]. The codes do not depend on the number of threads. The cost is
/// a pass over the vectors.
///
/// # Errors
/// Returns [`UpdateError`] if the vectors were dropped, memory cannot be allocated, or the call was cancelled.
pub fn encode(
    executor: &CpuExecutor,
    graph: &Graph,
    quantizer: Arc<dyn Quantizer>,
    progress: &mut ProgressFn<'_>,
) -> Result<Codes, UpdateError> {
    graph.require_vectors()?;
    let mut report = |done, total| Progress { stage: Stage::Quantizing, done, total }.report(progress);
    graph.encode(quantizer, |chunks| {
        let (total, mut chunks) = (chunks.len(), chunks.into_iter());
        while chunks.len() > 0 {
            report(graph.slots() / total * (total - chunks.len()), graph.slots())?;
            let some: Vec<_> = chunks.by_ref().take(CHUNKS_PER_REPORT).collect();
            parallel::map_on(Some(executor.pool()), some, CodeChunk::fill);
        }
        Ok(report(graph.slots(), graph.slots())?)
    })
}

/// How well the codes of a graph fit its vectors: the result of [`code_report`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CodeReport {
    /// Root mean square error of estimated distances between vertices and their neighbors in the graph, in units of the
    /// standard deviation of those distances.
    pub error: f64,
    /// The error of a quantizer of the same kind and size that is trained on the current vectors.
    pub retrained_error: f64,
}

/// Retraining pays off when the error exceeds that of a retrained quantizer by this factor, the gain of a seventh of a
/// bit.
const DRIFT: f64 = 1.1;

impl CodeReport {
    /// Whether retraining the quantizer would reduce the error noticeably.
    pub fn has_drifted(&self) -> bool {
        self.error > DRIFT * self.retrained_error
    }
}

/// Number of vertices sampled for a report.
const REPORT_VERTICES: usize = 500;

/// Measures how well the codes fit the current vectors. Returns `None` without codes or without vectors.
///
/// The cost is that of training a quantizer and quantizing about 20,000 vectors.
///
/// # Errors
/// Returns [`UpdateError::Quantize`] if no quantizer can be trained on the remaining vectors.
pub fn code_report(executor: &CpuExecutor, graph: &Graph) -> Result<Option<CodeReport>, UpdateError> {
    let Some(codes) = graph.vectors().codes().filter(|_| graph.has_vectors()) else { return Ok(None) };
    let retrained = train_quantizer(executor, graph, codes.quantizer().quantization())?;
    let vertices: Vec<Slot> = sample(graph).take(REPORT_VERTICES).collect();
    let error = |quantizer: &dyn Quantizer| {
        let estimates = |&vertex: &Slot| estimates(graph, quantizer, vertex);
        relative_error(&parallel::map_on(Some(executor.pool()), &vertices, estimates).concat())
    };
    Ok(Some(CodeReport { error: error(&**codes.quantizer()), retrained_error: error(&*retrained) }))
}

/// The distance of a vertex from each of its neighbors, and the estimate of a quantizer for it.
fn estimates(graph: &Graph, quantizer: &dyn Quantizer, vertex: Slot) -> Vec<(f64, f64)> {
    let neighbors = graph.adjacency().neighbors(vertex);
    let mut distances = vec![0.0; neighbors.len()];
    let vectors = graph.vectors();
    with_element!(graph.element(), T => {
        vectors.distance_computer::<T>(vectors.padded(vertex)).compute(neighbors, &mut distances);
    });
    let mut rows: Vec<f32> = neighbors.iter().flat_map(|&slot| values(graph, slot)).collect();
    let words = quantizer.layout().words();
    let mut codes = vec![0; neighbors.len() * words];
    quantizer.encode(&mut rows, &mut EncodeBuffers::default(), &mut codes);
    let mut estimates = vec![0.0; neighbors.len()];
    let query = quantizer.query(&values(graph, vertex));
    query.estimate_rows(|i| &codes[i * words..][..words], &mut estimates);
    distances
        .into_iter()
        .zip(estimates)
        .map(|(distance, estimate)| (distance.into(), estimate.into()))
        .collect()
}

/// The root mean square error of estimates, in units of the standard deviation of distances; 0 if that is 0.
fn relative_error(pairs: &[(f64, f64)]) -> f64 {
    let mean = |term: &dyn Fn(f64, f64) -> f64| {
        pairs.iter().map(|&(distance, estimate)| term(distance, estimate)).sum::<f64>() / pairs.len() as f64
    };
    let mean_distance = mean(&|distance, _| distance);
    let variance = mean(&|distance, _| (distance - mean_distance).powi(2));
    if variance > 0.0 {
        (mean(&|distance, estimate| (estimate - distance).powi(2)) / variance).sqrt()
    } else {
        0.0
    }
}

/// The share of the nearest neighbors that wide searches by codes would find, and the share of vectors that lose most.
///
/// ```text
/// compared <- a random sample of the vectors
/// for each of some of them:
///     nearest <- the 10 nearest of the others                                   brute force
///     found <- those of nearest to which few of the others are nearer by code
/// ```
///
/// A search reranks vectors that are nearest by code, so it finds no more.
fn kept_neighbors(executor: &CpuExecutor, graph: &Graph, quantizer: &dyn Quantizer) -> (f64, f64) {
    let compared: Vec<Slot> = sample(graph).take(SAMPLE_VECTORS).collect();
    let rows = rows_of(graph, &compared);
    let rows = MatrixView::new(&rows, graph.dimension()).expect("whole rows");
    let codes = CodeTable::from_vectors(quantizer, rows, executor.pool());
    let within = (compared.len() / WITHIN_ONE_IN).max(WITHIN_AT_LEAST);
    let found_of = |vertex: usize, distances: &[f32]| {
        let mut estimates = vec![0.0; compared.len()];
        quantizer.query(&values(graph, compared[vertex])).estimate_rows(|i| codes.row(i), &mut estimates);
        let mut nearest = TopK::new(CHECKED_NEIGHBORS);
        let others = (0..compared.len()).filter(|&other| other != vertex);
        others.for_each(|other| nearest.add(Neighbor::new(distances[other], Slot::from_index(other))));
        let nearest = nearest.into_sorted();
        let is_found = |near: &&Neighbor| {
            // Vectors of equal estimates precede it: a search has no reason to prefer it.
            let estimate = estimates[near.slot().index()];
            estimates.iter().filter(|other| other.total_cmp(&estimate).is_le()).count() <= within
        };
        (nearest.iter().filter(is_found).count(), nearest.len())
    };
    let checked = compared.len().min(CHECKED_VECTORS);
    let found_of_some = |first: usize| {
        let some = first..checked.min(first + CHECKED_AT_ONCE);
        let distances = with_element!(graph.element(), T => {
            distances::<T>(graph, &compared[some.clone()], &compared)
        });
        let found = some.zip(distances.chunks_exact(compared.len()));
        found.map(|(vertex, distances)| found_of(vertex, distances)).collect::<Vec<_>>()
    };
    let firsts = (0..checked).step_by(CHECKED_AT_ONCE);
    let all = parallel::map_on(Some(executor.pool()), firsts, found_of_some).concat();
    let is_lost = |&&(found, wanted): &&(usize, usize)| (found as f64) < MIN_KEPT * wanted as f64;
    let lost = all.iter().filter(is_lost).count() as f64 / all.len().max(1) as f64;
    let (found, wanted) = all.iter().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    (if wanted == 0 { 1.0 } else { found as f64 / wanted as f64 }, lost)
}

/// `[of][to]`: the distances between vectors, computed for a few rows of `to` at a time, which stay in a cache.
fn distances<T: Element>(graph: &Graph, of: &[Slot], to: &[Slot]) -> Vec<f32> {
    let vectors = graph.vectors();
    let computers: Vec<_> =
        of.iter().map(|&slot| vectors.distance_computer::<T>(vectors.padded(slot))).collect();
    let rows_at_once = (CACHED_BYTES / vectors.padded_bytes(to[0]).len()).max(1);
    let mut distances = vec![0.0; of.len() * to.len()];
    for (first, to_some) in (0..).step_by(rows_at_once).zip(to.chunks(rows_at_once)) {
        for (computer, distances) in computers.iter().zip(distances.chunks_exact_mut(to.len())) {
            computer.compute(to_some, &mut distances[first..][..to_some.len()]);
        }
    }
    distances
}

/// The coordinates of a vector.
fn values(graph: &Graph, slot: Slot) -> Vec<f32> {
    let mut values = vec![0.0; graph.dimension()];
    graph.vectors().read_f32(slot, &mut values);
    values
}

/// `[slots][dimension]`: the vectors of some slots.
fn rows_of(graph: &Graph, slots: &[Slot]) -> Vec<f32> {
    let mut rows = vec![0.0; slots.len() * graph.dimension()];
    let each = rows.chunks_exact_mut(graph.dimension()).zip(slots);
    each.for_each(|(row, &slot)| graph.vectors().read_f32(slot, row));
    rows
}

/// Live vertices in a random order.
fn sample(graph: &Graph) -> impl Iterator<Item = Slot> {
    let slots = permutation(graph.slots(), graph.params().seed());
    slots.into_iter().map(Slot::new).filter(|&slot| graph.keys().is_live(slot))
}

/// Maximum memory of [`train_quantizer`] and [`check_quantizer`] in bytes, for `rows` vectors of `dimension` coordinates:
/// the vectors of a sample, and what training or the check takes.
pub fn training_bytes(quantization: Quantization, rows: usize, dimension: usize) -> usize {
    let sample = rows.min(SAMPLE_VECTORS);
    let codes = sample * quantization.bytes(dimension);
    sample * dimension * size_of::<f32>() + codes.max(quantization.training_bytes(sample, dimension))
}
