//! Vectors quantized to bytes (SQ8) on the device, by whose distances a build or a large change chooses edges.

use std::fmt;

use gpu_kernels::graph::{DistanceForm, GraphArgs, NO_SLOT};
use gpu_kernels::knn::{MAX_K, exact_knn};
use gpu_kernels::residuals::{ResidualArgs, Residuals, Rotate, RotateArgs};
use gpu_kernels::rows::{QuantizeSq4, QuantizeSq4Args, QuantizeSq8, QuantizeSq8Args};
use gpu_kernels::{Buffer as _, DevicePtr, RowShape, Stream};
use jasper_core::{Element, ElementKind, Slot, no_progress, padded_len};
use jasper_data::{ThreadPool, parallel};
use jasper_graph::Graph;
use jasper_vamana::{BuildSpec, ScalarQuantizer, sq8_metric};

use super::{DeviceGraph, KernelGraph, origins, write_rows};
use crate::build::{SEARCH_CHUNK, batch_bytes};
use crate::{MemoryPlan, MemorySpace};

/// Quantization reads each vector once and writes half of it or less, and a distance of bytes then saves half of a read
/// or more: it pays from this many distances per slot on.
const MIN_DISTANCES_PER_SLOT: u64 = 4;

/// Bytes of vectors on the device at once, while all of them are uploaded and quantized.
pub(crate) const UPLOAD_BYTES: usize = 64 << 20;

/// The vectors of a graph, quantized to bytes.
pub(crate) struct Sq8Rows<S: Stream> {
    /// Coordinates of a vector.
    dimension: usize,
    /// `[slots][padded dimension]`
    pub(super) bytes: S::Buffer<i8>,
    /// SQ4 vectors, which searches read instead.
    pub(super) sq4: Option<Sq4Rows<S>>,
    /// Steps per unit of a coordinate.
    scale: f32,
}

/// The vectors of a graph by 4 bits per coordinate.
pub(super) struct Sq4Rows<S: Stream> {
    /// `[slots][sq4_row_bytes / 4]`
    rows: S::Buffer<u32>,
    /// The base-2 logarithm of the steps of SQ8 in a step.
    shift: u32,
}

/// Whether edges may be chosen by SQ8 distances, by a trial of an earlier change or of this one.
#[derive(Clone, Debug)]
pub(super) struct Sq8Trial {
    /// `None` if bytes do not tell the vectors apart.
    pub(super) quantizer: Option<ScalarQuantizer>,
    /// Slots at the time.
    pub(super) slots: usize,
}

impl Sq8Trial {
    /// Whether the trial holds for the graph as it is: it has not grown by half, and the quantizer suits its new
    /// vectors.
    fn holds(&self, host: &Graph, new: &[Slot], pool: &ThreadPool) -> bool {
        let suits = |quantizer: &ScalarQuantizer| parallel::install(pool, || quantizer.suits(host, new));
        host.slots() <= self.slots + self.slots / 2 && self.quantizer.as_ref().is_none_or(suits)
    }
}

/// What [`DeviceGraph::quantize_sq8`] found and made.
pub(super) type Sq8Linking<S> = (Sq8Trial, Option<Sq8Rows<S>>);

impl<S: Stream> DeviceGraph<S> {
    /// Quantizes the vectors to bytes for a change that computes about `distances` distances, unless the trial refuses
    /// them. Repeats the trial where the `last` does not hold. `None` if it does not pay, or there is no room beside
    /// the change.
    ///
    /// # Errors
    /// Returns the device's error.
    pub(super) fn quantize_sq8(
        &self,
        pool: &ThreadPool,
        host: &Graph,
        last: Option<&Sq8Trial>,
        new: &[Slot],
        distances: u64,
    ) -> Result<Option<Sq8Linking<S>>, S::Error> {
        let pays = distances / MIN_DISTANCES_PER_SLOT >= self.slots as u64;
        if self.element.is_integer() || !self.has_vectors || !pays {
            return Ok(None);
        }
        let Some(room_for_sq4) = self.room_beside_sq8(host, self.stream.free_bytes()?) else {
            return Ok(None);
        };
        let (trial, rows) = if let Some(last) = last.filter(|last| last.holds(host, new, pool)) {
            let rows = last.quantizer.as_ref().map(|quantizer| self.sq8_rows(quantizer)).transpose()?;
            (last.clone(), rows)
        } else if host.keys().free() == 0 {
            let quantizer = parallel::install(pool, || ScalarQuantizer::new(host));
            let rows = self.sq8_rows(&quantizer)?;
            let quantizer = rows.trial(&self.stream, pool, host, quantizer)?;
            let rows = quantizer.is_some().then_some(rows);
            (Sq8Trial { quantizer, slots: host.slots() }, rows)
        } else {
            // The device would find free slots, which have the bytes of their last vectors. Changes report no progress here.
            let quantizer = ScalarQuantizer::by_trial(host, pool, &mut no_progress).expect("not cancelled");
            let rows = quantizer.as_ref().map(|quantizer| self.sq8_rows(quantizer)).transpose()?;
            (Sq8Trial { quantizer, slots: host.slots() }, rows)
        };
        let rows = match (&trial.quantizer, rows) {
            (Some(quantizer), Some(rows)) => Some(rows.with_sq4(&self.stream, quantizer, room_for_sq4)?),
            _ => None,
        };
        Ok(Some((trial, rows)))
    }

