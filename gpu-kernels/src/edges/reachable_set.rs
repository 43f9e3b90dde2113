//! The breadth-first search, one launch per step.

use super::{Reach, ReachArgs};
use crate::bits::SLOTS_PER_WORD;
use crate::graph::NO_SLOT;
use crate::{Buffer, DevicePtrMut, Stream};

/// Rows have a length that is a multiple of this.
const EDGES_ALIGN: usize = 32;

/// The set of slots that can be reached.
pub struct ReachableSet<S: Stream> {
    bits: S::Buffer<u32>,
    /// `[slots]`: the slots of the set, in the order in which they were reached.
    queue: S::Buffer<u32>,
    /// `[1]`
    len: S::Buffer<u32>,
    /// Number of slots at the start of the queue that have been expanded.
    expanded: u32,
}

impl<S: Stream> ReachableSet<S> {
    /// The empty set out of `slots`: [`bytes`](Self::bytes) of device memory.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be allocated.
    pub fn empty(stream: &S, slots: u32) -> Result<Self, S::Error> {
        let mut bits = stream.allocate(slots.div_ceil(SLOTS_PER_WORD) as usize)?;
        stream.fill(&mut bits, 0)?;
        Self::of_bits(stream, slots, bits)
    }

    /// The set of the `avoided` slots, a bit per slot, through which no path will be followed.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be allocated.
    ///
    /// # Panics
    /// Panics if there is not a bit for each of the `slots`.
    pub fn avoiding(stream: &S, slots: u32, avoided: &[u32]) -> Result<Self, S::Error> {
        assert_eq!(avoided.len(), slots.div_ceil(SLOTS_PER_WORD) as usize);
        Self::of_bits(stream, slots, stream.upload(avoided)?)
    }

    /// The set of the slots of these bits, none of which will be expanded.
    fn of_bits(stream: &S, slots: u32, bits: S::Buffer<u32>) -> Result<Self, S::Error> {
        Ok(Self { bits, queue: stream.allocate(slots as usize)?, len: stream.upload(&[0])?, expanded: 0 })
    }

    /// Bytes of device memory of a set out of `slots`: a little more than 4 per slot.
    pub const fn bytes(slots: u32) -> u64 {
        (slots as u64 + slots.div_ceil(SLOTS_PER_WORD) as u64 + 1) * size_of::<u32>() as u64
    }

    /// A bit per slot: whether it is reached.
    pub fn bits(&self) -> &S::Buffer<u32> {
        &self.bits
    }

    /// Adds `from` and everything reachable from there; `edges` is `[slots][edges_stride]`. If there are `parents`,
    /// `[slots]`, those of new slots are set to the vertex by which each was reached, but for `from`.
    ///
    /// One synchronous launch per step; each row is read once, over all calls.
    ///
    /// # Errors
    /// Returns the device's error.
    ///
    /// # Panics
    /// Panics if rows have another length, or a table has fewer rows than the set has slots.
    pub fn extend(
        &mut self,
        stream: &S,
        edges: &S::Buffer<u32>,
        edges_stride: u32,
        from: &[u32],
        parents: Option<&mut S::Buffer<u32>>,
    ) -> Result<(), S::Error> {
        let places = self.queue.len() * edges_stride as usize;
        assert!(
            edges.len() >= places && (edges_stride as usize).is_multiple_of(EDGES_ALIGN),
            "rows of {edges_stride} places for {} slots are not {} places",
            self.queue.len(),
            edges.len()
        );
        assert!(parents.as_ref().is_none_or(|parents| parents.len() >= self.queue.len()));
        let parents = parents.map_or(DevicePtrMut::null(), |parents| stream.output(parents));
        // The first launch expands a vertex outside of the graph, whose neighbors are `from`.
        let mut start = from.to_vec();
        start.resize(from.len().next_multiple_of(EDGES_ALIGN), NO_SLOT);
        let (outside, start_row) = (stream.upload(&[0])?, stream.upload(&start)?);
        let first = ReachArgs {
            edges: stream.input(&start_row),
            vertices: stream.input(&outside),
            reached: stream.output(&mut self.bits),
            queue: stream.output(&mut self.queue),
            queue_len: stream.output(&mut self.len),
            parents: DevicePtrMut::null(),
            vertices_len: 1,
            slots: self.queue.len() as u32,
            edges_stride: start.len() as u32,
        };
        // SAFETY: there is one row, of the given length; the set and the queue have room for every slot.
        unsafe { stream.launch(&Reach, first)? };
        loop {
            let end = stream.download(&self.len)?[0];
            if end == self.expanded {
                return Ok(());
            }
            let next = ReachArgs {
                edges: stream.input(edges),
                vertices: stream.input(&self.queue).add(self.expanded as usize),
                vertices_len: end - self.expanded,
                edges_stride,
                parents,
                ..first
            };
            // SAFETY: as above; the queue holds slots, which have rows, as asserted.
            unsafe { stream.launch(&Reach, next)? };
            self.expanded = end;
        }
    }
}
