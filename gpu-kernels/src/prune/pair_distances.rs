//! Distances of one vertex to others, several per warp.

use cuda_std::prelude::*;

use crate::DevicePtr;
use crate::WARP_SIZE;
use crate::element::{DistanceOp, Packed};
use crate::graph::{DistanceForm, GraphArgs};
use crate::row_shape::MAX_LOADS;
use crate::tile::{QueryUnits, RowTiles, load_unit};

/// The distances between vertices.
pub(super) trait PairDistances: Sized {
    /// The vertex that others are compared with, in registers.
    type Reference;
    /// Distances that a warp computes per call.
    fn per_warp(&self) -> u32;

    /// The distances of `form` between the vertices of `graph`, by which the edges of `owner` are chosen.
    ///
    /// # Safety
    /// The vertex exists.
    unsafe fn new(graph: &GraphArgs, form: DistanceForm, owner: u32) -> Self;

    /// What a prune of the owner's edges adds to distances before it multiplies them by alpha.
    fn alpha_offset(&self) -> f32;

    /// The index of this lane's vertex among those of a call, ascending with the lane; [`Self::per_warp`] if the lane
    /// has none.
    fn vertex_index(&self) -> u32;

    /// Loads the vertex `slot`.
    ///
    /// # Safety
    /// The vertex exists, and its row is not written during the launch.
    unsafe fn reference(&self, slot: u32) -> Self::Reference;

    /// The distance between `reference` and the vertex `slot` of this lane, if the lane has [one](Self::vertex_index).
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together. Every slot names a vertex, whose row is not written during the
    /// launch.
    unsafe fn distance(&self, reference: &Self::Reference, slot: u32) -> f32;
}

/// Maximum number of units that a lane has in flight.
const LOADS: usize = MAX_LOADS as usize;

/// Rows, each read by a tile of lanes.
pub(super) struct Rows<E, Op> {
    tile: RowTiles<E, Op, LOADS>,
    rows: DevicePtr<u8>,
    form: DistanceForm,
    terms: DevicePtr<f32>,
    term_weight: f32,
    alpha_offset: f32,
}

/// A row that others are compared with.
pub(super) struct Row {
    row: DevicePtr<u8>,
    /// This lane's units, if they are few.
    units: QueryUnits,
    term: f32,
}

impl<E: Packed, Op: DistanceOp> Rows<E, Op> {
    #[inline(always)]
    fn row(&self, slot: u32) -> DevicePtr<u8> {
        self.rows.add(slot as usize * self.tile.row_bytes())
    }

    /// The term of a row; an arbitrary value if the form needs none.
    ///
    /// # Safety
    /// The same as for [`PairDistances::reference`].
    #[inline(always)]
    unsafe fn term(&self, slot: u32) -> f32 {
        if !self.form.needs_terms() {
            return 0.0;
        }
        // SAFETY: this form has a term for each row.
        unsafe { global::load_readonly(self.terms.at(slot as usize)) }
    }
}

impl<E: Packed, Op: DistanceOp> PairDistances for Rows<E, Op> {
    type Reference = Row;

    #[inline(always)]
    fn per_warp(&self) -> u32 {
        (WARP_SIZE >> self.tile.shape.log2_width) * self.tile.shape.rows_in_flight
    }

    #[inline(always)]
    unsafe fn new(graph: &GraphArgs, form: DistanceForm, owner: u32) -> Self {
        let GraphArgs { vectors: rows, terms, origins, shape, .. } = *graph;
        let (term_weight, alpha_offset) = match form {
            DistanceForm::NegatedDotFromOrigin => {
                // SAFETY: this form has a term for each vertex.
                let term = unsafe { global::load_readonly(terms.at(owner as usize)) };
                (origins.term_weight(term), origins.alpha_offset(term))
            }
            _ => (0.0, 0.0),
        };
        Self { tile: RowTiles::new(shape), rows, form, terms, term_weight, alpha_offset }
    }

    #[inline(always)]
    fn alpha_offset(&self) -> f32 {
        self.alpha_offset
    }

    /// Lane `r` of a tile has row `r` of the tile.
    #[inline(always)]
    fn vertex_index(&self) -> u32 {
        let ((tile, lane), rows) = (self.tile.tile_and_lane(), self.tile.shape.rows_in_flight);
        if lane < rows { tile * rows + lane } else { self.per_warp() }
    }

    #[inline(always)]
    unsafe fn reference(&self, slot: u32) -> Self::Reference {
        let row = self.row(slot);
        // SAFETY: upheld by the caller.
        unsafe { Row { row, units: self.tile.load_if_in_registers(row), term: self.term(slot) } }
    }

    #[inline(always)]
    unsafe fn distance(&self, reference: &Self::Reference, slot: u32) -> f32 {
        let unit = |i: u32| {
            if self.tile.shape.query_in_registers() {
                return RowTiles::<E, Op, LOADS>::query_unit(&reference.units, i);
            }
            // SAFETY: the address is within the row.
            self.tile.zero_past_end(unsafe { load_unit(reference.row.at(self.tile.offset(i) as usize)) }, i)
        };
        // SAFETY: upheld by the caller; the lanes of a tile begin with those that have its vertices.
        unsafe {
            let first_lane = self.tile.tile_and_lane().0 << self.tile.shape.log2_width;
            let row = |r: u32| {
                let slot = warp::shuffle(slot, first_lane + r);
                self.row(slot)
            };
            let sum = self.tile.sums(row, unit, 0, E::ZERO);
            self.form.distance(E::to_f32(sum), [reference.term, self.term(slot)], self.term_weight)
        }
    }
}