    /// Copies a graph to the device for a build by SQ8 distances: the vectors themselves are not there.
    ///
    /// # Errors
    /// Returns the device's error, such as out of memory: see [`plan_build`](crate::plan_build).
    ///
    /// # Panics
    /// Panics if there is not a row for each slot of the graph.
    pub(crate) fn with_sq8(stream: &S, graph: &Graph, rows: Sq8Rows<S>) -> Result<Self, S::Error>
    where
        S: Clone,
    {
        let (slots, width) = (graph.slots(), padded_len::<i8>(rows.dimension));
        assert_eq!(rows.bytes.len(), slots * width, "the vectors were quantized for this graph");
        let mut copy = Self::with_rows(stream, graph, stream.allocate(0)?)?;
        copy.sq8 = Some(rows);
        Ok(copy)
    }

    fn sq8_rows(&self, quantizer: &ScalarQuantizer) -> Result<Sq8Rows<S>, S::Error> {
        let mut sq8 = Sq8Rows::allocate(&self.stream, self.slots, quantizer)?;
        sq8.write(&self.stream, self.element, &self.rows, 0, self.slots, quantizer)?;
        Ok(sq8)
    }

    /// What may be used of `free` bytes beside SQ8 vectors, the undo log and the largest step of a change, if these fit.
    fn room_beside_sq8(&self, host: &Graph, free: u64) -> Option<u64> {
        let spec = BuildSpec::of(host);
        let edges = self.slots * self.edges_stride * size_of::<u32>();
        let plan = MemoryPlan::new("a change by SQ8 distances")
            .part(
                MemorySpace::Device,
                "SQ8 vectors",
                (self.slots * padded_len::<i8>(spec.sq8().dimension)) as u64,
            )
            .part(MemorySpace::Device, "undo log", 2 * edges as u64)
            .part(
                MemorySpace::Device,
                "largest batch",
                batch_bytes(self.slots.min(SEARCH_CHUNK), &spec).max(UPLOAD_BYTES as u64),
            );
        plan.left(MemorySpace::Device, free)
    }

    /// The graph as kernels of builds and changes read it: with the SQ8 vectors, while there are some.
    pub(crate) fn linking_input(&self) -> KernelGraph {
        let Some(sq8) = &self.sq8 else {
            let form = DistanceForm::between_vertices(self.metric, self.element.is_integer());
            return KernelGraph { form, ..self.input() };
        };
        let args = GraphArgs {
            vectors: sq8.bytes.input().cast(),
            shape: RowShape::new(padded_len::<i8>(sq8.dimension) as u32),
            origins: origins(&self.center.of_scaled_differences(sq8.scale)),
            ..self.tables()
        };
        KernelGraph {
            args,
            element: i8::KIND,
            form: DistanceForm::between_vertices(sq8_metric(self.metric), i8::EXACT_SUMS),
        }
    }

    /// [`Self::linking_input`] with SQ4 vectors, which searches for many vertices read, if there are any.
    pub(crate) fn sq4_input(&self) -> Option<GraphArgs> {
        let sq8 = self.sq8.as_ref()?;
        let sq4 = sq8.sq4.as_ref()?;
        let shape = RowShape::new(sq4_row_bytes(sq8.dimension));
        let scale = sq8.scale / (1 << sq4.shift) as f32;
        let origins = origins(&self.center.of_scaled_differences(scale));
        Some(GraphArgs { vectors: sq4.rows.input().cast(), shape, origins, ..self.linking_input().args })
    }
}

