//! SQ8 linking: edges are chosen by distances of vectors quantized to one byte per coordinate, a quarter of f32.
//!
//! The mean of its dimension is subtracted from each coordinate (under inner products, the coordinate of the
//! [center](VectorTable::center)),
//! and the difference rounded to steps of the same size in all dimensions, so that squared distances keep their
//! proportions. The rounding errors are far below the
//! differences that decide a prune, unless vectors are within a few steps of each other. A trial tells:
//!
//! One step suits all dimensions if their coordinates are about as large. Where a few are much larger than the others,
//! a random rotation is applied first, which spreads them (docs/notebook/experiments.md#sq8-after-a-rotation).
//!
//! ```text
//! for each of 1,024 random vectors, or one in eight of fewer than 8,192:
//!     candidates <- the 100 nearest others by bytes                 brute force, on rows quantized as they are read
//!     found <- the 10 nearest candidates by bytes that are among the 10 nearest candidates by exact distances
//! accept if 85% are found of all, and less than 3 of at most two in 1,024 vectors
//! ```
//!
//! The mean says whether bytes suit most vectors. It hides the few that they do not suit: of the vectors of a tight
//! cluster, they find one neighbor in ten, and searches find none (docs/notebook/experiments.md#sq8-vectors-that-lose-all).
//! If a share p of the vectors is like this, at most two of them are in a random sample of n with the probability of a
//! binomial distribution, about exp(-n p) (1 + n p + (n p)² / 2): 0.2% for one vector in a hundred. What is accepted
//! therefore loses less than 0.62% of 8,192 vectors or more with a confidence of 95%, and less than 0.82% with 99%.
//!
//! On a device, searches for the candidates of edges may read SQ4, 4 bits per coordinate, rounded from SQ8. The trial
//! chooses its step by how many of the nearest neighbors by SQ8 are also the nearest by SQ4, and refuses it if they are
//! less than 75%, or less than 3 of more than two in 1,024 vectors.
//!
//! Where bytes do not tell vectors apart, more than 100 others are about as near, and the candidates come in any order
//! by exact distance. Stored vectors and searches are unchanged: on the CPU the bytes are a [second
//! table](VectorTable::sq8), on a device the only one that a build uploads.

use std::ops::RangeInclusive;

use jasper_core::synthetic::Permutation;
use jasper_core::{
    Cancelled, Element, Metric, Neighbor, Progress, ProgressFn, Slot, Stage, padded_len, with_element,
};
use jasper_data::{ThreadPool, parallel};
use jasper_graph::{Graph, Origin, VectorChunk, VectorError, VectorTable};
use jasper_quant::{Rotation, rotated_dimension};

use crate::top_k::TopK;

/// Vectors that means and steps are computed from, a random sample. For inner products all vectors are read: the longest
/// are the results of searches, and must not be clamped.
const SAMPLE_VECTORS: usize = 4096;
/// One coordinate of a dimension in this many, of the sample, may be beyond the largest byte, and is clamped.
const CLAMPED_DIVISOR: usize = 1024;
/// The largest byte that is used; the smallest is its negative.
const LARGEST: f32 = 127.0;

