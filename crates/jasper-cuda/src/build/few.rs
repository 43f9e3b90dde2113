//! Merging the back edges of a small batch, which the host reverses and sorts.
//!
//! On a device, the steps of a merge are some thirty launches and five downloads, each of which takes longer than its work
//! if there are few edges. The host has the rows of a small batch anyway. So it uploads the sorted edges in one copy, and
//! gets back all that it needs in another:
//!
//! ```text
//! counters, number of detached vertices | sort keys | sources | offsets | detached vertices | their rows | new rows
//! ─────────────────────── uploaded ─────────────────────────────────────▶
//! ◀──────────────────────────────────── downloaded ──────────────────────────────────────────────────────────────
//! ```
//!
//! Of a batch with more targets, only the counters and the detached vertices are downloaded.

use gpu_kernels::edges::{FindDetached, FindDetachedArgs};
use gpu_kernels::graph::NO_SLOT;
use gpu_kernels::prune::{Merge, MergeArgs};
use gpu_kernels::{Buffer as _, DevicePtrMut, Stream};
use jasper_core::Slot;
use jasper_graph::Graph;

use super::candidates::{COUNTER_WORDS, Candidates};
use super::edges::{NewRows, cost_of};
use super::executor::DeviceExecutor;
use crate::graph::{DeviceGraph, EdgeRows, HostRows, WORD_ALIGN};

/// Up to this many targets, all is downloaded.
const FEW_TARGETS: usize = 256;
/// Detached vertices that are downloaded with the counters: with the rows, and without.
const DETACHED: usize = 64;
const MANY_DETACHED: usize = 1024;
/// Words before the edges.
const HEAD: usize = (COUNTER_WORDS + 1).next_multiple_of(WORD_ALIGN);

/// An array for the merge of a batch of few vertices, allocated and filled while the device computes their edges.
pub(super) struct MergeRoom<S: Stream>(S::Buffer<u32>);

impl<S: Stream> MergeRoom<S> {
    /// For the edges of `vertices`, whatever they are; `None` if there may be many targets.
    pub(super) fn new(stream: &S, graph: &DeviceGraph<S>, vertices: usize) -> Result<Option<Self>, S::Error> {
        let targets = vertices * graph.edges_stride() as usize;
        if targets > FEW_TARGETS {
            return Ok(None);
        }
        let mut array = stream.allocate(Layout::new(graph, targets, targets).len)?;
        // No kernel writes the padding, nor the rows of detached vertices that there are not.
        stream.fill(&mut array, u8::MAX)?;
        Ok(Some(Self(array)))
    }
}

/// Where the parts of the array of a merge begin.
struct Layout {
    keys: usize,
    sources: usize,
    offsets: usize,
    detached: usize,
    /// Detached vertices that are downloaded at first.
    known: usize,
    /// Of these, those whose rows are.
    gathered: usize,
    detached_rows: usize,
    first_row: usize,
    /// Words of the array.
    len: usize,
}

impl Layout {
    fn new<S: Stream>(graph: &DeviceGraph<S>, edges: usize, targets: usize) -> Self {
        let (stride, is_few) = (graph.edges_stride(), targets <= FEW_TARGETS);
        // A vertex is in the list once at most.
        let most = |parents: usize| (targets * stride as usize).min(parents);
        let detached_len = graph.parents.as_ref().map_or(0, |parents| most(parents.len()));
        let known = detached_len.min(if is_few { DETACHED } else { MANY_DETACHED });
        let gathered = if is_few { known } else { 0 };
        let (keys, sources) = (HEAD, HEAD + 2 * edges);
        let (offsets, detached) = (sources + edges, sources + edges + targets + 1);
        let detached_rows = (detached + detached_len).next_multiple_of(WORD_ALIGN);
        let first_row = (detached_rows + gathered * stride as usize).next_multiple_of(WORD_ALIGN);
        let len = first_row + EdgeRows::<S>::words(targets, stride);
        Self { keys, sources, offsets, detached, known, gathered, detached_rows, first_row, len }
    }
}

/// The reversed edges of a small batch.
pub(super) struct ReversedEdges<S: Stream> {
    room: Option<MergeRoom<S>>,
    /// For each edge: the target, the bits of the distance, and the source; ascending.
    edges: Vec<(u32, u32, u32)>,
    /// `[targets + 1]`: the edges to target `t` are `offsets[t]..offsets[t + 1]`.
    offsets: Vec<u32>,
}

impl<S: Stream> ReversedEdges<S> {
    /// Reverses the edges of rows with these distances.
    pub(super) fn new(rows: &HostRows, distances: &[u32], room: Option<MergeRoom<S>>) -> Self {
        let stride = rows.neighbors.len() / rows.vertices.len().max(1);
        let edges = rows.neighbors.iter().zip(distances).enumerate();
        let edges = edges.filter(|&(_, (&target, _))| target != NO_SLOT);
        let mut edges: Vec<_> =
            edges.map(|(at, (&target, &distance))| (target, distance, rows.vertices[at / stride])).collect();
        edges.sort_unstable();
        let starts = (0..edges.len()).filter(|&at| at == 0 || edges[at].0 != edges[at - 1].0);
        let offsets = starts.chain([edges.len()]).map(|at| at as u32).collect();
        Self { room, edges, offsets }
    }

