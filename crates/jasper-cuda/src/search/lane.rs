//! Where a wave of queries goes to the device and its answers come back.

use bytemuck::Pod;
use gpu_kernels::Buffer as _;
use gpu_kernels::search::Answer;

use super::pass::Places;
use crate::{Context, Pinned, Result, Stream};

/// Host memory for a wave, the way from there to the device and back, and a queue for its launch.
pub(crate) trait Lane<T> {
    /// The queue.
    type Stream: gpu_kernels::Stream;

    fn stream(&self) -> &Self::Stream;

    /// Memory for `len` elements of queries.
    fn queries(&mut self, len: usize) -> Result<&mut [T], ErrorOf<T, Self>>;

    /// Where a launch finds the first `len` elements of them, and room for what so many queries are answered.
    fn places(&mut self, len: usize, queries: usize, k: usize) -> Result<Places<T>, ErrorOf<T, Self>>;

    /// Answers and work of what was launched last, when it has run.
    fn answered(&mut self) -> Result<Answered<'_>, ErrorOf<T, Self>>;
}

/// What a launch has written.
pub(crate) struct Answered<'a> {
    /// `[queries][k]`
    pub(crate) answers: &'a [Answer],
    /// `[queries][2]`
    pub(crate) work: &'a [u32],
}

/// What can go wrong on the device of a lane.
pub(crate) type ErrorOf<T, L> = <<L as Lane<T>>::Stream as gpu_kernels::Stream>::Error;

/// Pinned memory that kernels read and write by themselves: no copy, no call but the launch and the wait. A query is
/// read once and an answer written once, so that nothing crosses the bus that a copy would not carry. The wait spins,
/// which wakes up soonest: contexts are opened with the driver's own choice, and that is to spin while a process has
/// fewer contexts than the machine has processors.
pub(crate) struct PinnedLane<T: Pod> {
    stream: Stream,
    queries: Pinned<T>,
    answers: Pinned<Answer>,
    work: Pinned<u32>,
    /// Answers and numbers of work of the last launch.
    written: (usize, usize),
}

impl<T: Pod> PinnedLane<T> {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            stream: Stream::new(context)?,
            queries: Pinned::zeroed(context, 0)?,
            answers: Pinned::zeroed(context, 0)?,
            work: Pinned::zeroed(context, 0)?,
            written: (0, 0),
        })
    }
}

/// Room for `len` elements: what there is, or new memory if that is too small.
fn grow<'a, T: Pod>(context: &Context, pinned: &'a mut Pinned<T>, len: usize) -> Result<&'a mut Pinned<T>> {
    if pinned.len() < len {
        *pinned = Pinned::zeroed(context, len.next_power_of_two())?;
    }
    Ok(pinned)
}

impl<T: Pod> Lane<T> for PinnedLane<T> {
    type Stream = Stream;

    fn stream(&self) -> &Stream {
        &self.stream
    }

    fn queries(&mut self, len: usize) -> Result<&mut [T]> {
        Ok(&mut grow(self.stream.context(), &mut self.queries, len)?[..len])
    }

    fn places(&mut self, _: usize, queries: usize, k: usize) -> Result<Places<T>> {
        self.written = (queries * k, queries * 2);
        let context = self.stream.context();
        Ok(Places {
            queries: self.queries.input(),
            answers: grow(context, &mut self.answers, self.written.0)?.output(),
            work: grow(context, &mut self.work, self.written.1)?.output(),
        })
    }

    fn answered(&mut self) -> Result<Answered<'_>> {
        self.stream.synchronize()?;
        Ok(Answered { answers: &self.answers[..self.written.0], work: &self.work[..self.written.1] })
    }
}

impl<T: Pod> Drop for PinnedLane<T> {
    fn drop(&mut self) {
        // Pinned memory must not go while the device uses it; a failure means that it no longer does.
        let _ = self.stream.synchronize();
    }
}
