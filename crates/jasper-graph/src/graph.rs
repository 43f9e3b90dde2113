//! Vectors and the edges between them: what is stored, what may be asked of it, and the few ways it changes.

use std::io;

use jasper_core::{
    BitSet, BuildParams, Element, ElementKind, Key, MAX_DIMENSION, MAX_VECTORS, MatrixError, Metric, NO_KEY,
    VectorId, padded_len,
};

use crate::journal::Journal;
use crate::keys::{KeyError, KeyTable};
use crate::sketch::{self, Sketches};
use crate::space::{Scorer, Space, needs_norms};
use crate::{RowError, Segments, TunedSearch};

/// A Vamana graph over vectors of one element type: see the [crate page](crate) for an example.
///
/// A slot is *live* (it has a key and is returned), *hidden* (walked through, never returned: a tombstone, or a new
/// vertex whose batch is not finished), or *free* (no edge leads there, its memory is used by the next insert).
#[derive(Debug)]
pub struct Graph<T: 'static> {
    pub(crate) params: BuildParams,
    pub(crate) space: Space<T>,
    /// `slots x max_degree`; what lies behind a row's degree means nothing.
    pub(crate) adjacency: Segments<VectorId>,
    pub(crate) degrees: Segments<u16>,
    pub(crate) keys: KeyTable,
    /// Slots that are hidden.
    pub(crate) tombstones: BitSet,
    /// Slots that are free.
    pub(crate) free: BitSet,
    /// Where searches begin; empty only when no vertex was ever linked.
    pub(crate) start_points: Vec<VectorId>,
    /// Vertices linked since it was last known that all live ones can be reached.
    pub(crate) unchecked: usize,
    /// The key after the largest there ever was.
    pub(crate) next_key: Key,
    /// In [`TunedSearch::order`], one for each device, k, target and batch.
    pub(crate) tuned: Vec<TunedSearch>,
    pub(crate) journal: Option<Journal>,
}

impl<T: Element> Graph<T> {
    /// A graph without vertices for vectors of `dimension` coordinates.
    ///
    /// # Errors
    /// [`MatrixError::Dimension`].
    pub fn new(metric: Metric, dimension: usize, params: BuildParams) -> Result<Self, MatrixError> {
        if dimension == 0 || dimension > MAX_DIMENSION {
            return Err(MatrixError::Dimension(dimension));
        }
        Ok(Self {
            params,
            space: Space {
                metric,
                dimension,
                vectors: Segments::new(padded_len::<T>(dimension)),
                squared_norms: needs_norms(metric, T::EXACT).then(|| Segments::new(1)),
                largest_squared_norm: 0.0,
                sketches: None,
            },
            adjacency: Segments::new(params.max_degree()),
            degrees: Segments::new(1),
            keys: KeyTable::new(),
            tombstones: BitSet::new(),
            free: BitSet::new(),
            start_points: Vec::new(),
            unchecked: 0,
            next_key: 0,
            tuned: Vec::new(),
            journal: None,
        })
    }

    /// The parameters it is built with.
    pub fn params(&self) -> &BuildParams {
        &self.params
    }

    /// How near two vectors are.
    pub fn metric(&self) -> Metric {
        self.space.metric
    }

    /// Coordinates of a vector.
    pub fn dimension(&self) -> usize {
        self.space.dimension
    }

    /// Slots there are: live, hidden and free.
    pub fn slots(&self) -> usize {
        self.degrees.len()
    }

    /// Slots that a search can return.
    pub fn live(&self) -> usize {
        self.slots() - self.tombstones.len() - self.free.len()
    }

    /// Slots that are walked through and never returned.
    pub fn hidden(&self) -> usize {
        self.tombstones.len()
    }

    /// Slots without a vertex.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Live keys. More than [`Self::live`] when rows are identical.
    pub fn keys(&self) -> usize {
        self.live() + self.keys.shared()
    }

    /// Live keys that share their vertex with an earlier key of the same row.
    pub fn shared_keys(&self) -> usize {
        self.keys.shared()
    }

    /// Whether the slot has a vertex that a search may return.
    #[inline]
    pub fn is_live(&self, slot: VectorId) -> bool {
        slot.index() < self.slots() && !self.is_hidden(slot) && !self.is_free(slot)
    }

    /// Whether the slot has a vertex that is walked through and never returned.
    #[inline]
    pub fn is_hidden(&self, slot: VectorId) -> bool {
        self.tombstones.contains(slot.index())
    }

