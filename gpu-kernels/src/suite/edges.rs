//! Compares traversals with plain ones.

use std::collections::BTreeSet;

use jasper_core::synthetic;
use rand::{Rng, RngExt};

use super::bits::{some, words};
use crate::edges::{
    CountIncoming, CountIncomingArgs, FindDetached, FindDetachedArgs, FindRowWithRoom, FindRowWithRoomArgs,
    FindRowsToRepair, FindRowsToRepairArgs, ReachableSet,
};
use crate::graph::NO_SLOT;
use crate::neighbor;
use crate::prune::CandidateArgs;
use crate::{Buffer, DevicePtr, Stream};

/// The adjacency of some vertices.
pub(super) struct Edges {
    pub(super) rows: Vec<Vec<u32>>,
    pub(super) stride: usize,
}

impl Edges {
    /// Up to `max_edges` edges of each of `slots`.
    pub(super) fn random(rng: &mut impl Rng, slots: u32, max_edges: usize) -> Self {
        let stride = [32, 64, 96][rng.random_range(0..3)];
        let max_edges = max_edges.min(stride);
        let row = |_| (0..rng.random_range(0..=max_edges)).map(|_| rng.random_range(0..slots)).collect();
        Self { rows: (0..slots).map(row).collect(), stride }
    }

    /// The rows, padded.
    pub(super) fn places(&self) -> Vec<u32> {
        let padded = |row: &Vec<u32>| {
            let mut row = row.clone();
            row.resize(self.stride, NO_SLOT);
            row
        };
        self.rows.iter().flat_map(padded).collect()
    }

    /// Adds everything reachable from `open`.
    fn reach(&self, mut open: Vec<u32>, reached: &mut BTreeSet<u32>) {
        while let Some(slot) = open.pop() {
            if reached.insert(slot) {
                open.extend(&self.rows[slot as usize]);
            }
        }
    }
}

/// Slots reachable from one vertex, then from some more, with many edges and with so few that the search is deep.
///
/// # Panics
/// Panics if it is not what the reference reaches, or the stream fails.
pub fn reached_slots_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    for (slots, max_edges) in [(1, 1), (40, 1), (500, 2), (300, 60)] {
        let edges = Edges::random(&mut rng, slots, max_edges);
        let on_device = stream.upload(&edges.places()).unwrap();
        let mut reached = ReachableSet::empty(stream, slots).unwrap();
        let mut expected = BTreeSet::<u32>::new();
        let mut parents = stream.upload(&vec![NO_SLOT; slots as usize]).unwrap();
        let mut roots = BTreeSet::<u32>::new();
        let avoided = some(&mut rng, slots, 8);
        let mut around = ReachableSet::avoiding(stream, slots, &words(&avoided, slots)).unwrap();
        let mut expected_around = avoided.clone();
        for seeds in [1, 0, 40] {
            let from: Vec<u32> = (0..seeds).map(|_| rng.random_range(0..slots)).collect();
            around.extend(stream, &on_device, edges.stride as u32, &from, None).unwrap();
            edges.reach(from.clone(), &mut expected_around);
            assert_eq!(stream.download(around.bits()).unwrap(), words(&expected_around, slots));
            let (stride, to_parents) = (edges.stride as u32, Some(&mut parents));
            reached.extend(stream, &on_device, stride, &from, to_parents).unwrap();
            roots.extend(from.iter().filter(|slot| !expected.contains(*slot)));
            edges.reach(from, &mut expected);
            let bits = stream.download(reached.bits()).unwrap();
            assert_eq!(bits, words(&expected, slots), "{slots} slots, {max_edges} edges");
            let parents = stream.download(&parents).unwrap();
            for slot in 0..slots {
                let parent = parents[slot as usize];
                if expected.contains(&slot) && !roots.contains(&slot) {
                    assert!(
                        edges.rows[parent as usize].contains(&slot),
                        "the parent of {slot} has an edge to it"
                    );
                } else {
                    assert_eq!(parent, NO_SLOT, "{slot} is a root, or not reached");
                }
            }
            let path = |slot| {
                std::iter::successors(Some(slot), |&slot| {
                    Some(parents[slot as usize]).filter(|&parent| parent != NO_SLOT)
                })
            };
            for &slot in &expected {
                let root = path(slot).nth(slots as usize).or(path(slot).last()).unwrap();
                assert!(roots.contains(&root), "parents lead to a root");
            }
        }
    }
}

