//! What all search kernels have in common: where the frontier is, and how many warps share a query.

use super::super::shared_layout::{Layout, MAX_WARPS, Needs};
use super::super::{MAX_BEAM_WIDTH, SearchArgs};
use crate::{Launch, WARP};

/// Warps of the smallest team that is more than one.
const LEAST_TEAM: u32 = 8;
/// Warps of the largest teams: those that score rows, and those that score codes, whose kernels need more registers.
pub(super) const ROW_TEAM: u32 = MAX_WARPS;
pub(super) const CODE_TEAM: u32 = 8;

/// Where the frontier is, in the order of the widest beam that fits.
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

    const fn max_entries(self) -> u32 {
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

/// Where the frontier is, and how many warps share a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    list: List,
    pub(super) warps: u32,
}

impl Kind {
    /// The narrowest list for beams of `beam_width`, and a team of `warps`, at most `largest`; fewer than [`LEAST_TEAM`] mean
    /// one warp. Teams have their list in shared memory.
    ///
    /// # Panics
    /// If the beam is wider than [`MAX_BEAM_WIDTH`].
    pub(super) fn for_beam(beam_width: u32, warps: u32, largest: u32) -> Self {
        let warps = if warps < LEAST_TEAM { 1 } else { warps.min(largest) };
        let list = List::ALL
            .into_iter()
            .find(|list| beam_width <= list.max_entries() && (warps == 1 || *list == List::Wide));
        let list =
            list.unwrap_or_else(|| panic!("beam_width ({beam_width}) must be at most {MAX_BEAM_WIDTH}"));
        Self { list, warps }
    }

    /// Every kind that a family has whose teams are at most so large.
    pub(super) fn all(largest: u32) -> impl Iterator<Item = Self> + Clone {
        let solo = List::ALL.map(|list| Self { list, warps: 1 });
        solo.into_iter().chain([Self { list: List::Wide, warps: largest }])
    }

    /// The widest beam it takes.
    pub(super) const fn max_entries(self) -> u32 {
        self.list.max_entries()
    }

    /// The end of the names of its kernels.
    pub(super) fn name(self) -> String {
        if self.warps > 1 { "_team".to_owned() } else { format!("_{}", self.list.name()) }
    }

    /// The launch of a kernel that keeps `query` bytes of its query in shared memory.
    ///
    /// # Panics
    /// If an argument is outside of its bounds.
    pub(super) fn launch(self, args: &SearchArgs, query: u32) -> Launch {
        let stride = args.graph.links_stride;
        assert!(
            stride > 0 && stride.is_multiple_of(WARP),
            "links_stride ({stride}) must be a multiple of 32"
        );
        let (width, most) = (args.beam_width, self.max_entries());
        assert!((1..=most).contains(&width), "beam_width ({width}) must be 1 to {most}");
        assert!((1..=width).contains(&args.k), "k ({}) must be 1 to beam_width ({width})", args.k);
        let candidates = args.candidates_len;
        assert!(candidates <= width, "candidates_len ({candidates}) must be at most beam_width ({width})");
        let starts = args.starts_stride;
        assert!(
            args.queries_len.checked_mul(starts).is_some(),
            "{} queries of starts_stride ({starts}) must be below 2^32",
            args.queries_len
        );
        let slots = args.visited_slots;
        assert!(
            slots == 0 || slots >= WARP && slots.is_power_of_two(),
            "visited_slots ({slots}) must be 0 or a power of two from 32 on"
        );
        let most = if self.warps > 1 { self.warps } else { u32::MAX };
        assert!(
            (1..=most).contains(&args.expansions),
            "expansions ({}) must be 1 to {most}",
            args.expansions
        );
        let needs = Needs { query, list: self.list == List::Wide, team: self.warps > 1 };
        let shared = Layout::new(args, needs).end;
        Launch::linear(args.queries_len, self.warps * WARP).with_shared(shared)
    }
}