/// The trial samples one vector in eight at random, within the bounds of [`TRIAL_VECTORS`]. A part that loses recall has
/// more vectors than a search visits, so this sample is large enough to detect it.
const TRIAL_ONE_IN: usize = 8;
/// The smallest and the largest sample of the trial.
const TRIAL_VECTORS: RangeInclusive<usize> = 64..=1024;
/// Nearest others by bytes, whose exact distances are computed.
const TRIAL_CANDIDATES: usize = 100;
/// Nearest candidates that are compared for each of them.
const TRIAL_NEIGHBORS: usize = 10;
/// The share of them that bytes must find: at 0.85, no recall is lost at a beam width of 32
/// (docs/notebook/experiments.md#linking-by-bytes-by-default).
const MIN_FOUND: f64 = 0.85;
/// The share of the nearest neighbors by SQ8 that SQ4 must find. It is lower than [`MIN_FOUND`], because SQ4 only finds
/// candidates, and SQ8 chooses among them; at 0.78, no recall is lost
/// (docs/notebook/experiments.md#gpu-searches-of-a-build-by-sq4).
const MIN_FOUND_BY_SQ4: f64 = 0.75;
/// The base-2 logarithms of the steps of SQ8 that may be a step of SQ4.
const SQ4_SHIFTS: [u32; 4] = [1, 2, 3, 4];
/// Vectors per task of a pass over some vectors.
const TASK_VECTORS: usize = 256;
/// Seed of the samples, and of the rotation.
const SAMPLE_SEED: u64 = 1;
/// Vectors are rotated if that makes steps smaller by this factor. A quarter of the squared error is then left; where
/// coordinates are about equal, the factor is 1.
const ROTATION_GAIN: f32 = 2.0;
/// Most steps per unit: with more, products of quantized vectors would not be finite in units of the vectors.
const LARGEST_SCALE: f32 = 1e16;
/// The lowest dimension that is rotated. A rotation rounds lower ones up to it, which would cost more than it saves.
const MIN_ROTATED_DIMENSION: usize = 64;
/// A vector of which fewer neighbors than this share are found is lost. In a random order of the candidates, 93% are.
const MIN_KEPT: f64 = 0.3;
/// The share of the vectors of a trial that may be lost.
const MAX_LOST: f64 = 0.002;
/// The share of coordinates of new vectors that SQ4 may clamp beside twice those of the trial.
const SQ4_CLAMPED_SLACK: f64 = 0.005;
/// Most vectors among which they are looked for, a random sample: the trial of a larger set takes no longer.
const MAX_COMPARED: usize = 1 << 22;
/// Most vectors of a change among which they are looked for.
const MAX_NEW_COMPARED: usize = 8192;
/// Vectors that are compared with the whole sample while they are in the cache.
const TRIAL_CHUNK: usize = 128;
/// Coordinates that each thread compares between two reports of progress, for about a second.
const PASS_COORDINATES: usize = 1 << 24;

/// The metric of the quantized vectors: unit vectors have the same order by angle as by squared L2.
pub const fn sq8_metric(metric: Metric) -> Metric {
    match metric {
        Metric::Cosine | Metric::L2 => Metric::L2,
        Metric::InnerProduct => Metric::InnerProduct,
    }
}

/// Rounds coordinates to bytes: to steps from the center of their dimension.
#[derive(Clone, Debug)]
pub struct ScalarQuantizer {
    centers: Vec<f32>,
    rotation: Option<Rotation>,
    scale: f32,
    sq4: Option<Sq4>,
}

/// The coordinates of a vector while it is quantized.
#[derive(Default)]
struct Scratch {
    differences: Vec<f32>,
    rotated: Vec<f32>,
}

/// A step of SQ4 that a trial has chosen.
#[derive(Clone, Copy, Debug)]
struct Sq4 {
    /// The base-2 logarithm of the steps of SQ8 in a step.
    shift: u32,
    /// The share of coordinates of the trial's vectors that it clamps.
    clamped: f64,
}

impl ScalarQuantizer {
    /// The lowest dimension for which SQ4 is used. Below it, searches by SQ4 are hardly faster
    /// (docs/notebook/experiments.md#gpu-searches-of-a-build-by-sq4).
    pub const MIN_SQ4_DIMENSION: usize = 256;

