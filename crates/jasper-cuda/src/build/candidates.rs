//! The candidates of the vertices of a batch, in device memory.

use gpu_kernels::graph::NO_SLOT;
use gpu_kernels::prune::{COUNTERS, CandidateArgs, Rescore, RescoreArgs};
use gpu_kernels::{DevicePtr, DevicePtrMut, Stream};
use jasper_core::{Neighbor, Slot};

use crate::graph::{EdgeRows, GraphId, KernelGraph, WORD_ALIGN};

/// Words of the counters.
pub(super) const COUNTER_WORDS: usize = COUNTERS * 2;

/// Up to this many vertices, what their prune writes is in the same array as its input, so that one copy brings all of it
/// to the host, which then sorts the back edges: that takes less time than the launches.
pub(super) const SMALL_BATCH: usize = 64;

/// The vertices expanded by the searches for a chunk of a batch.
///
/// ```text
/// counters | duplicate_of | new vertices | of a small batch: rows of edges | distances of the edges
/// ```
pub struct Candidates<S: Stream> {
    words: S::Buffer<u32>,
    /// `[vertices_len][stride]`: entries of the vertices that each search expanded; then `[vertices_len][2]`: hops and
    /// distances of each search; the hops are also the number of vertices expanded.
    found: S::Buffer<u64>,
    /// `[vertices_len][max_degree]`: candidates from the same batch; `None` in bulk builds.
    pub(super) peers: Option<S::Buffer<u64>>,
    /// Number of vertices.
    len: usize,
    /// Room for candidates per vertex.
    stride: u32,
    /// The graph that was searched.
    pub(super) graph: GraphId,
}

impl<S: Stream> Candidates<S> {
    /// Room for the candidates of `vertices`, at most `stride` each. Counters are zero, and no vertex is a duplicate.
    pub(super) fn new(
        stream: &S,
        vertices: &[Slot],
        stride: u32,
        edges_stride: u32,
        graph: GraphId,
    ) -> Result<Self, S::Error> {
        let (len, padded) = (vertices.len(), vertices.len().next_multiple_of(WORD_ALIGN));
        let first_row = COUNTER_WORDS + 2 * padded;
        let rows = if len <= SMALL_BATCH {
            EdgeRows::<S>::words(len, edges_stride) + len * edges_stride as usize
        } else {
            0
        };
        let mut words = vec![NO_SLOT; first_row + rows];
        words[..COUNTER_WORDS].fill(0);
        words[COUNTER_WORDS + padded..][..len].copy_from_slice(bytemuck::cast_slice(vertices));
        Ok(Self {
            words: stream.upload(&words)?,
            found: stream.allocate(len * (stride as usize + 1))?,
            peers: None,
            len,
            stride,
            graph,
        })
    }

    pub(super) fn len(&self) -> u32 {
        self.len as u32
    }

    fn padded_len(&self) -> usize {
        self.len.next_multiple_of(WORD_ALIGN)
    }

    /// `[vertices_len]`
    pub(super) fn new_vertices(&self, stream: &S) -> DevicePtr<u32> {
        stream.input(&self.words).add(COUNTER_WORDS + self.padded_len())
    }

    /// `[vertices_len]`: the vertex with the same vector, or [`NO_SLOT`].
    pub(super) fn duplicate_of(&self, stream: &S) -> DevicePtr<u32> {
        stream.input(&self.words).add(COUNTER_WORDS)
    }

    /// [`Self::duplicate_of`], for the kernel that writes it.
    pub(super) fn duplicates(&mut self, stream: &S) -> DevicePtrMut<u32> {
        stream.output(&mut self.words).add(COUNTER_WORDS)
    }

    /// `[COUNTERS]`
    pub(super) fn counters(&mut self, stream: &S) -> DevicePtrMut<u64> {
        stream.output(&mut self.words).cast()
    }

    /// Sets the candidates to those of no search: none, at no cost.
    pub(super) fn set_none(&mut self, stream: &S) -> Result<(), S::Error> {
        stream.fill(&mut self.found, 0)
    }

    /// The entries of expanded vertices, and the costs, for the search that writes them.
    pub(super) fn outputs(&mut self, stream: &S) -> (DevicePtrMut<u64>, DevicePtrMut<u32>) {
        let entries = stream.output(&mut self.found);
        (entries, entries.add(self.len * self.stride as usize).cast())
    }

