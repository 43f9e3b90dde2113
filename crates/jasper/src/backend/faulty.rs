//! Backends that fault on demand, for tests.

use std::error::Error;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use jasper_core::sync::lock;
use jasper_core::{DeviceError, Slot, VectorView};
use jasper_graph::Graph;
use jasper_vamana::{
    ChangeHooks, CompactReport, ConsolidateReport, CpuExecutor, Explanation, Hit, InsertReport, MatchesMut,
    MemorySpace, NewVectors, SearchError, SearchParams, SearchReport, UpdateError,
};

use super::{Backend, HostBackend, StartedSearch};
use crate::Device;

/// A backend whose device may fault, be slow, or be out of memory for changes.
pub(crate) struct Faulty {
    inner: Arc<dyn Backend>,
    number: usize,
    controls: Arc<Controls>,
}

#[derive(Default)]
pub(crate) struct Controls {
    pub(crate) faults: AtomicBool,
    /// Whether the next check panics.
    pub(crate) panics: AtomicBool,
    pub(crate) has_no_memory: AtomicBool,
    /// Whether the next change of the graph fails once it is made, and is undone but for codes, which are dropped.
    pub(crate) fails_late: AtomicBool,
    /// Changes of the graph after which there is no memory for others, if that is so.
    pub(crate) changes_left: Mutex<Option<usize>>,
    /// Whether searches read vectors in device memory.
    pub(crate) is_uploaded: AtomicBool,
    /// Microseconds per query.
    pub(crate) delay: AtomicUsize,
    pub(crate) queries: AtomicUsize,
    /// Searches of one query or several.
    pub(crate) searches: AtomicUsize,
    /// The device faults at this number of queries, unless it is 0.
    pub(crate) faults_at: AtomicUsize,
}

impl Controls {
    pub(crate) fn fault(&self) {
        self.faults.store(true, Relaxed);
    }

    fn check(&self, device: usize) -> Result<(), DeviceError> {
        let source: Box<dyn Error + Send + Sync> = "as the test wants".into();
        assert!(!self.panics.swap(false, Relaxed), "on purpose");
        match () {
            () if self.faults.load(Relaxed) => Err(DeviceError::Failed { device, source }),
            () if self.has_no_memory.load(Relaxed) => Err(DeviceError::Unavailable { device, source }),
            () => Ok(()),
        }
    }
}

/// A search of which every poll answers one query, the last first, unless its device has faulted.
struct StartedByOne {
    answers: Vec<Vec<Hit>>,
    number: usize,
    controls: Arc<Controls>,
}

impl StartedSearch for StartedByOne {
    fn poll(&mut self, answer: &mut dyn FnMut(usize, Vec<Hit>)) -> Result<bool, SearchError> {
        self.controls.check(self.number)?;
        if let Some(hits) = self.answers.pop() {
            answer(self.answers.len(), hits);
        }
        Ok(self.answers.is_empty())
    }
}

impl Faulty {
    /// A backend that claims to be the CUDA device of this number.
    pub(crate) fn backend(
        graph: Graph,
        executor: &Arc<CpuExecutor>,
        number: usize,
        controls: &Arc<Controls>,
    ) -> Arc<dyn Backend> {
        let inner = Arc::new(HostBackend::new(graph, Arc::clone(executor)));
        Arc::new(Self { inner, number, controls: Arc::clone(controls) })
    }

    fn check(&self) -> Result<(), DeviceError> {
        self.controls.check(self.number)
    }

    fn note(&self, queries: usize) -> Result<(), SearchError> {
        thread::sleep(Duration::from_micros((self.controls.delay.load(Relaxed) * queries) as u64));
        self.controls.searches.fetch_add(1, Relaxed);
        let sum = self.controls.queries.fetch_add(queries, Relaxed) + queries;
        if (1..=sum).contains(&self.controls.faults_at.load(Relaxed)) {
            self.controls.fault();
        }
        Ok(self.check()?)
    }
}

impl Backend for Faulty {
    fn device(&self) -> Device {
        Device::cuda(self.number)
    }

    fn device_name(&self) -> String {
        self.inner.device_name()
    }

    fn vector_storage(&self) -> MemorySpace {
        match self.controls.is_uploaded.load(Relaxed) {
            true => MemorySpace::Device,
            false => MemorySpace::Host,
        }
    }

    fn max_beam_width(&self) -> usize {
        self.inner.max_beam_width()
    }

    fn read_graph(&self, read: &mut dyn FnMut(&Graph)) {
        self.inner.read_graph(read);
    }

    fn change_graph(&self, change: &mut dyn FnMut(&mut Graph)) -> Result<(), DeviceError> {
        self.check()?;
        let unavailable =
            || DeviceError::Unavailable { device: self.number, source: "as the test wants".into() };
        if let Some(left) = &mut *lock(&self.controls.changes_left) {
            *left = left.checked_sub(1).ok_or_else(unavailable)?;
        }
        if !self.controls.fails_late.swap(false, Relaxed) {
            return self.inner.change_graph(change);
        }
        self.inner.change_graph(&mut |graph| {
            change(graph);
            if graph.has_vectors() {
                graph.drop_codes();
            }
        })?;
        Err(unavailable())
    }

    fn sync_host_edges(&self) -> Result<(), DeviceError> {
        self.check()
    }

    fn into_graphs(self: Arc<Self>) -> Vec<Graph> {
        Arc::into_inner(self).unwrap().inner.into_graphs()
    }

    fn explain(&self, params: SearchParams<'_>, queries: usize) -> Result<Explanation, SearchError> {
        self.inner.explain(params, queries)
    }

    fn search_one(&self, query: VectorView<'_>, params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        self.note(1)?;
        self.inner.search_one(query, params)
    }

    fn search_batch(
        &self,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        self.note(queries.len())?;
        self.inner.search_batch(queries, params, matches)
    }

    fn start_search(
        &self,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
    ) -> Result<Option<Box<dyn StartedSearch>>, SearchError> {
        self.note(queries.len())?;
        let answers: Result<_, _> =
            queries.iter().map(|&query| self.inner.search_one(query, params)).collect();
        let controls = Arc::clone(&self.controls);
        Ok(Some(Box::new(StartedByOne { answers: answers?, number: self.number, controls })))
    }

    fn insert(&self, new: NewVectors<'_>, hooks: ChangeHooks<'_>) -> Result<InsertReport, UpdateError> {
        self.check()?;
        self.inner.insert(new, hooks)
    }

    fn consolidate(&self, hooks: ChangeHooks<'_>) -> Result<ConsolidateReport, UpdateError> {
        self.check()?;
        self.inner.consolidate(hooks)
    }

    fn compact(&self) -> Result<CompactReport, UpdateError> {
        self.check()?;
        self.inner.compact()
    }

    fn without_edges(&self, vertices: &[Slot], work: &mut dyn FnMut()) -> Result<(), DeviceError> {
        self.check()?;
        self.inner.without_edges(vertices, work)
    }
}