    /// The quantizer for the vectors of `graph`; `None` if too many of them would have other nearest neighbors.
    /// Deterministic for any number of threads. Among more than four million vectors, the nearest of these are looked
    /// for, a random sample; a device looks among all.
    ///
    /// Cost: up to 1,024 distances of bytes per vector, which read it once.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if `progress` returns `Break`.
    pub fn by_trial(
        graph: &Graph,
        pool: &ThreadPool,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Option<Self>, Cancelled> {
        let (quantizer, sample) = parallel::install(pool, || (Self::new(graph), Self::trial_sample(graph)));
        let pass = PASS_COORDINATES * pool.current_num_threads() / quantizer.width();
        let nearest = quantizer.nearest_in_passes(graph, sample.clone(), pass.max(1), pool, progress)?;
        Ok(parallel::install(pool, || quantizer.accepted(graph, &sample, &nearest)))
    }

    /// The nearest of all vectors to each of a sample, of which `pass` are compared between two reports.
    fn nearest_in_passes(
        &self,
        graph: &Graph,
        sample: Vec<Slot>,
        pass: usize,
        pool: &ThreadPool,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Vec<Vec<Slot>>, Cancelled> {
        let slots = vertices_of(graph, MAX_COMPARED);
        let mut report =
            |done| Progress { stage: Stage::Quantizing, done, total: slots.len() }.report(progress);
        let mut nearest = Nearest::new(self, graph, sample);
        for (number, slots) in slots.chunks(pass).enumerate() {
            report(number * pass)?;
            parallel::install(pool, || nearest.add(slots));
        }
        report(slots.len())?;
        Ok(nearest.into_slots())
    }

    /// The vectors whose nearest neighbors a trial looks for.
    pub fn trial_sample(graph: &Graph) -> Vec<Slot> {
        trial_sample_of(graph.keys().vertices().collect())
    }

    /// Returns the quantizer, with the step of SQ4 that suits the vectors best, if SQ8 tells the vectors of the graph
    /// apart. For each of the [sample](Self::trial_sample), `nearest` has the slots of the nearest others by SQ8,
    /// nearest first: 100, or all if there are fewer. More are ignored. Runs in the current rayon pool.
    pub fn accepted(self, graph: &Graph, sample: &[Slot], nearest: &[Vec<Slot>]) -> Option<Self> {
        let nearest = nearest.iter().map(|nearest| &nearest[..nearest.len().min(TRIAL_CANDIDATES)]);
        let trials: Vec<_> = sample.iter().copied().zip(nearest).collect();
        Overlap::with_exact(graph, &trials)
            .is_enough(MIN_FOUND)
            .then(|| Self { sq4: self.best_sq4(graph, &trials), ..self })
    }

    /// The base-2 logarithm of the number of SQ8 steps in a step of SQ4. `None` before a trial, if SQ4 does not tell the
    /// vectors apart, and below [`Self::MIN_SQ4_DIMENSION`].
    pub fn sq4_shift(&self) -> Option<u32> {
        self.sq4.map(|sq4| sq4.shift)
    }

    /// Rounds a byte of SQ8 to the nearest step of SQ4, from -8 to 7.
    pub fn sq4_value(byte: i8, shift: u32) -> i8 {
        ((i16::from(byte) + (1 << (shift - 1))) >> shift).clamp(-8, 7) as i8
    }

    /// The step of SQ4 that keeps most of the nearest neighbors by SQ8, if it keeps enough of them. Of several, the
    /// largest.
    fn best_sq4(&self, graph: &Graph, trials: &[(Slot, &[Slot])]) -> Option<Sq4> {
        if graph.dimension() < Self::MIN_SQ4_DIMENSION {
            return None;
        }
        let width = self.width();
        let of_vector = |&(query, nearest): &(Slot, &[Slot])| {
            let slots: Vec<Slot> = nearest.iter().copied().chain([query]).collect();
            let bytes = self.quantize_slots(graph, &slots);
            SQ4_SHIFTS.map(|shift| {
                let values: Vec<i8> = bytes.iter().map(|&byte| Self::sq4_value(byte, shift)).collect();
                let mut rows: Vec<_> = values.chunks_exact(width).collect();
                let query = rows.pop().expect("the row of the query");
                let mut distances = vec![0.0; rows.len()];
                byte_distances(graph.metric(), query, &rows, &mut distances);
                Overlap::of(nearest, &distances)
            })
        };
        let mut overlaps = [Overlap::default(); SQ4_SHIFTS.len()];
        for of_vector in parallel::map(trials, of_vector) {
            overlaps.iter_mut().zip(of_vector).for_each(|(sum, overlap)| *sum = sum.plus(overlap));
        }
        let (overlap, shift) =
            overlaps.into_iter().zip(SQ4_SHIFTS).max_by_key(|(overlap, _)| overlap.found)?;
        let sample: Vec<_> = trials.iter().map(|&(slot, _)| slot).collect();
        let coordinates = (sample.len() * graph.dimension()).max(1);
        let clamped = self.clamped_by_sq4(graph, &sample, shift) as f64 / coordinates as f64;
        overlap.is_enough(MIN_FOUND_BY_SQ4).then_some(Sq4 { shift, clamped })
    }

    /// Whether the quantizer suits `new` vectors of the graph, which was made before them: the center is still the same;
    /// SQ8 clamps as few of their
    /// coordinates, or none for inner products, and SQ4 at most twice as many; and a trial among some of them accepts
    /// it, which a tight cluster fails. Runs in the current rayon pool.
    pub fn suits(&self, graph: &Graph, new: &[Slot]) -> bool {
        let (most, one_in) = match graph.metric() {
            Metric::InnerProduct => (new.len(), usize::MAX),
            Metric::Cosine | Metric::L2 => (SAMPLE_VECTORS, CLAMPED_DIVISOR / 2),
        };
        let sample = sampled(new.to_vec(), most);
        let coordinates = sample.len() * graph.dimension();
        // Clamping by less than half a step adds nothing to the error of rounding.
        let suits_sq8 = self.beyond(graph, &sample, LARGEST + 0.5) <= coordinates / one_in;
        let suits_sq4 = self.sq4.is_none_or(|sq4| {
            let most = (2.0 * sq4.clamped + SQ4_CLAMPED_SLACK) * coordinates as f64;
            self.clamped_by_sq4(graph, &sample, sq4.shift) as f64 <= most
        });
        // The terms of vectors go with their differences from the center.
        let is_centered =
            graph.metric() != Metric::InnerProduct || self.centers == graph.vectors().center_coordinates();
        is_centered
            && suits_sq8
            && suits_sq4
            && self.tells_apart(graph, sampled(new.to_vec(), MAX_NEW_COMPARED))
    }

    /// Whether a trial among some vectors accepts SQ8.
    fn tells_apart(&self, graph: &Graph, slots: Vec<Slot>) -> bool {
        let sample = trial_sample_of(slots.clone());
        let mut nearest = Nearest::new(self, graph, sample.clone());
        nearest.add(&slots);
        let nearest = nearest.into_slots();
        let trials: Vec<_> = sample.into_iter().zip(nearest.iter().map(Vec::as_slice)).collect();
        Overlap::with_exact(graph, &trials).is_enough(MIN_FOUND)
    }

    /// Coordinates of some vectors that SQ4 clamps.
    fn clamped_by_sq4(&self, graph: &Graph, slots: &[Slot], shift: u32) -> usize {
        self.beyond(graph, slots, (8 << shift) as f32)
    }

    /// Coordinates of some vectors that are more than `most` steps from their center.
    fn beyond(&self, graph: &Graph, slots: &[Slot], most: f32) -> usize {
        let of_task = |slots: &[Slot]| -> usize {
            let mut scratch = Scratch::default();
            let of_vector = |&slot: &Slot| {
                let values = self.differences(graph.vectors(), slot, &mut scratch);
                values.iter().filter(|x| x.abs() * self.scale > most).count()
            };
            slots.iter().map(of_vector).sum()
        };
        parallel::map(slots.chunks(TASK_VECTORS), of_task).into_iter().sum()
    }

    /// The dimension of quantized vectors.
    pub fn dimension(&self) -> usize {
        self.rotation.as_ref().map_or(self.centers.len(), Rotation::rotated_dimension)
    }

    /// The largest [`dimension`](Self::dimension) of quantizers for vectors of this one.
    pub fn largest_dimension(dimension: usize) -> usize {
        if dimension < MIN_ROTATED_DIMENSION { dimension } else { rotated_dimension(dimension) }
    }

    /// Bytes of a quantized vector, with padding.
    fn width(&self) -> usize {
        padded_len::<i8>(self.dimension())
    }

    /// The rotation of the differences from the centers, if there is one.
    pub fn rotation(&self) -> Option<&Rotation> {
        self.rotation.as_ref()
    }

    /// `[dimension]`: subtracted from each coordinate.
    pub fn centers(&self) -> &[f32] {
        &self.centers
    }

    /// Steps per unit of a coordinate.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Adds the [quantized](VectorTable::sq8) vectors to a graph, by which the CPU then links it. Runs in the current rayon
    /// pool. Cost: a byte per coordinate.
    ///
    /// # Errors
    /// Returns [`VectorError`] if memory cannot be allocated.
    pub(crate) fn quantize_graph(&self, graph: &mut Graph) -> Result<(), VectorError> {
        let metric = sq8_metric(graph.metric());
        graph.vectors_mut().build_sq8(metric, self.dimension(), self.scale, |vectors, chunks| {
            parallel::for_each(chunks, |chunk| self.quantize_chunk(vectors, chunk));
        })
    }

    /// The centers, the rotation and the step for the vectors of `graph`, without a trial. Runs in the current rayon
    /// pool.
    pub fn new(graph: &Graph) -> Self {
        let sample = vertices_of(graph, SAMPLE_VECTORS);
        let is_ip = graph.metric() == Metric::InnerProduct;
        let centers =
            if is_ip { graph.vectors().center_coordinates().to_vec() } else { means(graph, &sample) };
        let plain = Self { centers, rotation: None, scale: 1.0, sq4: None };
        let mut largest = plain.largest_difference(graph, &sample, CLAMPED_DIVISOR);
        let mut quantizer = plain;
        if graph.dimension() >= MIN_ROTATED_DIMENSION {
            let rotation = Some(Rotation::new(graph.dimension(), SAMPLE_SEED));
            let rotated = Self { rotation, ..quantizer.clone() };
            let largest_rotated = rotated.largest_difference(graph, &sample, CLAMPED_DIVISOR);
            if largest_rotated * ROTATION_GAIN < largest {
                (quantizer, largest) = (rotated, largest_rotated);
            }
        }
        if is_ip {
            let all: Vec<Slot> = graph.keys().vertices().collect();
            largest = quantizer.largest_difference(graph, &all, usize::MAX);
        }
        Self { scale: steps_of(largest), ..quantizer }
    }

    /// The largest difference from the center in any dimension, if one vector in `divisor` may have a larger one there.
    fn largest_difference(&self, graph: &Graph, slots: &[Slot], divisor: usize) -> f32 {
        let dimension = self.dimension();
        if divisor > slots.len() {
            let of_task = |slots: &[Slot]| {
                let (mut largest, mut scratch) = (0.0_f32, Scratch::default());
                for &slot in slots {
                    let values = self.differences(graph.vectors(), slot, &mut scratch);
                    largest = values.iter().fold(largest, |largest, x| largest.max(x.abs()));
                }
                largest
            };
            return parallel::map(slots.chunks(TASK_VECTORS), of_task).into_iter().fold(0.0, f32::max);
        }
        let mut rows = vec![0.0; slots.len() * dimension];
        let tasks = rows.chunks_mut(TASK_VECTORS * dimension).zip(slots.chunks(TASK_VECTORS));
        parallel::for_each(tasks, |(rows, slots)| {
            let mut scratch = Scratch::default();
            for (row, &slot) in rows.chunks_exact_mut(dimension).zip(slots) {
                row.copy_from_slice(self.differences(graph.vectors(), slot, &mut scratch));
            }
        });
        let of_dimension = |column: usize| {
            let mut values: Vec<f32> = rows.iter().skip(column).step_by(dimension).map(|x| x.abs()).collect();
            let cut = values.len() - values.len().div_ceil(divisor);
            *values.select_nth_unstable_by(cut, f32::total_cmp).1
        };
        parallel::map(0..dimension, of_dimension).into_iter().fold(0.0, f32::max)
    }

    /// The differences of a vector from the centers, rotated if there is a rotation.
    fn differences<'a>(&self, vectors: &VectorTable, slot: Slot, scratch: &'a mut Scratch) -> &'a [f32] {
        let Scratch { differences, rotated } = scratch;
        differences.resize(self.centers.len(), 0.0);
        vectors.read_f32(slot, differences);
        differences.iter_mut().zip(&self.centers).for_each(|(x, center)| *x -= center);
        let Some(rotation) = &self.rotation else { return differences };
        rotated.resize(rotation.rotated_dimension(), 0.0);
        rotation.rotate(differences, rotated, rotation.rotated_dimension());
        rotated
    }

