//! Random operations on a graph and on a model made of maps.

use std::collections::{BTreeMap, BTreeSet};

use jasper_core::{BuildParams, ElementKind, Key, Metric, Slot, no_progress};
use jasper_graph::{Graph, KeyError};
use proptest::prelude::*;

const MAX_DEGREE: usize = 4;
const KEYS: Key = 12;

/// An operation. Numbers are taken modulo the number of slots.
#[derive(Clone, Debug)]
enum Step {
    /// A new vertex, with a key if it is free.
    Add(f32, Key),
    /// Another key for an existing vertex.
    Assign(Key, usize),
    Delete(Key),
    Restore(Key),
    Link(usize, Vec<usize>),
    Append(usize, usize),
    Start(usize),
    /// A transaction that changes everything and is rolled back.
    Fail(Vec<(usize, usize)>),
    /// Removes edges to tombstones and frees their slots.
    Consolidate,
    Compact,
    Reopen(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS;
    let slot = any::<usize>();
    prop_oneof![
        6 => (-9.0_f32..9.0, key.clone()).prop_map(|(x, key)| Step::Add(x, key)),
        2 => (key.clone(), slot).prop_map(|(key, slot)| Step::Assign(key, slot)),
        4 => key.clone().prop_map(Step::Delete),
        2 => key.prop_map(Step::Restore),
        4 => (slot, prop::collection::vec(slot, 0..=MAX_DEGREE)).prop_map(|(slot, to)| Step::Link(slot, to)),
        2 => (slot, slot).prop_map(|(slot, to)| Step::Append(slot, to)),
        1 => slot.prop_map(Step::Start),
        2 => prop::collection::vec((slot, slot), 0..6).prop_map(Step::Fail),
        2 => Just(Step::Consolidate),
        2 => Just(Step::Compact),
        1 => any::<bool>().prop_map(Step::Reopen),
    ]
}

/// A vertex of the model; its index is its slot.
#[derive(Clone, Debug, PartialEq)]
struct Vertex {
    x: f32,
    keys: Vec<Key>,
    edges: Vec<usize>,
}

/// The expected graph.
#[derive(Clone, Debug, Default)]
struct Model {
    slots: Vec<Option<Vertex>>,
    deleted: BTreeMap<Key, usize>,
    start: Option<usize>,
}

impl Model {
    fn vertices(&self) -> Vec<usize> {
        (0..self.slots.len()).filter(|&slot| self.slots[slot].is_some()).collect()
    }

    fn vertex(&mut self, slot: usize) -> &mut Vertex {
        self.slots[slot].as_mut().expect("a vertex")
    }

    fn pick(&self, number: usize) -> Option<usize> {
        let vertices = self.vertices();
        (!vertices.is_empty()).then(|| vertices[number % vertices.len()])
    }

    fn slot_of(&self, key: Key) -> Option<usize> {
        self.vertices()
            .into_iter()
            .find(|&slot| self.slots[slot].as_ref().is_some_and(|v| v.keys.contains(&key)))
    }

    fn add(&mut self, x: f32) -> usize {
        let vertex = Some(Vertex { x, keys: Vec::new(), edges: Vec::new() });
        match self.slots.iter().position(Option::is_none) {
            Some(free) => {
                self.slots[free] = vertex;
                free
            }
            None => {
                self.slots.push(vertex);
                self.slots.len() - 1
            }
        }
    }

    /// The edges that `to` encodes: distinct, and not to `from`.
    fn edges(&self, from: usize, to: &[usize]) -> Vec<usize> {
        let mut edges = Vec::new();
        for edge in to.iter().filter_map(|&number| self.pick(number)) {
            if edge != from && !edges.contains(&edge) {
                edges.push(edge);
            }
        }
        edges
    }
}

struct Both {
    graph: Graph,
    model: Model,
}

fn ids(slots: &[usize]) -> Vec<Slot> {
    slots.iter().map(|&slot| Slot::from_index(slot)).collect()
}

impl Both {
    fn add(&mut self, x: f32) -> usize {
        let slot = self.model.add(x);
        let mut row = Vec::new();
        let squared_norm = self.graph.vectors().prepare(0, &[x, 1.0], &mut row).unwrap();
        assert_eq!(self.graph.add_vector(&row, squared_norm).unwrap(), Slot::from_index(slot));
        slot
    }

    fn link(&mut self, slot: usize, edges: Vec<usize>) {
        self.graph.adjacency_mut().set_neighbors(Slot::from_index(slot), &ids(&edges));
        self.model.vertex(slot).edges = edges;
    }

