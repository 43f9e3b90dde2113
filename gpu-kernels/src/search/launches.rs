//! Selects the kernel of a search, and its grid.

use jasper_core::ElementKind;

use super::kernels::{EXACT, QUANTIZED};
use super::quantized::{lane_per_row_query_bytes, tile_per_row_query_bytes};
use super::variant::{MAX_CODE_TEAM, MAX_ROW_TEAM, Variant};
use super::{QuantizedSearchArgs, SearchArgs};
use crate::codes::{CodeShape, PlaneShape};
use crate::graph::DistanceOpKind;
use crate::row_kind::RowKind;
use crate::{Entry, Kernel, LaunchConfig, RowShape, Specialization, entry};

/// Minimum resident blocks per multiprocessor (`.minnctapersm`) at which `ptxas` does not spill: 1 for teams, else a
/// multiple of four, more where fewer loads are in flight. f16 and SQ4 take more registers than other elements, because
/// they are unpacked; rows that are not in flight as a whole also take more.
fn min_blocks(kind: RowKind, shape: RowShape, variant: Variant) -> u32 {
    let (is_packed, loads) =
        (kind.element == ElementKind::F16 || kind.is_sq4, shape.units_in_flight * shape.rows_in_flight);
    match shape.units {
        _ if variant == Variant::Team => 1,
        ..=8 if !is_packed => 24,
        ..=8 => 20,
        9..=12 if !is_packed => 20,
        _ if is_packed && loads > 12 && (kind.is_sq4 || variant != Variant::OneRegister) => 12,
        _ if !shape.fits_in_flight() && variant.has_wide_frontier() => 12,
        _ => 16,
    }
}

/// A search by exact distances. Arguments: [`SearchArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Search {
    pub(crate) kind: RowKind,
    pub(crate) shape: RowShape,
    pub(crate) variant: Variant,
    pub(crate) warps: u32,
}

impl Search {
    /// The kernel for rows of `row_bytes` and frontiers of `frontier_len` entries. `warps` is the number of warps
    /// per query: a team of 8 to 16, or 1; 2 to 7 mean 1.
    ///
    /// # Panics
    /// Panics if the frontier is longer than [`MAX_BEAM_WIDTH`](super::MAX_BEAM_WIDTH).
    pub fn for_rows(
        element: ElementKind,
        op: DistanceOpKind,
        row_bytes: u32,
        frontier_len: u32,
        warps: u32,
    ) -> Self {
        Self::new(
            RowKind::new(element, op),
            row_bytes,
            Variant::for_frontier(frontier_len, warps, MAX_ROW_TEAM),
        )
    }

    /// As [`Self::for_rows`] with one warp, for SQ4 vectors: rows of signed 4-bit integers.
    ///
    /// # Panics
    /// The same as for [`Self::for_rows`].
    pub fn for_sq4(op: DistanceOpKind, row_bytes: u32, frontier_len: u32) -> Self {
        Self::new(RowKind::sq4(op), row_bytes, Variant::for_frontier(frontier_len, 1, MAX_ROW_TEAM))
    }

    /// Every kernel of the family, for rows of `row_bytes`.
    pub fn all(row_bytes: u32) -> impl Iterator<Item = Self> {
        let kernels =
            move |kind| Variant::all(MAX_ROW_TEAM).map(move |variant| Self::new(kind, row_bytes, variant));
        RowKind::ALL.into_iter().flat_map(kernels)
    }

    /// Every kernel for SQ4 vectors, for rows of `row_bytes`.
    pub fn all_sq4(row_bytes: u32) -> impl Iterator<Item = Self> {
        let kernels =
            move |kind| Variant::ONE_WARP.map(move |variant| Self::new(kind, row_bytes, (variant, 1)));
        RowKind::ALL_SQ4.into_iter().flat_map(kernels)
    }

    fn new(kind: RowKind, row_bytes: u32, (variant, warps): (Variant, u32)) -> Self {
        Self { kind, shape: RowShape::new(row_bytes), variant, warps }
    }
}

// SAFETY: the entry points take these arguments, and the grid covers them.
unsafe impl Kernel for Search {
    type Args = SearchArgs;

    fn entry(&self) -> Entry<SearchArgs> {
        entry::find(EXACT, &(self.kind, self.variant))
    }

    /// # Panics
    /// Panics if an argument is out of bounds, or rows have another shape than this kernel is for.
    fn launch_config(&self, args: &SearchArgs) -> LaunchConfig {
        self.shape.check(args.graph.shape);
        self.variant.launch_config(self.warps, args, self.shape.query_bytes())
    }

