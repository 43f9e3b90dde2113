//! The steps of updates on a device.

use gpu_kernels::bits::Slots;
use gpu_kernels::links::{FindRoom, FindRowsToRepair, Reached, RoomArgs, RowsToRepairArgs};
use gpu_kernels::prune::{
    BatchCandidates, BatchCandidatesArgs, FindDuplicates, FindDuplicatesArgs, Repair, RepairArgs,
};
use gpu_kernels::{Buffer as _, Stream};
use jasper_core::{Element, Neighbor, VectorId};
use jasper_vamana::connectivity;
use jasper_vamana::{Executor, PeerSampling};

use super::DeviceLinker;
use super::parts::{Candidates, DeviceUpdates};
use crate::DeviceGraph;
use crate::graph::{LinkRows, MutableDeviceGraph};

/// Vertices of a batch that are compared with one before the nearest are kept. With up to 128 that are kept they take 8 KB of
/// shared memory.
const COMPARED_AT_ONCE: u32 = 896;
/// Slots that are listed at once.
const LISTED_AT_ONCE: u32 = 1 << 20;

impl<T: Element, S: Stream<Error: Clone>> Executor<T> for DeviceLinker<T, S> {
    type Live = MutableDeviceGraph<T, S>;

    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.host {
            Some(host) => host.pool().install(work),
            None => work(),
        }
    }

    fn find_duplicates(
        &self,
        graph: &DeviceGraph<T, S>,
        mut candidates: Candidates<S>,
    ) -> Result<Candidates<S>, S::Error> {
        self.check(graph, candidates.graph);
        let args = FindDuplicatesArgs {
            rows: graph.args().rows,
            batch: candidates.batch.input(),
            candidates: candidates.keys.input(),
            work: candidates.work.input(),
            identical: candidates.identical.output(),
            row_bytes: graph.args().row_bytes,
            lists: candidates.lists(),
            candidates_stride: candidates.most,
        };
        // SAFETY: the arrays are of so many vertices, whose candidates are slots of this graph, as checked.
        unsafe { self.stream.launch(&FindDuplicates, args)? };
        Ok(candidates)
    }

    fn batch_candidates(
        &self,
        graph: &DeviceGraph<T, S>,
        mut candidates: Candidates<S>,
        peers: PeerSampling,
    ) -> Result<Candidates<S>, S::Error> {
        self.check(graph, candidates.graph);
        let lists = candidates.lists();
        let mut batch_candidates = self.stream.allocate(lists as usize * self.params.max_degree())?;
        let args = BatchCandidatesArgs {
            prune: self.prune_args(graph, &mut candidates.counters),
            batch: candidates.batch.input(),
            candidates: candidates.keys.input(),
            work: candidates.work.input(),
            identical: candidates.identical.input(),
            batch_candidates: batch_candidates.output(),
            lists,
            group: peers.group as u32,
            every: peers.every as u32,
            more: peers.more as u32,
            at_once: COMPARED_AT_ONCE,
            candidates_stride: candidates.most,
        };
        // SAFETY: the arrays are of so many vertices, which are slots of this graph, as checked.
        unsafe {
            self.stream.launch(
                &BatchCandidates::for_rows(T::KIND, args.prune.form, args.prune.graph.row_bytes),
                args,
            )?;
        }
        candidates.batch_candidates = Some(batch_candidates);
        Ok(candidates)
    }

    fn rows_to_repair(&self, graph: &DeviceGraph<T, S>) -> Result<Vec<VectorId>, S::Error> {
        let (stream, slots) = (&self.stream, graph.slots() as u32);
        let mut to_repair = stream.allocate(slots.div_ceil(u32::BITS) as usize)?;
        let args = RowsToRepairArgs {
            links: graph.links().input(),
            live: graph.live_bits().input(),
            rows_to_repair: to_repair.output(),
            slots,
            links_stride: graph.args().links_stride,
        };
        // SAFETY: the graph has as many rows and bits; there is a word for each 32 of them.
        unsafe { stream.launch(&FindRowsToRepair, args)? };
        let mut listed = Slots::allocate(stream, slots.min(LISTED_AT_ONCE))?;
        let mut vertices = Vec::new();
        for first in (0..slots).step_by(LISTED_AT_ONCE as usize) {
            let range = first..slots.min(first.saturating_add(LISTED_AT_ONCE));
            let count = listed.list(stream, Some(&to_repair), None, range)?;
            let slots = stream.download_range(&listed.slots, 0..count as usize)?;
            vertices.extend(slots.into_iter().map(VectorId::new));
        }
        Ok(vertices)
    }

    fn repair_rows(
        &self,
        graph: &DeviceGraph<T, S>,
        vertices: &[VectorId],
    ) -> Result<DeviceUpdates<S>, S::Error> {
        assert!(
            vertices.iter().all(|vertex| vertex.index() < graph.slots()),
            "vertices are slots of the graph"
        );
        let mut counters = self.counters()?;
        let mut rows = LinkRows::for_vertices(&self.stream, vertices, graph.args().links_stride)?;
        let args = RepairArgs {
            prune: self.prune_args(graph, &mut counters),
            live: graph.live_bits().input(),
            vertices: rows.vertices.input(),
            ids: rows.ids.output(),
            rows: rows.len(),
        };
        // SAFETY: the rows have just been made in these shapes, of slots of the graph, as asserted, which has a bit for each.
        unsafe {
            self.stream
                .launch(&Repair::for_rows(T::KIND, args.prune.form, args.prune.graph.row_bytes), args)?;
        }
        Ok(DeviceUpdates { rows, counters, graph: graph.id() })
    }

    fn reachable(
        &self,
        graph: &DeviceGraph<T, S>,
        start: VectorId,
    ) -> Result<connectivity::Reached, S::Error> {
        let mut reached = Reached::empty(&self.stream, graph.slots() as u32)?;
        reached.extend(&self.stream, graph.links(), graph.args().links_stride, &[start.get()])?;
        Ok(connectivity::Reached::from_words(self.stream.download(reached.bits())?))
    }

    fn nearest_with_room(
        &self,
        graph: &DeviceGraph<T, S>,
        candidates: Candidates<S>,
        reached: &connectivity::Reached,
    ) -> Result<Vec<(VectorId, Neighbor)>, S::Error> {
        self.check(graph, candidates.graph);
        let stream = &self.stream;
        let reached = stream.upload(&reached.words())?;
        assert!(reached.len() * u32::BITS as usize >= graph.slots(), "a set is of slots of the graph");
        let mut nearest = stream.allocate(candidates.lists() as usize)?;
        let args = RoomArgs {
            links: graph.links().input(),
            reached: reached.input(),
            candidates: candidates.keys.input(),
            work: candidates.work.input(),
            identical: candidates.identical.input(),
            nearest: nearest.output(),
            lists: candidates.lists(),
            candidates_stride: candidates.most,
            links_stride: graph.args().links_stride,
            max_degree: self.params.max_degree() as u32,
        };
        // SAFETY: the arrays are of so many vertices, whose candidates are slots of this graph, as checked; there is a bit
        // for each, as asserted.
        unsafe { stream.launch(&FindRoom, args)? };
        let vertices = stream.download(&candidates.batch)?.into_iter().zip(stream.download(&nearest)?);
        let found = vertices.filter(|&(_, nearest)| nearest != u64::MAX);
        Ok(found.map(|(vertex, key)| (VectorId::new(vertex), Neighbor::from_bits(key))).collect())
    }

    fn neighbors(
        &self,
        graph: &DeviceGraph<T, S>,
        vertices: &[VectorId],
    ) -> Result<Vec<Vec<VectorId>>, S::Error> {
        graph.links_of(&self.stream, vertices)
    }

    fn set_neighbors(
        &self,
        graph: &mut DeviceGraph<T, S>,
        vertices: &[VectorId],
        neighbors: &[Vec<VectorId>],
    ) -> Result<(), S::Error> {
        graph.set_links_of(&self.stream, vertices, neighbors)
    }
}
