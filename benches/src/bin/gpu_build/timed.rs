//! A linker that synchronizes after each step and measures its time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Instant;

use jasper_core::{Element, Neighbor, VectorId};
use jasper_cuda::{DeviceLinker, Error};
use jasper_vamana::connectivity::Reached;
use jasper_vamana::{Executor, Linker, PeerSampling, SearchCost};
use serde_json::Value;

use crate::GraphOf;

/// A [`DeviceLinker`] whose steps are timed.
pub struct Timed<T> {
    linker: DeviceLinker<T>,
    spent: RefCell<BTreeMap<&'static str, f64>>,
}

impl<T: Element> Timed<T> {
    /// Nothing is spent yet.
    pub fn new(linker: DeviceLinker<T>) -> Self {
        Self { linker, spent: RefCell::default() }
    }

    /// Seconds by step.
    pub fn spent(&self) -> Value {
        self.spent.borrow().iter().map(|(&step, &seconds)| (step.to_owned(), Value::from(seconds))).collect()
    }

    fn time<R>(&self, step: &'static str, work: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        let begun = Instant::now();
        let result = work()?;
        self.linker.stream().synchronize()?;
        *self.spent.borrow_mut().entry(step).or_default() += begun.elapsed().as_secs_f64();
        Ok(result)
    }
}

impl<T: Element> Linker<T> for Timed<T> {
    type Graph = GraphOf<T>;
    type Error = Error;
    type Candidates = <DeviceLinker<T> as Linker<T>>::Candidates;
    type Links = <DeviceLinker<T> as Linker<T>>::Links;
    type BackEdges = <DeviceLinker<T> as Linker<T>>::BackEdges;
    type Updates = <DeviceLinker<T> as Linker<T>>::Updates;

    const SEARCHED_AT_ONCE: usize = <DeviceLinker<T> as Linker<T>>::SEARCHED_AT_ONCE;

    fn search(&self, graph: &GraphOf<T>, batch: &[VectorId]) -> Result<Self::Candidates, Error> {
        self.time("search", || self.linker.search(graph, batch))
    }

    fn prune(&self, graph: &GraphOf<T>, candidates: Self::Candidates) -> Result<Self::Links, Error> {
        self.time("prune", || self.linker.prune(graph, candidates))
    }

    fn publish_links(&self, graph: &mut GraphOf<T>, links: &Self::Links) -> Result<(), Error> {
        self.time("publish_links", || self.linker.publish_links(graph, links))
    }

    fn reverse_edges(&self, links: Self::Links) -> Result<Self::BackEdges, Error> {
        self.time("reverse_edges", || self.linker.reverse_edges(links))
    }

    fn merge(
        &self,
        graph: &GraphOf<T>,
        back_edges: &mut Self::BackEdges,
    ) -> Result<Option<Self::Updates>, Error> {
        self.time("merge", || self.linker.merge(graph, back_edges))
    }

    fn publish(&self, graph: &mut GraphOf<T>, updates: Self::Updates) -> Result<SearchCost, Error> {
        self.time("publish", || self.linker.publish(graph, updates))
    }
}

impl<T: Element> Executor<T> for Timed<T> {
    type Live = <DeviceLinker<T> as Executor<T>>::Live;

    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.linker.install(work)
    }

    fn find_duplicates(
        &self,
        graph: &GraphOf<T>,
        candidates: Self::Candidates,
    ) -> Result<Self::Candidates, Error> {
        self.time("find_duplicates", || self.linker.find_duplicates(graph, candidates))
    }

    fn batch_candidates(
        &self,
        graph: &GraphOf<T>,
        candidates: Self::Candidates,
        peers: PeerSampling,
    ) -> Result<Self::Candidates, Error> {
        self.time("batch_candidates", || self.linker.batch_candidates(graph, candidates, peers))
    }

    fn rows_to_repair(&self, graph: &GraphOf<T>) -> Result<Vec<VectorId>, Error> {
        self.time("rows_to_repair", || self.linker.rows_to_repair(graph))
    }

    fn repair_rows(&self, graph: &GraphOf<T>, vertices: &[VectorId]) -> Result<Self::Updates, Error> {
        self.time("repair_rows", || self.linker.repair_rows(graph, vertices))
    }

    fn reachable(&self, graph: &GraphOf<T>, start: VectorId) -> Result<Reached, Error> {
        self.time("reachable", || self.linker.reachable(graph, start))
    }

    fn nearest_with_room(
        &self,
        graph: &GraphOf<T>,
        candidates: Self::Candidates,
        reached: &Reached,
    ) -> Result<Vec<(VectorId, Neighbor)>, Error> {
        self.time("nearest_with_room", || self.linker.nearest_with_room(graph, candidates, reached))
    }

    fn neighbors(&self, graph: &GraphOf<T>, vertices: &[VectorId]) -> Result<Vec<Vec<VectorId>>, Error> {
        self.time("neighbors", || self.linker.neighbors(graph, vertices))
    }

    fn set_neighbors(
        &self,
        graph: &mut GraphOf<T>,
        vertices: &[VectorId],
        neighbors: &[Vec<VectorId>],
    ) -> Result<(), Error> {
        self.time("set_neighbors", || self.linker.set_neighbors(graph, vertices, neighbors))
    }
}