    fn specialization(&self) -> Option<Specialization> {
        let min_blocks = min_blocks(self.kind, self.shape, self.variant);
        Some(Specialization::new(self.shape.constants(), min_blocks))
    }
}

/// How lanes read codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ReadMode {
    /// One lane per code. Holds the length of a code in units of 16 bytes.
    LanePerRow(u32),
    /// A tile of lanes per code, for codes of any length. Holds the lanes per tile.
    TilePerRow(u32),
}

/// Codes of up to this many bytes are read by four lanes, with one or two loads each.
const FOUR_LANES_BYTES: u32 = 160;

impl ReadMode {
    /// Every mode, the fastest first.
    const ALL: [Self; 5] = [
        Self::LanePerRow(2),
        Self::LanePerRow(4),
        Self::LanePerRow(5),
        Self::TilePerRow(4),
        Self::TilePerRow(8),
    ];

    /// Whether this mode can read codes of this shape for queries of `level_bytes`. [`Self::LanePerRow`] requires a
    /// [`PlaneShape::shift`] of 0: a lane weighs bits by their place in a word alone.
    fn takes(self, shape: &CodeShape, level_bytes: u32) -> bool {
        let Self::LanePerRow(units) = self else { return true };
        let is_plain = |plane: PlaneShape| plane.shift == 0;
        let planes_are_plain = [shape.four, shape.two, shape.one].into_iter().all(is_plain);
        shape.row_bytes() == units * 16 && level_bytes == 1 && shape.eight.dimensions == 0 && planes_are_plain
    }
}

/// A quantized search. Arguments: [`QuantizedSearchArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantizedSearch {
    mode: ReadMode,
    pub(crate) variant: Variant,
    pub(crate) warps: u32,
}

impl QuantizedSearch {
    /// The kernel for codes of this shape, queries of `level_bytes`, and frontiers of `frontier_len` entries. `warps`
    /// is the number of warps per query: below 8 it means 1, and from 8 on a team of 8.
    ///
    /// # Panics
    /// Panics if the frontier is longer than [`MAX_BEAM_WIDTH`](super::MAX_BEAM_WIDTH).
    pub fn for_codes(shape: &CodeShape, level_bytes: u32, frontier_len: u32, warps: u32) -> Self {
        let lanes = if shape.row_bytes() <= FOUR_LANES_BYTES { 4 } else { 8 };
        let fits = |mode: &ReadMode| match *mode {
            ReadMode::LanePerRow(_) => mode.takes(shape, level_bytes),
            ReadMode::TilePerRow(width) => width == lanes,
        };
        let mode = ReadMode::ALL.into_iter().find(fits).expect("tiles of 4 and 8 lanes exist");
        let (variant, warps) = Variant::for_frontier(frontier_len, warps, MAX_CODE_TEAM);
        Self { mode, variant, warps }
    }

    /// Every kernel of the family.
    pub fn all() -> impl Iterator<Item = Self> {
        ReadMode::ALL.into_iter().flat_map(|mode| {
            Variant::all(MAX_CODE_TEAM).map(move |(variant, warps)| Self { mode, variant, warps })
        })
    }

    /// Whether this kernel searches codes of this shape for queries of `level_bytes`.
    pub fn takes(&self, shape: &CodeShape, level_bytes: u32) -> bool {
        self.mode.takes(shape, level_bytes)
    }
}

// SAFETY: the entry points take these arguments, and the grid covers them.
unsafe impl Kernel for QuantizedSearch {
    type Args = QuantizedSearchArgs;

    fn entry(&self) -> Entry<QuantizedSearchArgs> {
        entry::find(QUANTIZED, &(self.mode, self.variant))
    }

    /// # Panics
    /// Panics if an argument is out of bounds, or this kernel is not for codes of this shape.
    fn launch_config(&self, args: &QuantizedSearchArgs) -> LaunchConfig {
        let codes = &args.codes;
        assert!(self.takes(&codes.shape, codes.level_bytes), "{:?} for {:?}", self.mode, codes.shape);
        let query = match self.mode {
            ReadMode::LanePerRow(_) => lane_per_row_query_bytes(codes),
            ReadMode::TilePerRow(_) => tile_per_row_query_bytes(codes),
        };
        self.variant.launch_config(self.warps, &args.search, query)
    }
}
