//! Quantized searches.

use std::borrow::Cow;

use super::super::QuantizedSearchArgs;
use super::super::quantized::{lane_per_row_query_bytes, tile_per_row_query_bytes};
use super::Kind;
use super::kind::CODE_TEAM;
use crate::codes::{CodeShape, PlaneShape};
use crate::{Kernel, Launch};

/// How lanes read codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reading {
    /// A lane per code, of 32, 64 or 80 bytes: the last is 4 bits per dimension for 128 dimensions, with factors.
    LanePerRow(u32),
    /// A tile of 4 or 8 lanes per code, of any length.
    TilePerRow(u32),
}

impl Reading {
    const ALL: [Self; 5] = [
        Self::LanePerRow(32),
        Self::LanePerRow(64),
        Self::LanePerRow(80),
        Self::TilePerRow(4),
        Self::TilePerRow(8),
    ];
    /// How many of them are for codes of one length.
    const LANE_PER_ROW: usize = 3;
    /// Codes of up to this many bytes are read by four lanes, with one or two loads each.
    const FOUR_LANES_BYTES: u32 = 160;

    /// Whether it can read codes of this shape for queries of `limbs`. A lane sums all planes of its code by shift alone.
    fn takes(self, shape: &CodeShape, limbs: u32) -> bool {
        let Self::LanePerRow(bytes) = self else { return true };
        let is_plain = |plane: PlaneShape| plane.shift == 0;
        let planes_are_plain = [shape.four, shape.two, shape.one].into_iter().all(is_plain);
        shape.row_bytes() == bytes && limbs == 1 && shape.eight.dimensions == 0 && planes_are_plain
    }
}

/// One kernel of the family. Arguments: [`QuantizedSearchArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantizedSearch {
    reading: Reading,
    kind: Kind,
}

impl QuantizedSearch {
    /// The kernel for codes of this shape, queries of `limbs`, and beams of `beam_width`. `warps` per query: 1, or a team of
    /// 8 from 8 on.
    ///
    /// # Panics
    /// If the beam is wider than [`MAX_BEAM_WIDTH`](super::super::MAX_BEAM_WIDTH).
    pub fn for_codes(shape: &CodeShape, limbs: u32, beam_width: u32, warps: u32) -> Self {
        let narrow = Reading::ALL[..Reading::LANE_PER_ROW].iter().find(|reading| reading.takes(shape, limbs));
        let lanes = if shape.row_bytes() <= Reading::FOUR_LANES_BYTES { 4 } else { 8 };
        let reading = narrow.copied().unwrap_or(Reading::TilePerRow(lanes));
        Self { reading, kind: Kind::for_beam(beam_width, warps, CODE_TEAM) }
    }

    /// Every kernel of the family.
    pub fn all() -> impl Iterator<Item = Self> {
        Reading::ALL
            .into_iter()
            .flat_map(|reading| Kind::all(CODE_TEAM).map(move |kind| Self { reading, kind }))
    }

    /// Whether it searches codes of this shape, for queries of so many limbs.
    pub fn takes(&self, shape: &CodeShape, limbs: u32) -> bool {
        self.reading.takes(shape, limbs)
    }

    /// The widest beam it takes.
    pub const fn max_entries(self) -> u32 {
        self.kind.max_entries()
    }

    /// Warps that take a query.
    pub const fn warps(self) -> u32 {
        self.kind.warps
    }
}

impl Kernel for QuantizedSearch {
    type Args = QuantizedSearchArgs;

    fn entry(&self) -> Cow<'static, str> {
        let reading = match self.reading {
            Reading::LanePerRow(bytes) => format!("b{bytes}"),
            Reading::TilePerRow(lanes) => format!("w{lanes}"),
        };
        format!("search_codes_{reading}{}", self.kind.name()).into()
    }

    /// # Panics
    /// If an argument is outside of its bounds, or this kernel is not for codes of this shape.
    fn launch(&self, args: &QuantizedSearchArgs) -> Launch {
        let codes = &args.codes;
        assert!(self.takes(&codes.shape, codes.limbs), "{} for {:?}", self.entry(), codes.shape);
        let query = match self.reading {
            Reading::LanePerRow(_) => lane_per_row_query_bytes(codes),
            Reading::TilePerRow(_) => tile_per_row_query_bytes(codes),
        };
        self.kind.launch(&args.search, query)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(QuantizedSearchArgs) {
        super::super::entries::quantized::body(&self.entry())
    }
}
