//! Vertices to prune, and the results by the definition.

use jasper_core::{Element, Metric, Neighbor, Slot, padded_len};
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

use crate::graph::{DistanceForm, GraphArgs, NO_SLOT, Origins};
use crate::prune::{COUNTERS, PruneArgs};
use crate::suite::{reference, vectors};
use crate::{Buffer, DevicePtr, RowShape, Stream};

/// Vertices, each with its row of edges.
pub(super) struct Vertices<T> {
    pub(super) form: DistanceForm,
    stride: usize,
    rows: Vec<T>,
    terms: Vec<f32>,
    origins: Origins,
    pub(super) edges_stride: usize,
    pub(super) edges: Vec<u32>,
    pub(super) max_degree: usize,
    alpha: f32,
    pub(super) min_degree: usize,
    pub(super) max_candidates: usize,
}

/// The arrays of [`Vertices`] on a device.
pub(super) struct OnDevice<S: Stream, T: Element> {
    rows: S::Buffer<T>,
    terms: S::Buffer<f32>,
    pub(super) edges: S::Buffer<u32>,
    pub(super) counters: S::Buffer<u64>,
}

impl<T: Element> Vertices<T> {
    /// Vertices without edges, of which a few have the same vector.
    pub(super) fn new(rng: &mut impl Rng, metric: Metric, row_bytes: usize) -> Self {
        let len = rng.random_range(20..70);
        let stride = row_bytes / size_of::<T>();
        let dimension = stride - rng.random_range(0..16 / size_of::<T>());
        assert_eq!(padded_len::<T>(dimension), stride);
        let mut rows = vectors::<T>(rng, len, dimension, 16.0);
        rows.copy_within(..stride, 9 * stride);
        rows.chunks_mut(stride).for_each(|row| row[0] = T::from_f32(row[0].to_f32() + 1.0));
        let form = DistanceForm::between_vertices(metric, T::EXACT_SUMS);
        let product = |a: &[T], b: &[T]| {
            a.iter().zip(b).map(|(a, b)| f64::from(a.to_f32()) * f64::from(b.to_f32())).sum::<f64>() as f32
        };
        // For inner products, the first vector is the center.
        let term = |row| match form {
            DistanceForm::NegatedDotFromOrigin => {
                product(row, &rows[..stride]) - 0.5 * product(&rows[..stride], &rows[..stride])
            }
            _ => product(row, row),
        };
        let terms: Vec<f32> = rows.chunks(stride).map(term).collect();
        let largest = rows.chunks(stride).map(|row| product(row, row)).fold(0.0, f32::max);
        let zero_above = terms[len / 2];
        let origins =
            Origins { zero_above, term_weights: [-0.5, 1.0], alpha_offsets: [largest, 4.0 * largest] };
        // Few edges make short tests; now and then a row is longer than a warp.
        let degrees = if rng.random_range(0..6) == 0 { 33..50 } else { 1..12 };
        let max_degree: usize = rng.random_range(degrees);
        let edges_stride = max_degree.next_multiple_of(32);
        Self {
            form,
            stride,
            terms,
            origins,
            rows,
            edges_stride,
            edges: vec![NO_SLOT; len * edges_stride],
            max_degree,
            alpha: [1.0, 1.2][rng.random_range(0..2)],
            min_degree: max_degree / 2,
            max_candidates: max_degree + rng.random_range(0..30),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.terms.len()
    }

    pub(super) fn row(&self, id: u32) -> &[T] {
        &self.rows[id as usize * self.stride..][..self.stride]
    }

    /// The distance of two vertices by which the edges of `owner` are chosen, equal to that of kernels bit for bit.
    fn distance(&self, owner: u32, a: u32, b: u32) -> f32 {
        let op = self.form.op();
        let width = RowShape::new((self.stride * size_of::<T>()) as u32).width() as usize;
        let sum = reference::distance(op, width, self.row(a), self.row(b));
        let [one, other] = [a, b].map(|id| self.terms[id as usize]);
        match self.form {
            DistanceForm::SquaredL2 => sum,
            DistanceForm::HalfSquaredL2 => 0.5 * sum,
            DistanceForm::NegatedDot => -sum,
            DistanceForm::NegatedDotFromOrigin => self.term_weight(owner) * (one + other) - sum,
            DistanceForm::Cosine => 1.0 - sum / (one * other).sqrt(),
        }
    }

    fn is_from_zero(&self, owner: u32) -> bool {
        self.terms[owner as usize] > self.origins.zero_above
    }

    fn term_weight(&self, owner: u32) -> f32 {
        self.origins.term_weights[usize::from(!self.is_from_zero(owner))]
    }

    fn alpha_offset(&self, owner: u32) -> f32 {
        match self.form {
            DistanceForm::NegatedDotFromOrigin => {
                self.origins.alpha_offsets[usize::from(!self.is_from_zero(owner))]
            }
            _ => 0.0,
        }
    }

    /// A neighbor with its distance from its own origin, for the reversed edge.
    pub(super) fn reversed(&self, of: u32, neighbor: Neighbor) -> Neighbor {
        let id = neighbor.slot().get();
        let [from, to] = [of, id].map(|id| self.terms[id as usize]);
        let change = self.term_weight(id) - self.term_weight(of);
        match self.form {
            DistanceForm::NegatedDotFromOrigin if change != 0.0 => {
                Neighbor::new(neighbor.distance() + change * (from + to), neighbor.slot())
            }
            _ => neighbor,
        }
    }

    pub(super) fn neighbor(&self, of: u32, id: u32) -> Neighbor {
        Neighbor::new(self.distance(of, of, id), Slot::new(id))
    }

    /// Up to `most` distinct vertices, in any order.
    pub(super) fn some(&self, rng: &mut impl Rng, most: usize) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..self.len() as u32).collect();
        ids.shuffle(rng);
        ids.truncate(rng.random_range(0..=most));
        ids
    }

    /// The nearest candidates, [pruned in order](Self::prune_in_order), and as many of the others as the minimum asks.
    pub(super) fn prune(
        &self,
        owner: u32,
        mut candidates: Vec<Neighbor>,
        most: usize,
        deferred: &[Neighbor],
    ) -> (Vec<Neighbor>, u64) {
        candidates.sort_unstable();
        candidates.truncate(self.max_candidates);
        let (rounds, distances) = self.prune_in_order(owner, candidates.clone(), most, deferred);
        let mut kept = rounds.concat();
        candidates.retain(|candidate| !kept.contains(candidate));
        let missing = self.min_degree.min(most).saturating_sub(kept.len());
        kept.extend(candidates.into_iter().take(missing));
        (kept, distances)
    }

    /// The ends of the parts of a row that the rounds of an earlier prune kept: each part ascends.
    pub(super) fn kept_ends(&self, row: &[Neighbor]) -> [usize; 2] {
        let rising = |row: &[Neighbor]| row.chunk_by(|a, b| a < b).next().map_or(0, <[_]>::len);
        let first = rising(row);
        [first, first + if self.alpha > 1.0 { rising(&row[first..]) } else { 0 }]
    }

    /// Robust prune: keeps the first candidate, drops the others that it occludes with `alpha`, and so on; candidates
    /// that it occludes with alpha 1 are deferred to the second round, as are those of `deferred`. Two visited
    /// candidates are not compared. Returns what each round keeps, and the number of distances.
    pub(super) fn prune_in_order(
        &self,
        owner: u32,
        mut left: Vec<Neighbor>,
        most: usize,
        deferred: &[Neighbor],
    ) -> ([Vec<Neighbor>; 2], u64) {
        left.truncate(self.max_candidates);
        let (mut kept, mut distances) = ([Vec::new(), Vec::new()], 0);
        let mut deferred = deferred.to_vec();
        for second in [false, true] {
            while let Some(next) = left.iter().position(|other| second || !deferred.contains(other)) {
                let first = left.remove(next);
                kept[usize::from(second)].push(first);
                if kept[0].len() + kept[1].len() == most {
                    return (kept, distances);
                }
                left.retain(|other| {
                    if first.is_kept_before() && other.is_kept_before() {
                        return true;
                    }
                    distances += 1;
                    let between = self.distance(owner, first.slot().get(), other.slot().get());
                    if between <= other.distance() {
                        deferred.push(*other);
                    }
                    if self.alpha == 1.0 {
                        return between > other.distance();
                    }
                    let offset = self.alpha_offset(owner);
                    self.alpha * (offset + between) > offset + other.distance()
                });
            }
        }
        (kept, distances)
    }

    pub(super) fn upload<S: Stream>(&self, stream: &S) -> OnDevice<S, T> {
        OnDevice {
            rows: stream.upload(&self.rows).unwrap(),
            terms: stream.upload(&self.terms).unwrap(),
            edges: stream.upload(&self.edges).unwrap(),
            counters: stream.upload(&[0; COUNTERS]).unwrap(),
        }
    }

    pub(super) fn row_bytes(&self) -> u32 {
        (self.stride * size_of::<T>()) as u32
    }

    pub(super) fn args<S: Stream>(&self, device: &mut OnDevice<S, T>) -> PruneArgs {
        PruneArgs {
            graph: GraphArgs {
                vectors: device.rows.input().cast(),
                edges: device.edges.input(),
                terms: device.terms.input(),
                keys: DevicePtr::null(),
                start_points: device.edges.input(),
                start_points_len: 0,
                shape: RowShape::new(self.row_bytes()),
                edges_stride: self.edges_stride as u32,
                capacity: u32::MAX,
                origins: self.origins,
            },
            form: self.form,
            alpha: self.alpha,
            max_degree: self.max_degree as u32,
            min_degree: self.min_degree as u32,
            max_candidates: self.max_candidates as u32,
            counters: device.counters.output(),
        }
    }

    /// A row as it is stored, padded.
    pub(super) fn padded(&self, mut ids: Vec<u32>) -> Vec<u32> {
        ids.resize(self.edges_stride, NO_SLOT);
        ids
    }
}
