//! Distances of one vertex to others, several per warp.
//!
//! Arrays stand for registers: loops over them use indices, and are fully unrolled.

#![expect(clippy::needless_range_loop, reason = "an iterator over an array keeps it in memory on the device")]

use cuda_std::prelude::*;

use crate::DevicePtr;
use crate::coordinates::{Coordinates, Term};
use crate::graph::{DistanceForm, GraphArgs};
use crate::tile::{Tile, Unit, load_unit};

/// The distances between vertices.
pub(super) trait PairDistances: Sized {
    /// The vertex that others are compared with, in registers.
    type Reference;
    /// Vertices that a warp scores per call.
    const PER_WARP: u32;

    /// The distances of `form` between the vertices of `graph`.
    fn new(graph: &GraphArgs, form: DistanceForm) -> Self;

    /// Which of the vertices of a call is this lane's; [`Self::PER_WARP`] for a lane that has none. Ascends with the
    /// lane.
    fn lane_vertex() -> u32;

    /// Loads the vertex `id`.
    ///
    /// # Safety
    /// There is such a vertex, and its row is not written during the launch.
    unsafe fn reference(&self, id: u32) -> Self::Reference;

    /// The distance of `reference` from the vertex `id` of each lane that has [one](Self::lane_vertex).
    ///
    /// # Safety
    /// Whole warp. Every id names a vertex, whose row is not written during the launch.
    unsafe fn distance(&self, reference: &Self::Reference, id: u32) -> f32;
}

/// Rows, each read by a tile of lanes.
pub(super) struct Rows<E, T, const WIDTH: u32, const UNITS: u32, const STEPS: usize, const ROWS: usize> {
    tile: Tile<E, T, WIDTH, UNITS, STEPS, ROWS>,
    rows: DevicePtr<u8>,
    form: DistanceForm,
    squared_norms: DevicePtr<f32>,
}

/// A row that others are compared with.
pub(super) struct Row<const STEPS: usize> {
    row: DevicePtr<u8>,
    /// This lane's units, if they are few.
    own: [Unit; STEPS],
    squared_norm: f32,
}

impl<E, T, const WIDTH: u32, const UNITS: u32, const STEPS: usize, const ROWS: usize>
    Rows<E, T, WIDTH, UNITS, STEPS, ROWS>
where
    E: Coordinates,
    T: Term,
{
    #[inline(always)]
    fn row(&self, id: u32) -> DevicePtr<u8> {
        self.rows.add(id as usize * self.tile.row_bytes())
    }

    /// The squared length of a row; anything where the form needs none.
    ///
    /// # Safety
    /// As for [`PairDistances::reference`].
    #[inline(always)]
    unsafe fn squared_norm(&self, id: u32) -> f32 {
        match self.form {
            // SAFETY: this form has a squared norm for each row.
            DistanceForm::Cosine => unsafe { global::load_readonly(self.squared_norms.at(id as usize)) },
            DistanceForm::SquaredL2 | DistanceForm::HalfSquaredL2 | DistanceForm::NegatedDot => 0.0,
        }
    }
}

impl<E, T, const WIDTH: u32, const UNITS: u32, const STEPS: usize, const ROWS: usize> PairDistances
    for Rows<E, T, WIDTH, UNITS, STEPS, ROWS>
where
    E: Coordinates,
    T: Term,
{
    type Reference = Row<STEPS>;
    const PER_WARP: u32 = warp::WARP_SIZE / WIDTH * ROWS as u32;

    #[inline(always)]
    fn new(graph: &GraphArgs, form: DistanceForm) -> Self {
        Self { tile: Tile::new(graph.row_bytes), rows: graph.rows, form, squared_norms: graph.squared_norms }
    }

    /// Lane `r` of a tile has row `r` of the tile.
    #[inline(always)]
    fn lane_vertex() -> u32 {
        let (tile, lane) = (warp::lane_id() / WIDTH, warp::lane_id() % WIDTH);
        if lane < ROWS as u32 { tile * ROWS as u32 + lane } else { Self::PER_WARP }
    }

    #[inline(always)]
    unsafe fn reference(&self, id: u32) -> Self::Reference {
        let row = self.row(id);
        // SAFETY: the caller's promise.
        unsafe { Row { row, own: self.tile.load_if_in_registers(row), squared_norm: self.squared_norm(id) } }
    }

    #[inline(always)]
    unsafe fn distance(&self, reference: &Self::Reference, id: u32) -> f32 {
        let (tile, own) = (warp::lane_id() / WIDTH, warp::lane_id() % WIDTH);
        let unit = |step: u32| {
            if Tile::<E, T, WIDTH, UNITS, STEPS, ROWS>::IN_REGISTERS {
                return reference.own[step as usize];
            }
            // SAFETY: within the row.
            self.tile
                .zero_past_end(unsafe { load_unit(reference.row.at(self.tile.offset(step) as usize)) }, step)
        };
        // SAFETY: the caller's promises.
        unsafe {
            let mut rows = [self.rows; ROWS];
            for r in 0..ROWS {
                let (id, _) =
                    warp::warp_shuffle_idx(warp::FULL_MASK, id, tile * WIDTH + r as u32, warp::WARP_SIZE);
                rows[r] = self.row(id);
            }
            let sums = self.tile.sums(rows, unit);
            let mut sum = E::ZERO;
            for r in 0..ROWS {
                if own == r as u32 {
                    sum = sums[r];
                }
            }
            let norms = [reference.squared_norm, self.squared_norm(id)];
            self.form.distance(E::to_f32(sum), norms)
        }
    }
}
