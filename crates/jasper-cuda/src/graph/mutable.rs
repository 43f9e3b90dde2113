//! A graph that is updated in device memory.

use std::fmt;
use std::sync::Arc;

use jasper_core::Slot;
use jasper_data::ThreadPool;
use jasper_graph::{ChangedSlots, Graph};
use jasper_vamana::{CompactReport, GraphAccess, MutableGraph, compaction_moves};

use super::sq8::Sq8Trial;
use super::{DeviceGraph, GraphSnapshot};
use crate::build::check_beam;
use crate::search::launch::check_shared_memory;
use crate::{GraphView, Stream};

/// A graph that is searched and updated on a device. Vectors, keys and tombstones change in the host's graph and are
/// copied to the device; edges change on the device. The host holds them until [`Self::free_uploaded_edges`], and from
/// [`Self::sync_host_edges`], which downloads them, to their next change.
///
/// When a change returns, launches in all streams see it. Here a change has the graph exclusively (`&mut`). To change it
/// while it is searched, there is [`SearchedGraph`](super::SearchedGraph).
pub struct HostAndDeviceGraph<S: gpu_kernels::Stream = Stream> {
    host: Graph,
    copy: DeviceGraph<S>,
    /// Changes of the host's graph that may not have been applied to the copy yet.
    pending: ChangedSlots,
    host_edges: HostEdges,
    /// The last trial of SQ8 linking.
    pub(super) trial: Option<Sq8Trial>,
    /// The error that made the copy unusable.
    failure: Option<S::Error>,
}

/// The edges of the host's graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostEdges {
    /// Those that were uploaded. Nothing needs them but searches that do not wait for kernels.
    Uploaded,
    /// Those of the device, which a caller wants.
    Synced,
    /// None, or others than the device's.
    Stale,
}

impl<S: gpu_kernels::Stream<Error: Clone>> HostAndDeviceGraph<S> {
    /// Combines a graph with its device copy. Before launches in other streams read it, all work of the stream that
    /// uploaded the copy must be complete.
    ///
    /// # Panics
    /// Panics if the two have different numbers of slots, dimensions or element types.
    pub fn new(mut host: Graph, copy: DeviceGraph<S>) -> Self {
        let shape = (copy.slots(), copy.dimension, copy.element);
        assert_eq!((host.slots(), host.dimension(), host.element()), shape, "the copy is of this graph");
        host.take_changes();
        Self {
            host,
            copy,
            pending: ChangedSlots::default(),
            host_edges: HostEdges::Uploaded,
            trial: None,
            failure: None,
        }
    }

    /// The copy on the device.
    pub fn on_device(&self) -> &DeviceGraph<S> {
        &self.copy
    }

    /// The graph for searches, while it is changed: see [`SearchTables`](super::SearchTables).
    ///
    /// # Safety
    /// The snapshot is dropped before the graph. What reads it ends or [is marked](super::SearchTables::mark_async_reader)
    /// before the snapshot is dropped.
    pub(super) unsafe fn snapshot(&self) -> GraphSnapshot<S> {
        let has_host_edges = self.host_edges == HostEdges::Uploaded;
        // SAFETY: the host's graph is searched from its start points along edges that are loaded, if it has edges, and
        // for its keys.
        let host =
            unsafe { if has_host_edges { self.host.snapshot() } else { self.host.snapshot_without_edges() } };
        GraphSnapshot::new(host, Arc::clone(self.copy.searched()), has_host_edges, self.failure.clone())
    }

    /// Frees memory of the device that no search reads any more. Returns whether some is left that only searches read.
    pub(super) fn free_unread(&mut self) -> Result<bool, S::Error> {
        self.copy.free_unread()
    }

    /// The host's graph, to retire its snapshots.
    pub(super) fn retire_snapshots(&mut self) {
        self.host.retire_snapshots();
    }

    /// The copy, to change its edges.
    pub(crate) fn on_device_mut(&mut self) -> &mut DeviceGraph<S> {
        self.free_host_edges();
        &mut self.copy
    }

    fn free_host_edges(&mut self) {
        if self.host_edges != HostEdges::Stale {
            self.host_edges = HostEdges::Stale;
            self.host.adjacency_mut().free_memory();
        }
    }

