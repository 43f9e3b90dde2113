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

    /// The distances of `form` between the vertices of `graph`.
    fn new(graph: &GraphArgs, form: DistanceForm) -> Self;

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
    squared_norms: DevicePtr<f32>,
}

/// A row that others are compared with.
pub(super) struct Row {
    row: DevicePtr<u8>,
    /// This lane's units, if they are few.
    units: QueryUnits,
    squared_norm: f32,
}

impl<E: Packed, Op: DistanceOp> Rows<E, Op> {
    #[inline(always)]
    fn row(&self, slot: u32) -> DevicePtr<u8> {
        self.rows.add(slot as usize * self.tile.row_bytes())
    }

    /// The squared length of a row; an arbitrary value if the form needs none.
    ///
    /// # Safety
    /// The same as for [`PairDistances::reference`].
    #[inline(always)]
    unsafe fn squared_norm(&self, slot: u32) -> f32 {
        match self.form {
            // SAFETY: this form has a squared norm for each row.
            DistanceForm::Cosine => unsafe { global::load_readonly(self.squared_norms.at(slot as usize)) },
            DistanceForm::SquaredL2 | DistanceForm::HalfSquaredL2 | DistanceForm::NegatedDot => 0.0,
        }
    }
}

impl<E: Packed, Op: DistanceOp> PairDistances for Rows<E, Op> {
    type Reference = Row;

    #[inline(always)]
    fn per_warp(&self) -> u32 {
        (WARP_SIZE >> self.tile.shape.log2_width) * self.tile.shape.rows_in_flight
    }

    #[inline(always)]
    fn new(graph: &GraphArgs, form: DistanceForm) -> Self {
        Self {
            tile: RowTiles::new(graph.shape),
            rows: graph.vectors,
            form,
            squared_norms: graph.squared_norms,
        }
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
        unsafe {
            Row { row, units: self.tile.load_if_in_registers(row), squared_norm: self.squared_norm(slot) }
        }
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
            let norms = [reference.squared_norm, self.squared_norm(slot)];
            self.form.distance(E::to_f32(sum), norms)
        }
    }
}
