//! Graphs in device memory.
//!
//! | module | holds |
//! | --- | --- |
//! | `changes` | applying changes of the host's graph to its copy |
//! | `codes` | codes of vectors |
//! | `compact` | moving vertices into free slots |
//! | `columns` | attributes in the order of their values, kept between searches |
//! | `filters` | the slots of key filters, kept between searches |
//! | `edges` | reading and writing edges; transactions |
//! | `mutable` | a graph that is updated on a device |
//! | `plan` | the memory that a copy takes, and where vectors are stored |
//! | `searched` | a graph that is changed while it is searched |
//! | `tables` | what searches read, and arrays that only earlier searches read |
//! | `sq8` | vectors quantized to bytes (SQ8), by whose distances a change chooses edges |

mod changes;
mod codes;
mod columns;
mod compact;
mod edges;
mod filters;
mod mutable;
mod plan;
mod searched;
mod sq8;
#[cfg(test)]
mod sq8_tests;
mod tables;
#[cfg(test)]
mod update_tests;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use bytemuck::Pod;
use gpu_kernels::graph::{DistanceForm, GraphArgs, NO_SLOT, Origins};
use gpu_kernels::{Buffer as _, DevicePtr, RowShape};
use jasper_core::{BitSet, BuildParams, ElementKind, Key, Metric, Slot};
use jasper_data::parallel;
use jasper_graph::{Center, Graph};

use crate::{MemorySpace, Stream};
pub(crate) use codes::{CodeTable, DeviceCodes};
pub(crate) use columns::{ColumnPart, DeviceColumns, MadeColumns};
pub(crate) use edges::{EdgeRows, HostRows, WORD_ALIGN};
use edges::{RecentRows, UndoLog};
pub(crate) use filters::{DeviceFilters, SlotFormat};
pub use mutable::HostAndDeviceGraph;
pub(crate) use plan::plan_copy;
pub use plan::{plan_graph, plan_graph_within};
pub use searched::{GraphSnapshot, SearchedGraph};
pub(crate) use sq8::{Sq8Rows, UPLOAD_BYTES, sq4_row_bytes};
pub(crate) use tables::SearchTables;
use tables::{AsyncReaders, OldArray, OldArrays};

/// The length of a row of edges is a multiple of this, which is one load of a warp, and one cache line.
const EDGE_ALIGN: usize = 32;
/// Bytes per task of the thread pool.
const TASK_BYTES: usize = 128 << 10;

/// Identifies a copy within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GraphId(u64);

/// The id of the next copy.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// A copy of a graph in device memory. Slots are those of the host; each table is one array.
///
/// The vectors may be in pinned host memory instead, which kernels access over PCIe. This suits quantized searches,
/// which traverse the graph by codes and read only the vectors of their candidates.
#[derive(Debug)]
pub struct DeviceGraph<S: gpu_kernels::Stream = Stream> {
    /// Allocated every table, and makes all changes.
    pub(crate) stream: S,
    /// `[slots][row_bytes]`, on the device or on the host; empty if the graph has only codes, or is built by SQ8 vectors.
    rows: S::Buffer<u8>,
    element: ElementKind,
    /// Whether the graph has vectors, or only codes.
    has_vectors: bool,
    /// `[slots][edges_stride]`
    pub(crate) edges: S::Buffer<u32>,
    /// `[slots]`: the [terms](jasper_graph::VectorTable::terms) of vectors, if the metric needs them.
    terms: Option<S::Buffer<f32>>,
    pub(crate) codes: Option<DeviceCodes<S>>,
    /// `[slots]`: the first key of each live vertex.
    keys: S::Buffer<Key>,
    start_points: S::Buffer<u32>,
    /// `[slots]`: parents in the spanning tree, if the host keeps one.
    pub(crate) parents: Option<S::Buffer<u32>>,
    /// One bit per slot up to the capacity: whether it is live.
    live: S::Buffer<u32>,
    /// What is in `live`.
    live_words: Vec<u32>,
    slots: usize,
    /// Number of slots that every table has space for.
    capacity: usize,
    dimension: usize,
    edges_stride: usize,
    /// Where products of vertices start from, under inner products.
    center: Center,
    pub(crate) metric: Metric,
    pub(crate) id: GraphId,
    /// The undo log of the transaction, if one is active.
    undo: Option<UndoLog<S>>,
    /// Rows that the transaction has written.
    recent: RecentRows,
    /// During SQ8 linking: the vectors quantized to bytes.
    sq8: Option<Sq8Rows<S>>,
    /// Whether launches that were not synchronized may still read the graph.
    async_readers: Arc<AsyncReaders>,
    /// What searches with key filters keep on the device.
    filters: Arc<DeviceFilters<S>>,
    /// What searches with filters by attributes keep there.
    columns: Arc<DeviceColumns<S>>,
    /// Arrays that were replaced, and that searches may still read.
    old: OldArrays<S>,
    /// The tables as searches read them, since the last change.
    searched: Option<Arc<SearchTables<S>>>,
}

