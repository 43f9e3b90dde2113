//! A build uses no more memory than planned, and frees it.

use jasper_core::synthetic::Clusters;
use jasper_core::{BuildParams, MatrixView, Metric, no_progress};
use jasper_cuda::{MemorySpace, PeakMemory, link_on_device, plan_build, quantize_on_device};
use jasper_vamana::{BuildSpec, CpuExecutor, ingest};

#[test]
fn a_build_takes_no_more_than_was_planned_and_gives_it_back() {
    let Some(context) = crate::common::exclusive_context() else { return };
    let cpu = std::sync::Arc::new(CpuExecutor::new(None).unwrap());
    let values: Vec<f32> = Clusters::new(96, 5).rows(60_000, 0);
    let rows = MatrixView::new(&values, 96).unwrap();
    let free = || context.free_memory().unwrap().device;
    let mut before = 0;
    for (share, is_exact) in [(0.02, true), (0.1, true), (0.04, false)] {
        let params = BuildParams::builder().max_batch_share(share).build().unwrap();
        let ingested = ingest(&cpu, &rows, None, Metric::L2, params, &mut no_progress).unwrap();
        // Without a memory pool there is no count to compare the plan with.
        let Some(meter) = PeakMemory::new(&context).unwrap() else { return };
        let quantized = if is_exact {
            None
        } else {
            Some(quantize_on_device(&context, &cpu, &ingested.graph).unwrap().expect("bytes suit clusters"))
        };
        let linked = link_on_device(&context, &cpu, ingested, quantized, None, &mut no_progress).unwrap();
        let (peak, graph) = (meter.bytes().unwrap(), linked.graph);
        let planned = plan_build::<f32>(&BuildSpec::of(&graph), is_exact).unwrap().total(MemorySpace::Device);
        println!("batches of up to {share}: {peak} bytes, planned {planned}");
        // Quantized vectors are planned with a large upload, which so few vectors do not fill.
        assert!(peak <= planned && (!is_exact || peak >= planned / 2), "{peak} bytes, planned {planned}");
        // The first build has loaded the kernels, which stay.
        let after = free();
        assert!(after + planned / 2 >= before, "{after} bytes are free, {before} were");
        before = after;
    }
}
