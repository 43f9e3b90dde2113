//! Memory of a build, planned before it starts.

mod free;
mod plan;

use jasper_core::{BuildParams, ElementKind, Key, Metric, Neighbor, Slot};
use jasper_graph::{Graph, needs_terms};

use crate::bulk_linker::largest_batch;
use crate::cpu::{MERGE_CHUNK, SEARCH_CHUNK};
use crate::ingest::ingest_bytes;
use crate::overlooked::overlooked_bytes;
use crate::scalar_quantizer::{ScalarQuantizer, sq8_metric};

pub use free::free_host_memory;
pub use plan::{Bytes, MemoryPlan, MemorySpace, ParseMemorySpaceError, Part, PlanError};

/// The shape of a bulk build, which determines its memory.
///
/// ```
/// use jasper_vamana::{BuildSpec, MemorySpace};
/// use jasper_core::{BuildParams, ElementKind, Metric};
/// let params = BuildParams::builder().max_degree(64).build()?;
/// let spec = BuildSpec { rows: 100_000_000, element: ElementKind::F32, dimension: 96, metric: Metric::L2, params };
/// let plan = spec.plan_on_host();
/// assert_eq!((plan.parts()[0].name, plan.parts()[0].bytes), ("vectors", 38_400_000_000));
/// assert!(plan.total(MemorySpace::Host) > 64_000_000_000);
/// # Ok::<(), jasper_core::ParamError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BuildSpec {
    /// Number of vectors. Identical ones take less memory than planned.
    pub rows: usize,
    /// Type of a coordinate.
    pub element: ElementKind,
    /// Coordinates per vector.
    pub dimension: usize,
    /// The metric.
    pub metric: Metric,
    /// The build parameters.
    pub params: BuildParams,
}

/// Name of the temporary memory that steps use in turn: finding identical vectors, linking, quantizing.
pub const SCRATCH: &str = "scratch";
/// Name of the optional part of a plan. Without it, a build is slower, and the graph is the same.
pub const SKETCHES: &str = "sketches";
/// Memory that a build may use in addition to vectors and graph, as a share of these.
const SPARE: f32 = 0.25;
/// The share kept free of sketches, because the memory of a build varies with the data.
const MARGIN: f32 = 0.04;
/// Memory of the process without its data, and what small tables are rounded up to: the difference between the peak of
/// a test that builds 60,000 vectors and its tables.
const PROCESS_BYTES: usize = 12 << 20;

impl BuildSpec {
    /// The shape of a build of `graph`, with all its slots.
    pub fn of(graph: &Graph) -> Self {
        Self {
            rows: graph.slots(),
            element: graph.element(),
            dimension: graph.dimension(),
            metric: graph.metric(),
            params: *graph.params(),
        }
    }

    /// Peak memory of a build on the CPU, by part:
    ///
    /// | part | contents |
    /// | --- | --- |
    /// | vectors | padded to 16 bytes each, and a term of each where the metric needs it |
    /// | graph | adjacency at full degree |
    /// | keys | 8 bytes per vector |
    /// | scratch | the larger of the table that finds identical vectors, the largest batch and, if vectors are to be quantized, the training; temporary |
    /// | sketches | lower bounds of distances for the searches of the build; temporary |
    /// | process | code, threads and stacks, and the rounding to huge pages |
    pub fn plan_on_host(&self) -> MemoryPlan {
        let plan = self.plan_index(self.linking_bytes());
        plan.part(MemorySpace::Host, SKETCHES, self.sketches().1 as u64)
    }

    /// [`Self::plan_on_host`] of a build that links vectors quantized to bytes, which are part of the scratch memory.
    /// There are no sketches.
    pub fn plan_sq8_on_host(&self) -> MemoryPlan {
        self.plan_index(self.linking_bytes() + self.sq8().vector_bytes())
    }

    /// Peak host memory of a build on a device: that of [`Self::plan_on_host`] without batches and sketches.
    pub fn plan_host_for_device(&self) -> MemoryPlan {
        self.plan_index(self.rows * size_of::<Slot>() + overlooked_bytes(self.rows))
    }

    /// The largest shape of the same graph over vectors of bytes, as [quantized linking](crate::ScalarQuantizer) links it.
    #[must_use]
    pub fn sq8(self) -> Self {
        let dimension = ScalarQuantizer::largest_dimension(self.dimension);
        Self { element: ElementKind::I8, metric: sq8_metric(self.metric), dimension, ..self }
    }

