//! Search buffers on an emulated device.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use cuda_std::emulator::Fault;

use super::*;

/// Search buffers on an emulated device.
pub(super) struct EmulatedBuffers<'a> {
    stream: &'a EmulatedStream,
    host: HostChunk,
    /// The buffers of the chunk in flight.
    pub(super) device: Option<DeviceChunk>,
    scratch: ProductScratch<EmulatedStream>,
    results: (Vec<DeviceHit>, Vec<u32>),
    /// Waits that succeed before all others fail.
    waits: Option<&'a AtomicUsize>,
}

impl<'a> EmulatedBuffers<'a> {
    pub(super) fn new(stream: &'a EmulatedStream) -> Result<Self, SearchError> {
        Ok(Self {
            stream,
            host: HostChunk {
                queries: Vec::new(),
                levels: Vec::new(),
                query_factors: Vec::new(),
                lists: Vec::new(),
                tests: Vec::new(),
            },
            device: None,
            scratch: ProductScratch::new(stream, 1 << 16).map_err(SearchError::device)?,
            results: Default::default(),
            waits: None,
        })
    }

    /// The same buffers, whose waits fail once `waits` have succeeded.
    pub(super) fn failing_after(self, waits: &'a AtomicUsize) -> Self {
        Self { waits: Some(waits), ..self }
    }
}

/// What the host writes of a chunk.
struct HostChunk {
    /// Aligned as coordinates of every type.
    queries: Vec<u32>,
    levels: Vec<u32>,
    query_factors: Vec<QueryFactors>,
    lists: Vec<ListPart>,
    tests: Vec<SlotTest>,
}

/// The buffers of a chunk on the device.
pub(super) struct DeviceChunk {
    queries: Buffer<u8>,
    levels: Buffer<u32>,
    query_factors: Buffer<QueryFactors>,
    lists: Buffer<ListPart>,
    tests: Buffer<SlotTest>,
    pub(super) results: Buffer<DeviceHit>,
    costs: Buffer<u32>,
    candidates: Buffer<u32>,
    estimated_hits: Buffer<DeviceHit>,
    codes: Option<QueryCodes<EmulatedStream>>,
}

// SAFETY: the emulator has run a launch before its call returns, and checks every access.
unsafe impl SearchBuffers for EmulatedBuffers<'_> {
    type Stream = EmulatedStream;

    fn stream(&self) -> &EmulatedStream {
        self.stream
    }

    fn streams(&mut self, rerank_stream: bool) -> Result<LaunchStreams<'_, EmulatedStream>, EmulatedFault> {
        let Self { stream, scratch, .. } = self;
        Ok(LaunchStreams { stream, rerank_stream: rerank_stream.then_some(*stream), scratch })
    }

    fn query_buffers(&mut self, sizes: &BufferSizes) -> Result<QueryBuffers<'_>, EmulatedFault> {
        assert!(self.device.is_none(), "one chunk is in flight at most");
        let HostChunk { queries, levels, query_factors, lists, tests } = &mut self.host;
        queries.resize(sizes.queries.div_ceil(size_of::<u32>()), 0);
        levels.resize(sizes.levels, 0);
        query_factors.resize(sizes.query_factors, QueryFactors::zeroed());
        lists.resize(sizes.lists, ListPart::default());
        tests.resize(sizes.tests, SlotTest::ALL);
        let queries = &mut bytemuck::cast_slice_mut(queries)[..sizes.queries];
        Ok(QueryBuffers { queries, levels, query_factors, lists, tests })
    }

    fn pointers(&mut self, sizes: &BufferSizes) -> Result<LaunchPointers, EmulatedFault> {
        let (stream, HostChunk { queries, levels, query_factors, lists, tests }) = (self.stream, &self.host);
        let device = self.device.insert(DeviceChunk {
            queries: stream.upload(&bytemuck::cast_slice(queries)[..sizes.queries])?,
            levels: stream.upload(levels)?,
            query_factors: stream.upload(query_factors)?,
            lists: stream.upload(lists)?,
            tests: stream.upload(tests)?,
            results: stream.allocate(sizes.results)?,
            costs: stream.allocate(sizes.costs + sizes.rerank_costs)?,
            candidates: stream.allocate(sizes.candidates)?,
            estimated_hits: stream.allocate(sizes.estimated_hits)?,
            codes: None,
        });
        let costs = device.costs.output();
        Ok(LaunchPointers {
            queries: device.queries.input(),
            levels: device.levels.input(),
            query_factors: device.query_factors.input(),
            lists: device.lists.input(),
            tests: device.tests.input(),
            results: device.results.output(),
            costs,
            rerank_costs: costs.add(sizes.costs),
            candidates: device.candidates.output(),
            estimated_hits: device.estimated_hits.output(),
        })
    }

    fn quantize(
        &mut self,
        element: ElementKind,
        quantizer: &DeviceQuantizer<EmulatedStream>,
        queries: usize,
    ) -> Result<QuantizedQueries, EmulatedFault> {
        let device = self.device.as_mut().expect("queries are there before they are quantized");
        let codes = device.codes.insert(quantizer.query_codes(self.stream, queries)?);
        // SAFETY: all of them were uploaded, and live as long as the codes.
        unsafe { quantizer.encode_queries(self.stream, element, device.queries.input(), queries, codes)? };
        let (levels, query_factors) = (codes.levels.input(), codes.query_factors.input());
        Ok(QuantizedQueries { queries: device.queries.input(), levels, query_factors })
    }

    fn fill_results(&mut self, value: DeviceHit) -> Result<(), EmulatedFault> {
        let results = &mut self.device.as_mut().expect("the chunk has buffers").results.array;
        results.write(&vec![value; results.len()]);
        Ok(())
    }

    fn read_results(&self, range: Range<usize>, into: &mut Vec<DeviceHit>) {
        let results = &self.device.as_ref().expect("a chunk was sent").results;
        *into = results.array.read().expect("the launch has run")[range].to_vec();
    }

    fn is_complete(&self) -> Result<bool, EmulatedFault> {
        Ok(true)
    }

    fn wait(&mut self) -> Result<(), EmulatedFault> {
        let DeviceChunk { results, costs, .. } = self.device.take().expect("a chunk was sent");
        if self.waits.is_some_and(|waits| waits.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_err())
        {
            return Err(Fault::Unwritten { buffer: "as the test wants".into(), element: 0, len: 0 }.into());
        }
        self.results = (results.array.read()?, costs.array.read()?);
        Ok(())
    }

    fn results(&self) -> Results<'_> {
        Results { results: &self.results.0, costs: &self.results.1 }
    }
}