    /// Quantizes a vector.
    fn quantize(&self, vectors: &VectorTable, slot: Slot, scratch: &mut Scratch, bytes: &mut [i8]) {
        let differences = self.differences(vectors, slot, scratch).iter();
        bytes.iter_mut().zip(differences).for_each(|(byte, x)| *byte = nearest_byte(x * self.scale));
    }

    fn quantize_chunk(&self, vectors: &VectorTable, mut chunk: VectorChunk<'_>) {
        let (mut bytes, mut scratch) = (vec![0_i8; self.width()], Scratch::default());
        for number in chunk.numbers() {
            self.quantize(vectors, Slot::from_index(number), &mut scratch, &mut bytes);
            // No metric of quantized vectors needs their norms.
            chunk.set(number, &bytes, 0.0);
        }
    }

    /// `[slots][padded dimension]`: the quantized vectors of some slots.
    pub fn quantize_slots(&self, graph: &Graph, slots: &[Slot]) -> Vec<i8> {
        let width = self.width();
        let (mut bytes, mut scratch) = (vec![0; slots.len() * width], Scratch::default());
        for (bytes, &slot) in bytes.chunks_exact_mut(width).zip(slots) {
            self.quantize(graph.vectors(), slot, &mut scratch, bytes);
        }
        bytes
    }
}

