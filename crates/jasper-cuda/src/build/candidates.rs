//! The candidates of the vertices of a batch, in device memory.

use gpu_kernels::prune::CandidateArgs;
use gpu_kernels::{Buffer as _, Stream};
use jasper_core::{Neighbor, Slot};

use crate::graph::GraphId;

/// The vertices expanded by the searches for a chunk of a batch.
pub struct Candidates<S: Stream> {
    /// `[vertices_len]`
    pub(super) new_vertices: S::Buffer<u32>,
    /// `[vertices_len][stride]`: entries of the vertices that each search expanded.
    pub(super) expanded: S::Buffer<u64>,
    /// `[vertices_len][2]`: hops and distances of each search; the hops are also the number of vertices expanded.
    pub(super) costs: S::Buffer<u32>,
    /// `[vertices_len]`: the vertex with the same vector, or [`NO_SLOT`](gpu_kernels::graph::NO_SLOT).
    pub(super) duplicate_of: S::Buffer<u32>,
    /// `[vertices_len][max_degree]`: candidates from the same batch; `None` in bulk builds.
    pub(super) peers: Option<S::Buffer<u64>>,
    /// `[COUNTERS]`
    pub(super) counters: S::Buffer<u64>,
    /// Room for candidates per vertex.
    pub(super) stride: u32,
    /// The graph that was searched.
    pub(super) graph: GraphId,
}

impl<S: Stream> Candidates<S> {
    pub(super) fn len(&self) -> u32 {
        self.new_vertices.len() as u32
    }

    pub(super) fn args(&self, stream: &S) -> CandidateArgs {
        CandidateArgs {
            new_vertices: stream.input(&self.new_vertices),
            entries: stream.input(&self.expanded),
            costs: stream.input(&self.costs),
            vertices_len: self.len(),
            stride: self.stride,
        }
    }

    /// Each vertex with its `k` nearest candidates.
    pub(super) fn nearest(self, stream: &S, k: usize) -> Result<Vec<(Slot, Vec<Slot>)>, S::Error> {
        let vertices = stream.download(&self.new_vertices)?;
        let entries = stream.download(&self.expanded)?;
        let costs = stream.download(&self.costs)?;
        let lists = entries.chunks_exact(self.stride as usize).zip(costs.chunks_exact(2));
        let nearest = |(vertex, (entries, costs)): (u32, (&[u64], &[u32]))| {
            let found = entries[..costs[0] as usize].iter().map(|&entry| Neighbor::from_bits(entry));
            let mut found: Vec<_> = found.filter(|near| near.slot().get() != vertex).collect();
            found.sort_unstable();
            (Slot::new(vertex), found.iter().take(k).map(|near| near.slot()).collect())
        };
        Ok(vertices.into_iter().zip(lists).map(nearest).collect())
    }
}