/// Live vertices with deleted neighbors, where nearly all slots are live, and where few are.
///
/// # Panics
/// Panics if they are not those of the reference, or the stream fails.
pub fn rows_to_repair_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    for (slots, dead) in [(1, 2), (64, 20), (333, 50), (700, 2)] {
        let edges = Edges::random(&mut rng, slots, 70);
        let hidden = some(&mut rng, slots, dead);
        let live: BTreeSet<u32> = (0..slots).filter(|slot| !hidden.contains(slot)).collect();
        let leads_there = |slot: &&u32| edges.rows[**slot as usize].iter().any(|to| hidden.contains(to));
        let expected = live.iter().filter(leads_there).copied().collect();
        let on_device = stream.upload(&edges.places()).unwrap();
        let live = stream.upload(&words(&live, slots)).unwrap();
        let mut to_repair = stream.allocate(live.len()).unwrap();
        let args = FindRowsToRepairArgs {
            edges: on_device.input(),
            live: live.input(),
            rows_to_repair: to_repair.output(),
            slots,
            edges_stride: edges.stride as u32,
        };
        // SAFETY: the buffers have the shapes that the arguments say, and live until the download has waited.
        unsafe { stream.launch(&FindRowsToRepair, args).unwrap() };
        assert_eq!(stream.download(&to_repair).unwrap(), words(&expected, slots), "{slots} slots");
    }
}

/// The numbers of edges that lead to vertices, where nearly all slots are live, and where few are.
///
/// # Panics
/// Panics if they are not those of the reference, or the stream fails.
pub fn incoming_edges_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    for (slots, dead) in [(1, 2), (64, 20), (333, 50), (700, 2)] {
        let edges = Edges::random(&mut rng, slots, 70);
        let hidden = some(&mut rng, slots, dead);
        let live: BTreeSet<u32> = (0..slots).filter(|slot| !hidden.contains(slot)).collect();
        let mut expected = vec![0; slots as usize];
        live.iter().flat_map(|&slot| &edges.rows[slot as usize]).for_each(|&to| expected[to as usize] += 1);
        let on_device = stream.upload(&edges.places()).unwrap();
        let live = stream.upload(&words(&live, slots)).unwrap();
        let mut incoming = stream.upload(&vec![0; slots as usize]).unwrap();
        let args = CountIncomingArgs {
            edges: on_device.input(),
            live: live.input(),
            incoming: incoming.output(),
            slots,
            edges_stride: edges.stride as u32,
        };
        // SAFETY: the buffers have the shapes that the arguments say, and live until the download has waited.
        unsafe { stream.launch(&CountIncoming, args).unwrap() };
        assert_eq!(stream.download(&incoming).unwrap(), expected, "{slots} slots");
    }
}