impl<S: gpu_kernels::Stream> DeviceGraph<S> {
    /// Copies `graph` to the device of `stream`, in stream order, with its vectors stored as `vectors` says. The host's
    /// part runs in the current rayon pool.
    ///
    /// # Errors
    /// Returns the device's error, such as out of memory: see [`plan_graph`].
    pub fn upload(stream: &S, graph: &Graph, vectors: MemorySpace) -> Result<Self, S::Error>
    where
        S: Clone,
    {
        let width = graph.vectors().row_bytes();
        let rows = if graph.has_vectors() { graph.slots() } else { 0 };
        let mut rows_table = allocate_rows(stream, vectors, rows * width)?;
        write_rows(stream, &mut rows_table, 0..rows, width, &|slot, out| {
            out.copy_from_slice(graph.vectors().padded_bytes(slot));
        })?;
        Self::with_rows(stream, graph, rows_table)
    }

    /// Copies everything but the vectors, which are in `rows`.
    fn with_rows(stream: &S, graph: &Graph, rows: S::Buffer<u8>) -> Result<Self, S::Error>
    where
        S: Clone,
    {
        let (slots, dimension) = (graph.slots(), graph.dimension());
        let edges_stride = edges_stride(graph.params());
        let live_words: Vec<u32> = (0..slots.div_ceil(32)).map(|word| graph.keys().live_word(word)).collect();
        let mut copy = Self {
            stream: stream.clone(),
            has_vectors: graph.has_vectors(),
            rows,
            element: graph.element(),
            edges: edges(stream, graph, edges_stride)?,
            terms: graph
                .vectors()
                .terms()
                .map(|terms| table(stream, slots, 1, &|slot, out| out[0] = terms.at(slot.index())))
                .transpose()?,
            codes: graph
                .vectors()
                .codes()
                .map(|codes| DeviceCodes::upload(stream, codes, slots))
                .transpose()?,
            keys: table(stream, slots, 1, &|slot, out| out[0] = graph.keys().first_key(slot))?,
            start_points: stream.upload(&start_points(graph))?,
            parents: graph
                .adjacency()
                .spanning_tree()
                .map(|tree| table(stream, slots, 1, &|slot, out| out[0] = tree.word(slot)))
                .transpose()?,
            live: table(stream, live_words.len(), 1, &|word, out| out[0] = live_words[word.index()])?,
            live_words,
            slots,
            capacity: slots,
            dimension,
            edges_stride,
            center: graph.vectors().center().clone(),
            metric: graph.metric(),
            id: GraphId(NEXT_ID.fetch_add(1, Relaxed)),
            undo: None,
            recent: RecentRows::default(),
            sq8: None,
            async_readers: Arc::default(),
            filters: Arc::default(),
            columns: Arc::default(),
            old: OldArrays::default(),
            searched: None,
        };
        copy.publish_tables();
        Ok(copy)
    }

