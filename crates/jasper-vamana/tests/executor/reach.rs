//! Every vertex is reachable after every change, also where rows are short.

use std::ops::ControlFlow;

use jasper_core::{BuildParams, Key, MatrixView, Metric, Progress, Slot, Stage, no_progress, synthetic};
use jasper_graph::Graph;
use jasper_vamana::{
    ChangeHooks, CpuExecutor, NewVectors, OnConflict, SharedGraph, bulk_build, compact, consolidate, insert,
    unreachable_slots,
};
use rand::RngExt;

use crate::reference::any_graph;

const DIMENSION: usize = 24;

/// About normal coordinates. Lengths differ, which matters to inner products.
fn rows(count: usize, seed: u64) -> Vec<f32> {
    let mut rng = synthetic::rng(seed);
    let mut normal = || (0..12).map(|_| rng.random::<f32>()).sum::<f32>() - 6.0;
    (0..count * DIMENSION).map(|_| normal()).collect()
}

/// A graph in use, checked after every change.
struct Checked {
    executor: CpuExecutor,
    graph: Graph,
    next_seed: u64,
}

impl Checked {
    fn new(metric: Metric, max_degree: usize, build_beam_width: usize, seed: u64) -> Self {
        let executor = CpuExecutor::new(2).unwrap();
        let params =
            BuildParams::builder().max_degree(max_degree).build_beam_width(build_beam_width).build().unwrap();
        let rows = rows(800, seed);
        let view = MatrixView::new(&rows, DIMENSION).unwrap();
        let (graph, _) = bulk_build(&executor, view, None, metric, params, &mut no_progress).unwrap();
        let checked = Self { executor, graph, next_seed: 1000 * (seed + 1) };
        checked.check("build");
        checked
    }

    fn check(&self, change: &str) {
        let lost = unreachable_slots(&self.graph);
        let (metric, degree) = (self.graph.metric(), self.graph.params().max_degree());
        assert!(lost.is_empty(), "{metric}, degree {degree}, {change}: {lost:?}");
        let adjacency = self.graph.adjacency();
        let Some(tree) = adjacency.spanning_tree() else { return };
        for slot in self.graph.keys().vertices() {
            let parent = tree.parent(slot).expect("every vertex has a parent");
            let is_root = adjacency.start_points()[0] == slot && parent == slot;
            assert!(is_root || adjacency.neighbors(parent).contains(&slot), "{change}: {slot} has no edge");
        }
    }

    fn insert(&mut self, keys: &[Key]) {
        self.next_seed += 1;
        let rows = rows(keys.len(), self.next_seed);
        let vectors = MatrixView::new(&rows, DIMENSION).unwrap();
        let new = NewVectors::new(vectors, keys, OnConflict::Replace);
        insert(&self.executor, &mut self.graph, new, ChangeHooks::new(&mut no_progress)).unwrap();
        self.check("insert");
    }

    fn delete(&mut self, keys: impl IntoIterator<Item = Key>) {
        keys.into_iter().for_each(|key| self.graph.keys_mut().delete(key).unwrap());
        self.check("delete");
    }

    fn consolidate(&mut self) {
        consolidate(&self.executor, &mut self.graph, ChangeHooks::new(&mut no_progress)).unwrap();
        self.check("consolidate");
    }
}

#[test]
fn every_vertex_is_reachable_after_every_change() {
    let mut had_tree = 0;
    for metric in Metric::ALL {
        for (max_degree, build_beam_width, seed) in [(4, 16, 1), (8, 32, 2), (8, 64, 3), (16, 32, 4)] {
            let mut checked = Checked::new(metric, max_degree, build_beam_width, seed);
            for key in 1000..1040 {
                checked.insert(&[key]);
                had_tree += usize::from(checked.graph.adjacency().spanning_tree().is_some());
            }
            checked.insert(&(2000..2009).collect::<Vec<_>>());
            // Some of these have a vector.
            checked.insert(&(2005..2014).collect::<Vec<_>>());
            checked.delete((0..800).step_by(5));
            checked.insert(&[1001, 3000]);
            checked.consolidate();
            (4000..4010).for_each(|key| checked.insert(&[key]));
            compact(&mut checked.graph).unwrap();
            checked.check("compact");
            (5000..5010).for_each(|key| checked.insert(&[key]));
            checked.consolidate();
        }
    }
    assert!(had_tree > 100, "most small inserts keep the tree");
}