    /// Adds an edge if there is room and it is new.
    fn append(&mut self, number: usize, to: usize) {
        let Some(slot) = self.model.pick(number) else { return };
        let edges = &mut self.model.vertex(slot).edges;
        if slot != to && edges.len() < MAX_DEGREE && !edges.contains(&to) {
            edges.push(to);
            self.graph.adjacency_mut().append_neighbors(Slot::from_index(slot), &ids(&[to]));
        }
    }

    fn assign(&mut self, key: Key, slot: usize) {
        let expected = if self.model.slot_of(key).is_some() { Err(KeyError::Exists(key)) } else { Ok(()) };
        assert_eq!(self.graph.keys_mut().assign(key, Slot::from_index(slot)), expected);
        if expected.is_ok() {
            self.model.deleted.remove(&key);
            self.model.vertex(slot).keys.push(key);
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Add(x, key) => {
                if self.model.slot_of(key).is_none() {
                    let slot = self.add(x);
                    self.assign(key, slot);
                }
            }
            Step::Assign(key, number) => {
                if let Some(slot) = self.model.pick(number) {
                    self.assign(key, slot);
                }
            }
            Step::Delete(key) => {
                let expected = match self.model.slot_of(key) {
                    Some(slot) => {
                        self.model.vertex(slot).keys.retain(|&other| other != key);
                        self.model.deleted.insert(key, slot);
                        Ok(())
                    }
                    None if self.model.deleted.contains_key(&key) => Err(KeyError::Deleted(key)),
                    None => Err(KeyError::Unknown(key)),
                };
                assert_eq!(self.graph.keys_mut().delete(key), expected);
            }
            Step::Restore(key) => {
                let live = self.model.slot_of(key).is_some();
                let expected = match self.model.deleted.get(&key) {
                    _ if live => Err(KeyError::Live(key)),
                    Some(&slot) => {
                        self.model.vertex(slot).keys.push(key);
                        self.model.deleted.remove(&key);
                        Ok(())
                    }
                    None => Err(KeyError::Unknown(key)),
                };
                assert_eq!(self.graph.keys_mut().restore(key), expected);
            }
            Step::Link(number, to) => {
                if let Some(slot) = self.model.pick(number) {
                    self.link(slot, self.model.edges(slot, &to));
                }
            }
            Step::Append(number, to) => {
                if let Some(to) = self.model.pick(to) {
                    self.append(number, to);
                }
            }
            Step::Start(number) => {
                self.model.start = self.model.pick(number).or(self.model.start);
                self.graph
                    .adjacency_mut()
                    .set_start_points(self.model.start.map(Slot::from_index).into_iter().collect());
            }
            Step::Fail(links) => self.fail(links),
            Step::Consolidate => self.consolidate(),
            Step::Compact => self.compact(),
            Step::Reopen(mapped) => {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("index.jasper");
                self.graph.save(&path, &mut no_progress).unwrap();
                let opened = if mapped { Graph::map(&path) } else { Graph::open(&path, &mut no_progress) };
                self.graph = opened.unwrap();
            }
        }
    }

    /// Changes everything, and rolls back.
    fn fail(&mut self, links: Vec<(usize, usize)>) {
        let before = self.model.clone();
        self.graph.begin();
        for (from, to) in links {
            let slot = self.add(40.0);
            self.link(slot, self.model.edges(slot, &[from, to]));
            self.append(from, slot);
            let other = self.model.pick(to).expect("one was added");
            self.link(other, self.model.edges(other, &[from]));
            let keys = [from, to].map(|number| number as Key % KEYS);
            self.apply(Step::Delete(keys[0]));
            self.assign(keys[1], slot);
            self.apply(Step::Restore(keys[0]));
            self.graph.adjacency_mut().set_start_points(vec![Slot::from_index(slot)]);
        }
        self.graph.rollback();
        self.model = before;
    }

    fn consolidate(&mut self) {
        let dead: BTreeSet<usize> = self
            .model
            .vertices()
            .into_iter()
            .filter(|&slot| self.model.vertex(slot).keys.is_empty())
            .collect();
        for slot in self.model.vertices() {
            let mut edges = self.model.vertex(slot).edges.clone();
            edges.retain(|edge| !dead.contains(edge));
            self.link(slot, edges);
        }
        for &slot in &dead {
            self.model.slots[slot] = None;
        }
        self.model.deleted.clear();
        self.model.start = self.model.start.filter(|start| !dead.contains(start));
        self.graph
            .adjacency_mut()
            .set_start_points(self.model.start.map(Slot::from_index).into_iter().collect());
        self.graph.release_tombstones();
    }