    /// Makes the tables of now those that searches read from now on.
    fn publish_tables(&mut self) {
        let before = self.searched.take().map_or_else(Arc::default, |tables| Arc::clone(&tables.readers));
        let readers = self.old.retire(&before);
        self.searched = Some(Arc::new(SearchTables {
            args: GraphArgs { capacity: self.slots as u32, ..self.tables() },
            has_rows: self.has_rows(),
            live: self.live.input(),
            codes: self.codes.as_ref().map(DeviceCodes::view),
            has_vectors: self.has_vectors,
            storage: self.vector_storage(),
            slots: self.slots,
            capacity: self.capacity,
            dimension: self.dimension,
            metric: self.metric,
            filters: Arc::clone(&self.filters),
            columns: Arc::clone(&self.columns),
            async_readers: Arc::clone(&self.async_readers),
            readers,
            element: self.element,
        }));
    }

    /// What searches read.
    pub(crate) fn searched(&self) -> &Arc<SearchTables<S>> {
        self.searched.as_ref().expect("they are made with the graph")
    }

    /// Whether the vectors are on the device.
    fn has_rows(&self) -> bool {
        self.rows.len() >= self.slots * self.row_bytes() as usize
    }

    /// Bytes of device memory, including capacity for growth and without vectors on the host.
    pub fn bytes(&self) -> u64 {
        let rows = if self.rows.is_on_host() { 0 } else { self.rows.len() };
        let tables = rows
            + (self.edges.len() + self.start_points.len() + self.live.len()) * size_of::<u32>()
            + self.terms.as_ref().map_or(0, |terms| terms.len() * size_of::<f32>())
            + self.parents.as_ref().map_or(0, |parents| parents.len() * size_of::<u32>())
            + self.codes.as_ref().map_or(0, DeviceCodes::bytes)
            + self.keys.len() * size_of::<Key>();
        tables as u64
    }

    /// The number of slots: live, tombstones and free.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Where its vectors are stored.
    pub fn vector_storage(&self) -> MemorySpace {
        if self.rows.is_on_host() { MemorySpace::Host } else { MemorySpace::Device }
    }

    /// Bytes per row of vectors or queries, with padding.
    pub(crate) fn row_bytes(&self) -> u32 {
        self.element.row_bytes(self.dimension) as u32
    }

    /// Entries per row of edges.
    pub(crate) fn edges_stride(&self) -> u32 {
        self.edges_stride as u32
    }

    /// Kernel arguments, valid for launches after the upload and before the drop.
    ///
    /// # Panics
    /// Panics if the graph is one of a build by SQ8 vectors, without the vectors themselves.
    pub(crate) fn args(&self) -> GraphArgs {
        assert!(!self.has_vectors || self.has_rows(), "the vectors are on the device");
        self.tables()
    }

    /// [`Self::args`], whose vectors may be missing.
    fn tables(&self) -> GraphArgs {
        GraphArgs {
            vectors: self.rows.input().cast(),
            edges: self.edges.input(),
            terms: self.terms.as_ref().map_or(DevicePtr::null(), |terms| terms.input()),
            keys: self.keys.input(),
            start_points: self.start_points.input(),
            start_points_len: self.start_points.len() as u32,
            shape: RowShape::new(self.row_bytes()),
            edges_stride: self.edges_stride(),
            capacity: self.capacity as u32,
            origins: origins(&self.center),
        }
    }

    /// The array of [`Self::live`], for kernels of updates.
    pub(crate) fn live_bits(&self) -> &S::Buffer<u32> {
        &self.live
    }

    /// How kernels compute distances from queries; the same as on the host.
    pub(crate) fn form(&self) -> DistanceForm {
        DistanceForm::new(self.metric, self.element.is_integer())
    }

    /// The graph as kernels read it.
    pub(crate) fn input(&self) -> KernelGraph {
        KernelGraph { args: self.args(), element: self.element, form: self.form() }
    }
}