    /// Frees the edges that were uploaded, unless they have changed since or [`Self::sync_host_edges`] was called.
    pub fn free_uploaded_edges(&mut self) {
        if self.host_edges == HostEdges::Uploaded {
            self.free_host_edges();
        }
    }

    /// The host's graph, if it still has the edges that were uploaded.
    #[cfg(test)]
    pub(crate) fn uploaded_host(&self) -> Option<&Graph> {
        (self.host_edges == HostEdges::Uploaded && self.failure.is_none()).then_some(&self.host)
    }

    /// The stream of all changes.
    pub fn stream(&self) -> &S {
        &self.copy.stream
    }

    /// Quantizes the vectors to bytes until the transaction ends, if that pays for a change that computes about
    /// `distances` distances, and a trial finds that bytes tell the vectors apart. The trial is kept for later changes,
    /// until the graph has grown by half or gets `new` vectors of another range. Searches wait for none of this.
    ///
    /// # Errors
    /// Returns the device's error.
    pub(crate) fn quantize_sq8(
        graph: &mut dyn GraphAccess<Self>,
        pool: &ThreadPool,
        new: &[Slot],
        distances: u64,
    ) -> Result<(), S::Error> {
        let sq8 = graph
            .read(|graph| graph.copy.quantize_sq8(pool, &graph.host, graph.trial.as_ref(), new, distances))?;
        if let Some((trial, rows)) = sq8 {
            graph.write(|graph| {
                graph.trial = Some(trial);
                graph.copy.sq8 = rows;
            });
        }
        Ok(())
    }

    /// Checks that the copy is usable.
    ///
    /// # Errors
    /// Returns the error that made the copy unusable, if any.
    pub(crate) fn check(&self) -> Result<(), S::Error> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Downloads the edges, unless the host has them, using the threads of `pool`. The host's graph is then complete.
    ///
    /// # Errors
    /// Returns the device's error.
    pub fn sync_host_edges(&mut self, pool: &ThreadPool) -> Result<(), S::Error> {
        self.check()?;
        if !self.keep_host_edges() {
            let Self { host, copy, .. } = self;
            for segment in 0..copy.segments() {
                copy.read_segment(segment, |rows, edges| {
                    copy.store_rows(pool, host, segment, rows, edges);
                })?;
            }
            self.finish_reading();
        }
        Ok(())
    }

    /// Downloads the edges as [`Self::sync_host_edges`] does, while the graph is searched. Searches wait only while a
    /// segment is written to the host's graph. No other thread may change the graph until this returns.
    ///
    /// # Errors
    /// Returns the device's error.
    pub fn sync_host_edges_while_searched(
        graph: &mut dyn GraphAccess<Self>,
        pool: &ThreadPool,
    ) -> Result<(), S::Error> {
        graph.read(Self::check)?;
        if graph.read(|graph| graph.host_edges == HostEdges::Synced) || graph.write(Self::keep_host_edges) {
            return Ok(());
        }
        let mut edges = Vec::new();
        for segment in 0..graph.read(|graph| graph.on_device().segments()) {
            edges.clear();
            graph
                .read(|graph| graph.copy.read_segment(segment, |_, chunk| edges.extend_from_slice(chunk)))?;
            graph.write(|graph| {
                let rows = 0..edges.len() / graph.on_device().edges_stride;
                graph.copy.store_rows(pool, &mut graph.host, segment, rows, &edges);
            });
        }
        graph.write(Self::finish_reading);
        Ok(())
    }

    /// Keeps the host's edges until they change. Returns whether there are any.
    fn keep_host_edges(&mut self) -> bool {
        if self.host_edges == HostEdges::Uploaded {
            self.host_edges = HostEdges::Synced;
        }
        self.host_edges == HostEdges::Synced
    }

    /// Clears the rows of free slots, which are meaningless on the device.
    fn finish_reading(&mut self) {
        let slots = if self.host.keys().free() > 0 { self.host.slots() } else { 0 };
        for slot in (0..slots).map(Slot::from_index) {
            if self.host.keys().is_free(slot) {
                self.host.adjacency_mut().set_neighbors(slot, &[]);
            }
        }
        self.host_edges = HostEdges::Synced;
    }

    /// Moves the last vertices into free slots: see [`jasper_vamana::compact`]. Device memory is kept for later
    /// inserts.
    ///
    /// # Errors
    /// Returns the device's error. The copy is unusable if an error occurs after vertices began to move.
    pub fn compact(&mut self) -> Result<CompactReport, S::Error> {
        self.compact_into(None)
    }

