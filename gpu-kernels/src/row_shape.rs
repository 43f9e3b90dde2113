//! How the lanes of a warp share rows of one length.

/// Maximum number of steps of a row whose loads are in flight together.
const MAX_STEPS: u32 = 8;
/// Maximum number of units that a lane loads before it sums any: as many as registers have room for.
pub(crate) const MAX_LOADS: u32 = 16;
/// Maximum number of steps of a row that stays in registers.
pub(crate) const QUERY_STEPS: u32 = 4;

/// How the lanes of a warp share rows of one length. A *tile* of lanes reads a row in *steps*: in each step, every lane
/// of the tile loads one *unit* of 16 bytes.
///
/// A row of 400 bytes, for example, has 25 units. Its tiles are 8 lanes wide, so a warp has 4 tiles, and each reads its
/// row in 4 steps, the last of which loads 1 unit. Each tile has the 4 steps of 4 rows in flight, 16 loads per lane.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowShape {
    /// The length of a row in units of 16 bytes.
    pub(crate) units: u32,
    /// The base-2 logarithm of the lanes of a tile: 2 to 5. The width fixes the order of additions, and so the bits of
    /// a float distance.
    pub(crate) log2_width: u32,
    /// Steps of a row whose loads are in flight together.
    pub(crate) steps_in_flight: u32,
    /// Rows per tile whose loads are in flight together: 1 if a row takes several rounds of `steps`.
    pub(crate) rows_in_flight: u32,
}

impl RowShape {
    /// The shape for rows of `row_bytes`, a multiple of 16: the narrowest tile whose lanes read a row in six steps, and
    /// as many rows as there are registers for. Rows that no tile reads in eight steps are read in rounds of equal
    /// length.
    ///
    /// A narrow tile takes fewer shuffles per row, and wastes fewer loads at the end of a row.
    /// docs/src/experiments.md#rows-of-any-length has measurements for all lengths.
    pub const fn new(row_bytes: u32) -> Self {
        let units = row_bytes / 16;
        let log2_width = match units {
            ..=24 => 2,
            25..=48 => 3,
            49..=96 => 4,
            _ => 5,
        };
        let total = units.div_ceil(1 << log2_width);
        let rounds = total.div_ceil(MAX_STEPS);
        let steps = total.div_ceil(rounds);
        let mut rows = if rounds > 1 { 1 } else { 4 };
        while rows * steps > MAX_LOADS {
            rows /= 2;
        }
        Self { units, log2_width, steps_in_flight: steps, rows_in_flight: rows }
    }

    /// Lanes of a tile.
    pub(crate) const fn width(&self) -> u32 {
        1 << self.log2_width
    }

    /// Steps of a whole row.
    pub(crate) const fn total_steps(&self) -> u32 {
        (self.units + self.width() - 1) >> self.log2_width
    }

    /// Whether a row takes one round of steps.
    pub(crate) const fn is_one_round(&self) -> bool {
        self.total_steps() <= self.steps_in_flight
    }

    /// Whether the row that others are compared with (the query) stays in registers. A longer one would take the
    /// registers of loads.
    pub(crate) const fn query_in_registers(&self) -> bool {
        self.total_steps() <= QUERY_STEPS
    }

    /// Bytes of shared memory for the query; 0 if it stays in registers.
    pub(crate) const fn query_bytes(&self) -> u32 {
        if self.query_in_registers() { 0 } else { self.row_bytes() }
    }

    /// Bytes of a row.
    pub const fn row_bytes(&self) -> u32 {
        self.units * 16
    }

    /// The values of a kernel's constants 0 to 3.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) const fn constants(&self) -> [u32; 4] {
        [self.units, self.log2_width, self.steps_in_flight, self.rows_in_flight]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_covered_by_its_steps() {
        for units in 1..2000 {
            let shape = RowShape::new(16 * units);
            let rounds = shape.total_steps().div_ceil(shape.steps_in_flight);
            assert!(shape.width() * shape.steps_in_flight * rounds >= units, "{shape:?}");
            assert!(shape.width() * (shape.total_steps() - 1) < units, "{shape:?}");
            assert!(
                shape.steps_in_flight <= MAX_STEPS
                    && shape.steps_in_flight * shape.rows_in_flight <= MAX_LOADS,
                "{shape:?}"
            );
            assert!(
                shape.rows_in_flight <= shape.width(),
                "each row of a tile has a lane that keeps its sum"
            );
            assert!(shape.rows_in_flight == 1 || shape.is_one_round(), "{shape:?}");
        }
    }
}
