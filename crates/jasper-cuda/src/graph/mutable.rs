//! A graph in use, half on the host and half on a device.

use std::fmt;

use jasper_core::{Element, VectorId};
use jasper_data::ThreadPool;
use jasper_graph::{Changes, Graph};
use jasper_vamana::{CompactReport, MutableGraph, moves};

use super::DeviceGraph;
use crate::build::check_beam;
use crate::search::launch::check_shared_memory;
use crate::{GraphView, Stream};

/// A graph that is searched and changed on a device: its links are there, and so are copies of the rest, which the host's
/// half has.
///
/// Whoever changes it has it alone, and whoever reads it shares it, as `&mut` and `&` say; when a change returns, launches
/// in all streams see it.
pub struct MutableDeviceGraph<T: Element, S: gpu_kernels::Stream = Stream> {
    host: Graph<T>,
    copy: DeviceGraph<T, S>,
    stream: S,
    /// Changes of the host's half that the copy may not have followed.
    behind: Changes,
    /// Whether the host's links are older than those of the copy.
    links_behind: bool,
    /// What ended the use of the device.
    lost: Option<S::Error>,
}

impl<T: Element, S: gpu_kernels::Stream<Error: Clone>> MutableDeviceGraph<T, S> {
    /// The graph whose `copy` was made by `stream`, all of whose work is done.
    ///
    /// # Panics
    /// If the copy has other slots.
    pub fn new(stream: S, host: Graph<T>, copy: DeviceGraph<T, S>) -> Self {
        let mut graph = Self::with_links(stream, host, copy);
        graph.links_behind = false;
        graph
    }

    /// The graph whose `copy` was made by `stream`, all of whose work is done, and was given links that the host has not.
    ///
    /// # Panics
    /// If the copy has other slots.
    pub(crate) fn with_links(stream: S, mut host: Graph<T>, copy: DeviceGraph<T, S>) -> Self {
        assert_eq!(host.slots(), copy.slots(), "a graph comes with the copy that was made of it");
        host.take_changes();
        Self { host, copy, stream, behind: Changes::default(), links_behind: true, lost: None }
    }

    /// What is on the device.
    pub fn copy(&self) -> &DeviceGraph<T, S> {
        &self.copy
    }

    /// The stream in whose order the graph changes.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Whether the device still has what the host says.
    ///
    /// # Errors
    /// What it said when it was lost.
    pub fn check(&self) -> Result<(), S::Error> {
        self.lost.clone().map_or(Ok(()), Err)
    }

    /// Brings the links home, if the host's are older, on the threads of `pool`: the host's half is then all there is.
    ///
    /// # Errors
    /// Of the device.
    pub fn read_links(&mut self, pool: &ThreadPool) -> Result<(), S::Error> {
        if self.links_behind {
            self.check()?;
            self.copy.read_links(&self.stream, pool, &mut self.host)?;
            self.links_behind = false;
        }
        Ok(())
    }

    /// The host's half, which is the whole graph after [`Self::read_links`].
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
    /// Of the device; the graph is lost there if it had begun to move.
    pub fn compact(&mut self) -> Result<CompactReport, S::Error> {
        self.check()?;
        let (kept, moves) = moves(&self.host);
        let report = CompactReport { moved: moves.len(), freed: self.host.keys().free() };
        if report.freed > 0 {
            let names = self.copy.names(&self.stream, &moves, kept)?;
            let moved = self.copy.compact(&self.stream, &names);
            self.or_lose(moved)?;
            // What the host has of links is not what is renamed.
            self.links_behind = true;
            self.host.adjacency_mut().clear();
            self.host.compact(&moves, kept).expect("a table shrinks without asking for memory");
            self.behind.append(Changes {
                vectors: Vec::new(),
                keys: (0..kept).map(VectorId::from_index).collect(),
                start_points: true,
            });
            let followed = self.follow();
            self.or_lose(followed)?;
        }
        Ok(report)
    }

    fn follow(&mut self) -> Result<(), S::Error> {
        self.behind.append(self.host.take_changes());
        if !self.behind.is_empty() || !self.copy.has_tables_of(&self.host) {
            self.copy.follow(&self.stream, &self.host, &self.behind)?;
            self.behind = Changes::default();
        }
        Ok(())
    }

    /// After a failure, the copy is no more what the host says.
    fn or_lose<R>(&mut self, result: Result<R, S::Error>) -> Result<R, S::Error> {
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
        self.links_behind = true;
        &mut self.copy
    }

    fn change<R>(&mut self, change: impl FnOnce(&mut Graph<T>) -> R) -> Result<R, S::Error> {
        self.check()?;
        let alone = !self.copy.is_in_transaction();
        if alone {
            self.host.begin();
        }
        let result = change(&mut self.host);
        let followed = self.follow();
        match &followed {
            Ok(()) if alone => self.host.commit(),
            Ok(()) => {}
            // At once, within a transaction too: searches look at both halves before whoever began it hears of this.
            Err(_) => {
                // New codes, for which there may be no room, are no part of a transaction.
                if self.host.has_vectors() && !self.copy.has_tables_of(&self.host) {
                    self.host.clear_codes();
                }
                self.rollback();
            }
        }
        followed.map(|()| result)
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
        let undone = self.copy.roll_back_links(&self.stream).and_then(|()| self.follow());
        let _ = self.or_lose(undone);
    }
}

impl<T: Element> MutableDeviceGraph<T> {
    /// Whether kernels can link vertices into it: asked before a change.
    ///
    /// # Errors
    /// [`Error::BuildParam`](crate::Error::BuildParam) and [`Error::RowTooLong`](crate::Error::RowTooLong): the beam is wider, or rows
    /// are longer, than kernels are made for.
    pub fn check_updates(&self) -> crate::Result<()> {
        let (params, device) = (self.host.params(), self.stream.context().device());
        check_beam(params)?;
        check_shared_memory(&self.copy, params.build_beam_width(), device.shared_per_block)
    }

    /// What searches read.
    ///
    /// # Errors
    /// What the device said when it was lost.
    pub fn view(&self) -> crate::Result<GraphView<'_, T>> {
        self.check()?;
        Ok(GraphView::new(&self.host, &self.copy))
    }
}

impl<T: Element, S: gpu_kernels::Stream> Drop for MutableDeviceGraph<T, S> {
    fn drop(&mut self) {
        // Launches in streams of others may still read the graph; a failure means that they no longer do.
        let _ = self.copy.wait_for_readers(&self.stream);
    }
}

impl<T: Element, S: gpu_kernels::Stream> fmt::Debug for MutableDeviceGraph<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MutableDeviceGraph({} slots of {})", self.copy.slots(), T::KIND)
    }
}
