//! Quantized searches: queries in device memory are quantized there, searched for, then reranked.

use anyhow::Result;
use gpu_kernels::encode::{DeviceQuantizer, QueryCodes};
use gpu_kernels::search::{Answer, QuantizedSearchArgs, Rerank, quantized_search};
use gpu_kernels::{Buffer as _, Stream};
use jasper_core::Element;
use jasper_graph::Graph;
use jasper_vamana::TunedLaunch;

use super::device_search::{Batch, DeviceSearch, SearchResults};
use super::point::{Point, SOLO, Setting};
use super::set::Set;

/// The launches that are tried: narrow beams leave room for more searches with a smaller filter, and several expansions
/// fill the rounds of 32 estimates.
pub fn launches() -> Vec<TunedLaunch> {
    let of =
        |expansions| [512, 1024, 2048].map(|visited_slots| TunedLaunch { expansions, visited_slots, ..SOLO });
    [1, 2, 4].into_iter().flat_map(of).collect()
}

/// Quantizes queries on the device.
pub struct Coder<S: Stream> {
    quantizer: DeviceQuantizer<S>,
    codes: QueryCodes<S>,
    /// Entries of the frontier that get exact distances; all, if it has no more.
    rerank: u32,
    /// Bytes of a code.
    code_bytes: u32,
}

/// Buffers between the search and the rerank.
struct RerankBuffers<S: Stream> {
    candidates: S::Buffer<u32>,
    rest: S::Buffer<Answer>,
    work: S::Buffer<u32>,
    len: u32,
}

impl<S: Stream> Coder<S> {
    /// For up to `count` queries of `graph`, which has codes.
    pub fn new<T: Element>(stream: &S, graph: &Graph<T>, count: usize, rerank: u32) -> Result<Self> {
        let codes = graph.vectors().codes().expect("the graph was coded");
        let quantizer = DeviceQuantizer::new(stream, &**codes.quantizer())?;
        let code_bytes = quantizer.shape().row_bytes();
        Ok(Self { codes: quantizer.query_codes(stream, count)?, quantizer, rerank, code_bytes })
    }
}

impl<T: Element, S: Stream> DeviceSearch<'_, T, S> {
    fn rerank_buffers(&self, coder: &Coder<S>, setting: Setting, queries: usize) -> Result<RerankBuffers<S>> {
        let len = coder.rerank.min(setting.beam_width);
        Ok(RerankBuffers {
            candidates: self.stream.allocate(queries * len as usize)?,
            rest: self.stream.allocate(queries * setting.k as usize)?,
            work: self.stream.allocate(queries * 2)?,
            len,
        })
    }

    fn launch_quantized(
        &self,
        coder: &mut Coder<S>,
        batch: &Batch<S>,
        buffers: &mut RerankBuffers<S>,
    ) -> Result<(), S::Error> {
        let queries = batch.args.queries_len as usize;
        // SAFETY: there are as many queries, which live as long as the search.
        unsafe {
            coder.quantizer.code_queries(self.stream, self.queries.input(), queries, &mut coder.codes)?;
        }
        let (levels, terms) = (coder.codes.levels.input(), coder.codes.terms.input());
        let codes = self.graph.code_args(levels, terms).expect("the graph was coded");
        let rerank = Rerank {
            len: buffers.len,
            candidates: buffers.candidates.output(),
            rest: buffers.rest.output(),
            work: buffers.work.output(),
            rerank_stream: None,
        };
        let args = QuantizedSearchArgs { search: batch.args, codes };
        // SAFETY: graph, codes and queries are those of `DeviceSearch::new` and `Coder::new`, of one graph; what is written has
        // room for as many queries, and nobody else uses it.
        unsafe { quantized_search(self.stream, args, rerank, T::KIND, 1) }
    }

    /// Bytes of codes, edges and rows that a query asks for.
    fn quantized_bytes(&self, coder: &Coder<S>, setting: Setting, found: &SearchResults) -> f64 {
        let graph = self.graph.args();
        found.distances * f64::from(coder.code_bytes)
            + found.hops * f64::from(graph.links_stride * size_of::<u32>() as u32)
            + f64::from(coder.rerank.min(setting.beam_width)) * f64::from(graph.row_bytes)
    }
}

impl<T: Element> DeviceSearch<'_, T> {
    /// Times the first `queries` queries of `set`, coded, found by estimates and reranked.
    pub fn measure_quantized(
        &self,
        coder: &mut Coder<jasper_cuda::Stream>,
        set: &Set,
        setting: Setting,
        queries: usize,
    ) -> Result<Point> {
        let (batch, mut buffers) =
            (self.batch(setting, queries)?, self.rerank_buffers(coder, setting, queries)?);
        let taken = self.time(&mut || self.launch_quantized(coder, &batch, &mut buffers))?;
        let found = self.read(&batch)?;
        let bytes = self.quantized_bytes(coder, setting, &found);
        Ok(self.point(set, setting, queries, taken, &found, bytes))
    }
}
