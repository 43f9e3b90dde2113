//! Quantization of queries, per second.

use gpu_kernels::encode::DeviceQuantizer;
use gpu_kernels::{Buffer as _, Stream as _};
use jasper_core::synthetic::Clusters;
use jasper_core::{ElementKind, MatrixView, Metric};
use jasper_cuda::Result;
use jasper_quant::{Quantization, ThreadPoolBuilder};
use serde_json::json;

use crate::Bench;

const DIMENSIONS: [usize; 3] = [128, 960, 1536];
const CODES: [Quantization; 7] = [
    Quantization::Rabitq { bits: 1 },
    Quantization::Rabitq { bits: 2 },
    Quantization::Rabitq { bits: 4 },
    Quantization::Rabitq { bits: 8 },
    Quantization::Mixed { sectors: 1 },
    Quantization::Mixed { sectors: 2 },
    Quantization::Mixed { sectors: 4 },
];
/// Vectors that quantizers learn from, and that the queries are copies of.
const DIFFERENT: usize = 4096;
/// Queries of a batch.
const QUERIES: usize = 10_000;

pub fn run(bench: &Bench) -> Result<()> {
    let stream = &bench.stream;
    let pool = ThreadPoolBuilder::new().build().expect("threads can be started");
    for dimension in DIMENSIONS {
        let different: Vec<f32> = Clusters::new(dimension, 1).rows(DIFFERENT, 0);
        let view = MatrixView::new(&different, dimension).expect("whole rows");
        let copies: Vec<f32> = different.iter().copied().cycle().take(QUERIES * dimension).collect();
        let vectors = stream.upload(&copies)?;
        for code in CODES {
            let quantizer = code.train(Metric::L2, view, &pool).expect("rows that can be coded");
            let on_device = DeviceQuantizer::new(stream, &*quantizer)?;
            let mut codes = on_device.query_codes(stream, QUERIES)?;
            let time = bench.time(|| {
                // SAFETY: there are as many vectors, which live until the bench has waited.
                unsafe {
                    on_device.encode_queries(
                        stream,
                        ElementKind::F32,
                        vectors.input().cast(),
                        QUERIES,
                        &mut codes,
                    )
                }
            })?;
            let what = json!({
                "what": "encode_queries", "code": code.to_string(), "dimension": dimension, "queries": QUERIES,
                "queries_per_s": QUERIES as f64 / time.as_secs_f64(),
            });
            bench.report(what, time, (QUERIES * dimension * 4) as u64);
        }
    }
    Ok(())
}
