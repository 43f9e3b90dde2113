//! Linking on vectors of bytes, which are a quarter of the size of f32 vectors.
//!
//! Scalar quantization: the mean of its dimension is subtracted from each coordinate, and the difference rounded to
//! steps of the same size in all dimensions, so that squared distances keep their proportions. The rounding errors are
//! far below the differences that decide a prune, unless vectors are within a few steps of each other. A trial tells: of
//! a sample of the vectors, the nearest others by bytes are compared with the exact ones. Stored vectors and searches are
//! unchanged.

use jasper_core::{Element, Metric, Neighbor, VectorId, padded_len};
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

/// Vectors of the trial, evenly spaced: 1 in 20 that loses its neighbors is among them with a probability of 0.96.
const TRIAL_VECTORS: usize = 64;
/// Nearest others that are compared for each of them.
const TRIAL_NEIGHBORS: usize = 10;
/// The share of them that bytes must find: at 0.85, no recall is lost at a beam width of 32
/// (docs/src/experiments.md#linking-by-bytes-by-default).
const MIN_FOUND: f64 = 0.85;
/// Most vectors among which they are looked for, evenly spaced: the trial of a larger set takes no longer.
const MAX_COMPARED: usize = 1 << 22;
/// Vectors that are compared with the whole sample while they are in the cache.
const TRIAL_BLOCK: usize = 128;

/// The metric in which vectors of bytes are linked: unit vectors have the same order by angle as by squared L2.
pub const fn quantized_metric(metric: Metric) -> Metric {
    match metric {
        Metric::Cosine | Metric::L2 => Metric::L2,
        Metric::InnerProduct => Metric::InnerProduct,
    }
}

/// What a build links.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one per build")]
pub enum LinkInput<T: Element> {
    /// Vectors of bytes, after which [`Linked::restore_vectors`](crate::Linked::restore_vectors) restores the saved ones.
    Bytes(Ingested<i8>, SavedVectors<T>),
    /// The vectors themselves: bytes do not tell them apart.
    Exact(Ingested<T>),
}

impl<T: Element> Ingested<T> {
    /// Replaces the vectors by vectors of bytes, for linking, unless too many would have other neighbors.
    /// Deterministic for any number of threads.
    ///
    /// Cost: a byte per coordinate besides the graph, and up to 128 distances per vector, half of them of bytes.
    ///
    /// # Errors
    /// [`UpdateError`]: memory cannot be allocated.
    pub fn try_quantize(self, executor: &CpuExecutor) -> Result<LinkInput<T>, UpdateError> {
        let metric = self.graph.metric();
        let (ingested, saved) = self.quantize_vectors(executor)?;
        let found = executor.pool().install(|| neighbors_found(&ingested.graph, &saved, metric));
        if found >= MIN_FOUND {
            return Ok(LinkInput::Bytes(ingested, saved));
        }
        let Ingested { graph, order } = ingested;
        Ok(LinkInput::Exact(Ingested { graph: graph.restore_vectors(saved), order }))
    }

