//! The streams and buffers that one chunk of a batch uses at a time.

use std::ops::Range;

use bytemuck::Pod;
use gpu_kernels::codes::QueryFactors;
use gpu_kernels::encode::{DeviceQuantizer, QueryCodes};
use gpu_kernels::knn::ProductScratch;
use gpu_kernels::search::{DeviceHit, ListPart, SlotTest};
use gpu_kernels::{Buffer as _, DevicePtr, Stream as _};
use jasper_core::ElementKind;

use super::idle::Use;
use super::launch::{BufferSizes, LaunchPointers, LaunchStreams, PRODUCT_BYTES};
use crate::{Buffer, Bytes, Context, Pinned, Result, Stream};

/// The streams and buffers of a chunk in flight. This is a trait, so that tests run the same code in the emulator.
///
/// # Safety
/// Buffers and pointers have the asked sizes, and stay valid until the value is dropped, which waits for its streams.
/// The stream allocated the scratch memory.
pub(crate) unsafe trait SearchBuffers: Send + Sync {
    type Stream: gpu_kernels::Stream;

    fn stream(&self) -> &Self::Stream;

    /// The stream of the search with its scratch memory and, if `rerank_stream`, another of high priority.
    fn streams(&mut self, rerank_stream: bool) -> Result<LaunchStreams<'_, Self::Stream>, ErrorOf<Self>>;

    /// Host memory for the queries, and for their codes if the host quantizes them.
    fn query_buffers(&mut self, sizes: &BufferSizes) -> Result<QueryBuffers<'_>, ErrorOf<Self>>;

    /// Pointers to the queries written before, and to buffers for the results.
    fn pointers(&mut self, sizes: &BufferSizes) -> Result<LaunchPointers, ErrorOf<Self>>;

    /// Queues the quantization of the first `queries` queries, of this type, on the device. Returns pointers to queries,
    /// levels and factors.
    fn quantize(
        &mut self,
        element: ElementKind,
        quantizer: &DeviceQuantizer<Self::Stream>,
        queries: usize,
    ) -> Result<QuantizedQueries, ErrorOf<Self>>;

    /// Sets the results that the next launch writes to `value`.
    fn fill_results(&mut self, value: DeviceHit) -> Result<(), ErrorOf<Self>>;

    /// Reads a range of the results of the last launch, which may be writing them.
    fn read_results(&self, range: Range<usize>, into: &mut Vec<DeviceHit>);

    /// Whether the last launch is complete.
    fn is_complete(&self) -> Result<bool, ErrorOf<Self>>;

    /// Waits until the last launch is complete.
    fn wait(&mut self) -> Result<(), ErrorOf<Self>>;

    /// The results of the last launch; none before [`Self::wait`].
    fn results(&self) -> Results<'_>;
}

/// Host memory for the queries of a chunk.
pub(crate) struct QueryBuffers<'a> {
    /// `[queries][row_bytes]`
    pub(crate) queries: &'a mut [u8],
    /// `[queries][words]`
    pub(crate) levels: &'a mut [u32],
    /// `[queries]`
    pub(crate) query_factors: &'a mut [QueryFactors],
    /// `[queries][lists]`
    pub(crate) lists: &'a mut [ListPart],
    /// `[queries][tests]`
    pub(crate) tests: &'a mut [SlotTest],
}

/// The results of a launch.
pub(crate) struct Results<'a> {
    /// `[queries][k]`
    pub(crate) results: &'a [DeviceHit],
    /// `[queries][2]`: hops and distances; then as many for the rerank, if there is one.
    pub(crate) costs: &'a [u32],
}

/// Queries that the device quantizes: a copy of them, `[queries][row_bytes]`, and their codes.
pub(crate) struct QuantizedQueries {
    pub(crate) queries: DevicePtr<u8>,
    pub(crate) levels: DevicePtr<u32>,
    pub(crate) query_factors: DevicePtr<QueryFactors>,
}

/// The error of the stream.
pub(crate) type ErrorOf<B> = <<B as SearchBuffers>::Stream as gpu_kernels::Stream>::Error;