/// Graphs of earlier versions may have vertices that no path leads to.
#[test]
fn consolidation_and_inserts_reconnect_what_was_unreachable() {
    for change in [Checked::consolidate as fn(&mut Checked), |checked| checked.insert(&[9000])] {
        let mut checked = Checked::new(Metric::L2, 8, 32, 5);
        let lost = Slot::new(17);
        for slot in (0..800).map(Slot::new) {
            let mut row = checked.graph.adjacency().neighbors(slot).to_vec();
            row.retain(|&neighbor| neighbor != lost);
            checked.graph.adjacency_mut().set_neighbors(slot, &row);
        }
        assert!(unreachable_slots(&checked.graph).contains(&lost));
        change(&mut checked);
        assert_eq!(unreachable_slots(&checked.graph), []);
    }
}

/// Where rows have little room, a round connects few vertices, whose own rows have room for more in the next.
#[test]
fn many_vertices_are_reconnected_without_dropping_edges() {
    let mut checked = Checked::new(Metric::L2, 8, 32, 6);
    let start = checked.graph.adjacency().start_points()[0];
    let is_kept = |slot: Slot| slot.index().is_multiple_of(4) || slot == start;
    let kept: Vec<Slot> = (0..800).map(Slot::new).filter(|&slot| is_kept(slot)).collect();
    let rows: Vec<Vec<Slot>> = (0..800)
        .map(Slot::new)
        .map(|slot| match kept.binary_search(&slot) {
            // One place is free.
            Ok(i) => (1..8).map(|step| kept[(i + step) % kept.len()]).collect(),
            // No path leads on to another vertex that is cut off.
            Err(_) => vec![kept[0]],
        })
        .collect();
    for (slot, row) in rows.iter().enumerate() {
        checked.graph.adjacency_mut().set_neighbors(Slot::from_index(slot), row);
    }
    assert!(unreachable_slots(&checked.graph).len() > 2 * kept.len());
    checked.consolidate();
    for (slot, row) in rows.iter().enumerate() {
        let after = checked.graph.adjacency().neighbors(Slot::from_index(slot));
        assert!(row.iter().all(|neighbor| after.contains(neighbor)), "of {slot}: {row:?}, {after:?}");
    }
}

/// Without room in any row, few edges are replaced, and the paths stay short.
#[test]
fn most_vertices_are_reconnected_by_few_edges() {
    const KEPT: u32 = 200;
    let rows = rows(4000, 8);
    let view = MatrixView::new(&rows, DIMENSION).unwrap();
    let params = BuildParams::builder().max_degree(8).build_beam_width(32).build().unwrap();
    for deleted in [0, 50] {
        let executor = CpuExecutor::new(2).unwrap();
        let (graph, _) = bulk_build(&executor, view, None, Metric::L2, params, &mut no_progress).unwrap();
        let mut checked = Checked { executor, graph, next_seed: 9000 };
        checked.graph.adjacency_mut().set_start_points(vec![Slot::new(0)]);
        for slot in 0..4000 {
            // Each of the kept ones has eight others, and the rest one of these after seven of their own.
            let step = |i: u32| slot + 3_u32.pow(i);
            let target =
                |i| if slot < KEPT || i == 7 { step(i) % KEPT } else { KEPT + step(i) % (4000 - KEPT) };
            let row: Vec<Slot> = (0..8).map(target).map(Slot::new).collect();
            checked.graph.adjacency_mut().set_neighbors(Slot::new(slot), &row);
        }
        assert_eq!(unreachable_slots(&checked.graph).len(), 4000 - KEPT as usize);
        (0..deleted).for_each(|key| checked.graph.keys_mut().delete(3000 + key).unwrap());
        checked.consolidate();

        let adjacency = checked.graph.adjacency();
        let neighbors = |slot: u32| adjacency.neighbors(Slot::new(slot)).iter();
        let replaced = (0..KEPT).flat_map(neighbors).filter(|to| to.get() >= KEPT).count();
        assert!((1..=KEPT as usize).contains(&replaced), "{replaced}");
        let (mut reached, mut current, mut steps) = (vec![false; 4000], vec![Slot::new(0)], 0);
        while !current.is_empty() {
            let next = current.iter().flat_map(|slot| neighbors(slot.get())).copied();
            current = next.filter(|slot| !std::mem::replace(&mut reached[slot.index()], true)).collect();
            steps += 1;
        }
        assert!(steps < 15, "{steps} steps");
    }
}

