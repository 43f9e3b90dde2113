//! Vectors rounded to bytes on the device, while a large change links by them.

use gpu_kernels::rows::{RoundArgs, RoundRows};
use gpu_kernels::{Buffer as _, DevicePtr, RowShape, Stream};
use jasper_core::{Element, Slot, padded_len};
use jasper_data::ThreadPool;
use jasper_graph::Graph;
use jasper_vamana::{BuildSpec, ByteRounding, quantized_metric};

use super::{DeviceGraph, GraphInput, form};
use crate::build::{SEARCH_CHUNK, batch_bytes};
use crate::{Bytes, MemoryPlan, MemorySpace};

/// Rounding reads each vector once and writes half of it or less, and a distance of bytes then saves half of a read or
/// more: it pays from this many distances per slot on.
const MIN_DISTANCES_PER_SLOT: u64 = 4;

/// The vectors of a graph, rounded.
#[derive(Debug)]
pub(super) struct RoundedRows<S: Stream> {
    /// `[slots][words]`: four coordinates per word.
    pub(super) words: S::Buffer<u32>,
    /// Steps per unit of a coordinate.
    scale: f32,
}

/// Whether vectors may be rounded, by a trial of an earlier change or of this one.
#[derive(Clone, Debug)]
pub(super) struct RoundingTrial {
    /// `None` if bytes do not tell the vectors apart.
    pub(super) rounding: Option<ByteRounding>,
    /// Slots at the time.
    pub(super) slots: usize,
}

impl RoundingTrial {
    fn new<T: Element>(host: &Graph<T>, pool: &ThreadPool) -> Self {
        Self { rounding: pool.install(|| ByteRounding::by_trial(host)), slots: host.slots() }
    }

    /// Whether the trial holds for the graph as it is: it has not grown by half, and the rounding suits its new vectors.
    fn holds<T: Element>(&self, host: &Graph<T>, new: &[Slot], pool: &ThreadPool) -> bool {
        let suits = |rounding: &ByteRounding| pool.install(|| rounding.suits(host, new));
        host.slots() <= self.slots + self.slots / 2 && self.rounding.as_ref().is_none_or(suits)
    }
}

/// What [`DeviceGraph::round`] found and made.
pub(super) type Rounded<S> = (RoundingTrial, Option<RoundedRows<S>>);

impl<T: Element, S: Stream> DeviceGraph<T, S> {
    /// Rounds the vectors for a change that computes about `distances` distances, unless the trial refuses it. Repeats
    /// the trial where the `last` does not hold. `None` if rounding does not pay, or there is no room beside the change.
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn round(
        &self,
        (stream, pool): (&S, &ThreadPool),
        host: &Graph<T>,
        last: Option<&RoundingTrial>,
        new: &[Slot],
        distances: u64,
    ) -> Result<Option<Rounded<S>>, S::Error> {
        let pays = distances / MIN_DISTANCES_PER_SLOT >= self.slots as u64;
        if T::EXACT || !self.has_vectors || !pays || !self.has_room_to_round(host, stream.free_bytes()?) {
            return Ok(None);
        }
        let trial = match last.filter(|last| last.holds(host, new, pool)) {
            Some(last) => last.clone(),
            None => RoundingTrial::new(host, pool),
        };
        let rows = trial.rounding.as_ref().map(|rounding| self.round_rows(stream, rounding)).transpose()?;
        Ok(Some((trial, rows)))
    }

    fn round_rows(&self, stream: &S, rounding: &ByteRounding) -> Result<RoundedRows<S>, S::Error> {
        let (row_len, row_words) = (self.row_len(), padded_len::<i8>(self.dimension) / size_of::<u32>());
        let mut centers = rounding.centers().to_vec();
        centers.resize(row_len, 0.0);
        let centers = stream.upload(&centers)?;
        let mut words = stream.allocate(self.slots * row_words)?;
        let args = RoundArgs {
            vectors: self.rows.input().cast(),
            centers: centers.input(),
            bytes: words.output(),
            rows: self.slots as u32,
            row_bytes: (row_len * size_of::<T>()) as u32,
            row_words: row_words as u32,
            scale: rounding.scale(),
        };
        // SAFETY: both tables have a row for each slot, of these lengths, and all slots have vectors; there is a center
        // for each coordinate of a row. They are freed after the launch.
        unsafe { stream.launch(&RoundRows { element: T::KIND }, args)? };
        Ok(RoundedRows { words, scale: rounding.scale() })
    }

    /// Whether rounded vectors fit beside the undo log and the largest step of a change.
    fn has_room_to_round(&self, host: &Graph<T>, free: u64) -> bool {
        let shape = BuildSpec::of(host);
        let edges = self.slots * self.edges_stride * size_of::<u32>();
        let plan = MemoryPlan::new("a change by bytes")
            .part(
                MemorySpace::Device,
                "rounded vectors",
                (self.slots * padded_len::<i8>(self.dimension)) as u64,
            )
            .part(MemorySpace::Device, "undo log", 2 * edges as u64)
            .part(MemorySpace::Device, "largest batch", batch_bytes(self.slots.min(SEARCH_CHUNK), &shape));
        plan.check(Bytes { device: free, host: u64::MAX }).is_ok()
    }

    /// The graph as kernels of changes read it: the rounded vectors, while there are some.
    pub(crate) fn linking_input(&self) -> GraphInput {
        let input = self.input();
        let Some(RoundedRows { words, scale }) = &self.rounded else { return input };
        let mut args = input.args;
        args.rows = words.input().cast();
        args.shape = RowShape::new(padded_len::<i8>(self.dimension) as u32);
        args.squared_norms = DevicePtr::null();
        args.largest_squared_norm *= scale * scale;
        GraphInput { args, element: i8::KIND, form: form::<i8>(quantized_metric(self.metric)) }
    }
}