/// Search buffers in pinned memory that kernels access directly, so a chunk takes no copies, only a launch and a
/// synchronization. A kernel reads each query once and writes each result once, so PCIe carries no more bytes than
/// copies would. Queries that the device quantizes are copied, because several kernels read them. The synchronization
/// spins, which is the driver's default while a process has fewer contexts than the machine has CPUs.
///
/// Intermediate results between launches stay in device memory.
pub(crate) struct PinnedSearchBuffers {
    stream: Stream,
    /// The stream of reranks, created by the first chunk that uses it.
    rerank_stream: Option<Stream>,
    scratch: ProductScratch<Stream>,
    queries: Pinned<u8>,
    /// Where queries are copied if the device quantizes them.
    queries_on_device: Buffer<u8>,
    levels: Pinned<u32>,
    query_factors: Pinned<QueryFactors>,
    lists: Pinned<ListPart>,
    tests: Pinned<SlotTest>,
    results: Pinned<DeviceHit>,
    costs: Pinned<u32>,
    candidates: Buffer<u32>,
    estimated_hits: Buffer<DeviceHit>,
    codes: Option<QueryCodes<Stream>>,
    /// Lengths of the results and of the costs of the last launch.
    written: (usize, usize),
    /// Whether [`wait`](SearchBuffers::wait) has returned since.
    is_complete: bool,
}

impl PinnedSearchBuffers {
    /// Buffers for searches that [are short](super::idle::Use), or for others.
    pub(crate) fn new(context: &Context, of: Use) -> Result<Self> {
        let stream = match of {
            Use::Short => Stream::for_short_work(context)?,
            Use::Any => Stream::new(context)?,
        };
        Ok(Self {
            queries: Pinned::zeroed(context, 0)?,
            queries_on_device: stream.allocate(0)?,
            levels: Pinned::zeroed(context, 0)?,
            query_factors: Pinned::zeroed(context, 0)?,
            lists: Pinned::zeroed(context, 0)?,
            tests: Pinned::zeroed(context, 0)?,
            results: Pinned::zeroed(context, 0)?,
            costs: Pinned::zeroed(context, 0)?,
            candidates: stream.allocate(0)?,
            estimated_hits: stream.allocate(0)?,
            codes: None,
            written: (0, 0),
            is_complete: false,
            rerank_stream: None,
            scratch: ProductScratch::new(&stream, PRODUCT_BYTES)?,
            stream,
        })
    }

    /// The memory that it holds.
    pub(super) fn bytes(&self) -> Bytes {
        let pinned = self.queries.len()
            + size_of_val::<[u32]>(&self.levels)
            + size_of_val::<[QueryFactors]>(&self.query_factors)
            + size_of_val::<[ListPart]>(&self.lists)
            + size_of_val::<[SlotTest]>(&self.tests)
            + size_of_val::<[DeviceHit]>(&self.results)
            + size_of_val::<[u32]>(&self.costs)
            + self.stream.staging_bytes();
        let device = self.queries_on_device.bytes()
            + self.candidates.bytes()
            + self.estimated_hits.bytes()
            + self.codes.as_ref().map_or(0, QueryCodes::bytes)
            + self.scratch.bytes();
        Bytes { device: device as u64, host: pinned as u64 }
    }
}

/// The length to allocate for `len` elements: with room for chunks that are a little longer.
fn with_room(len: usize) -> usize {
    len + len / 8
}

/// Pinned memory for `len` elements: the current allocation, or a new one if that is too small.
fn grow_pinned<'a, T: Pod>(
    context: &Context,
    pinned: &'a mut Pinned<T>,
    len: usize,
) -> Result<&'a mut Pinned<T>> {
    if pinned.len() < len {
        *pinned = Pinned::zeroed(context, with_room(len))?;
    }
    Ok(pinned)
}

/// Device memory for `len` elements: the current allocation, or a new one if that is too small.
fn grow_buffer<'a, T: Pod>(
    stream: &Stream,
    buffer: &'a mut Buffer<T>,
    len: usize,
) -> Result<&'a mut Buffer<T>> {
    if buffer.len() < len {
        *buffer = stream.allocate(with_room(len))?;
    }
    Ok(buffer)
}

// SAFETY: each buffer is grown to its size before it is handed out, and is freed after the drop has synchronized the
// stream, which waits for the rerank stream.
unsafe impl SearchBuffers for PinnedSearchBuffers {
    type Stream = Stream;

    fn stream(&self) -> &Stream {
        &self.stream
    }