    /// [`Self::compact`]. With another table for `edges`, snapshots from before remain as they are; otherwise there are
    /// none. No snapshot has a vertex in a free slot.
    pub(super) fn compact_into(&mut self, edges: Option<S::Buffer<u32>>) -> Result<CompactReport, S::Error> {
        self.check()?;
        let (kept, moves) = compaction_moves(&self.host);
        let report = CompactReport { moved: moves.len(), freed: self.host.keys().free() };
        if report.freed > 0 {
            let slot_moves = self.copy.upload_moves(&moves, kept)?;
            let moved = self.copy.compact(&slot_moves, edges);
            self.or_fail(moved)?;
            // The host's edges still name the old slots.
            self.free_host_edges();
            self.host.adjacency_mut().clear();
            self.host.compact(&moves, kept).expect("a table shrinks without allocating memory");
            self.pending.append(ChangedSlots {
                vectors: Vec::new(),
                keys: (0..kept).map(Slot::from_index).collect(),
                start_points: true,
                ..ChangedSlots::default()
            });
            let applied = self.apply_pending();
            self.or_fail(applied)?;
        }
        Ok(report)
    }

    fn apply_pending(&mut self) -> Result<(), S::Error> {
        self.pending.append(self.host.take_changes());
        if !self.pending.is_empty() || !self.on_device().has_tables_of(&self.host) {
            self.copy.apply_changes(&self.host, &self.pending)?;
            self.pending = ChangedSlots::default();
        }
        Ok(())
    }

    /// Marks the copy as unusable if `result` is an error.
    fn or_fail<R>(&mut self, result: Result<R, S::Error>) -> Result<R, S::Error> {
        if let Err(error) = &result {
            self.failure.get_or_insert_with(|| error.clone());
        }
        result
    }
}

impl<S: gpu_kernels::Stream<Error: Clone>> MutableGraph for HostAndDeviceGraph<S> {
    type Error = S::Error;

    fn host(&self) -> &Graph {
        &self.host
    }

    fn into_host(self) -> Graph {
        let mut host = self.host;
        host.clear_changes();
        host
    }

    fn change_host<R>(&mut self, change: impl FnOnce(&mut Graph) -> R) -> Result<R, S::Error> {
        self.check()?;
        let result = change(&mut self.host);
        self.apply_pending().map(|()| result)
    }

    fn begin(&mut self) -> Result<(), S::Error> {
        self.check()?;
        self.host.begin();
        self.copy.begin();
        Ok(())
    }

    fn commit(&mut self) {
        self.host.commit();
        self.copy.commit();
    }

    fn rollback(&mut self) {
        // Rows of tombstones may have been released.
        self.free_host_edges();
        // New codes are not part of a transaction, because the device may have no memory for them.
        if self.host.has_vectors() && !self.on_device().has_tables_of(&self.host) {
            self.host.drop_codes();
        }
        self.host.rollback();
        let undone = self.copy.rollback().and_then(|()| self.apply_pending());
        let _ = self.or_fail(undone);
    }
}

impl HostAndDeviceGraph {
    /// Checks that the kernels of updates support the graph's parameters.
    ///
    /// # Errors
    /// Returns [`ErrorKind::BuildBeamWidth`](crate::ErrorKind::BuildBeamWidth) and
    /// [`ErrorKind::RowTooLong`](crate::ErrorKind::RowTooLong): the beam is wider, or rows are longer, than kernels are
    /// made for.
    pub fn check_updates(&self) -> crate::Result<()> {
        let (params, context) = (self.host.params(), self.stream().context());
        let room = context.device().shared_per_block;
        check_beam(params)
            .and_then(|()| check_shared_memory(self.on_device(), params.build_beam_width(), room))
            .map_err(|kind| context.fail(kind))
    }

    /// The view for searches.
    ///
    /// # Errors
    /// Returns the error that made the copy unusable, if any.
    pub fn view(&self) -> crate::Result<GraphView<'_>> {
        self.check()?;
        Ok(GraphView::new(&self.host, self.on_device().searched()))
    }
}

impl<S: gpu_kernels::Stream> fmt::Debug for HostAndDeviceGraph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostAndDeviceGraph({} slots of {})", self.copy.slots(), self.host.element())
    }
}