    fn compact(&mut self) {
        let vertices = self.model.vertices();
        let free: Vec<usize> = (0..vertices.len()).filter(|&slot| self.model.slots[slot].is_none()).collect();
        let moves: BTreeMap<usize, usize> =
            vertices.iter().rev().copied().take(free.len()).zip(free.iter().copied()).collect();
        let renamed = |slot: usize| moves.get(&slot).copied().unwrap_or(slot);
        let mut slots = vec![None; vertices.len()];
        for &slot in &vertices {
            let mut vertex = self.model.vertex(slot).clone();
            vertex.edges.iter_mut().for_each(|edge| *edge = renamed(*edge));
            slots[renamed(slot)] = Some(vertex);
        }
        self.model.slots = slots;
        self.model.deleted.values_mut().for_each(|slot| *slot = renamed(*slot));
        self.model.start = self.model.start.map(renamed);
        let pairs: Vec<_> =
            moves.iter().map(|(&from, &to)| (Slot::from_index(from), Slot::from_index(to))).collect();
        self.graph.compact(&pairs, vertices.len()).unwrap();
    }

    fn compare(&self) {
        let (graph, model) = (&self.graph, &self.model);
        assert_eq!(graph.slots(), model.slots.len());
        for (slot, vertex) in model.slots.iter().enumerate() {
            let id = Slot::from_index(slot);
            let live = vertex.as_ref().is_some_and(|vertex| !vertex.keys.is_empty());
            assert_eq!(
                (graph.keys().is_free(id), graph.keys().is_live(id)),
                (vertex.is_none(), live),
                "{id}"
            );
            assert_eq!(graph.keys().is_tombstone(id), vertex.is_some() && !live, "{id}");
            let edges: Vec<usize> = graph.adjacency().neighbors(id).iter().map(|to| to.index()).collect();
            let Some(vertex) = vertex else {
                assert!(edges.is_empty(), "{id}");
                continue;
            };
            assert_eq!(edges, vertex.edges, "{id}");
            assert_eq!(graph.vectors().get::<f32>(id), [vertex.x, 1.0], "{id}");
            assert_eq!(graph.keys().keys_of(id).collect::<Vec<_>>(), vertex.keys, "{id}");
        }
        for key in 0..KEYS {
            assert_eq!(graph.keys().slot_of(key).map(Slot::index), model.slot_of(key), "key {key}");
        }
        assert!(graph.keys().deleted_keys().eq(model.deleted.keys().copied()));
        let count = |test: &dyn Fn(&Vertex) -> bool| model.slots.iter().flatten().filter(|v| test(v)).count();
        assert_eq!(graph.keys().live(), count(&|v| !v.keys.is_empty()));
        assert_eq!(graph.keys().tombstones(), count(&|v| v.keys.is_empty()));
        assert_eq!(graph.keys().free(), model.slots.iter().filter(|slot| slot.is_none()).count());
        assert_eq!(graph.keys().len(), model.slots.iter().flatten().map(|v| v.keys.len()).sum::<usize>());
        assert_eq!(graph.keys().live_slots().count(), graph.keys().live());
        assert_eq!(graph.keys().vertices().count(), graph.keys().live() + graph.keys().tombstones());
        assert_eq!(
            graph.adjacency().edges(),
            model.slots.iter().flatten().map(|v| v.edges.len() as u64).sum::<u64>()
        );
        assert_eq!(graph.adjacency().start_points(), model.start.map(Slot::from_index).as_slice());
        let report = graph.check_structure();
        let started =
            report.examples.iter().all(|fault| matches!(fault, jasper_graph::StructureFault::NoStartPoint));
        assert!(started, "{report:?}");
    }
}

proptest! {
    #[test]
    fn behaves_like_its_model(steps in prop::collection::vec(step(), 0..60)) {
        let params = BuildParams::builder().max_degree(MAX_DEGREE).build().unwrap();
        let graph = Graph::new(ElementKind::F32, Metric::L2, 2, params).unwrap();
        let mut both = Both { graph, model: Model::default() };
        for step in steps {
            both.apply(step);
            both.compare();
        }
        // Where a deleted key would come back to is only seen when it does.
        for key in 0..KEYS {
            both.apply(Step::Restore(key));
            both.compare();
        }
    }
}
