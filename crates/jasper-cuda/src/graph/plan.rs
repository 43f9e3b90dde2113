//! Memory plans of device copies, and the choice of where vectors are stored.

use gpu_kernels::encode::DeviceQuantizer;
use jasper_core::Key;
use jasper_graph::Graph;
use jasper_vamana::BuildSpec;

use super::edges_stride;
use crate::search::MAX_IDLE;
use crate::{Bytes, MemoryPlan, MemorySpace, PlanError, Stream};

/// The memory that a copy of `graph` takes, and what its searches keep for later ones at most.
pub fn plan_graph(graph: &Graph, vectors: MemorySpace) -> MemoryPlan {
    let (code, quantizer) = graph.vectors().codes().map_or((0, 0), |codes| {
        let quantizer = codes.quantizer();
        (quantizer.layout().bytes(), DeviceQuantizer::<Stream>::bytes_of(&**quantizer))
    });
    let plan = MemoryPlan::new("a graph on a device").remedy(match vectors {
        MemorySpace::Device => {
            "quantize the vectors and store them on the host, build from f16 or bytes, or use the cpu"
        }
        MemorySpace::Host => "drop the vectors, build from f16 or bytes, or use the cpu",
    });
    let vectors = graph.has_vectors().then_some(vectors);
    plan_copy(&BuildSpec::of(graph), vectors, plan)
        .part(MemorySpace::Device, "codes", (graph.slots() * code) as u64)
        .part(MemorySpace::Device, "quantizer", quantizer as u64)
        .part(MemorySpace::Device, "idle searches", MAX_IDLE.device)
        .part(MemorySpace::Host, "idle searches", MAX_IDLE.host)
}

/// The plan of a copy that fits into `free` memory. If `wanted` is `None`, the vectors are stored on the device if
/// everything fits there, else on the host if the graph has codes. Without codes they are not stored on the host,
/// because PCIe bandwidth would then limit every step of a search.
///
/// # Errors
/// Returns [`PlanError`] if the graph does not fit, with the numbers of the plan that takes the least device
/// memory.
pub fn plan_graph_within(
    graph: &Graph,
    wanted: Option<MemorySpace>,
    free: Bytes,
) -> Result<(MemorySpace, MemoryPlan), PlanError> {
    let fits = |vectors| {
        let plan = plan_graph(graph, vectors);
        plan.check(free).map(|()| (vectors, plan))
    };
    match wanted {
        Some(vectors) => fits(vectors),
        None if graph.has_vectors() && graph.vectors().codes().is_some() => {
            fits(MemorySpace::Device).or_else(|_| fits(MemorySpace::Host))
        }
        None => fits(MemorySpace::Device),
    }
}

/// Adds a copy of a graph of this shape to `plan`, without codes and with its vectors, if any, stored as given.
pub(crate) fn plan_copy(spec: &BuildSpec, vectors: Option<MemorySpace>, plan: MemoryPlan) -> MemoryPlan {
    let of = |bytes: usize| (spec.rows * bytes) as u64;
    let row_bytes = vectors.map_or(0, |_| spec.element.row_bytes(spec.dimension));
    let terms = if spec.has_terms() { of(size_of::<f32>()) } else { 0 };
    plan.part(vectors.unwrap_or(MemorySpace::Device), "vectors", of(row_bytes))
        .part(MemorySpace::Device, "adjacency", of(edges_stride(&spec.params) * size_of::<u32>()))
        .part(MemorySpace::Device, "terms", terms)
        .part(MemorySpace::Device, "keys", of(size_of::<Key>()))
        .part(MemorySpace::Device, "live slots", (spec.rows.div_ceil(32) * size_of::<u32>()) as u64)
        .part(MemorySpace::Host, "pinned memory", 2 * Stream::CHUNK_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use jasper_core::synthetic::Clusters;
    use jasper_core::{BuildParams, MatrixView, Metric, no_progress};
    use jasper_quant::Quantization;
    use jasper_vamana::{CpuExecutor, bulk_build, quantize};

    use super::*;

    fn graph(code: Option<Quantization>) -> Graph {
        let (cpu, rows) = (CpuExecutor::new(1).unwrap(), Clusters::new(30, 3).rows::<f32>(200, 0));
        let params = BuildParams::builder().max_degree(8).build().unwrap();
        let view = MatrixView::new(&rows, 30).unwrap();
        let (mut graph, _) = bulk_build(&cpu, view, None, Metric::L2, params, &mut no_progress).unwrap();
        if let Some(code) = code {
            quantize(&cpu, &mut graph, code).unwrap();
        }
        graph
    }

    #[test]
    fn vectors_are_counted_where_they_lie() {
        let mut graph = graph(Some(Quantization::Mixed { sectors: 1 }));
        let (device, host) = (plan_graph(&graph, MemorySpace::Device), plan_graph(&graph, MemorySpace::Host));
        // 30 coordinates are padded to 32.
        let rows = 200 * 32 * 4;
        assert_eq!(device.total(MemorySpace::Device) - host.total(MemorySpace::Device), rows);
        assert_eq!(host.total(MemorySpace::Host) - device.total(MemorySpace::Host), rows);
        assert!(host.parts().iter().any(|part| (part.name, part.bytes) == ("codes", 200 * 32)));
        graph.drop_vectors();
        for vectors in [MemorySpace::Device, MemorySpace::Host] {
            let dropped = plan_graph(&graph, vectors);
            assert_eq!(dropped.total(MemorySpace::Device), host.total(MemorySpace::Device));
            assert_eq!(dropped.total(MemorySpace::Host), device.total(MemorySpace::Host));
        }
    }

    #[test]
    fn vectors_that_do_not_fit_go_to_the_host_if_there_are_codes() {
        let (bare, coded) = (graph(None), graph(Some(Quantization::Mixed { sectors: 1 })));
        let free = |device| Bytes { device, host: 1 << 30 };
        let place = |graph, wanted, device| {
            let within = plan_graph_within(graph, wanted, free(device));
            within.map(|(vectors, plan)| {
                assert_eq!(plan, plan_graph(graph, vectors));
                vectors
            })
        };
        // A thirty-second is left free.
        let enough = |vectors| (plan_graph(&coded, vectors).total(MemorySpace::Device) * 32).div_ceil(31);
        let (all, rest) = (enough(MemorySpace::Device), enough(MemorySpace::Host));
        for graph in [&bare, &coded] {
            assert_eq!(place(graph, None, all), Ok(MemorySpace::Device));
            assert_eq!(place(graph, Some(MemorySpace::Host), all), Ok(MemorySpace::Host));
            assert_eq!(place(graph, Some(MemorySpace::Host), rest), Ok(MemorySpace::Host));
            assert!(place(graph, Some(MemorySpace::Device), rest).is_err());
            assert!(place(graph, None, rest / 2).is_err());
        }
        assert_eq!(place(&coded, None, rest), Ok(MemorySpace::Host));
        let message = place(&bare, None, rest).unwrap_err().to_string();
        assert!(message.starts_with("a graph on a device needs "), "{message}");
        assert!(message.ends_with(
            "quantize the vectors and store them on the host, build from f16 or bytes, or use the cpu"
        ));
        let no_pages = Bytes { device: all, host: 0 };
        let refused = plan_graph_within(&coded, Some(MemorySpace::Host), no_pages).unwrap_err();
        assert_eq!(refused.space, MemorySpace::Host);
    }
}
