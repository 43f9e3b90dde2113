//! Linking on vectors of bytes, which are a quarter of the size of f32 vectors.
//!
//! Scalar quantization: the mean of its dimension is subtracted from each coordinate, and the difference rounded to
//! steps of the same size in all dimensions, so that squared distances keep their proportions. The rounding errors are
//! far below the differences that decide a prune, unless vectors are within a few steps of each other. Stored vectors
//! and searches are unchanged.

use jasper_core::{Element, Metric, VectorId, padded_len};
use jasper_graph::{Graph, SavedVectors, VectorBlock};
use rayon::prelude::*;

use crate::{CpuExecutor, Ingested, UpdateError};

/// Vectors that means and steps are computed from, evenly spaced. For inner products all vectors are read: the longest
/// are the results of searches, and must not be clamped.
const SAMPLE_VECTORS: usize = 4096;
/// One coordinate of a dimension in this many, of the sample, may be beyond the largest byte, and is clamped.
const CLAMPED_SHARE: usize = 1024;
/// The largest byte that is used; the smallest is its negative.
const LARGEST: f32 = 127.0;

/// The metric in which vectors of bytes are linked: unit vectors have the same order by angle as by squared L2.
pub const fn quantized_metric(metric: Metric) -> Metric {
    match metric {
        Metric::Cosine | Metric::L2 => Metric::L2,
        Metric::InnerProduct => Metric::InnerProduct,
    }
}

impl<T: Element> Ingested<T> {
    /// Replaces the vectors by vectors of bytes, for linking;
    /// [`Linked::restore_vectors`](crate::Linked::restore_vectors) restores them. Deterministic for any number of
    /// threads.
    ///
    /// Cost: a byte per coordinate besides the graph, and a pass over the vectors.
    ///
    /// # Errors
    /// [`UpdateError`]: memory cannot be allocated.
    pub fn quantize_vectors(
        self,
        executor: &CpuExecutor,
    ) -> Result<(Ingested<i8>, SavedVectors<T>), UpdateError> {
        let Self { graph, order } = self;
        let steps = executor.pool().install(|| Steps::new(&graph));
        let round = |vectors: &SavedVectors<T>, blocks: Vec<VectorBlock<'_, i8>>| {
            let round = || blocks.into_par_iter().for_each(|block| steps.round(vectors, block));
            executor.pool().install(round);
        };
        let metric = quantized_metric(graph.metric());
        let (graph, saved) = graph.replace_vectors(metric, round)?;
        Ok((Ingested { graph, order }, saved))
    }
}

/// How coordinates are rounded to bytes.
struct Steps {
    /// Subtracted from each coordinate; 0 for inner products, which it would change.
    centers: Vec<f32>,
    /// Steps per unit of a coordinate.
    scale: f32,
}

impl Steps {
    fn new<T: Element>(graph: &Graph<T>) -> Self {
        if graph.metric() == Metric::InnerProduct {
            let reach_of = |slot: usize| {
                let row = graph.vectors().get(VectorId::from_index(slot));
                row.iter().fold(0.0, |reach: f32, x| reach.max(x.to_f32().abs()))
            };
            let reach = (0..graph.slots()).into_par_iter().map(reach_of).reduce(|| 0.0, f32::max);
            return Self { centers: vec![0.0; graph.dimension()], scale: steps_of(reach) };
        }
        let step = graph.slots().div_ceil(SAMPLE_VECTORS).max(1);
        let rows: Vec<&[T]> = graph
            .keys()
            .vertices()
            .filter(|slot| slot.index() % step == 0)
            .map(|slot| graph.vectors().get(slot))
            .collect();
        let of_dimension = |column: usize| {
            let mut values: Vec<f32> = rows.iter().map(|row| row[column].to_f32()).collect();
            let sum: f64 = values.iter().map(|&x| f64::from(x)).sum();
            let center = (sum / values.len().max(1) as f64) as f32;
            values.iter_mut().for_each(|x| *x = (*x - center).abs());
            let cut = values.len() - values.len().div_ceil(CLAMPED_SHARE);
            let reach =
                if values.is_empty() { 0.0 } else { *values.select_nth_unstable_by(cut, f32::total_cmp).1 };
            (center, reach)
        };
        let (centers, reaches): (Vec<f32>, Vec<f32>) =
            (0..graph.dimension()).into_par_iter().map(of_dimension).unzip();
        let reach = reaches.into_iter().fold(0.0, f32::max);
        Self { centers, scale: steps_of(reach) }
    }