/// The [`TRIAL_CANDIDATES`] nearest by bytes to each of a sample, without itself.
struct Nearest<'a> {
    quantizer: &'a ScalarQuantizer,
    graph: &'a Graph,
    sample: Vec<Slot>,
    /// `[sample][width]`
    bytes: Vec<i8>,
    lists: Vec<TopK>,
}

impl<'a> Nearest<'a> {
    fn new(quantizer: &'a ScalarQuantizer, graph: &'a Graph, sample: Vec<Slot>) -> Self {
        let bytes = quantizer.quantize_slots(graph, &sample);
        let lists = vec![TopK::new(TRIAL_CANDIDATES); sample.len()];
        Self { quantizer, graph, sample, bytes, lists }
    }

    /// Adds slots. Runs in the current rayon pool.
    fn add(&mut self, slots: &[Slot]) {
        let width = self.quantizer.width();
        let bounds: Vec<f32> = self.lists.iter().map(TopK::farthest).collect();
        let add_chunk = |mut lists: Vec<TopK>, chunk: &[Slot]| {
            let bytes = self.quantizer.quantize_slots(self.graph, chunk);
            let rows: Vec<_> = bytes.chunks_exact(width).collect();
            let mut distances = vec![0.0; chunk.len()];
            let queries = self.sample.iter().zip(self.bytes.chunks_exact(width)).zip(&bounds);
            for (((query, vector), &bound), list) in queries.zip(&mut lists) {
                byte_distances(self.graph.metric(), vector, &rows, &mut distances);
                let farthest = list.farthest().min(bound);
                let near = chunk.iter().zip(&distances).filter(|&(_, &distance)| distance <= farthest);
                let others = near.filter(|(slot, _)| *slot != query);
                others.for_each(|(&slot, &distance)| list.add(Neighbor::new(distance, slot)));
            }
            lists
        };
        // Lists of all queries take 1.6 MB: one for each thread, and not for each task that threads steal.
        let part = slots.len().div_ceil(rayon::current_num_threads()).max(1);
        let none = || vec![TopK::new(TRIAL_CANDIDATES); self.sample.len()];
        let of_part = |part: &[Slot]| part.chunks(TRIAL_CHUNK).fold(none(), add_chunk);
        for of_part in parallel::map(slots.chunks(part), of_part) {
            for (list, nearest) in self.lists.iter_mut().zip(of_part) {
                nearest.into_sorted().into_iter().for_each(|neighbor| list.add(neighbor));
            }
        }
    }