    /// The number of vertices to which edges lead.
    pub(super) fn targets(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Appends the sort keys, sources and offsets.
    fn write(&self, words: &mut Vec<u32>) {
        words.extend(self.edges.iter().flat_map(|&(target, distance, _)| [distance, target]));
        words.extend(self.edges.iter().map(|&(_, _, source)| source));
        words.extend(&self.offsets);
    }
}

impl<S: Stream<Error: Clone>> DeviceExecutor<S> {
    /// The new rows of all targets of these edges.
    pub(super) fn merge_few(
        &self,
        host: &Graph,
        graph: &DeviceGraph<S>,
        edges: ReversedEdges<S>,
        max_kept: u32,
    ) -> Result<NewRows<S>, S::Error> {
        let (stream, targets, stride) = (&self.stream, edges.targets(), graph.edges_stride());
        let is_few = targets <= FEW_TARGETS;
        let layout = Layout::new(graph, edges.edges.len(), targets);
        let Layout { keys, sources, offsets, detached, known, gathered, detached_rows, first_row, len } =
            layout;

        let mut words = vec![0; HEAD];
        edges.write(&mut words);
        words.resize(detached + known, NO_SLOT);
        let mut array = match edges.room {
            Some(MergeRoom(array)) if array.len() >= len => array,
            _ => {
                let mut array = stream.allocate(len)?;
                if is_few {
                    stream.fill(&mut array, u8::MAX)?;
                }
                array
            }
        };
        stream.write_range(&mut array, 0..words.len(), 1, |range, out| {
            out.copy_from_slice(&words[range]);
            Ok(())
        })?;
        let mut rows = EdgeRows::within(array, first_row, targets, stride);
        let (row_vertices, neighbors) = rows.outputs(stream);
        let of_array: DevicePtrMut<u32> = stream.output(rows.array_mut());
        let input = graph.linking_input();
        let args = MergeArgs {
            prune: self.prune_args(host, &input, of_array.cast()),
            sort_keys: of_array.add(keys).cast_const().cast(),
            sources: of_array.add(sources).cast_const(),
            offsets: of_array.add(offsets).cast_const(),
            row_vertices,
            neighbors,
            targets_len: targets as u32,
            max_kept,
        };
        // SAFETY: the array has been made for rows of this shape; the edges are sorted, lead from and to slots of the graph,
        // and are grouped by their targets, of which there are as many.
        unsafe { stream.launch(&input.kernel(Merge::for_rows), args)? };
        if let Some(parents) = &graph.parents {
            let list = of_array.add(detached);
            let args = FindDetachedArgs {
                edges: stream.input(&graph.edges),
                parents: stream.input(parents),
                row_vertices: row_vertices.cast_const(),
                neighbors: neighbors.cast_const(),
                detached: list,
                detached_len: of_array.add(COUNTER_WORDS),
                rows_len: targets as u32,
                edges_stride: stride,
            };
            // SAFETY: the graph has a row and a parent for each slot, and there is a new row for each vertex, which are
            // distinct slots; a vertex has one parent, and is in the list once at most.
            unsafe { stream.launch(&FindDetached, args)? };
            // SAFETY: the first places of the list have detached vertices, or `NO_SLOT`; there is room for their rows.
            unsafe {
                graph.gather_rows(list.cast_const(), gathered as u32, of_array.add(detached_rows))?;
            }
        }
        let end = if is_few { len } else { detached + known };
        let found = stream.download_range(rows.array(), 0..end)?;
        let count = found[COUNTER_WORDS] as usize;
        let mut vertices = found[detached..detached + known.min(count)].to_vec();
        if count > known {
            vertices = stream.download_range(rows.array(), detached..detached + count)?;
        }
        let mut of_detached = None;
        if is_few {
            rows.set_on_host(&found);
            let count = gathered.min(count);
            let neighbors = found[detached_rows..][..count * stride as usize].to_vec();
            of_detached = Some(HostRows { vertices: vertices[..count].to_vec(), neighbors });
        }
        let cost = cost_of(&Candidates::<S>::counters_in(&found));
        let detached = vertices.into_iter().map(Slot::new).collect();
        Ok(NewRows { rows, graph: graph.id, cost, detached, is_small: true, detached_rows: of_detached })
    }
}

#[cfg(test)]
mod tests {
    use gpu_kernels::emulated::EmulatedStream;

    use super::*;

    #[test]
    fn edges_are_reversed_and_grouped_by_target() {
        let rows = HostRows { vertices: vec![9, NO_SLOT, 11], neighbors: vec![5, 3, NO_SLOT, NO_SLOT, 3, 7] };
        let edges = ReversedEdges::<EmulatedStream>::new(&rows, &[40, 20, 0, 0, 20, 10], None);
        assert_eq!(edges.edges, [(3, 20, 9), (3, 20, 11), (5, 40, 9), (7, 10, 11)]);
        assert_eq!((edges.targets(), &edges.offsets[..]), (3, &[0, 2, 3, 4][..]));
        let mut words = Vec::new();
        edges.write(&mut words);
        assert_eq!(words, [20, 3, 20, 3, 40, 5, 10, 7, 9, 11, 9, 11, 0, 2, 3, 4]);
        let rows = HostRows { vertices: vec![1], neighbors: vec![NO_SLOT] };
        assert_eq!(ReversedEdges::<EmulatedStream>::new(&rows, &[0], None).targets(), 0);
    }
}