impl<S: gpu_kernels::Stream> Drop for DeviceGraph<S> {
    fn drop(&mut self) {
        // Launches in other streams may still read the graph. After a failure they no longer run.
        let _ = self.wait_for_readers();
    }
}

/// A graph as kernels read it, possibly with SQ8 vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelGraph {
    pub(crate) args: GraphArgs,
    /// The element of the rows.
    pub(crate) element: ElementKind,
    /// How distances follow from sums over two rows.
    pub(crate) form: DistanceForm,
}

impl KernelGraph {
    /// The kernel for these rows, by a constructor such as
    /// [`PruneNew::for_rows`](gpu_kernels::prune::PruneNew::for_rows).
    pub(crate) fn kernel<K>(&self, for_rows: fn(ElementKind, DistanceForm, u32) -> K) -> K {
        for_rows(self.element, self.form, self.args.shape.row_bytes())
    }
}

/// Where products of vertices start from, for kernels.
fn origins(center: &Center) -> Origins {
    let (term_weights, alpha_offsets) = (center.term_weights(), center.alpha_offsets());
    Origins { zero_above: center.zero_above(), term_weights, alpha_offsets }
}

/// The words of a set of slots as a bitmap of `len` words.
pub(crate) fn bitmap_words(set: &BitSet, len: usize) -> Vec<u32> {
    let mut words = set.words().to_vec();
    words.resize(len, 0);
    words
}

/// The length of a row of edges.
pub(crate) fn edges_stride(params: &BuildParams) -> usize {
    params.max_degree().next_multiple_of(EDGE_ALIGN)
}

/// The start points, sorted and without duplicates, as kernels require.
fn start_points(graph: &Graph) -> Vec<u32> {
    let mut start_points: Vec<u32> =
        graph.adjacency().start_points().iter().map(|start| start.get()).collect();
    start_points.sort_unstable();
    start_points.dedup();
    start_points
}

/// Uploads the edges of every slot. If the graph is not linked yet, only fills the table.
fn edges<S: gpu_kernels::Stream>(
    stream: &S,
    graph: &Graph,
    stride: usize,
) -> Result<S::Buffer<u32>, S::Error> {
    let slots = graph.slots();
    let has_edges = |slot: usize| !graph.adjacency().neighbors(Slot::from_index(slot)).is_empty();
    if !(0..slots).any(has_edges) {
        let mut edges = stream.allocate_table(slots * stride)?;
        stream.fill(&mut edges, u8::MAX)?;
        return Ok(edges);
    }
    table(stream, slots, stride, &|slot, out| {
        let neighbors = graph.adjacency().neighbors(slot);
        let (edges, padding) = out.split_at_mut(neighbors.len());
        edges.copy_from_slice(bytemuck::cast_slice(neighbors));
        padding.fill(NO_SLOT);
    })
}

/// An array for rows of vectors, where they are stored.
fn allocate_rows<T: Pod, S: gpu_kernels::Stream>(
    stream: &S,
    storage: MemorySpace,
    len: usize,
) -> Result<S::Buffer<T>, S::Error> {
    match storage {
        MemorySpace::Device => stream.allocate_table(len),
        MemorySpace::Host => stream.allocate_on_host(len),
    }
}

/// Uploads a table `[slots][width]` whose rows `fill` writes.
fn table<T: Pod + Send, S: gpu_kernels::Stream>(
    stream: &S,
    slots: usize,
    width: usize,
    fill: &(dyn Fn(Slot, &mut [T]) + Sync),
) -> Result<S::Buffer<T>, S::Error> {
    let mut buffer = stream.allocate_table(slots * width)?;
    write_rows(stream, &mut buffer, 0..slots, width, fill)?;
    Ok(buffer)
}

