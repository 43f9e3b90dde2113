//! What a failed batch puts back.

use std::collections::HashMap;

use jasper_core::{BitSet, Element, Key, VectorId};

use crate::Graph;
use crate::keys::{KeyBefore, KeyTable};

/// Adjacency rows as they were when a change began, keys, and the few numbers beside them.
///
/// Only rows that existed then are kept, once each: memory is that of the rows touched, at their degree.
#[derive(Debug)]
pub(crate) struct Journal {
    len: usize,
    free: BitSet,
    tombstones: BitSet,
    start_points: Vec<VectorId>,
    largest_squared_norm: f32,
    next_key: Key,
    unchecked: usize,
    /// Keys before each change of one, in the order of the changes.
    keys: Vec<KeyBefore>,
    /// Whether new keys came to new slots, which go with these.
    has_new_keys: bool,
    rows: HashMap<VectorId, (usize, u16)>,
    neighbors: Vec<VectorId>,
}

impl Journal {
    fn new<T: Element>(graph: &Graph<T>) -> Self {
        Self {
            len: graph.slots(),
            free: graph.free.clone(),
            tombstones: graph.tombstones.clone(),
            start_points: graph.start_points.clone(),
            largest_squared_norm: graph.space.largest_squared_norm,
            next_key: graph.next_key,
            unchecked: graph.unchecked,
            keys: Vec::new(),
            has_new_keys: false,
            rows: HashMap::new(),
            neighbors: Vec::new(),
        }
    }

    /// Keeps a row that is about to be overwritten, unless it is new or kept already.
    pub(crate) fn keep(&mut self, slot: VectorId, neighbors: &[VectorId]) {
        if self.is_new(slot) {
            return;
        }
        self.rows.entry(slot).or_insert_with(|| {
            self.neighbors.extend_from_slice(neighbors);
            (self.neighbors.len() - neighbors.len(), neighbors.len() as u16)
        });
    }

    /// Keeps what is about to change of a key, which comes to a slot to be `alone` there, or to be one of several, or
    /// leaves it. Of an insert nearly all keys are new, and come to new slots: of these there is nothing to keep.
    pub(crate) fn keep_key(&mut self, keys: &KeyTable, key: Key, slot: VectorId, alone: bool) {
        if alone && self.is_new(slot) && keys.restorable(key).is_none() {
            self.has_new_keys = true;
        } else {
            self.keys.push(keys.remember(key, slot));
        }
    }

    /// Whether there was no vertex in a slot when the change began.
    fn is_new(&self, slot: VectorId) -> bool {
        slot.index() >= self.len || self.free.contains(slot.index())
    }

    /// The rows kept.
    fn rows(&self) -> impl Iterator<Item = (VectorId, &[VectorId])> {
        self.rows.iter().map(|(&slot, &(at, degree))| (slot, &self.neighbors[at..at + degree as usize]))
    }
}

impl<T: Element> Graph<T> {
    /// Remembers everything that [`Self::rollback`] needs, until [`Self::commit`].
    pub fn begin(&mut self) {
        self.journal = Some(Journal::new(self));
    }

    /// Lets the changes since [`Self::begin`] stand.
    pub fn commit(&mut self) {
        self.journal = None;
    }

    /// Undoes all changes since [`Self::begin`], but [`Self::compact`] and [`Self::release_tombstones`], which come last.
    pub fn rollback(&mut self) {
        let Some(journal) = self.journal.take() else { return };
        for (slot, neighbors) in journal.rows() {
            self.set_neighbors(slot, neighbors);
        }
        for before in journal.keys.into_iter().rev() {
            if let Some(changes) = &mut self.changes {
                changes.marks.push(before.slot());
            }
            self.keys.put_back(before);
        }
        if journal.has_new_keys {
            self.keys.invalidate();
        }
        self.resize(journal.len).expect("a table shrinks without asking for memory");
        // A slot that was free and got a vertex has none again, and so no edges.
        for slot in journal.free.iter() {
            self.degrees.set(slot, 0);
            if let Some(changes) = self.changes.as_mut().filter(|_| !self.free.contains(slot)) {
                changes.marks.push(VectorId::from_index(slot));
            }
        }
        self.free = journal.free;
        self.tombstones = journal.tombstones;
        self.start_points = journal.start_points;
        self.note_start_points();
        self.space.largest_squared_norm = journal.largest_squared_norm;
        self.next_key = journal.next_key;
        self.unchecked = journal.unchecked;
    }
}