    /// Bytes of the vectors, padded, and of their terms where the metric needs them.
    pub(crate) fn vector_bytes(&self) -> usize {
        let term = if self.has_terms() { size_of::<f32>() } else { 0 };
        self.rows * (self.element.row_bytes(self.dimension) + term)
    }

    /// Whether a term of each vector is stored with it.
    pub fn has_terms(&self) -> bool {
        needs_terms(self.metric, self.element.is_integer())
    }

    /// How many vectors a build on the CPU sketches, if it has the memory, and the bytes of their sketches.
    pub(crate) fn sketches(&self) -> (usize, usize) {
        let plan = self.plan_index(self.linking_bytes());
        let bytes = |name| plan.parts().iter().find(|part| part.name == name).map_or(0, |part| part.bytes);
        let spare = |part: f32| (part * (bytes("vectors") + bytes("graph")) as f32) as u64;
        let taken = plan.total(MemorySpace::Host) - bytes("vectors") - bytes("graph") + spare(MARGIN);
        self.sketches_within(spare(SPARE).saturating_sub(taken))
    }

    /// How many sketches fit into `bytes`, and the bytes they take.
    pub(crate) fn sketches_within(&self, bytes: u64) -> (usize, usize) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        jasper_graph::VectorTable::sketches_within(self.element, bytes, self.rows, self.dimension)
    }

    /// The index, and the temporary memory of a build that needs `linking` bytes while it links.
    fn plan_index(&self, linking: usize) -> MemoryPlan {
        let vectors = self.vector_bytes();
        let edges = self.params.max_degree() * size_of::<Slot>() + size_of::<u16>();
        // Pages of the adjacency table are first touched when edges are written, after ingesting.
        let is_padded = self.element.padded_len(self.dimension) != self.dimension;
        let ingesting = ingest_bytes(self.rows, vectors, is_padded).saturating_sub(self.rows * edges);
        let parts = [
            ("vectors", vectors),
            ("graph", self.rows * edges),
            ("keys", self.rows * size_of::<Key>()),
            (SCRATCH, linking.max(ingesting)),
            ("process", PROCESS_BYTES),
        ];
        let plan = MemoryPlan::new("a build")
            .remedy("build from f16 or bytes, with a lower max_degree, or where there is more");
        parts.into_iter().fold(plan, |plan, (name, bytes)| plan.part(MemorySpace::Host, name, bytes as u64))
    }

    /// Bytes of the order of linking, and of the candidates, edges, back edges and new rows of the largest batch. On
    /// data of average difficulty, searches expand a sixth more vertices than their frontier holds. Edges are counted
    /// at full degree.
    fn linking_bytes(&self) -> usize {
        let params = &self.params;
        let batch = largest_batch(self.rows, params);
        let candidates = |beam_width: usize| {
            let expanded = beam_width * 7 / 6 + params.max_degree().min(16);
            batch.min(SEARCH_CHUNK) * expanded * size_of::<Neighbor>()
        };
        let edges = batch * params.max_degree();
        let lists = edges * (size_of::<Neighbor>() + size_of::<(Slot, Neighbor)>());
        let new_rows = edges.min(MERGE_CHUNK) * params.max_degree() * size_of::<Slot>();
        let linking = candidates(params.bulk_beam_width(self.metric)) + lists + new_rows;
        // Unreachable vertices are searched for with all of it; overlooked ones with four times as much, but a quarter as
        // many at a time.
        let again = candidates(params.build_beam_width()) + overlooked_bytes(self.rows);
        self.rows * size_of::<Slot>() + linking.max(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors without padding are read into the place where they are prepared.
    #[test]
    fn vectors_without_padding_are_staged_once() {
        let params = BuildParams::builder().max_degree(32).build_beam_width(40).build().unwrap();
        let scratch = |dimension| {
            let spec =
                BuildSpec { rows: 20_000, element: ElementKind::U8, dimension, metric: Metric::L2, params };
            let plan = spec.plan_on_host();
            plan.parts().iter().find(|part| part.name == SCRATCH).unwrap().bytes
        };
        let (without, with, bytes) = (scratch(784), scratch(783), 20_000 * 784);
        assert!(with == without + bytes, "{without} and {with} bytes");
    }
}
