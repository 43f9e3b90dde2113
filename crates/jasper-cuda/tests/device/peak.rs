//! A build uses no more memory than planned and SQ4 vectors take, and frees it.

use jasper_core::synthetic::Clusters;
use jasper_core::{BuildParams, MatrixView, Metric, no_progress};
use jasper_cuda::{MemorySpace, PeakMemory, link_on_device, plan_build, quantize_on_device};
use jasper_vamana::{BuildSpec, CpuExecutor, ScalarQuantizer, ingest};

#[test]
fn a_build_takes_no_more_than_was_planned_and_gives_it_back() {
    let Some(context) = crate::common::exclusive_context() else { return };
    let cpu = std::sync::Arc::new(CpuExecutor::new(None).unwrap());
    const LONG: usize = ScalarQuantizer::MIN_SQ4_DIMENSION;
    let free = || context.free_memory().unwrap().device;
    let mut before = 0;
    for (dimension, share, is_exact) in
        [(96, 0.02, true), (96, 0.1, true), (96, 0.04, false), (LONG, 0.04, false)]
    {
        let values: Vec<f32> = Clusters::new(dimension, 5).rows(60_000, 0);
        let rows = MatrixView::new(&values, dimension).unwrap();
        let params = BuildParams::builder().max_batch_share(share).build().unwrap();
        let ingested = ingest(&cpu, rows.into(), None, Metric::L2, params, &mut no_progress).unwrap();
        // Without a memory pool there is no count to compare the plan with.
        let Some(meter) = PeakMemory::new(&context).unwrap() else { return };
        let quantized = if is_exact {
            None
        } else {
            Some(quantize_on_device(&context, &cpu, &ingested.graph).unwrap().expect("bytes suit clusters"))
        };
        let linked = link_on_device(&context, &cpu, ingested, quantized, None, &mut no_progress).unwrap();
        let (peak, graph) = (meter.bytes().unwrap(), linked.graph);
        let planned = plan_build(&BuildSpec::of(&graph), is_exact).unwrap().total(MemorySpace::Device);
        println!("{dimension} dimensions, batches of up to {share}: {peak} bytes, planned {planned}");
        // SQ4 vectors are made beside the plan, where there is room.
        let sq4 = if dimension >= LONG { (rows.len() * dimension / 2) as u64 } else { 0 };
        // Quantized vectors are planned with a large upload, which so few vectors do not fill.
        assert!(
            peak <= planned + sq4 && (!is_exact || peak >= planned / 2),
            "{peak} bytes, planned {planned}"
        );
        // The first build has loaded the kernels, which stay.
        let after = free();
        assert!(after + planned / 2 >= before, "{after} bytes are free, {before} were");
        before = after;
    }
}
