//! How rows of one length are read: the lanes that share a row, and the loads that are in flight.

/// Lanes of a tile; the steps of a row, and the rows of a tile, that are in flight together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) width: u32,
    pub(crate) steps: usize,
    pub(crate) rows: usize,
}

/// The shape for rows of `row_bytes`, 0 for rows of any length. The width fixes the order of additions, and with it the
/// bits of a distance of floats: it follows from the length alone.
///
/// Rows of up to 512 bytes are one round of steps, with 8 to 12 loads in flight per lane; longer ones go in whole
/// rounds of up to 15 loads. Each entry is measured: see the book, GPU search.
pub(crate) const fn shape(row_bytes: u32) -> Shape {
    let (width, steps, rows) = match row_bytes {
        96 => (4, 2, 4),
        128 => (8, 1, 8),
        192 => (4, 3, 4),
        208 => (8, 2, 4),
        256 => (8, 2, 4),
        384 => (8, 3, 4),
        400 => (8, 4, 2),
        512 => (8, 4, 2),
        800 => (8, 7, 1),
        960 => (8, 8, 1),
        1536 => (8, 12, 1),
        1920 => (8, 15, 1),
        3072 => (32, 6, 2),
        3840 => (16, 5, 2),
        6144 => (32, 6, 2),
        _ => (8, 4, 2),
    };
    assert!(rows <= width as usize, "each row of a tile has a lane that finishes its sum");
    Shape { width, steps, rows }
}

/// The shape for searches whose frontier takes four registers per lane (beams of 65 to 128): four lanes share a row of
/// up to 192 bytes. Differs from [`shape`] for rows of 128 bytes alone, where it is 2 to 8% faster. These are bytes,
/// whose sums are exact in any order.
#[cfg(feature = "kernels")]
pub(crate) const fn shape_of_wide_beams(row_bytes: u32) -> Shape {
    match row_bytes {
        1..=192 => Shape { width: 4, steps: row_bytes.div_ceil(4 * 16) as usize, rows: 4 },
        _ => shape(row_bytes),
    }
}

/// Whether the row that others are compared with stays in registers: one round of at most four steps. Longer ones would
/// take the registers of loads in flight. Of `units`, 0 for rows of any length, in tiles of `width` lanes.
pub(crate) const fn stays_in_registers(units: u32, width: u32, steps: usize) -> bool {
    steps <= 4 && units != 0 && units.div_ceil(width) as usize == steps
}

/// Whether the query of a search over rows of `row_bytes` stays in registers.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const fn keeps_query(row_bytes: u32) -> bool {
    let Shape { width, steps, .. } = shape(row_bytes);
    stays_in_registers(row_bytes / 16, width, steps)
}