    /// The slots, nearest first.
    fn into_slots(self) -> Vec<Vec<Slot>> {
        let slots = |list: TopK| list.into_sorted().into_iter().map(|near| near.slot()).collect();
        self.lists.into_iter().map(slots).collect()
    }
}

/// The mean of some vectors in each dimension; zeros if there are none.
fn means(graph: &Graph, slots: &[Slot]) -> Vec<f32> {
    with_element!(graph.element(), T => parallel::map(0..graph.dimension(), |column| {
        let value = |&slot: &Slot| f64::from(graph.vectors().get::<T>(slot)[column].to_f32());
        let sum: f64 = slots.iter().map(value).sum();
        (sum / slots.len().max(1) as f64) as f32
    }))
}

/// The distances of quantized `rows` from a quantized vector, where vectors are compared by `metric`.
fn byte_distances(metric: Metric, vector: &[i8], rows: &[&[i8]], distances: &mut [f32]) {
    let fns = i8::distance_fns();
    match sq8_metric(metric) {
        Metric::InnerProduct => {
            (fns.dot_many)(vector, rows, distances);
            distances.iter_mut().for_each(|product| *product = -*product);
        }
        Metric::L2 | Metric::Cosine => (fns.squared_l2_many)(vector, rows, distances),
    }
}