    fn round<T: Element>(&self, rows: &SavedVectors<T>, mut block: VectorBlock<'_, i8>) {
        let mut bytes = vec![0_i8; padded_len::<i8>(self.centers.len())];
        for number in block.numbers() {
            let row = rows.padded(VectorId::from_index(number));
            for ((byte, x), center) in bytes.iter_mut().zip(row).zip(&self.centers) {
                *byte = rounded((x.to_f32() - center) * self.scale);
            }
            block.set(number, &bytes, (i8::kernels().dot)(&bytes, &bytes));
        }
    }
}

/// Steps per unit, if the largest coordinate is `reach`.
fn steps_of(reach: f32) -> f32 {
    if reach > 0.0 { LARGEST / reach } else { 1.0 }
}

/// The nearest byte: the sum is so large that its last bit is worth 1, and the addition vectorizes.
#[inline(always)]
fn rounded(x: f32) -> i8 {
    const WHOLE: f32 = 12_582_912.0;
    (x.clamp(-LARGEST, LARGEST) + WHOLE).to_bits() as i8
}

#[cfg(test)]
mod tests {
    use jasper_core::synthetic::Clusters;
    use jasper_core::{BuildParams, MatrixView, no_progress};

    use super::*;
    use crate::{bulk_build, ingest, link_on_host};

    #[test]
    fn bytes_are_the_nearest() {
        for x in [-300.0, -127.0, -126.51, -1.5, -0.5, -0.4, 0.0, 0.6, 1.5, 2.5, 126.6, 1e9] {
            assert_eq!(f32::from(rounded(x)), x.round_ties_even().clamp(-LARGEST, LARGEST), "{x}");
        }
    }

    /// Edges that two graphs share, of those of the first.
    fn shared(a: &Graph<f32>, b: &Graph<f32>) -> f64 {
        let rows =
            || a.keys().vertices().map(|slot| (a.adjacency().neighbors(slot), b.adjacency().neighbors(slot)));
        let same: usize = rows().map(|(a, b)| a.iter().filter(|id| b.contains(id)).count()).sum();
        same as f64 / rows().map(|(a, _)| a.len()).sum::<usize>() as f64
    }

    #[test]
    fn links_by_bytes_are_nearly_those_by_rows() {
        let executor = CpuExecutor::new(2).unwrap();
        // Far from the origin, and no dimension like another.
        let mut rows: Vec<f32> = Clusters::new(24, 3).rows(3000, 0);
        rows.iter_mut().enumerate().for_each(|(i, x)| *x = *x * (1.0 + (i % 24) as f32) + 100.0);
        let view = MatrixView::new(&rows, 24).unwrap();
        let params = BuildParams::builder().max_degree(16).build_beam_width(32).build().unwrap();
        for metric in Metric::ALL {
            let exact = bulk_build(&executor, &view, None, metric, params, &mut no_progress).unwrap().0;
            let ingested = ingest(&executor, &view, None, metric, params, &mut no_progress).unwrap();
            let (ingested, saved) = ingested.quantize_vectors(&executor).unwrap();
            let linked = link_on_host(&executor, ingested, None, &mut no_progress).unwrap();
            let (quantized_linking, _) = linked.restore_vectors(saved).finish();
            assert_eq!(
                quantized_linking.vectors().get(VectorId::new(7)),
                exact.vectors().get(VectorId::new(7)),
                "{metric}"
            );
            assert!(quantized_linking.check_structure().is_sound());
            let shared = shared(&exact, &quantized_linking);
            assert!(shared > 0.8, "{metric}: {shared} of the edges");
        }
    }
}