/// Nearly all vectors are nearest to the few with large norms.
#[test]
fn vectors_of_any_norm_are_reachable_under_inner_products() {
    let mut rows = rows(5000, 9);
    let mut rng = synthetic::rng(10);
    for row in rows.chunks_mut(DIMENSION) {
        let norm = (2.0 * rng.random::<f32>()).exp();
        row.iter_mut().for_each(|x| *x *= norm);
    }
    let view = MatrixView::new(&rows, DIMENSION).unwrap();
    for max_degree in [2, 4, 8] {
        let params = BuildParams::builder().max_degree(max_degree).build_beam_width(16).build().unwrap();
        let executor = CpuExecutor::new(2).unwrap();
        let (graph, report) =
            bulk_build(&executor, view, None, Metric::InnerProduct, params, &mut no_progress).unwrap();
        assert!(report.reconnected > 1024, "{}", report.reconnected);
        let mut checked = Checked { executor, graph, next_seed: 11_000 };
        checked.check("build");
        (6000..6010).for_each(|key| checked.insert(&[key]));
        checked.insert(&(7000..7060).collect::<Vec<_>>());
        checked.delete((0..5000).step_by(3));
        checked.consolidate();
    }
}

/// Rows of more live neighbors than a prune otherwise considers.
#[test]
fn long_rows_keep_their_live_neighbors() {
    const VERTICES: usize = 1000;
    let params = BuildParams::builder().max_degree(1024).build_beam_width(32).build().unwrap();
    let rows = rows(VERTICES, 5);
    let to_all = |_| (0..VERTICES).collect();
    let mut graph = any_graph(Metric::L2, &rows, DIMENSION, params, to_all, &[0]);
    (0..50).for_each(|key| graph.keys_mut().delete(key).unwrap());
    let executor = CpuExecutor::new(2).unwrap();
    consolidate(&executor, &mut graph, ChangeHooks::new(&mut no_progress)).unwrap();
    for slot in graph.keys().live_slots() {
        assert_eq!(graph.adjacency().neighbors(slot).len(), VERTICES - 51);
    }
}

/// Nothing is left for searches to begin at.
#[test]
fn a_graph_without_live_vertices_is_consolidated_and_filled_again() {
    let mut checked = Checked::new(Metric::L2, 6, 24, 4);
    checked.delete(0..800);
    checked.consolidate();
    assert!(checked.graph.adjacency().start_points().is_empty());
    checked.insert(&(900..1000).collect::<Vec<_>>());
}

/// Searches see the rows that a consolidation has repaired at once.
#[test]
fn every_vertex_is_reachable_while_a_consolidation_runs() {
    // Of those left, first few are cut off, and then most.
    for (kept, is_hidden) in [(9, false), (1, true)] {
        let Checked { executor, graph, .. } = Checked::new(Metric::L2, 6, 16, 3);
        let graph = SharedGraph::new(graph);
        let deleted = (0..800).filter(|key| key % 10 >= kept);
        graph.write(|graph| deleted.for_each(|key| graph.keys_mut().delete(key).unwrap()));
        let (mut lost, mut stages) = (0, Vec::new());
        let mut progress = |progress: Progress| {
            lost += graph.read(unreachable_slots).len();
            stages.push(progress.stage);
            ControlFlow::Continue(())
        };
        let hooks = ChangeHooks::new(&mut progress);
        let report = consolidate(&executor, &mut &graph, hooks).unwrap();
        assert!(report.reconnected > 0);
        let first = if is_hidden { Stage::Consolidating } else { Stage::Reconnecting };
        assert_eq!(stages[0], first);
        assert_eq!(lost > 0, is_hidden, "{lost} of {stages:?}");
        assert_eq!(graph.read(unreachable_slots), []);
    }
}
