//! Selects the kernel of a search, and its grid.

use std::borrow::Cow;

use jasper_core::ElementKind;

use super::quantized::{lane_per_row_query_bytes, quantized_searches, tile_per_row_query_bytes};
use super::variant::{MAX_CODE_TEAM, MAX_ROW_TEAM, Variant};
use super::{QuantizedSearchArgs, SearchArgs};
use crate::codes::{CodeShape, PlaneShape};
use crate::graph::DistanceOpKind;
use crate::row_kind::RowKind;
use crate::{Kernel, LaunchConfig, Specialization};

/// Minimum resident blocks per multiprocessor (`.minnctapersm`) at which `ptxas` does not spill: 1 for teams, else a
/// multiple of four, more where fewer loads are in flight. f16 and SQ4 take more registers than other elements, because
/// they are unpacked; rows that are not in flight as a whole also take more.
fn min_blocks(kind: RowKind, variant: Variant) -> u32 {
    let shape = kind.shape;
    let (is_packed, loads) =
        (kind.element == ElementKind::F16 || kind.is_sq4, shape.units_in_flight * shape.rows_in_flight);
    match shape.units {
        _ if variant.warps() > 1 => 1,
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
    pub(crate) variant: Variant,
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
        let kind = RowKind::new(element, op, row_bytes);
        Self { kind, variant: Variant::for_frontier(frontier_len, warps, MAX_ROW_TEAM) }
    }

    /// As [`Self::for_rows`] with one warp, for SQ4 vectors: rows of signed 4-bit integers.
    ///
    /// # Panics
    /// The same as for [`Self::for_rows`].
    pub fn for_sq4(op: DistanceOpKind, row_bytes: u32, frontier_len: u32) -> Self {
        let kind = RowKind::all_sq4(row_bytes).find(|kind| kind.op == op).expect("there is a kind for each");
        Self { kind, variant: Variant::for_frontier(frontier_len, 1, MAX_ROW_TEAM) }
    }

    /// Every kernel of the family, for rows of `row_bytes`.
    pub fn all(row_bytes: u32) -> impl Iterator<Item = Self> {
        let variants = Variant::all(MAX_ROW_TEAM);
        RowKind::all(row_bytes)
            .flat_map(move |kind| variants.clone().map(move |variant| Self { kind, variant }))
    }

    /// Every kernel for SQ4 vectors, for rows of `row_bytes`.
    pub fn all_sq4(row_bytes: u32) -> impl Iterator<Item = Self> {
        RowKind::all_sq4(row_bytes)
            .flat_map(|kind| Variant::ONE_WARP.into_iter().map(move |variant| Self { kind, variant }))
    }
}

// SAFETY: the entry points take these arguments, and the grid covers them.
unsafe impl Kernel for Search {
    type Args = SearchArgs;

    fn entry_point(&self) -> Cow<'static, str> {
        format!("search_{}_{}", self.kind.name, self.variant.name()).into()
    }

    /// # Panics
    /// Panics if an argument is out of bounds, or rows have another shape than this kernel is for.
    fn launch_config(&self, args: &SearchArgs) -> LaunchConfig {
        self.kind.check(args.graph.shape);
        self.variant.launch_config(args, args.graph.shape.query_bytes())
    }

    fn specialization(&self) -> Option<Specialization> {
        let min_blocks = min_blocks(self.kind, self.variant);
        Some(Specialization::new(self.kind.shape.constants(), min_blocks))
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(SearchArgs) {
        super::kernels::exact_body(self.kind.name, self.variant)
    }
}

/// How lanes read codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ReadMode {
    /// One lane per code. Holds the length of a code in units of 16 bytes.
    LanePerRow(u32),
    /// A tile of lanes per code, for codes of any length. Holds the lanes per tile.
    TilePerRow(u32),
}

macro_rules! read_modes {
    ($($mode:ident $size:literal $name:ident $min_blocks:tt;)*) => {
        [$((ReadMode::$mode($size), stringify!($name))),*]
    };
}

/// The modes that quantized searches are compiled for, each with its infix of the kernel name.
const READ_MODES: &[(ReadMode, &str)] = &quantized_searches!(read_modes);

/// Codes of up to this many bytes are read by four lanes, with one or two loads each.
const FOUR_LANES_BYTES: u32 = 160;

impl ReadMode {
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
    name: &'static str,
    pub(crate) variant: Variant,
}

impl QuantizedSearch {
    /// The kernel for codes of this shape, queries of `level_bytes`, and frontiers of `frontier_len` entries. `warps`
    /// is the number of warps per query: below 8 it means 1, and from 8 on a team of 8.
    ///
    /// # Panics
    /// Panics if the frontier is longer than [`MAX_BEAM_WIDTH`](super::MAX_BEAM_WIDTH).
    pub fn for_codes(shape: &CodeShape, level_bytes: u32, frontier_len: u32, warps: u32) -> Self {
        let lanes = if shape.row_bytes() <= FOUR_LANES_BYTES { 4 } else { 8 };
        let fits = |mode: ReadMode| match mode {
            ReadMode::LanePerRow(_) => mode.takes(shape, level_bytes),
            ReadMode::TilePerRow(width) => width == lanes,
        };
        let (mode, name) =
            *READ_MODES.iter().find(|(mode, _)| fits(*mode)).expect("tiles of 4 and 8 lanes exist");
        Self { mode, name, variant: Variant::for_frontier(frontier_len, warps, MAX_CODE_TEAM) }
    }

    /// Every kernel of the family.
    pub fn all() -> impl Iterator<Item = Self> {
        READ_MODES.iter().flat_map(|&(mode, name)| {
            Variant::all(MAX_CODE_TEAM).map(move |variant| Self { mode, name, variant })
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

    fn entry_point(&self) -> Cow<'static, str> {
        format!("search_{}_{}", self.name, self.variant.name()).into()
    }

    /// # Panics
    /// Panics if an argument is out of bounds, or this kernel is not for codes of this shape.
    fn launch_config(&self, args: &QuantizedSearchArgs) -> LaunchConfig {
        let codes = &args.codes;
        assert!(self.takes(&codes.shape, codes.level_bytes), "{} for {:?}", self.entry_point(), codes.shape);
        let query = match self.mode {
            ReadMode::LanePerRow(_) => lane_per_row_query_bytes(codes),
            ReadMode::TilePerRow(_) => tile_per_row_query_bytes(codes),
        };
        self.variant.launch_config(&args.search, query)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(QuantizedSearchArgs) {
        super::kernels::quantized_body(self.name, self.variant)
    }
}
