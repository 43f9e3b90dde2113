//! A graph that is updated in device memory.

use std::fmt;

use jasper_core::{Element, VectorId};
use jasper_data::ThreadPool;
use jasper_graph::{Changes, Graph};
use jasper_vamana::{CompactReport, MutableGraph, moves};

use super::DeviceGraph;
use crate::build::check_beam;
use crate::search::launch::check_shared_memory;
use crate::{GraphView, Stream};

/// A graph that is searched and updated on a device. Vectors, keys and tombstones change in the host's graph and are copied
/// to the device; links change on the device, and are downloaded by [`Self::read_links`].
///
/// When a change returns, launches in all streams see it. Searches share the graph (`&`), and a change has it exclusively
/// (`&mut`).
pub struct MutableDeviceGraph<T: Element, S: gpu_kernels::Stream = Stream> {
    host: Graph<T>,
    copy: DeviceGraph<T, S>,
    stream: S,
    /// Changes of the host's graph that may not have been applied to the copy.
    pending: Changes,
    /// Whether the links changed on the device since they were last downloaded.
    host_links_stale: bool,
    /// The error that made the copy unusable.
    lost: Option<S::Error>,
}

impl<T: Element, S: gpu_kernels::Stream<Error: Clone>> MutableDeviceGraph<T, S> {
    /// Combines a graph with its device copy. All work of `stream`, which uploaded the copy, must be complete.
    ///
    /// # Panics
    /// If the two have different numbers of slots.
    pub fn new(stream: S, host: Graph<T>, copy: DeviceGraph<T, S>) -> Self {
        let mut graph = Self::with_links(stream, host, copy);
        graph.host_links_stale = false;
        graph
    }

    /// The same for a copy whose links have changed since the upload.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub(crate) fn with_links(stream: S, mut host: Graph<T>, copy: DeviceGraph<T, S>) -> Self {
        assert_eq!(host.slots(), copy.slots(), "the copy is of this graph");
        host.take_changes();
        Self { host, copy, stream, pending: Changes::default(), host_links_stale: true, lost: None }
    }

    /// The copy on the device.
    pub fn copy(&self) -> &DeviceGraph<T, S> {
        &self.copy
    }

    /// The stream of all changes.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Checks that the copy is usable.
    ///
    /// # Errors
    /// The error that made it unusable.
    pub fn check(&self) -> Result<(), S::Error> {
        self.lost.clone().map_or(Ok(()), Err)
    }

    /// Downloads the links if they changed, using the threads of `pool`. The host's graph is then complete.
    ///
    /// # Errors
    /// Those of the device.
    pub fn read_links(&mut self, pool: &ThreadPool) -> Result<(), S::Error> {
        if self.host_links_stale {
            self.check()?;
            self.copy.read_links(&self.stream, pool, &mut self.host)?;
            self.host_links_stale = false;
        }
        Ok(())
    }

    /// The host's graph, which is complete after [`Self::read_links`].
    pub fn into_host(mut self) -> Graph<T> {
        self.take_host()
    }

    /// The host's half, as it is; in its place comes a graph of nothing.
    pub(crate) fn take_host(&mut self) -> Graph<T> {
        self.host.clear_changes();
        let (metric, dimension, params) = (self.host.metric(), self.host.dimension(), *self.host.params());
        let nothing = Graph::new(metric, dimension, params).expect("there is a graph of that dimension");
        std::mem::replace(&mut self.host, nothing)
    }

    /// Moves the last vertices into free slots: see [`jasper_vamana::compact`]. Device memory is kept for later inserts.
    ///
    /// # Errors
    /// Those of the device. The copy is unusable if an error occurs after vertices began to move.
    pub fn compact(&mut self) -> Result<CompactReport, S::Error> {
        self.check()?;
        let (kept, moves) = moves(&self.host);
        let report = CompactReport { moved: moves.len(), freed: self.host.keys().free() };
        if report.freed > 0 {
            let slot_moves = self.copy.upload_moves(&self.stream, &moves, kept)?;
            let moved = self.copy.compact(&self.stream, &slot_moves);
            self.or_mark_lost(moved)?;
            // The host's links are not renamed.
            self.host_links_stale = true;
            self.host.adjacency_mut().clear();
            self.host.compact(&moves, kept).expect("a table shrinks without asking for memory");
            self.pending.append(Changes {
                vectors: Vec::new(),
                keys: (0..kept).map(VectorId::from_index).collect(),
                start_points: true,
            });
            let applied = self.apply_pending();
            self.or_mark_lost(applied)?;
        }
        Ok(report)
    }

    fn apply_pending(&mut self) -> Result<(), S::Error> {
        self.pending.append(self.host.take_changes());
        if !self.pending.is_empty() || !self.copy.has_tables_of(&self.host) {
            self.copy.apply_changes(&self.stream, &self.host, &self.pending)?;
            self.pending = Changes::default();
        }
        Ok(())
    }

    /// Marks the copy as unusable if `result` is an error.
    fn or_mark_lost<R>(&mut self, result: Result<R, S::Error>) -> Result<R, S::Error> {
        if let Err(error) = &result {
            self.lost.get_or_insert_with(|| error.clone());
        }
        result
    }
}