    /// Whether the slot has no vertex.
    #[inline]
    pub fn is_free(&self, slot: VectorId) -> bool {
        self.free.contains(slot.index())
    }

    /// All live slots, rising.
    pub fn live_slots(&self) -> impl Iterator<Item = VectorId> + '_ {
        (0..self.slots()).map(VectorId::from_index).filter(|&slot| self.is_live(slot))
    }

    /// All slots that have a vertex, live or hidden, rising.
    pub fn vertices(&self) -> impl Iterator<Item = VectorId> + '_ {
        (0..self.slots()).map(VectorId::from_index).filter(|&slot| !self.is_free(slot))
    }

    /// Where searches begin.
    pub fn start_points(&self) -> &[VectorId] {
        &self.start_points
    }

    /// Out-edges of a vertex.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn neighbors(&self, slot: VectorId) -> &[VectorId] {
        &self.adjacency.row(slot.index())[..self.degrees.at(slot.index()) as usize]
    }

    /// Asks the memory system for the out-edges of a vertex that will be read soon.
    #[inline]
    pub fn prefetch_neighbors(&self, slot: VectorId) {
        jasper_core::distance::prefetch(self.adjacency.row(slot.index()));
        jasper_core::distance::prefetch(self.degrees.row(slot.index()));
    }

    /// The vector of a slot, padded; at unit length where the metric is cosine and the element a float.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn padded_vector(&self, slot: VectorId) -> &[T] {
        self.space.vectors.row(slot.index())
    }

    /// The vector of a slot, as [`Self::padded_vector`] without the padding.
    pub fn vector(&self, slot: VectorId) -> &[T] {
        &self.padded_vector(slot)[..self.dimension()]
    }

    /// Squared lengths of the vectors, one a slot, where the metric needs them.
    pub fn squared_norms(&self) -> Option<&Segments<f32>> {
        self.space.squared_norms.as_ref()
    }

    /// No vector has a larger squared length; 0 where the metric needs none.
    pub fn largest_squared_norm(&self) -> f32 {
        self.space.largest_squared_norm
    }

    /// Keys of a live slot, first the one given first.
    pub fn keys_of(&self, slot: VectorId) -> impl Iterator<Item = Key> + '_ {
        self.is_live(slot).then(|| self.keys.of(slot)).into_iter().flatten()
    }

    /// The first key of a slot known to be live: no check, for loops over answers.
    #[inline]
    pub fn first_key(&self, live: VectorId) -> Key {
        self.keys.first_of(live)
    }

    /// Slot of a live key. The first call makes the table of keys: O(n) then, O(1) later.
    pub fn slot_of(&self, key: Key) -> Option<VectorId> {
        self.keys.slot(key, |slot| self.is_hidden(slot) || self.is_free(slot))
    }

    /// Keys that were deleted and can still be restored.
    pub fn deleted_keys(&self) -> impl ExactSizeIterator<Item = Key> + '_ {
        self.keys.deleted().keys().copied()
    }

    /// Turns the coordinates of a user's vector into a row as it is stored: padded with zeros, and of unit length
    /// where the metric is cosine and the element a float. Gives the squared length before that.
    ///
    /// # Errors
    /// [`RowError`], naming `row`.
    pub fn prepare(&self, row: usize, vector: &[T], out: &mut Vec<T>) -> Result<f32, RowError> {
        crate::row::prepare(self.metric(), self.dimension(), row, vector, out)
    }

    /// Distances of a prepared query in the user's metric.
    ///
    /// # Panics
    /// If `prepared` is not as long as a padded row.
    pub fn scorer<'a>(&'a self, prepared: &'a [T]) -> Scorer<'a, T> {
        assert_eq!(prepared.len(), self.space.vectors.width(), "a query is prepared before it is scored");
        self.space.query_scorer(prepared)
    }

    /// Distances of a stored row to others, in the space the graph is built in: the user's metric, but for inner
    /// products, where it is squared L2 with the coordinate that makes all rows equally long.
    pub fn row_scorer(&self, slot: VectorId) -> Scorer<'_, T> {
        self.space.row_scorer(slot)
    }

    /// Stores a prepared row in the lowest free slot, or a new one: hidden, without edges or key.
    ///
    /// # Errors
    /// [`RowError::Full`], or what the operating system says when there is no memory.
    pub fn add_row(&mut self, prepared: &[T], squared_norm: f32) -> Result<VectorId, RowError> {
        let slot = match self.free.first() {
            Some(slot) => VectorId::from_index(slot),
            None if self.slots() == MAX_VECTORS => return Err(RowError::Full),
            None => {
                let slot = VectorId::from_index(self.slots());
                self.resize(self.slots() + 1)?;
                slot
            }
        };
        self.free.remove(slot.index());
        self.tombstones.insert(slot.index());
        self.degrees.set(slot.index(), 0);
        self.space.vectors.row_mut(slot.index()).copy_from_slice(prepared);
        if let Some(sketches) = &mut self.space.sketches {
            sketches.set(slot.index(), prepared);
        }
        if let Some(norms) = &mut self.space.squared_norms {
            norms.set(slot.index(), squared_norm);
            self.space.largest_squared_norm = self.space.largest_squared_norm.max(squared_norm);
        }
        Ok(slot)
    }

    /// Sets the out-edges of a vertex.
    ///
    /// # Panics
    /// If there are more than `max_degree`. That ids are distinct, in range and not `slot` is the caller's care.
    pub fn set_neighbors(&mut self, slot: VectorId, neighbors: &[VectorId]) {
        if let Some(journal) = &mut self.journal {
            let degree = self.degrees.at(slot.index()) as usize;
            journal.keep(slot, &self.adjacency.row(slot.index())[..degree]);
        }
        self.adjacency.row_mut(slot.index())[..neighbors.len()].copy_from_slice(neighbors);
        self.degrees.set(slot.index(), neighbors.len() as u16);
    }

    /// Adds out-edges to a vertex.
    ///
    /// # Panics
    /// If it then had more than `max_degree`. That ids are distinct, in range and not `slot` is the caller's care.
    pub fn append_neighbors(&mut self, slot: VectorId, neighbors: &[VectorId]) {
        let degree = self.degrees.at(slot.index()) as usize;
        let row = self.adjacency.row_mut(slot.index());
        if let Some(journal) = &mut self.journal {
            journal.keep(slot, &row[..degree]);
        }
        row[degree..][..neighbors.len()].copy_from_slice(neighbors);
        self.degrees.set(slot.index(), (degree + neighbors.len()) as u16);
    }

    /// The links of all slots, to be written from several threads: of each run of slots in order, their places,
    /// `[slots][max_degree]`, and how many of them each uses.
    ///
    /// # Panics
    /// If changes are remembered since [`Self::begin`]. That ids are distinct, in range and not the slot, and degrees at
    /// most `max_degree`, is the caller's care.
    pub fn link_tables(&mut self) -> impl Iterator<Item = (&mut [VectorId], &mut [u16])> {
        assert!(self.journal.is_none(), "what is written from several threads cannot be rolled back");
        self.adjacency.chunks_mut().zip(self.degrees.chunks_mut())
    }

    /// Frees a hidden slot that has no key, and that no edge or start point leads to.
    pub fn release(&mut self, slot: VectorId) {
        if self.tombstones.remove(slot.index()) {
            self.free.insert(slot.index());
            self.degrees.set(slot.index(), 0);
        }
    }

    /// Vertices linked since it was last known that every live one can be reached.
    pub fn unchecked(&self) -> usize {
        self.unchecked
    }

    /// Sets [`Self::unchecked`].
    pub fn set_unchecked(&mut self, vertices: usize) {
        self.unchecked = vertices;
    }

    /// Sets where searches begin.
    pub fn set_start_points(&mut self, start_points: Vec<VectorId>) {
        self.start_points = start_points;
    }

    /// Gives a vertex a key; a hidden vertex becomes live.
    ///
    /// # Errors
    /// [`KeyError::Exists`] and [`KeyError::Reserved`].
    pub fn assign_key(&mut self, key: Key, slot: VectorId) -> Result<(), KeyError> {
        self.check_unused(key)?;
        self.assign_unused_key(key, slot);
        Ok(())
    }

    /// Whether a new vector may have this key.
    ///
    /// # Errors
    /// [`KeyError::Exists`] and [`KeyError::Reserved`].
    pub fn check_unused(&self, key: Key) -> Result<(), KeyError> {
        if key == NO_KEY {
            return Err(KeyError::Reserved);
        }
        if self.slot_of(key).is_some() { Err(KeyError::Exists(key)) } else { Ok(()) }
    }

    /// [`Self::assign_key`] after [`Self::check_unused`]: a bulk build has checked its keys in one go, and never needs
    /// the table of keys.
    pub fn assign_unused_key(&mut self, key: Key, slot: VectorId) {
        let alone = !self.is_live(slot);
        self.keys.assign(key, slot, alone);
        self.next_key = self.next_key.max(key.saturating_add(1));
        self.tombstones.remove(slot.index());
    }

    /// The key after the largest that was ever in the index, and so one that names no other vector in anybody's books.
    pub fn next_key(&self) -> Key {
        self.next_key
    }

    /// Whether the key is live.
    ///
    /// # Errors
    /// [`KeyError::Deleted`] and [`KeyError::Unknown`].
    pub fn check_live(&self, key: Key) -> Result<(), KeyError> {
        self.slot_of(key).map(|_| ()).ok_or_else(|| self.keys.why_missing(key))
    }

    /// Whether the key is deleted and can be restored.
    ///
    /// # Errors
    /// [`KeyError::Live`] and [`KeyError::Unknown`].
    pub fn check_restorable(&self, key: Key) -> Result<(), KeyError> {
        if self.slot_of(key).is_some() {
            return Err(KeyError::Live(key));
        }
        self.keys.restorable(key).map(|_| ()).ok_or(KeyError::Unknown(key))
    }

    /// Deletes a key: it is not returned from now on. Its vertex is hidden when this was its last key.
    ///
    /// # Errors
    /// [`KeyError::Deleted`] and [`KeyError::Unknown`].
    pub fn delete_key(&mut self, key: Key) -> Result<(), KeyError> {
        let slot = self.slot_of(key).ok_or_else(|| self.keys.why_missing(key))?;
        if self.keys.delete(key, slot) {
            self.tombstones.insert(slot.index());
        }
        Ok(())
    }

    /// Restores a deleted key whose vertex was not consolidated.
    ///
    /// # Errors
    /// [`KeyError::Live`] and [`KeyError::Unknown`].
    pub fn restore_key(&mut self, key: Key) -> Result<(), KeyError> {
        if self.slot_of(key).is_some() {
            return Err(KeyError::Live(key));
        }
        let slot = self.keys.restorable(key).ok_or(KeyError::Unknown(key))?;
        self.assign_key(key, slot)
    }

    /// Frees all hidden slots. The caller has seen to it that no edge and no start point leads there.
    pub fn release_hidden(&mut self) {
        for slot in self.tombstones.iter() {
            self.free.insert(slot);
            self.degrees.set(slot, 0);
        }
        self.tombstones.clear();
        let free = &self.free;
        self.keys.forget(|slot| free.contains(slot.index()));
    }

    /// Remembers everything that [`Self::rollback`] needs, until [`Self::commit`].
    pub fn begin(&mut self) {
        self.journal = Some(Journal::new(
            self.slots(),
            self.free.clone(),
            self.tombstones.clone(),
            self.start_points.clone(),
            self.space.largest_squared_norm,
        ));
    }

    /// Lets the changes since [`Self::begin`] stand.
    pub fn commit(&mut self) {
        self.journal = None;
    }

    /// Undoes all rows, edges and start points since [`Self::begin`]. Keys are not covered: they change last.
    pub fn rollback(&mut self) {
        let Some(journal) = self.journal.take() else { return };
        for (slot, neighbors) in journal.rows() {
            self.set_neighbors(slot, neighbors);
        }
        self.resize(journal.len).expect("a table shrinks without asking for memory");
        // A slot that was free and got a vertex has none again, and so no edges.
        for slot in journal.free.iter() {
            self.degrees.set(slot, 0);
        }
        self.free = journal.free;
        self.tombstones = journal.tombstones;
        self.start_points = journal.start_points;
        self.space.largest_squared_norm = journal.largest_squared_norm;
    }

    /// Renames slots so that vertices lie in front: `moves` are pairs (from, to) of a vertex and a free slot before
    /// it, and `slots` of them remain. Every edge and start point follows; nothing else changes.
    ///
    /// # Errors
    /// None that a shortening could meet; the type is that of a resize.
    pub fn compact(&mut self, moves: &[(VectorId, VectorId)], slots: usize) -> io::Result<()> {
        let mut renamed: Vec<VectorId> = (0..self.slots()).map(VectorId::from_index).collect();
        for &(from, to) in moves {
            renamed[from.index()] = to;
            self.copy_slot(from, to);
            self.keys.relocate(from, to);
            if self.tombstones.remove(from.index()) {
                self.tombstones.insert(to.index());
            }
        }
        self.keys.rename_deleted(|slot| renamed[slot.index()]);
        self.keys.invalidate();
        self.free.clear();
        self.resize(slots)?;
        for slot in 0..slots {
            let degree = self.degrees.at(slot) as usize;
            self.adjacency.row_mut(slot)[..degree].iter_mut().for_each(|id| *id = renamed[id.index()]);
        }
        self.start_points.iter_mut().for_each(|id| *id = renamed[id.index()]);
        Ok(())
    }

    /// Copies what a mapped file holds into memory with huge pages; see [`Segments::load`].
    ///
    /// # Errors
    /// What the operating system says when it has no more address space.
    pub fn load(&mut self) -> io::Result<()> {
        self.space.vectors.load()?;
        if let Some(norms) = &mut self.space.squared_norms {
            norms.load()?;
        }
        self.adjacency.load()?;
        self.degrees.load()?;
        self.keys.load()
    }

    /// Takes sketches of all rows, and keeps them in step from then on: searches rule rows out by them without reading
    /// the rows. Answers stay the same. For f32, at a quarter of the vectors' memory; other elements take none.
    ///
    /// # Errors
    /// What the operating system says when it has no more memory.
    pub fn sketch(&mut self) -> io::Result<()> {
        self.space.sketch(None)
    }

    /// Takes sketches of the rows in `chosen` slots alone: what [`Self::sketch`] does, where memory is short.
    ///
    /// # Errors
    /// As there.
    pub fn sketch_some(&mut self, chosen: &[VectorId]) -> io::Result<()> {
        self.space.sketch(Some(chosen))
    }

    /// Gives the memory of sketches back.
    pub fn forget_sketches(&mut self) {
        self.space.sketches = None;
    }

    /// Searches that were measured to reach a recall, by device, target, k and batch.
    pub fn tuned(&self) -> &[TunedSearch] {
        &self.tuned
    }

    /// Keeps a tuned search, in the place of one for the same device, target, k and batch.
    pub fn keep_tuned(&mut self, tuned: TunedSearch) {
        match self.tuned.binary_search_by(|other| other.order(&tuned)) {
            Ok(place) => self.tuned[place] = tuned,
            Err(place) => self.tuned.insert(place, tuned),
        }
    }

    /// A number that changes when vertices come, go or get other edges: the checksum of what the file's section `params`
    /// says of the graph, its edges counted. Cost: a pass over the degrees.
    pub fn state(&self) -> u32 {
        crate::file::state(self)
    }

    /// Bytes that the sketch of one row takes among chosen ones; `None` where the element takes no sketches.
    pub fn bytes_per_sketch(dimension: usize) -> Option<usize> {
        (T::KIND == ElementKind::F32).then(|| sketch::row_bytes(dimension) + size_of::<u32>())
    }

    /// Bytes of sketches; 0 where there are none.
    pub fn sketch_bytes(&self) -> usize {
        self.space.sketches.as_ref().map_or(0, Sketches::bytes)
    }

    /// Bytes of vectors, with padding and, where the metric needs them, squared lengths.
    pub fn vector_bytes(&self) -> usize {
        self.space.vectors.bytes() + self.space.squared_norms.as_ref().map_or(0, Segments::bytes)
    }

    /// Bytes of adjacency at full degree, and of degrees.
    pub fn graph_bytes(&self) -> usize {
        self.adjacency.bytes() + self.degrees.bytes()
    }

    fn copy_slot(&mut self, from: VectorId, to: VectorId) {
        let row = self.space.vectors.row(from.index()).to_vec();
        self.space.vectors.row_mut(to.index()).copy_from_slice(&row);
        if let Some(sketches) = &mut self.space.sketches {
            sketches.set(to.index(), &row);
        }
        if let Some(norms) = &mut self.space.squared_norms {
            norms.set(to.index(), norms.at(from.index()));
        }
        let neighbors = self.neighbors(from).to_vec();
        self.set_neighbors(to, &neighbors);
    }

    fn resize(&mut self, slots: usize) -> io::Result<()> {
        self.space.vectors.resize(slots)?;
        if let Some(norms) = &mut self.space.squared_norms {
            norms.resize(slots)?;
        }
        if let Some(sketches) = &mut self.space.sketches {
            sketches.resize(slots)?;
        }
        self.adjacency.resize(slots)?;
        self.keys.resize(slots)?;
        // Last, because it is what `slots` reads: a failure before leaves the number as it was.
        self.degrees.resize(slots)
    }
}
