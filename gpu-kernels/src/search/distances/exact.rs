//! Exact distances: a tile of lanes reads a row, with as many rows in flight as registers allow.

use cuda_std::prelude::*;

use super::super::SearchArgs;
use super::{DistanceComputer, query_row};
use crate::DevicePtr;
use crate::WARP_SIZE;
use crate::collectives::strided;
use crate::element::{DistanceOp, Packed};
use crate::graph::{DistanceForm, GraphArgs};
use crate::neighbor::{NO_ENTRY, entry};
use crate::tile::{QueryUnits, RowTiles, Unit};

/// Bytes per cache line.
const LINE: usize = 128;

/// The computer of exact distances. `LOADS` is that of [`RowTiles`].
pub(in crate::search) struct Exact<E, Op, const LOADS: usize> {
    tile: RowTiles<E, Op, LOADS>,
    /// This lane's units of the query, if it stays in registers.
    query_units: QueryUnits,
    /// The whole query, if it does not stay in registers.
    query: Shared<u8>,
    rows: DevicePtr<u8>,
    form: DistanceForm,
    terms: DevicePtr<f32>,
    /// The term of the query, and the weight of terms.
    term: f32,
    term_weight: f32,
}

impl<E: Packed, Op: DistanceOp, const LOADS: usize> DistanceComputer for Exact<E, Op, LOADS> {
    type Args = SearchArgs;
    type Fetched = ();

    #[inline(always)]
    fn query_bytes(args: &SearchArgs) -> u32 {
        args.graph.shape.query_bytes()
    }

    #[inline(always)]
    unsafe fn new(args: &SearchArgs, query: u32, memory: Shared<u8>, thread: u32, threads: u32) -> Self {
        let tile = RowTiles::new(args.graph.shape);
        // SAFETY: reads are within the query, and as many bytes are written.
        unsafe {
            let query_row = query_row(args, query);
            let query = args.queries.add(query_row * tile.row_bytes());
            let query_units = tile.load_if_in_registers(query);
            let row_bytes = tile.row_bytes() as u32;
            if !tile.shape.query_in_registers() {
                strided(thread * 16, row_bytes, threads * 16, |byte| {
                    let unit: Unit = global::load_readonly(query.at(byte as usize).cast());
                    memory.byte_add(byte).cast().store(unit);
                });
            }
            let term = match args.form {
                DistanceForm::Cosine => squared_norm::<E>(query, row_bytes),
                // The query is a vertex.
                DistanceForm::NegatedDotFromOrigin => global::load_readonly(args.graph.terms.at(query_row)),
                DistanceForm::SquaredL2 | DistanceForm::HalfSquaredL2 | DistanceForm::NegatedDot => 0.0,
            };
            let GraphArgs { vectors, terms, origins, .. } = args.graph;
            Self {
                tile,
                query_units,
                query: memory,
                rows: vectors,
                form: args.form,
                terms,
                term,
                term_weight: origins.term_weight(term),
            }
        }
    }

    /// Does nothing: the loads of [`DistanceComputer::entries`] take all registers.
    #[inline(always)]
    unsafe fn fetch(&self, _: Shared<u32>, _: u32) {}

    /// Prefetches the cache lines of all rows but those that are loaded first.
    #[inline(always)]
    unsafe fn prefetch(&self, slots: Shared<u32>, count: u32) {
        let row_bytes = self.tile.row_bytes();
        let lines = row_bytes.div_ceil(LINE) as u32;
        let shape = &self.tile.shape;
        let first = if shape.fits_in_flight() { shape.rows_in_flight } else { 0 };
        let begin = first * self.tiles() * lines + warp::lane_id();
        // SAFETY: line / lines < count, and slots name rows; the address is that of a line of the row.
        strided(begin, count * lines, WARP_SIZE, |line| unsafe {
            let row = self.rows.add(slots.add(line / lines).load() as usize * row_bytes);
            global::prefetch_l2(row.at((line % lines) as usize * LINE));
        });
    }

    #[inline(always)]
    unsafe fn entries(&self, (): (), slots: Shared<u32>, count: u32) -> u64 {
        let (tile, lane_in_tile) = self.tile.tile_and_lane();
        let (tiles, row_bytes) = (self.tiles(), self.tile.row_bytes());
        // With T tiles, tile t takes slots t, t + T, t + 2 T, and so on. Lane i of a tile keeps the sum of the tile's
        // i-th slot.
        let mut sum = E::ZERO;
        // SAFETY: rows have the length of the shape, and slots name rows, which have terms if the form needs them; the
        // warp is converged at every sum.
        unsafe {
            let mut first = 0;
            while first * tiles < count {
                let row = |r: u32| {
                    let place = (first + r) * tiles + tile;
                    self.rows.add(slots.add(place.min(count - 1)).load() as usize * row_bytes)
                };
                sum = self.tile.sums(row, |i| self.unit(i), first, sum);
                first += self.tile.shape.rows_in_flight;
            }
            let place = lane_in_tile * tiles + tile;
            let slot = slots.add(place.min(count - 1)).load();
            let term = if self.form.needs_terms() {
                global::load_readonly(self.terms.at(slot as usize))
            } else {
                0.0
            };
            let distance = self.form.distance(E::to_f32(sum), [self.term, term], self.term_weight);
            if place < count { entry(distance, slot) } else { NO_ENTRY }
        }
    }
}

impl<E: Packed, Op: DistanceOp, const LOADS: usize> Exact<E, Op, LOADS> {
    /// Rows that a warp loads at once: the number of tiles.
    #[inline(always)]
    fn tiles(&self) -> u32 {
        WARP_SIZE >> self.tile.shape.log2_width
    }

    /// Unit `i` of this lane of the query.
    ///
    /// # Safety
    /// A barrier has passed since the query was read.
    #[inline(always)]
    unsafe fn unit(&self, i: u32) -> Unit {
        if self.tile.shape.query_in_registers() {
            return RowTiles::<E, Op, LOADS>::query_unit(&self.query_units, i);
        }
        // SAFETY: the offset is within the query.
        self.tile.zero_past_end(unsafe { self.query.byte_add(self.tile.offset(i)).cast().load() }, i)
    }
}

/// The squared length of a row.
///
/// # Safety
/// All 32 lanes of the warp call this together. The row is that long, in global memory that is not written during the
/// launch.
#[inline(always)]
unsafe fn squared_norm<E: Packed>(row: DevicePtr<u8>, row_bytes: u32) -> f32 {
    let mut sum = E::ZERO;
    strided(warp::lane_id() * 4, row_bytes, WARP_SIZE * 4, |byte| {
        // SAFETY: the word is within the row.
        let word = unsafe { global::load_readonly(row.at(byte as usize).cast::<u32>()) };
        sum = E::product(sum, word, word);
    });
    // SAFETY: the warp is converged here.
    E::to_f32(unsafe { warp::sum(sum, WARP_SIZE) })
}