/// Uploads some rows of a table, written by `fill` in the current rayon pool.
fn write_rows<T: Pod + Send, S: gpu_kernels::Stream>(
    stream: &S,
    buffer: &mut S::Buffer<T>,
    rows: Range<usize>,
    width: usize,
    fill: &(dyn Fn(Slot, &mut [T]) + Sync),
) -> Result<(), S::Error> {
    stream.write_range(buffer, rows.start * width..rows.end * width, width, |range, out| {
        let first = range.start / width;
        let rows_per_task = (TASK_BYTES / (width * size_of::<T>())).max(1);
        parallel::for_each(out.chunks_mut(rows_per_task * width).enumerate(), |(task, out)| {
            for (row, out) in out.chunks_exact_mut(width).enumerate() {
                fill(Slot::from_index(first + task * rows_per_task + row), out);
            }
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySpace;
    use crate::search::MAX_IDLE;
    use cuda_std::emulator::Emulator;
    use gpu_kernels::Stream as _;
    use gpu_kernels::emulated::EmulatedStream;

    #[test]
    fn every_part_lies_where_kernels_look_for_it() {
        let params = BuildParams::builder().max_degree(33).build().unwrap();
        let mut host = Graph::new(ElementKind::I8, Metric::Cosine, 17, params).unwrap();
        let mut row = Vec::new();
        for key in 0..70_u32 {
            let norm = host.vectors().prepare(0, &[key as i8 - 35, 1].repeat(9)[..17], &mut row).unwrap();
            let slot = host.add_vector(&row, norm).unwrap();
            host.keys_mut().assign(1000 + u64::from(key), slot).unwrap();
            host.adjacency_mut().set_neighbors(slot, &[Slot::new((key + 1) % 70), Slot::new((key + 9) % 70)]);
        }
        host.adjacency_mut().set_start_points([40, 3, 40].map(Slot::new).to_vec());
        let stream = EmulatedStream::new(Emulator::new(1));
        let upload = |host: &Graph, vectors| DeviceGraph::upload(&stream, host, vectors).unwrap();
        let whole = upload(&host, MemorySpace::Device);
        assert_eq!(stream.download(&whole.live).unwrap(), [u32::MAX, u32::MAX, 0b11_1111]);
        assert_eq!(stream.download(&whole.start_points).unwrap(), [3, 40]);

        host.keys_mut().delete(1066).unwrap();
        let copy = upload(&host, MemorySpace::Device);
        let (rows, edges) = (stream.download(&copy.rows).unwrap(), stream.download(&copy.edges).unwrap());
        let (terms, keys) = (copy.terms.as_ref().unwrap(), stream.download(&copy.keys).unwrap());
        let terms = stream.download(terms).unwrap();
        for slot in (0..70).map(Slot::new) {
            let at = slot.index();
            assert_eq!(rows[at * 32..][..32], *host.vectors().padded_bytes(slot));
            assert_eq!(edges[at * 64..][..2], [(slot.get() + 1) % 70, (slot.get() + 9) % 70]);
            assert_eq!(edges[at * 64 + 2..][..62], [NO_SLOT; 62]);
            assert_eq!(terms[at], host.vectors().terms().unwrap().at(at));
            assert!(keys[at] == 1000 + at as u64 || at == 66);
        }
        assert_eq!(stream.download(&copy.live).unwrap(), [u32::MAX, u32::MAX, 0b11_1011]);
        let args = copy.args();
        assert_eq!((args.shape.row_bytes(), args.edges_stride, args.start_points_len), (32, 64, 2));
        assert_eq!(args.origins.alpha_offsets, host.vectors().center().alpha_offsets());
        let parts = [rows.len(), edges.len() * 4, terms.len() * 4, keys.len() * 8, copy.live.len() * 4];
        let plan = plan_graph(&host, MemorySpace::Device);
        let tables = plan.total(MemorySpace::Device) - MAX_IDLE.device;
        assert_eq!(tables, parts.iter().sum::<usize>() as u64);

        let apart = upload(&host, MemorySpace::Host);
        assert_eq!((copy.vector_storage(), apart.vector_storage()), (MemorySpace::Device, MemorySpace::Host));
        assert_eq!(stream.download(&apart.rows).unwrap(), rows);
        assert_eq!(copy.bytes() - apart.bytes(), rows.len() as u64);
    }
}