/// Vertices that new rows cut off from their parents, where most are, and where few are.
///
/// # Panics
/// Panics if they are not those of the reference, or the stream fails.
pub fn detached_vertices_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    for (slots, max_edges, kept) in [(1, 1, 0), (40, 3, 2), (500, 60, 9), (300, 90, 0)] {
        let mut edges = Edges::random(&mut rng, slots, max_edges);
        edges.rows.iter_mut().for_each(|row| {
            row.sort_unstable();
            row.dedup();
        });
        let parent_of = |slot: u32| edges.rows.iter().position(|row| row.contains(&slot));
        let parents: Vec<u32> =
            (0..slots).map(|slot| parent_of(slot).map_or(NO_SLOT, |parent| parent as u32)).collect();
        let vertices: Vec<u32> =
            (0..slots).filter(|_| rng.random_range(0..3) > 0).flat_map(|slot| [slot, NO_SLOT]).collect();
        let (mut neighbors, mut expected) = (Vec::new(), BTreeSet::<u32>::new());
        for &vertex in &vertices {
            let old = edges.rows.get(vertex as usize).cloned().unwrap_or_default();
            let mut new: Vec<u32> = old.iter().copied().filter(|_| rng.random_range(0..10) < kept).collect();
            expected
                .extend(old.iter().filter(|&slot| parents[*slot as usize] == vertex && !new.contains(slot)));
            new.resize(edges.stride, NO_SLOT);
            neighbors.extend(new);
        }
        let [table, neighbors, parents, row_vertices] =
            [&edges.places(), &neighbors, &parents, &vertices].map(|values| stream.upload(values).unwrap());
        let mut detached = stream.allocate(slots as usize).unwrap();
        let mut detached_len = stream.upload(&[0]).unwrap();
        let args = FindDetachedArgs {
            edges: table.input(),
            parents: parents.input(),
            row_vertices: row_vertices.input(),
            neighbors: neighbors.input(),
            detached: detached.output(),
            detached_len: detached_len.output(),
            rows_len: vertices.len() as u32,
            edges_stride: edges.stride as u32,
        };
        // SAFETY: the buffers have the shapes that the arguments say, and live until the download has waited.
        unsafe { stream.launch(&FindDetached, args).unwrap() };
        let len = stream.download(&detached_len).unwrap()[0] as usize;
        let mut found = stream.download_range(&detached, 0..len).unwrap();
        found.sort_unstable();
        assert!(found.iter().eq(&expected), "{slots} slots, {max_edges} edges: {found:?}, {expected:?}");
    }
}

/// The nearest candidate that is reached and has room, where all candidates have room and where few do; with ties, and
/// with vertices without candidates.
///
/// # Panics
/// Panics if it is not that of the reference, or the stream fails.
pub fn free_places_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    for (slots, vertices_len, max_edges, unreached) in
        [(1, 1, 1, 1), (200, 9, 40, 30), (900, 70, 3, 600), (300, 40, 64, 2)]
    {
        let edges = Edges::random(&mut rng, slots, max_edges);
        let max_degree = max_edges.min(edges.stride) as u32;
        let dead = some(&mut rng, slots, unreached);
        let reached: BTreeSet<u32> = (0..slots).filter(|slot| !dead.contains(slot)).collect();
        let stride = 100;
        let mut candidates = vec![u64::MAX; vertices_len * stride];
        let (mut costs, mut duplicate_of, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for list in candidates.chunks_exact_mut(stride) {
            let found = rng.random_range(0..=stride);
            for key in &mut list[..found] {
                let expanded = !neighbor::UNEXPANDED;
                *key = neighbor::entry(rng.random_range(-2..9) as f32, rng.random_range(0..slots)) & expanded;
            }
            costs.extend([found as u32, rng.random()]);
            duplicate_of.push(if rng.random_range(0..8) == 0 { 0 } else { NO_SLOT });
            let has_room = |key: &&u64| {
                let id = neighbor::slot(**key);
                reached.contains(&id) && edges.rows[id as usize].len() < max_degree as usize
            };
            let nearest = list[..found].iter().filter(has_room).min().map(|key| key | neighbor::UNEXPANDED);
            let is_new = duplicate_of.last() == Some(&NO_SLOT);
            expected.push(nearest.filter(|_| is_new).unwrap_or(u64::MAX));
        }
        let places = stream.upload(&edges.places()).unwrap();
        let reached = stream.upload(&words(&reached, slots)).unwrap();
        let candidates = stream.upload(&candidates).unwrap();
        let (costs, duplicate_of) = (stream.upload(&costs).unwrap(), stream.upload(&duplicate_of).unwrap());
        let mut nearest = stream.allocate(vertices_len).unwrap();
        let args = FindRowWithRoomArgs {
            edges: places.input(),
            reached: reached.input(),
            candidates: CandidateArgs {
                new_vertices: DevicePtr::null(),
                entries: candidates.input(),
                costs: costs.input(),
                vertices_len: vertices_len as u32,
                stride: stride as u32,
            },
            duplicate_of: duplicate_of.input(),
            nearest: nearest.output(),
            edges_stride: edges.stride as u32,
            max_degree,
        };
        // SAFETY: the buffers have the shapes that the arguments say, and live until the download has waited.
        unsafe { stream.launch(&FindRowWithRoom, args).unwrap() };
        assert_eq!(stream.download(&nearest).unwrap(), expected, "{slots} slots, {max_edges} edges");
    }
}
