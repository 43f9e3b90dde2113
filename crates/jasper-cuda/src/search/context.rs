//! Where a chunk of queries goes to the device and its answers come back.

use bytemuck::Pod;
use gpu_kernels::codes::QueryTerms;
use gpu_kernels::encode::{DeviceQuantizer, QueryCodes};
use gpu_kernels::search::Answer;
use gpu_kernels::{Buffer as _, DevicePtr, Stream as _};
use jasper_core::{Element, padded_len};

use super::launch::{BufferSizes, LaunchPointers};
use crate::{Buffer, Context, Pinned, Result, Stream};

/// Host memory for a chunk, the way from there to the device and back, and a queue for its launch.
pub(crate) trait SearchContext<T> {
    /// The queue.
    type Stream: gpu_kernels::Stream;

    fn stream(&self) -> &Self::Stream;

    /// The queue and, if one is wanted `rerank_stream`, another whose blocks go before those of others.
    #[expect(clippy::type_complexity, reason = "two queues")]
    fn streams(
        &mut self,
        rerank_stream: bool,
    ) -> Result<(&Self::Stream, Option<&Self::Stream>), ErrorOf<T, Self>>;

    /// Memory for queries, and for the codes of those that the host codes.
    fn query_buffers(&mut self, sizes: &BufferSizes) -> Result<QueryBuffers<'_, T>, ErrorOf<T, Self>>;

    /// Where launches find them, and room for what they are answered.
    fn pointers(&mut self, sizes: &BufferSizes) -> Result<LaunchPointers<T>, ErrorOf<T, Self>>;

    /// Codes the first so many of the queries that were prepared, on the device; gives their levels and terms.
    fn code(
        &mut self,
        quantizer: &DeviceQuantizer<Self::Stream>,
        queries: usize,
    ) -> Result<(DevicePtr<u32>, DevicePtr<QueryTerms>), ErrorOf<T, Self>>;

    /// Answers and work of what was launched last, when it has run.
    fn wait_results(&mut self) -> Result<Results<'_>, ErrorOf<T, Self>>;
}

/// Where queries are written.
pub(crate) struct QueryBuffers<'a, T> {
    /// `[queries][padded dimension]`
    pub(crate) queries: &'a mut [T],
    /// `[queries][words]`
    pub(crate) levels: &'a mut [u32],
    /// `[queries]`
    pub(crate) terms: &'a mut [QueryTerms],
}

/// What launches have written.
pub(crate) struct Results<'a> {
    /// `[queries][k]`
    pub(crate) answers: &'a [Answer],
    /// `[queries][2]`, and the same again of a rerank.
    pub(crate) work: &'a [u32],
}

/// What can go wrong on the device of a context.
pub(crate) type ErrorOf<T, C> = <<C as SearchContext<T>>::Stream as gpu_kernels::Stream>::Error;

/// Pinned memory that kernels read and write by themselves: no copy, no call but the launch and the wait. A query is
/// read once and an answer written once, so that nothing crosses the bus that a copy would not carry. The wait spins,
/// which wakes up soonest: contexts are opened with the driver's own choice, and that is to spin while a process has
/// fewer contexts than the machine has processors.
///
/// What one launch leaves to the next stays in device memory.
pub(crate) struct PinnedSearchContext<T: Pod> {
    stream: Stream,
    /// Made when the first chunk wants it: that takes vectors on the host.
    rerank_stream: Option<Stream>,
    queries: Pinned<T>,
    levels: Pinned<u32>,
    terms: Pinned<QueryTerms>,
    answers: Pinned<Answer>,
    work: Pinned<u32>,
    candidates: Buffer<u32>,
    rest: Buffer<Answer>,
    codes: Option<QueryCodes<Stream>>,
    /// Answers and numbers of work of the last launch.
    written: (usize, usize),
}

