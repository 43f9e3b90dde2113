//! Which kernel of the family, and its grid.

use std::borrow::Cow;

use jasper_core::ElementKind;

use super::layout::{Layout, Needs};
use super::shape::keeps_query;
use super::{MAX_BEAM_WIDTH, SearchArgs};
use crate::distances::Measure;
use crate::{Kernel, Launch};

/// Lanes of a warp.
const WARP: u32 = 32;

/// Where the frontier is, by the widest beam that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum List {
    /// One register a lane: up to 32 entries.
    One,
    /// Two registers a lane: up to 64 entries.
    Two,
    /// Four registers a lane: up to 128 entries.
    Four,
    /// Shared memory: up to [`MAX_BEAM_WIDTH`] entries.
    Wide,
}

impl List {
    const ALL: [Self; 4] = [Self::One, Self::Two, Self::Four, Self::Wide];

    const fn most_entries(self) -> u32 {
        match self {
            Self::One => WARP,
            Self::Two => 2 * WARP,
            Self::Four => 4 * WARP,
            Self::Wide => MAX_BEAM_WIDTH,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::One => "r1",
            Self::Two => "r2",
            Self::Four => "r4",
            Self::Wide => "wide",
        }
    }
}

/// Rows that have kernels of their own: bytes of dimension 128, halves of dimension 96, 200, 960 and 1536, floats of
/// dimension 96, 128, 200, 960 and 1536. A known length takes no tests of where the row ends, and is read in the shape
/// that suits it.
const SPECIALIZED: [(ElementKind, Measure, u32); 11] = [
    (ElementKind::U8, Measure::SquaredL2, 128),
    (ElementKind::F16, Measure::SquaredL2, 192),
    (ElementKind::F16, Measure::SquaredL2, 1920),
    (ElementKind::F16, Measure::SquaredL2, 3072),
    (ElementKind::F16, Measure::Dot, 400),
    (ElementKind::F32, Measure::SquaredL2, 384),
    (ElementKind::F32, Measure::SquaredL2, 512),
    (ElementKind::F32, Measure::SquaredL2, 3840),
    (ElementKind::F32, Measure::SquaredL2, 6144),
    (ElementKind::F32, Measure::Dot, 512),
    (ElementKind::F32, Measure::Dot, 800),
];

/// Warps of the teams that are more than one.
const TEAM: u32 = 8;

/// One kernel of the family. Arguments: [`SearchArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Search {
    element: ElementKind,
    measure: Measure,
    row_bytes: Option<u32>,
    list: List,
    warps: u32,
}

impl Search {
    /// The kernel for rows of `row_bytes` and beams of `beam_width`: the specialised one, if there is one, and the
    /// narrowest list. `warps` is how many take a query: those of the largest team that is not larger, 1 or 8.
    ///
    /// # Panics
    /// If the beam is wider than [`MAX_BEAM_WIDTH`].
    pub fn for_rows(
        element: ElementKind,
        measure: Measure,
        row_bytes: u32,
        beam_width: u32,
        warps: u32,
    ) -> Self {
        let known = SPECIALIZED.contains(&(element, measure, row_bytes));
        let list = List::ALL
            .into_iter()
            .find(|list| beam_width <= list.most_entries() && (warps < TEAM || *list >= List::Four));
        let list =
            list.unwrap_or_else(|| panic!("beam_width ({beam_width}) must be at most {MAX_BEAM_WIDTH}"));
        let warps = if warps < TEAM { 1 } else { TEAM };
        Self { element, measure, row_bytes: known.then_some(row_bytes), list, warps }
    }

    /// The kernel whose frontier is in shared memory, whatever the beam width: to compare with.
    #[must_use]
    pub const fn in_shared_memory(self) -> Self {
        Self { list: List::Wide, ..self }
    }

    /// Every kernel of the family.
    pub fn all() -> impl Iterator<Item = Self> {
        let any = ElementKind::ALL
            .into_iter()
            .flat_map(|element| Measure::ALL.map(|measure| (element, measure, None)));
        let known = SPECIALIZED.map(|(element, measure, row_bytes)| (element, measure, Some(row_bytes)));
        any.chain(known).flat_map(|(element, measure, row_bytes)| {
            let solo = List::ALL.map(|list| (list, 1));
            let teams = [(List::Four, TEAM), (List::Wide, TEAM)];
            solo.into_iter().chain(teams).map(move |(list, warps)| Self {
                element,
                measure,
                row_bytes,
                list,
                warps,
            })
        })
    }

    /// The element that rows hold.
    pub const fn element(self) -> ElementKind {
        self.element
    }

    /// What is summed up over a pair of vectors.
    pub const fn measure(self) -> Measure {
        self.measure
    }

    /// The only length of rows in bytes, if this kernel is for one.
    pub const fn row_bytes(self) -> Option<u32> {
        self.row_bytes
    }

    /// The widest beam it takes.
    pub const fn most_entries(self) -> u32 {
        self.list.most_entries()
    }

    /// Warps that take a query.
    pub const fn warps(self) -> u32 {
        self.warps
    }

    fn needs(&self) -> Needs {
        Needs {
            query: !keeps_query(self.row_bytes.unwrap_or(0)),
            list: self.list == List::Wide,
            team: self.warps > 1,
        }
    }
}

impl Kernel for Search {
    type Args = SearchArgs;

    fn entry(&self) -> Cow<'static, str> {
        let mut name = format!("search_{}_{}", self.element, self.measure.name());
        if let Some(bytes) = self.row_bytes {
            name += &format!("_b{bytes}");
        }
        name += &format!("_{}", self.list.name());
        if self.warps > 1 {
            name += &format!("_t{}", self.warps);
        }
        name.into()
    }

    /// # Panics
    /// If an argument is outside of its bounds, or rows are of another length than this kernel is for.
    fn launch(&self, args: &SearchArgs) -> Launch {
        let row_bytes = args.graph.row_bytes;
        assert!(row_bytes.is_multiple_of(16), "row_bytes ({row_bytes}) must be a multiple of 16");
        assert_eq!(row_bytes, self.row_bytes.unwrap_or(row_bytes), "{}", self.entry());
        let stride = args.graph.links_stride;
        assert!(
            stride > 0 && stride.is_multiple_of(WARP),
            "links_stride ({stride}) must be a multiple of 32"
        );
        let (width, most) = (args.beam_width, self.list.most_entries());
        assert!((1..=most).contains(&width), "beam_width ({width}) must be 1 to {most}");
        assert!((1..=width).contains(&args.k), "k ({}) must be 1 to beam_width ({width})", args.k);
        let slots = args.filter_slots;
        assert!(
            slots == 0 || slots >= WARP && slots.is_power_of_two(),
            "filter_slots ({slots}) must be 0 or a power of two from 32 on"
        );
        let most = if self.warps > 1 { self.warps } else { u32::MAX };
        assert!(
            (1..=most).contains(&args.expansions),
            "expansions ({}) must be 1 to {most}",
            args.expansions
        );
        let shared = Layout::new(args, self.needs()).end;
        Launch::linear(args.queries_len, self.warps * WARP).with_shared(shared)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(SearchArgs) {
        super::entries::body(&self.entry())
    }
}
