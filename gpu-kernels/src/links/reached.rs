//! The breadth-first search, one launch per level.

use super::{Reach, ReachArgs};
use crate::bits::WORD;
use crate::graph::NO_ROW;
use crate::{Buffer, Stream};

/// Links per row are a multiple of this.
const LINKS_ALIGN: usize = 32;

/// The set of slots that can be reached.
pub struct Reached<S: Stream> {
    bits: S::Buffer<u32>,
    /// `[slots]`: the slots of the set, in the order in which they were reached.
    queue: S::Buffer<u32>,
    /// `[1]`
    len: S::Buffer<u32>,
    /// The number of slots of the queue that are expanded.
    expanded: u32,
}

impl<S: Stream> Reached<S> {
    /// The empty set out of `slots`: [`bytes`](Self::bytes) of device memory.
    ///
    /// # Errors
    /// Out of memory.
    pub fn empty(stream: &S, slots: u32) -> Result<Self, S::Error> {
        let mut bits = stream.allocate(slots.div_ceil(WORD) as usize)?;
        stream.fill(&mut bits, 0)?;
        Ok(Self { bits, queue: stream.allocate(slots as usize)?, len: stream.upload(&[0])?, expanded: 0 })
    }

    /// Bytes of device memory of a set out of `slots`: a little more than 4 per slot.
    pub const fn bytes(slots: u32) -> u64 {
        (slots as u64 + slots.div_ceil(WORD) as u64 + 1) * size_of::<u32>() as u64
    }

    /// A bit per slot: whether it is reached.
    pub fn bits(&self) -> &S::Buffer<u32> {
        &self.bits
    }

    /// Adds `from` and everything reachable from there; `links` is `[slots][links_stride]`.
    ///
    /// One synchronous launch per level; each row is read once, over all calls.
    ///
    /// # Errors
    /// Of the device.
    ///
    /// # Panics
    /// If there are no such links of all slots.
    pub fn extend(
        &mut self,
        stream: &S,
        links: &S::Buffer<u32>,
        links_stride: u32,
        from: &[u32],
    ) -> Result<(), S::Error> {
        let places = self.queue.len() * links_stride as usize;
        assert!(
            links.len() >= places && (links_stride as usize).is_multiple_of(LINKS_ALIGN),
            "rows of {links_stride} places for {} slots are not {} places",
            self.queue.len(),
            links.len()
        );
        // The first level expands a vertex outside of the graph, whose neighbors are `from`.
        let mut begin = from.to_vec();
        begin.resize(from.len().next_multiple_of(LINKS_ALIGN), NO_ROW);
        let (outside, begin_links) = (stream.upload(&[0])?, stream.upload(&begin)?);
        let step = ReachArgs {
            links: begin_links.input(),
            frontier: outside.input(),
            reached: self.bits.output(),
            queue: self.queue.output(),
            queue_len: self.len.output(),
            frontier_len: 1,
            slots: self.queue.len() as u32,
            links_stride: begin.len() as u32,
        };
        // SAFETY: one row of links, as long as it says; the set and the queue have room for every slot.
        unsafe { stream.launch(&Reach, step)? };
        loop {
            let end = stream.download(&self.len)?[0];
            if end == self.expanded {
                return Ok(());
            }
            let step = ReachArgs {
                links: links.input(),
                frontier: self.queue.input().add(self.expanded as usize),
                frontier_len: end - self.expanded,
                links_stride,
                ..step
            };
            // SAFETY: as above; the frontier is of slots, which have rows of links, as asserted.
            unsafe { stream.launch(&Reach, step)? };
            self.expanded = end;
        }
    }
}