    fn quantize_vectors(
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

/// The share of the nearest neighbors of a sample of the vectors that are nearest by bytes too; 1 if there are none.
fn neighbors_found<T: Element>(bytes: &Graph<i8>, saved: &SavedVectors<T>, metric: Metric) -> f64 {
    let slots: Vec<VectorId> = bytes.keys().vertices().collect();
    let slots = evenly(&slots, MAX_COMPARED);
    let sample = evenly(&slots, TRIAL_VECTORS);
    let exact = nearest(&slots, &sample, metric, |slot| saved.padded(slot));
    let by_bytes = nearest(&slots, &sample, bytes.metric(), |slot| bytes.vectors().padded(slot));
    let wanted: usize = exact.iter().map(Vec::len).sum();
    let is_found = |(exact, by_bytes): (&Vec<Neighbor>, &Vec<Neighbor>)| {
        exact.iter().filter(|near| by_bytes.iter().any(|other| other.id() == near.id())).count()
    };
    let found: usize = exact.iter().zip(&by_bytes).map(is_found).sum();
    if wanted == 0 { 1.0 } else { found as f64 / wanted as f64 }
}

/// At most `most` of the slots, evenly spaced.
fn evenly(slots: &[VectorId], most: usize) -> Vec<VectorId> {
    slots.iter().copied().step_by(slots.len().div_ceil(most).max(1)).collect()
}

/// The [`TRIAL_NEIGHBORS`] slots nearest to each of a sample, by brute force and without itself.
fn nearest<'a, E: Element>(
    slots: &[VectorId],
    sample: &[VectorId],
    metric: Metric,
    vector: impl Fn(VectorId) -> &'a [E] + Sync,
) -> Vec<Vec<Neighbor>> {
    let kernels = E::kernels();
    let in_block = |block: &[VectorId]| -> Vec<Vec<Neighbor>> {
        let rows: Vec<&[E]> = block.iter().map(|&slot| vector(slot)).collect();
        let mut distances = vec![0.0; block.len()];
        let mut of = |&query: &VectorId| {
            match metric {
                Metric::InnerProduct => {
                    (kernels.dot_many)(vector(query), &rows, &mut distances);
                    distances.iter_mut().for_each(|product| *product = -*product);
                }
                Metric::L2 | Metric::Cosine => {
                    (kernels.squared_l2_many)(vector(query), &rows, &mut distances);
                }
            }
            let others = block.iter().zip(&distances).filter(|(slot, _)| **slot != query);
            few_nearest(others.map(|(&slot, &distance)| Neighbor::new(distance, slot)).collect())
        };
        sample.iter().map(&mut of).collect()
    };
    let merge = |a: Vec<Vec<Neighbor>>, b: Vec<Vec<Neighbor>>| {
        a.into_iter().zip(b).map(|(a, b)| few_nearest([a, b].concat())).collect()
    };
    let blocks = slots.par_chunks(TRIAL_BLOCK).map(in_block);
    blocks.reduce(|| vec![Vec::new(); sample.len()], merge)
}

fn few_nearest(mut neighbors: Vec<Neighbor>) -> Vec<Neighbor> {
    if neighbors.len() > TRIAL_NEIGHBORS {
        neighbors.select_nth_unstable(TRIAL_NEIGHBORS);
        neighbors.truncate(TRIAL_NEIGHBORS);
    }
    neighbors
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
        let mut values = vec![0.0; self.centers.len()];
        for number in block.numbers() {
            let row = rows.padded(VectorId::from_index(number));
            T::slice_to_f32(&row[..values.len()], &mut values);
            for ((byte, x), center) in bytes.iter_mut().zip(&values).zip(&self.centers) {
                *byte = rounded((x - center) * self.scale);
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
            let LinkInput::Bytes(ingested, saved) = ingested.try_quantize(&executor).unwrap() else {
                panic!("{metric}: bytes tell these vectors apart");
            };
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

    #[test]
    fn vectors_that_bytes_do_not_tell_apart_are_linked_as_they_are() {
        let executor = CpuExecutor::new(2).unwrap();
        let params = BuildParams::builder().build().unwrap();
        let clusters: Vec<f32> = Clusters::new(24, 3).rows(1500, 0);
        // Clusters so narrow that the vectors of one are rounded to nearly the same bytes.
        let narrow: Vec<f32> = (0..1500 * 24)
            .map(|i| clusters[i % (10 * 24)] + clusters[(i * 7 + i / 24) % clusters.len()] * 3e-3)
            .collect();
        for (rows, is_bytes) in [(&clusters, true), (&narrow, false)] {
            for metric in [Metric::L2, Metric::InnerProduct] {
                let view = MatrixView::new(rows, 24).unwrap();
                let ingested = ingest(&executor, &view, None, metric, params, &mut no_progress).unwrap();
                let expected =
                    (ingested.order.clone(), ingested.graph.vectors().get(VectorId::new(3)).to_vec());
                let input = ingested.try_quantize(&executor).unwrap();
                assert_eq!(matches!(input, LinkInput::Bytes(..)), is_bytes, "{metric}");
                if let LinkInput::Exact(Ingested { graph, order }) = input {
                    assert_eq!((order, graph.vectors().get(VectorId::new(3)).to_vec()), expected);
                    assert_eq!(graph.adjacency().start_points().len(), 1);
                }
            }
        }
    }

    #[test]
    fn the_trial_finds_the_nearest_by_definition() {
        let rows: Vec<f32> = Clusters::new(5, 8).rows(700, 0);
        let vector = |slot: VectorId| &rows[slot.index() * 5..][..5];
        let slots: Vec<VectorId> = (0..700).map(VectorId::from_index).collect();
        let sample = [3, 400, 699].map(VectorId::from_index);
        for metric in Metric::ALL {
            for (query, found) in sample.iter().zip(nearest(&slots, &sample, metric, vector)) {
                let distance = |slot: VectorId| match metric {
                    Metric::InnerProduct => -(f32::kernels().dot)(vector(*query), vector(slot)),
                    _ => (f32::kernels().squared_l2)(vector(*query), vector(slot)),
                };
                let others = slots.iter().filter(|slot| *slot != query);
                let mut expected: Vec<_> = others.map(|&slot| Neighbor::new(distance(slot), slot)).collect();
                expected.sort_unstable();
                let mut found = found;
                found.sort_unstable();
                assert_eq!(found, expected[..TRIAL_NEIGHBORS]);
            }
        }
    }
}
