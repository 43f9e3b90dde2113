//! What a build takes, before it begins.

mod free;
mod plan;

use jasper_core::{BuildParams, Element, Key, Metric, Neighbor, VectorId, padded_len};
use jasper_graph::{Graph, needs_norms};

use crate::cpu::{SEARCHED_AT_ONCE, TARGETS_AT_ONCE};
use crate::ingest::ingest_bytes;
use crate::link_progress::largest_batch;
use crate::quantized_linking::quantized_metric;

pub use free::free_host_memory;
pub use plan::{Bytes, MemoryPlan, MemorySpace, ParseVectorStorageError, Part, PlanError, VectorStorage};

/// What a bulk build is to build: enough to say what it takes.
///
/// ```
/// use jasper_vamana::{BuildShape, MemorySpace};
/// use jasper_core::{BuildParams, Metric};
/// let params = BuildParams::builder().max_degree(64).build()?;
/// let shape = BuildShape { rows: 100_000_000, dimension: 96, metric: Metric::L2, params };
/// let plan = shape.plan_on_host::<f32>();
/// assert_eq!((plan.parts()[0].name, plan.parts()[0].bytes), ("vectors", 38_400_000_000));
/// assert!(plan.total(MemorySpace::Host) > 64_000_000_000);
/// # Ok::<(), jasper_core::ParamError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BuildShape {
    /// Vectors. Those that turn out to be identical take less.
    pub rows: usize,
    /// Coordinates of a vector.
    pub dimension: usize,
    /// How near two vectors are.
    pub metric: Metric,
    /// How the graph is built.
    pub params: BuildParams,
}

/// The part of a plan that a build does without where memory is short; the graph is the same.
pub const SKETCHES: &str = "sketches";
/// Part of the vectors and the graph that a build may take beside them.
const SPARE: f32 = 0.25;
/// The part of that which sketches leave free: data differ, and so does what a build of them takes.
const LEFT_FREE: f32 = 0.04;
/// A test program of the library and a thousand rows; the command takes three million bytes more.
const PROCESS_BYTES: usize = 7 << 20;

impl BuildShape {
    /// The shape of what `graph` has rows for.
    pub fn of<T: Element>(graph: &Graph<T>) -> Self {
        Self {
            rows: graph.slots(),
            dimension: graph.dimension(),
            metric: graph.metric(),
            params: *graph.params(),
        }
    }

    /// What a build on the processor takes at its peak, by part:
    ///
    /// | part | what it is |
    /// | --- | --- |
    /// | vectors | padded to 16 bytes each, and their squared lengths where the metric needs them |
    /// | graph | adjacency at full degree |
    /// | keys | 8 bytes a row |
    /// | scratch | the larger of the table that finds identical rows and the largest batch; given back |
    /// | sketches | by which searches of the build rule rows out; given back |
    /// | process | code, threads and stacks, and what huge pages round up |
    pub fn plan_on_host<T: Element>(&self) -> MemoryPlan {
        let plan = self.plan_index::<T>(self.linking_bytes());
        plan.part(MemorySpace::Host, SKETCHES, self.sketches::<T>().1 as u64)
    }

    /// What a build on a device takes of the host at its peak, as [`Self::plan_on_host`] but without batches and sketches.
    pub fn plan_beside_device<T: Element>(&self) -> MemoryPlan {
        self.plan_index::<T>(self.rows * size_of::<VectorId>())
    }

    /// The shape of the same graph over rows of bytes, by which [`quantized_linking`](crate::Ingested::quantize_vectors) links.
    #[must_use]
    pub fn quantized(self) -> Self {
        Self { metric: quantized_metric(self.metric), ..self }
    }

    /// Bytes of the vectors, padded, and of their squared lengths where the metric needs them.
    pub fn vector_bytes<T: Element>(&self) -> usize {
        let norm = if self.has_norms::<T>() { size_of::<f32>() } else { 0 };
        self.rows * (padded_len::<T>(self.dimension) * size_of::<T>() + norm)
    }

    /// Whether rows have their squared lengths beside them.
    pub fn has_norms<T: Element>(&self) -> bool {
        needs_norms(self.metric, T::EXACT)
    }

    /// Rows that a build on the processor sketches, if it has the memory, and the bytes that their sketches take.
    pub(crate) fn sketches<T: Element>(&self) -> (usize, usize) {
        let plan = self.plan_index::<T>(self.linking_bytes());
        let bytes = |name| plan.parts().iter().find(|part| part.name == name).map_or(0, |part| part.bytes);
        let spare = |part: f32| (part * (bytes("vectors") + bytes("graph")) as f32) as u64;
        let taken = plan.total(MemorySpace::Host) - bytes("vectors") - bytes("graph") + spare(LEFT_FREE);
        self.sketches_within::<T>(spare(SPARE).saturating_sub(taken))
    }

    /// Rows whose sketches fit into so many bytes, and what those take.
    pub(crate) fn sketches_within<T: Element>(&self, bytes: u64) -> (usize, usize) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        jasper_graph::Vectors::<T>::sketches_within(bytes, self.rows, self.dimension)
    }

    /// What the index takes, and a build that needs `linking` bytes while it links.
    fn plan_index<T: Element>(&self, linking: usize) -> MemoryPlan {
        let vectors = self.vector_bytes::<T>();
        let edges = self.params.max_degree() * size_of::<VectorId>() + size_of::<u16>();
        // Pages of adjacency are touched when the first edges are written, when that is gone.
        let ingesting = ingest_bytes(self.rows, vectors).saturating_sub(self.rows * edges);
        let parts = [
            ("vectors", vectors),
            ("graph", self.rows * edges),
            ("keys", self.rows * size_of::<Key>()),
            ("scratch", linking.max(ingesting)),
            ("process", PROCESS_BYTES),
        ];
        let plan = MemoryPlan::new("a build")
            .way_out("build from f16 or bytes, with a lower max_degree, or where there is more");
        parts.into_iter().fold(plan, |plan, (name, bytes)| plan.part(MemorySpace::Host, name, bytes as u64))
    }

    /// The order of linking, and for the largest batch its candidates, links, back edges and new rows. Searches expand a
    /// sixth more than their frontier holds, on data of middling difficulty; links are reckoned at full degree.
    fn linking_bytes(&self) -> usize {
        let params = &self.params;
        let batch = largest_batch(self.rows, params);
        let expanded = params.build_beam_width() * 7 / 6 + params.max_degree().min(16);
        let candidates = batch.min(SEARCHED_AT_ONCE) * expanded * size_of::<Neighbor>();
        let edges = batch * params.max_degree();
        let links = edges * (size_of::<Neighbor>() + size_of::<(VectorId, Neighbor)>());
        let new_rows = edges.min(TARGETS_AT_ONCE) * params.max_degree() * size_of::<VectorId>();
        self.rows * size_of::<VectorId>() + candidates + links + new_rows
    }
}
