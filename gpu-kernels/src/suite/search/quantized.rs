//! Compares quantized beam search with its definition, on the estimates of the CPU. Products are integers and the other
//! steps have a fixed order, so distances are equal bit for bit.

use std::sync::Arc;

use jasper_core::{MatrixView, Metric, Slot, synthetic};
use jasper_graph::Graph;
use jasper_quant::{CodeTable, Quantization, Quantizer};
use jasper_vamana::CpuExecutor;
use rand::{Rng, RngExt};

use super::case::{SearchCase, TO_THE_END};
use super::compare::QueryCheck;
use super::graphs;
use crate::codes::{CodeArgs, CodeShape, QueryFactors};
use crate::graph::DistanceForm;
use crate::search::{MAX_BEAM_WIDTH, QuantizedSearch, QuantizedSearchArgs};
use crate::{Buffer, Stream};

/// One quantization of each layout: every plane alone, all sums of planes, levels of one byte and of two.
const CODES: [Quantization; 11] = [
    Quantization::Mixed { sectors: 1 },
    Quantization::Mixed { sectors: 2 },
    Quantization::Mixed { sectors: 4 },
    Quantization::Rabitq { bits: 1 },
    Quantization::Rabitq { bits: 2 },
    Quantization::Rabitq { bits: 3 },
    Quantization::Rabitq { bits: 4 },
    Quantization::Rabitq { bits: 5 },
    Quantization::Rabitq { bits: 6 },
    Quantization::Rabitq { bits: 7 },
    Quantization::Rabitq { bits: 8 },
];

/// A graph of random edges, and the codes of its rows.
struct Coded {
    graph: Graph,
    quantizer: Arc<dyn Quantizer>,
    codes: CodeTable,
    name: String,
}

impl Coded {
    fn random(rng: &mut impl Rng, cpu: &CpuExecutor, code: Quantization, slots: usize) -> Self {
        let metric = [Metric::L2, Metric::InnerProduct, Metric::Cosine][rng.random_range(0..3)];
        let dimension = rng.random_range(1..160);
        let graph = graphs::random::<f32>(rng, metric, dimension, slots);
        let rows: Vec<f32> =
            graph.keys().vertices().flat_map(|slot| graph.vectors().get::<f32>(slot)).copied().collect();
        let rows = MatrixView::new(&rows, dimension).unwrap();
        let quantizer = code.train(metric, rows, cpu.pool()).unwrap();
        let codes = CodeTable::from_vectors(&*quantizer, rows, cpu.pool());
        let name = format!("{code} {metric} {dimension}");
        Self { graph, quantizer, codes, name }
    }

    fn shape(&self) -> CodeShape {
        CodeShape::from(&**self.quantizer.layout())
    }

    /// Bytes per level of queries.
    fn level_bytes(&self) -> u32 {
        self.quantizer.query(self.graph.vectors().get(Slot::new(0))).factors().level_bytes
    }

    /// Runs `kernel` on `stream`, and compares its output with the reference.
    fn agrees(&self, stream: &impl Stream, kernel: QuantizedSearch, case: &SearchCase) {
        let Self { graph, quantizer, codes, name } = self;
        let rows = stream.upload(codes.words()).unwrap();
        // Named rows are rows of the graph.
        let coded: Vec<_> =
            if case.names_rows { graph.keys().vertices().collect() } else { case.queries.clone() };
        let coded = coded.into_iter().map(|slot| quantizer.query(graph.vectors().get(slot)));
        let (mut levels, mut query_factors) = (Vec::new(), Vec::new());
        for query in coded {
            levels.extend_from_slice(query.levels());
            query_factors.push(QueryFactors::from(*query.factors()));
        }
        let level_bytes = self.level_bytes();
        let levels: Vec<u32> = bytemuck::pod_collect_to_vec(&levels);
        let (levels, query_factors) =
            (stream.upload(&levels).unwrap(), stream.upload(&query_factors).unwrap());
        let codes = CodeArgs {
            rows: rows.input(),
            levels: levels.input(),
            query_factors: query_factors.input(),
            level_bytes,
            shape: self.shape(),
        };
        // SAFETY: the arguments are of buffers that live until this has run.
        let output = case.launch(stream, graph, |search| unsafe {
            stream.launch(&kernel, QuantizedSearchArgs { search, codes })
        });
        for (i, &query) in case.queries.iter().enumerate() {
            let context = || format!("{kernel:?}, {name}, {} slots, {query:?} of {case:?}", graph.slots());
            let coded = quantizer.query(graph.vectors().get(query));
            let distance_to = |id: Slot| {
                let mut estimate = [0.0];
                coded.estimate(&self.codes, &[id], &mut estimate);
                estimate[0]
            };
            QueryCheck { case, i, warps: kernel.warps, distance_to: &distance_to, context: &context }
                .agrees(&output, graph);
        }
    }
}

/// Every kernel that reads codes, with every layout that it supports, over random graphs.
///
/// # Panics
/// Panics if a result differs from the definition with the estimates of the CPU, or the stream fails.
pub fn searches_by_estimates_agree_with_the_cpu(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let cpu = CpuExecutor::new(1).unwrap();
    for code in CODES {
        let slots = rng.random_range(2..60);
        let coded = Coded::random(&mut rng, &cpu, code, slots);
        let (shape, level_bytes) = (coded.shape(), coded.level_bytes());
        for kernel in QuantizedSearch::all().filter(|kernel| kernel.takes(&shape, level_bytes)) {
            let case = SearchCase::random(
                &mut rng,
                kernel.variant.max_frontier_len(),
                DistanceForm::SquaredL2,
                slots,
            );
            coded.agrees(stream, kernel, &case);
        }
    }
}

/// Beams of hundreds of entries, up to the widest.
///
/// # Panics
/// The same as for [`searches_by_estimates_agree_with_the_cpu`].
pub fn wide_searches_by_estimates_agree_with_the_cpu(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let cpu = CpuExecutor::new(1).unwrap();
    for (code, frontier_len, beam_width, warps) in [
        (Quantization::Mixed { sectors: 1 }, 200, 200, 1),
        (Quantization::Mixed { sectors: 2 }, 300, 300, 8),
        (Quantization::Rabitq { bits: 4 }, MAX_BEAM_WIDTH, 150, 1),
    ] {
        let coded = Coded::random(&mut rng, &cpu, code, frontier_len as usize + 50);
        let kernel = QuantizedSearch::for_codes(&coded.shape(), coded.level_bytes(), frontier_len, warps);
        let random = SearchCase::random(
            &mut rng,
            kernel.variant.max_frontier_len(),
            DistanceForm::SquaredL2,
            coded.graph.slots(),
        );
        let queries = random.queries[..1].to_vec();
        let case = SearchCase {
            beam_width,
            frontier_len,
            k: 10,
            max_hops: TO_THE_END,
            queries,
            start_points: None,
            ..random
        };
        coded.agrees(stream, kernel, &case);
    }
}