    fn streams(&mut self, rerank_stream: bool) -> Result<LaunchStreams<'_, Stream>> {
        if rerank_stream && self.rerank_stream.is_none() {
            self.rerank_stream = Some(Stream::with_high_priority(self.stream.context())?);
        }
        Ok(LaunchStreams {
            stream: &self.stream,
            rerank_stream: self.rerank_stream.as_ref().filter(|_| rerank_stream),
            scratch: &mut self.scratch,
        })
    }

    fn query_buffers(&mut self, sizes: &BufferSizes) -> Result<QueryBuffers<'_>> {
        let context = self.stream.context();
        Ok(QueryBuffers {
            queries: &mut grow_pinned(context, &mut self.queries, sizes.queries)?[..sizes.queries],
            levels: &mut grow_pinned(context, &mut self.levels, sizes.levels)?[..sizes.levels],
            query_factors: &mut grow_pinned(context, &mut self.query_factors, sizes.query_factors)?
                [..sizes.query_factors],
            lists: &mut grow_pinned(context, &mut self.lists, sizes.lists)?[..sizes.lists],
            tests: &mut grow_pinned(context, &mut self.tests, sizes.tests)?[..sizes.tests],
        })
    }

    fn pointers(&mut self, sizes: &BufferSizes) -> Result<LaunchPointers> {
        self.written = (sizes.results, sizes.costs + sizes.rerank_costs);
        self.is_complete = false;
        let context = self.stream.context();
        let costs = grow_pinned(context, &mut self.costs, self.written.1)?.output();
        Ok(LaunchPointers {
            queries: self.queries.input(),
            results: grow_pinned(context, &mut self.results, sizes.results)?.output(),
            costs,
            rerank_costs: costs.add(sizes.costs),
            levels: self.levels.input(),
            query_factors: self.query_factors.input(),
            lists: self.lists.input(),
            tests: self.tests.input(),
            candidates: grow_buffer(&self.stream, &mut self.candidates, sizes.candidates)?.output(),
            estimated_hits: grow_buffer(&self.stream, &mut self.estimated_hits, sizes.estimated_hits)?
                .output(),
        })
    }

    fn quantize(
        &mut self,
        element: ElementKind,
        quantizer: &DeviceQuantizer<Stream>,
        queries: usize,
    ) -> Result<QuantizedQueries> {
        // The codes of an earlier chunk are reused if they have room.
        let codes = match self.codes.take().filter(|codes| quantizer.fits(codes, queries)) {
            Some(codes) => codes,
            None => quantizer.query_codes(&self.stream, with_room(queries))?,
        };
        let codes = self.codes.insert(codes);
        let len = queries * element.row_bytes(quantizer.dimension());
        // The quantization and the rerank would both read them over PCIe.
        let on_device = grow_buffer(&self.stream, &mut self.queries_on_device, len)?;
        // SAFETY: the queries are not written or freed before the stream is synchronized. The quantizer's queries are
        // those of the copy, which has room for as many.
        unsafe {
            self.stream.copy_pinned(&self.queries, on_device, len)?;
            quantizer.encode_queries(&self.stream, element, on_device.input(), queries, codes)?;
        }
        let (levels, query_factors) = (codes.levels.input(), codes.query_factors.input());
        Ok(QuantizedQueries { queries: on_device.input(), levels, query_factors })
    }

    fn fill_results(&mut self, value: DeviceHit) -> Result<()> {
        self.results[..self.written.0].fill(value);
        Ok(())
    }

    fn read_results(&self, range: Range<usize>, into: &mut Vec<DeviceHit>) {
        into.clear();
        into.extend(range.map(|index| self.results.load(index)));
    }

    fn is_complete(&self) -> Result<bool> {
        self.stream.is_complete()
    }

    fn wait(&mut self) -> Result<()> {
        self.stream.synchronize()?;
        self.is_complete = true;
        Ok(())
    }

    fn results(&self) -> Results<'_> {
        let (results, costs) = if self.is_complete { self.written } else { (0, 0) };
        Results { results: &self.results[..results], costs: &self.costs[..costs] }
    }
}

impl Drop for PinnedSearchBuffers {
    fn drop(&mut self) {
        // The device may still use the pinned memory. After a failure it no longer does.
        let _ = self.stream.synchronize();
    }
}