/// Bytes of an SQ4 vector, padded to pieces of 64 bytes, so that lanes have equal shares and rows touch few cache lines.
pub(crate) fn sq4_row_bytes(dimension: usize) -> u32 {
    dimension.div_ceil(2).next_multiple_of(64) as u32
}

impl<S: Stream> fmt::Debug for Sq8Rows<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sq8Rows").field("scale", &self.scale).finish_non_exhaustive()
    }
}

impl<S: Stream> Sq8Rows<S> {
    /// `[slots][padded dimension]`: the bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &S::Buffer<i8> {
        &self.bytes
    }

    /// Memory for `slots` rows.
    fn allocate(stream: &S, slots: usize, quantizer: &ScalarQuantizer) -> Result<Self, S::Error> {
        let dimension = quantizer.dimension();
        let bytes = stream.allocate(slots * padded_len::<i8>(dimension))?;
        Ok(Self { dimension, bytes, sq4: None, scale: quantizer.scale() })
    }

    /// Adds SQ4 vectors, if they tell the vectors apart, save time, and fit into `room` bytes.
    ///
    /// # Errors
    /// Returns the device's error.
    pub(crate) fn with_sq4(
        self,
        stream: &S,
        quantizer: &ScalarQuantizer,
        room: u64,
    ) -> Result<Self, S::Error> {
        let Some(shift) = quantizer.sq4_shift() else { return Ok(self) };
        let (width, row_bytes) = (padded_len::<i8>(self.dimension), sq4_row_bytes(self.dimension) as usize);
        let slots = self.bytes.len() / width;
        if (slots * row_bytes) as u64 > room {
            return Ok(self);
        }
        let (byte_words, row_words) = (width / size_of::<u32>(), row_bytes / size_of::<u32>());
        let mut sq4 = stream.allocate(slots * row_words)?;
        let args = QuantizeSq4Args {
            bytes: stream.input(&self.bytes).cast(),
            sq4: stream.output(&mut sq4),
            rows_len: slots as u32,
            byte_words: byte_words as u32,
            row_words: row_words as u32,
            shift,
        };
        // SAFETY: both tables have a row of these words for each slot.
        unsafe { stream.launch(&QuantizeSq4, args)? };
        Ok(Self { sq4: Some(Sq4Rows { rows: sq4, shift }), ..self })
    }

    /// Whether there are SQ4 vectors.
    pub(crate) fn has_sq4(&self) -> bool {
        self.sq4.is_some()
    }

    /// Uploads the vectors of `graph`, some at a time, and quantizes them. The host's part runs in the current rayon
    /// pool.
    ///
    /// # Errors
    /// Returns the device's error.
    pub(crate) fn upload(stream: &S, graph: &Graph, quantizer: &ScalarQuantizer) -> Result<Self, S::Error> {
        let (slots, width) = (graph.slots(), graph.vectors().row_bytes());
        let mut sq8 = Self::allocate(stream, slots, quantizer)?;
        let at_once = (UPLOAD_BYTES / width).clamp(1, slots.max(1));
        let mut vectors = stream.allocate(at_once * width)?;
        for first in (0..slots).step_by(at_once) {
            let rows = at_once.min(slots - first);
            write_rows(stream, &mut vectors, 0..rows, width, &|row, out| {
                out.copy_from_slice(graph.vectors().padded_bytes(Slot::from_index(first + row.index())));
            })?;
            sq8.write(stream, graph.element(), &vectors, first, rows, quantizer)?;
        }
        Ok(sq8)
    }

    /// The quantizer, if a [trial](ScalarQuantizer::accepted) accepts these vectors of `graph`, which has no free slots.
    /// The device searches for the nearest by bytes, among all of them; the host's part runs in `pool`.
    ///
    /// # Errors
    /// Returns the device's error.
    pub(crate) fn trial(
        &self,
        stream: &S,
        pool: &ThreadPool,
        graph: &Graph,
        quantizer: ScalarQuantizer,
    ) -> Result<Option<ScalarQuantizer>, S::Error> {
        let sample = ScalarQuantizer::trial_sample(graph);
        if sample.is_empty() {
            return Ok(Some(quantizer));
        }
        let queries = stream.upload(&quantizer.quantize_slots(graph, &sample))?;
        let metric = sq8_metric(graph.metric());
        let found = exact_knn(stream, metric, self.dimension, MAX_K, &self.bytes, graph.slots(), &queries)?;
        let others = |(&query, rows): (&Slot, &[u32])| {
            let slots = rows.iter().filter(|&&row| row != NO_SLOT).map(|&row| Slot::new(row));
            slots.filter(|&slot| slot != query).collect()
        };
        let nearest: Vec<_> = sample.iter().zip(found.ids().chunks(MAX_K)).map(others).collect();
        Ok(parallel::install(pool, || quantizer.accepted(graph, &sample, &nearest)))
    }

    /// Quantizes the first `rows` of `vectors`, those of the slots from `first` on.
    fn write(
        &mut self,
        stream: &S,
        element: ElementKind,
        vectors: &S::Buffer<u8>,
        first: usize,
        rows: usize,
        quantizer: &ScalarQuantizer,
    ) -> Result<(), S::Error> {
        let row_len = element.padded_len(quantizer.centers().len());
        let row_bytes = element.row_bytes(quantizer.centers().len());
        assert!(rows * row_bytes <= vectors.len());
        assert!((first + rows) * padded_len::<i8>(self.dimension) <= self.bytes.len());
        let mut centers = quantizer.centers().to_vec();
        centers.resize(row_len, 0.0);
        let centers = stream.upload(&centers)?;
        let from = Rows { rows: stream.input(vectors), row_bytes, element, centers: stream.input(&centers) };
        let Some(rotation) = quantizer.rotation() else {
            // SAFETY: both tables have these rows, as asserted, all of which hold vectors; there is a center for each
            // coordinate of a row. The tables are freed after the launch.
            return unsafe { self.quantize(stream, from, first, rows) };
        };
        let (rotated, factors) = (rotation.rotated_dimension(), stream.upload(rotation.factors())?);
        let zeros = stream.upload(&vec![0.0_f32; rotated])?;
        let at_once = (UPLOAD_BYTES / (rotated * size_of::<f32>())).clamp(1, rows.max(1));
        let (mut values, mut sums) = (stream.allocate(at_once * rotated)?, stream.allocate(at_once)?);
        for begin in (0..rows).step_by(at_once) {
            let len = at_once.min(rows - begin);
            let differences = ResidualArgs {
                rows: from.rows.add(begin * from.row_bytes),
                center: from.centers,
                residuals: stream.output(&mut values),
                sums: stream.output(&mut sums),
                rows_len: len as u32,
                row_bytes: from.row_bytes as u32,
                dimension: quantizer.centers().len() as u32,
                stride: rotated as u32,
                normalizes: 0,
            };
            let rotate = RotateArgs {
                values: stream.output(&mut values),
                factors: stream.input(&factors),
                rows_len: len as u32,
                dimension: rotated as u32,
            };
            let rotated_rows = Rows {
                rows: stream.input(&values).cast(),
                row_bytes: rotated * size_of::<f32>(),
                element: ElementKind::F32,
                centers: stream.input(&zeros),
            };
            // SAFETY: as above, for these rows; there is a place for each rotated coordinate of as many rows.
            unsafe {
                stream.launch(&Residuals { element }, differences)?;
                stream.launch(&Rotate::new(rotated as u32), rotate)?;
                self.quantize(stream, rotated_rows, first + begin, len)?;
            }
        }
        Ok(())
    }

    /// Quantizes the first `len` rows of a table, those of the slots from `first` on.
    ///
    /// # Safety
    /// Both tables have these rows, and `from` has a center for each coordinate of a row.
    unsafe fn quantize(&mut self, stream: &S, from: Rows, first: usize, len: usize) -> Result<(), S::Error> {
        let row_words = padded_len::<i8>(self.dimension) / size_of::<u32>();
        let args = QuantizeSq8Args {
            vectors: from.rows,
            centers: from.centers,
            bytes: stream.output(&mut self.bytes).cast().add(first * row_words),
            rows_len: len as u32,
            row_bytes: from.row_bytes as u32,
            row_words: row_words as u32,
            scale: self.scale,
        };
        // SAFETY: upheld by the caller.
        unsafe { stream.launch(&QuantizeSq8 { element: from.element }, args) }
    }
}

/// Rows of floats to quantize, and what is subtracted from each.
#[derive(Clone, Copy)]
struct Rows {
    rows: DevicePtr<u8>,
    row_bytes: usize,
    element: ElementKind,
    centers: DevicePtr<f32>,
}