/// How many of the nearest neighbors of some vectors two kinds of distances agree on.
#[derive(Clone, Copy, Debug, Default)]
struct Overlap {
    /// Neighbors that both find.
    found: usize,
    /// Neighbors that one finds.
    neighbors: usize,
    /// Vectors of which both find less than [`MIN_KEPT`].
    lost: usize,
    vectors: usize,
}

impl Overlap {
    /// Of a vector, given the nearest others to it, nearest first, and their other distances.
    fn of(nearest: &[Slot], distances: &[f32]) -> Self {
        let mut others: Vec<_> =
            distances.iter().zip(nearest).map(|(&distance, &slot)| Neighbor::new(distance, slot)).collect();
        others.sort_unstable();
        others.truncate(TRIAL_NEIGHBORS);
        let first = &nearest[..others.len()];
        let found = others.iter().filter(|other| first.contains(&other.slot())).count();
        let is_lost = (found as f64) < MIN_KEPT * first.len() as f64;
        Self { found, neighbors: first.len(), lost: is_lost.into(), vectors: 1 }
    }

    /// Of bytes, by which these are the nearest of each vector, with exact distances. Runs in the current rayon pool.
    fn with_exact(graph: &Graph, trials: &[(Slot, &[Slot])]) -> Self {
        let of_vector = |&(query, nearest): &(Slot, &[Slot])| {
            let mut distances = vec![0.0; nearest.len()];
            let vectors = graph.vectors();
            with_element!(graph.element(), T => {
                vectors.distance_computer_from::<T>(Origin::Center, query).compute(nearest, &mut distances);
            });
            Self::of(nearest, &distances)
        };
        parallel::map(trials, of_vector).into_iter().fold(Self::default(), Self::plus)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            found: self.found + other.found,
            neighbors: self.neighbors + other.neighbors,
            lost: self.lost + other.lost,
            vectors: self.vectors + other.vectors,
        }
    }

    /// Whether enough neighbors are found of all vectors together, and some of nearly each.
    fn is_enough(self, min_found: f64) -> bool {
        self.found as f64 >= min_found * self.neighbors as f64
            && self.lost as f64 <= MAX_LOST * self.vectors as f64
    }
}

/// The vectors of a trial among `slots`.
fn trial_sample_of(slots: Vec<Slot>) -> Vec<Slot> {
    let most = (slots.len() / TRIAL_ONE_IN).clamp(*TRIAL_VECTORS.start(), *TRIAL_VECTORS.end());
    sampled(slots, most)
}

/// At most `most` of the vertices of a graph: a random sample, so that no order of the rows hides a part of them.
fn vertices_of(graph: &Graph, most: usize) -> Vec<Slot> {
    sampled(graph.keys().vertices().collect(), most)
}

/// At most `most` of the slots, a random sample, in their order.
fn sampled(slots: Vec<Slot>, most: usize) -> Vec<Slot> {
    if slots.len() <= most {
        return slots;
    }
    let order = Permutation::new(slots.len(), SAMPLE_SEED);
    let mut sample: Vec<Slot> = (0..most as u32).map(|position| slots[order.at(position) as usize]).collect();
    sample.sort_unstable();
    sample
}

/// Steps per unit, if the largest coordinate is `max_abs`. The square of it is finite.
fn steps_of(max_abs: f32) -> f32 {
    if max_abs > 0.0 { (LARGEST / max_abs).min(LARGEST_SCALE) } else { 1.0 }
}

/// The nearest byte: the sum is so large that its last bit is worth 1, and the addition vectorizes.
#[inline(always)]
fn nearest_byte(x: f32) -> i8 {
    const WHOLE: f32 = 12_582_912.0;
    (x.clamp(-LARGEST, LARGEST) + WHOLE).to_bits() as i8
}

#[cfg(test)]
mod tests;
