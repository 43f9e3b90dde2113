//! How the lanes of a warp share rows of one length.

/// Maximum number of units of a row that a lane has in flight.
const MAX_UNITS_IN_FLIGHT: u32 = 8;
/// Maximum number of units, of all its rows, that a lane has in flight: as many as registers have room for.
pub(crate) const MAX_LOADS: u32 = 16;
/// Maximum number of units of the query that a lane keeps in registers.
pub(crate) const QUERY_UNITS: u32 = 4;

/// How the lanes of a warp share rows of one length. A *unit* is 16 bytes, which a lane loads at once. A *tile* of
/// lanes shares a row: in a tile of 8 lanes, lane i has units i, i + 8, i + 16, and so on. Units are *in flight* while
/// they are loaded and not summed yet.
///
/// A row of 400 bytes, for example, has 25 units. Its tiles are 8 lanes wide, so a warp has 4 tiles, and each lane has
/// 4 units of a row; of the last 8 units of the tile only 1 exists. Each tile has 4 rows in flight, 16 units per lane.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowShape {
    /// The length of a row in units of 16 bytes.
    pub(crate) units: u32,
    /// The base-2 logarithm of the lanes of a tile: 2 to 5. The width fixes the order of additions, and so the bits of
    /// a float distance.
    pub(crate) log2_width: u32,
    /// Units of a row that each lane has in flight. A lane that has more reads them in groups of this size.
    pub(crate) units_in_flight: u32,
    /// Rows that each tile has in flight: 1 if a lane has more than `units_in_flight` units of a row.
    pub(crate) rows_in_flight: u32,
}

impl RowShape {
    /// The shape for rows of `row_bytes`, a multiple of 16: the narrowest tile whose lanes have at most six units each,
    /// and as many rows as there are registers for. Where even a lane of a whole warp has more than eight units, it
    /// reads them in groups of equal length.
    ///
    /// A narrow tile takes fewer shuffles per row, and wastes fewer loads at the end of a row.
    /// docs/notebook/experiments.md#rows-of-any-length has measurements for all lengths.
    pub const fn new(row_bytes: u32) -> Self {
        let units = row_bytes / 16;
        let log2_width = match units {
            ..=24 => 2,
            25..=48 => 3,
            49..=96 => 4,
            _ => 5,
        };
        let per_lane = units.div_ceil(1 << log2_width);
        let groups = per_lane.div_ceil(MAX_UNITS_IN_FLIGHT);
        let units_in_flight = per_lane.div_ceil(groups);
        let mut rows_in_flight = if groups > 1 { 1 } else { 4 };
        while rows_in_flight * units_in_flight > MAX_LOADS {
            rows_in_flight /= 2;
        }
        Self { units, log2_width, units_in_flight, rows_in_flight }
    }

    /// Lanes of a tile.
    pub(crate) const fn width(&self) -> u32 {
        1 << self.log2_width
    }

    /// Units of a row that each lane has, rounded up.
    pub(crate) const fn units_per_lane(&self) -> u32 {
        (self.units + self.width() - 1) >> self.log2_width
    }

    /// Whether all units of a row are in flight together.
    pub(crate) const fn fits_in_flight(&self) -> bool {
        self.units_per_lane() <= self.units_in_flight
    }

    /// Whether the row that others are compared with (the query) stays in registers. A longer one would leave too few
    /// registers for loads.
    pub(crate) const fn query_in_registers(&self) -> bool {
        self.units_per_lane() <= QUERY_UNITS
    }

    /// Bytes of shared memory for the query; 0 if it stays in registers.
    pub(crate) const fn query_bytes(&self) -> u32 {
        if self.query_in_registers() { 0 } else { self.row_bytes() }
    }

    /// Bytes of a row.
    pub const fn row_bytes(&self) -> u32 {
        self.units * 16
    }

    /// # Panics
    /// Panics if rows have another shape than this, which a kernel is specialized for.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) fn check(self, rows: Self) {
        assert_eq!(rows, self, "rows of another shape");
    }

    /// The values of a kernel's constants 0 to 3.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) const fn constants(&self) -> [u32; 4] {
        [self.units, self.log2_width, self.units_in_flight, self.rows_in_flight]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_covered_by_its_units() {
        for units in 1..2000 {
            let shape = RowShape::new(16 * units);
            let groups = shape.units_per_lane().div_ceil(shape.units_in_flight);
            assert!(shape.width() * shape.units_in_flight * groups >= units, "{shape:?}");
            assert!(shape.width() * (shape.units_per_lane() - 1) < units, "{shape:?}");
            assert!(
                shape.units_in_flight <= MAX_UNITS_IN_FLIGHT
                    && shape.units_in_flight * shape.rows_in_flight <= MAX_LOADS,
                "{shape:?}"
            );
            assert!(
                shape.rows_in_flight <= shape.width(),
                "each row of a tile has a lane that keeps its sum"
            );
            assert!(shape.rows_in_flight == 1 || shape.fits_in_flight(), "{shape:?}");
        }
    }
}