impl<T: Element, S: gpu_kernels::Stream<Error: Clone>> MutableGraph for MutableDeviceGraph<T, S> {
    type Element = T;
    type Links = DeviceGraph<T, S>;
    type Error = S::Error;

    fn host(&self) -> &Graph<T> {
        &self.host
    }

    fn links(&self) -> &DeviceGraph<T, S> {
        &self.copy
    }

    fn links_mut(&mut self) -> &mut DeviceGraph<T, S> {
        self.host_links_stale = true;
        &mut self.copy
    }

    fn change<R>(&mut self, change: impl FnOnce(&mut Graph<T>) -> R) -> Result<R, S::Error> {
        self.check()?;
        let alone = !self.copy.is_in_transaction();
        if alone {
            self.host.begin();
        }
        let result = change(&mut self.host);
        let applied = self.apply_pending();
        match &applied {
            Ok(()) if alone => self.host.commit(),
            Ok(()) => {}
            // In a transaction too: searches may read both graphs before its owner rolls back.
            Err(_) => {
                // New codes, for which there may be no room, are no part of a transaction.
                if self.host.has_vectors() && !self.copy.has_tables_of(&self.host) {
                    self.host.clear_codes();
                }
                self.rollback();
            }
        }
        applied.map(|()| result)
    }

    fn begin(&mut self) -> Result<(), S::Error> {
        self.check()?;
        self.host.begin();
        self.copy.begin_links();
        Ok(())
    }

    fn commit(&mut self) {
        self.host.commit();
        self.copy.commit_links();
    }

    fn rollback(&mut self) {
        self.host.rollback();
        let undone = self.copy.roll_back_links(&self.stream).and_then(|()| self.apply_pending());
        let _ = self.or_mark_lost(undone);
    }
}

impl<T: Element> MutableDeviceGraph<T> {
    /// Checks that the kernels of updates support the graph's parameters.
    ///
    /// # Errors
    /// [`Error::BuildParam`](crate::Error::BuildParam) and [`Error::RowTooLong`](crate::Error::RowTooLong): the beam is wider, or rows
    /// are longer, than kernels are made for.
    pub fn check_updates(&self) -> crate::Result<()> {
        let (params, device) = (self.host.params(), self.stream.context().device());
        check_beam(params)?;
        check_shared_memory(&self.copy, params.build_beam_width(), device.shared_per_block)
    }

    /// The view for searches.
    ///
    /// # Errors
    /// The error that made the copy unusable.
    pub fn view(&self) -> crate::Result<GraphView<'_, T>> {
        self.check()?;
        Ok(GraphView::new(&self.host, &self.copy))
    }
}

impl<T: Element, S: gpu_kernels::Stream> Drop for MutableDeviceGraph<T, S> {
    fn drop(&mut self) {
        // Launches in other streams may still read the graph. After a failure they no longer run.
        let _ = self.copy.wait_for_readers(&self.stream);
    }
}

impl<T: Element, S: gpu_kernels::Stream> fmt::Debug for MutableDeviceGraph<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MutableDeviceGraph({} slots of {})", self.copy.slots(), T::KIND)
    }
}