impl<T: Pod> PinnedSearchContext<T> {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        let stream = Stream::new(context)?;
        Ok(Self {
            queries: Pinned::zeroed(context, 0)?,
            levels: Pinned::zeroed(context, 0)?,
            terms: Pinned::zeroed(context, 0)?,
            answers: Pinned::zeroed(context, 0)?,
            work: Pinned::zeroed(context, 0)?,
            candidates: stream.allocate(0)?,
            rest: stream.allocate(0)?,
            codes: None,
            written: (0, 0),
            rerank_stream: None,
            stream,
        })
    }
}

/// BufferSizes for `len` elements: what there is, or new memory if that is too small.
fn grow<'a, T: Pod>(context: &Context, pinned: &'a mut Pinned<T>, len: usize) -> Result<&'a mut Pinned<T>> {
    if pinned.len() < len {
        *pinned = Pinned::zeroed(context, len.next_power_of_two())?;
    }
    Ok(pinned)
}

/// The same in device memory.
fn room<'a, T: Pod>(stream: &Stream, buffer: &'a mut Buffer<T>, len: usize) -> Result<&'a mut Buffer<T>> {
    if buffer.len() < len {
        *buffer = stream.allocate(len.next_power_of_two())?;
    }
    Ok(buffer)
}

impl<T: Element> SearchContext<T> for PinnedSearchContext<T> {
    type Stream = Stream;

    fn stream(&self) -> &Stream {
        &self.stream
    }

    fn streams(&mut self, rerank_stream: bool) -> Result<(&Stream, Option<&Stream>)> {
        if rerank_stream && self.rerank_stream.is_none() {
            self.rerank_stream = Some(Stream::with_high_priority(self.stream.context())?);
        }
        Ok((&self.stream, self.rerank_stream.as_ref().filter(|_| rerank_stream)))
    }

    fn query_buffers(&mut self, sizes: &BufferSizes) -> Result<QueryBuffers<'_, T>> {
        let context = self.stream.context();
        Ok(QueryBuffers {
            queries: &mut grow(context, &mut self.queries, sizes.queries)?[..sizes.queries],
            levels: &mut grow(context, &mut self.levels, sizes.levels)?[..sizes.levels],
            terms: &mut grow(context, &mut self.terms, sizes.terms)?[..sizes.terms],
        })
    }

    fn pointers(&mut self, sizes: &BufferSizes) -> Result<LaunchPointers<T>> {
        self.written = (sizes.answers, sizes.work + sizes.reranked);
        let context = self.stream.context();
        let work = grow(context, &mut self.work, self.written.1)?.output();
        Ok(LaunchPointers {
            queries: self.queries.input(),
            answers: grow(context, &mut self.answers, sizes.answers)?.output(),
            work,
            reranked: work.add(sizes.work),
            levels: self.levels.input(),
            terms: self.terms.input(),
            candidates: room(&self.stream, &mut self.candidates, sizes.candidates)?.output(),
            rest: room(&self.stream, &mut self.rest, sizes.rest)?.output(),
        })
    }

    fn code(
        &mut self,
        quantizer: &DeviceQuantizer<Stream>,
        queries: usize,
    ) -> Result<(DevicePtr<u32>, DevicePtr<QueryTerms>)> {
        let codes = match self.codes.take().filter(|codes| quantizer.fits(codes, queries)) {
            Some(codes) => codes,
            None => quantizer.query_codes(&self.stream, queries.next_power_of_two())?,
        };
        let codes = self.codes.insert(codes);
        assert!(queries * padded_len::<T>(quantizer.dimension()) <= self.queries.len());
        // SAFETY: there are as many queries, as was just checked, in memory that goes when this stream is done.
        unsafe { quantizer.code_queries(&self.stream, self.queries.input(), queries, codes)? };
        Ok((codes.levels.input(), codes.terms.input()))
    }

    fn wait_results(&mut self) -> Result<Results<'_>> {
        self.stream.synchronize()?;
        Ok(Results { answers: &self.answers[..self.written.0], work: &self.work[..self.written.1] })
    }
}

impl<T: Pod> Drop for PinnedSearchContext<T> {
    fn drop(&mut self) {
        // Pinned memory must not go while the device uses it; a failure means that it no longer does.
        let _ = self.stream.synchronize();
    }
}