    pub(super) fn args(&self, stream: &S) -> CandidateArgs {
        let entries = stream.input(&self.found);
        CandidateArgs {
            new_vertices: self.new_vertices(stream),
            entries,
            costs: entries.add(self.len * self.stride as usize).cast(),
            vertices_len: self.len(),
            stride: self.stride,
        }
    }

    /// Replaces the distances of SQ4 vectors, which the search wrote, by those of SQ8 vectors.
    ///
    /// # Safety
    /// `input` is of the graph that was searched, with the SQ8 vectors of its slots.
    pub(super) unsafe fn rescore(&mut self, stream: &S, input: &KernelGraph) -> Result<(), S::Error> {
        let args = RescoreArgs {
            graph: input.args,
            form: input.form,
            candidates: self.args(stream),
            entries: self.outputs(stream).0,
        };
        let kernel = Rescore::for_sq8(input.form.op(), input.args.shape.row_bytes());
        // SAFETY: the arrays are those of the search; the caller upholds the rest.
        unsafe { stream.launch(&kernel, args) }
    }

    /// Whether the array has room for the rows of a [small batch](SMALL_BATCH).
    pub(super) fn has_rows(&self) -> bool {
        self.len <= SMALL_BATCH
    }

    /// The rows of a small batch, which follow the candidates in their array, the entries, and the index of the
    /// distances.
    pub(super) fn into_rows(self, edges_stride: u32) -> (EdgeRows<S>, S::Buffer<u64>, usize) {
        let first_row = COUNTER_WORDS + 2 * self.padded_len();
        let distances = first_row + EdgeRows::<S>::words(self.len, edges_stride);
        (EdgeRows::within(self.words, first_row, self.len, edges_stride), self.found, distances)
    }

    /// The counters, from a copy of the array or its first words.
    pub(super) fn counters_in(words: &[u32]) -> [u64; COUNTERS] {
        std::array::from_fn(|i| u64::from(words[2 * i]) | u64::from(words[2 * i + 1]) << u32::BITS)
    }

    /// Each duplicate with the vertex that has the same vector, from a copy of the array of `len` vertices.
    pub(super) fn duplicates_in(words: &[u32], len: usize) -> Vec<(Slot, Slot)> {
        let of = &words[COUNTER_WORDS..];
        let vertices = &of[len.next_multiple_of(WORD_ALIGN)..];
        let pairs = vertices[..len].iter().zip(of).filter(|&(_, &other)| other != NO_SLOT);
        pairs.map(|(&vertex, &other)| (Slot::new(vertex), Slot::new(other))).collect()
    }

    /// A copy of the counters, duplicates and vertices.
    pub(super) fn download(&self, stream: &S) -> Result<Vec<u32>, S::Error> {
        stream.download_range(&self.words, 0..COUNTER_WORDS + 2 * self.padded_len())
    }

    /// A copy of the counters.
    pub(super) fn download_counters(&self, stream: &S) -> Result<Vec<u32>, S::Error> {
        stream.download_range(&self.words, 0..COUNTER_WORDS)
    }

    /// A copy of the vertices.
    pub(super) fn download_vertices(&self, stream: &S) -> Result<Vec<u32>, S::Error> {
        let first = COUNTER_WORDS + self.padded_len();
        stream.download_range(&self.words, first..first + self.len)
    }

    /// Each vertex with its `k` nearest candidates.
    pub(super) fn nearest(self, stream: &S, k: usize) -> Result<Vec<(Slot, Vec<Slot>)>, S::Error> {
        let vertices = self.download_vertices(stream)?;
        let found = stream.download(&self.found)?;
        let (entries, costs) = found.split_at(self.len * self.stride as usize);
        let lists = entries.chunks_exact(self.stride as usize).zip(costs);
        let nearest = |(vertex, (entries, &costs)): (u32, (&[u64], &u64))| {
            let hops = costs as u32 as usize;
            let found = entries[..hops].iter().map(|&entry| Neighbor::from_bits(entry));
            let mut found: Vec<_> = found.filter(|near| near.slot().get() != vertex).collect();
            found.sort_unstable();
            (Slot::new(vertex), found.iter().take(k).map(|near| near.slot()).collect())
        };
        Ok(vertices.into_iter().zip(lists).map(nearest).collect())
    }
}
