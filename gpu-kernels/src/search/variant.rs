//! The variants of a search kernel: where the frontier is, and whether a team of warps shares a query.

use super::shared_layout::{Layout, LayoutParams, MAX_WARPS};
use super::{MAX_BEAM_WIDTH, SearchArgs};
use crate::{LaunchConfig, WARP_SIZE};

/// Warps of the smallest team: a search by several warps has at least these.
pub const MIN_TEAM_WARPS: u32 = 8;
/// Warps of the largest teams: those that read rows, and those that read codes, whose kernels need more registers.
pub(super) const MAX_ROW_TEAM: u32 = MAX_WARPS;
pub(super) const MAX_CODE_TEAM: u32 = 8;

/// A variant of a search kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Variant {
    /// One warp, with the frontier in one register per lane.
    OneRegister,
    /// One warp, two registers per lane.
    TwoRegisters,
    /// One warp, four registers per lane.
    FourRegisters,
    /// One warp, with the frontier in shared memory.
    SharedMemory,
    /// A team of warps, with the frontier in shared memory.
    Team,
}

impl Variant {
    /// The searches by one warp, in ascending order of their widest beam.
    pub(super) const ONE_WARP: [Self; 4] =
        [Self::OneRegister, Self::TwoRegisters, Self::FourRegisters, Self::SharedMemory];

    /// From [`MIN_TEAM_WARPS`] warps on, a team of at most `max_team`; below, one warp with the shortest frontier that
    /// holds `frontier_len` entries. Also the number of warps.
    ///
    /// # Panics
    /// Panics if the frontier is longer than [`MAX_BEAM_WIDTH`].
    pub(super) fn for_frontier(frontier_len: u32, warps: u32, max_team: u32) -> (Self, u32) {
        assert!(
            frontier_len <= MAX_BEAM_WIDTH,
            "frontier_len ({frontier_len}) must be at most {MAX_BEAM_WIDTH}"
        );
        if warps >= MIN_TEAM_WARPS {
            return (Self::Team, warps.min(max_team));
        }
        let fits = Self::ONE_WARP.into_iter().find(|variant| frontier_len <= variant.max_frontier_len());
        (fits.expect("shared memory holds the widest beam"), 1)
    }

    /// Every variant of a family with teams of `max_team` warps, with its warps.
    pub(super) fn all(max_team: u32) -> impl Iterator<Item = (Self, u32)> + Clone {
        Self::ONE_WARP.map(|variant| (variant, 1)).into_iter().chain([(Self::Team, max_team)])
    }

    /// The longest frontier of this variant.
    pub(crate) const fn max_frontier_len(self) -> u32 {
        match self {
            Self::OneRegister => WARP_SIZE,
            Self::TwoRegisters => 2 * WARP_SIZE,
            Self::FourRegisters => 4 * WARP_SIZE,
            Self::SharedMemory | Self::Team => MAX_BEAM_WIDTH,
        }
    }

    /// Whether the frontier takes four registers or more per lane.
    pub(super) const fn has_wide_frontier(self) -> bool {
        !matches!(self, Self::OneRegister | Self::TwoRegisters)
    }

    /// The launch of a kernel of `warps` per query, that keeps `query_bytes` of its query in shared memory.
    ///
    /// # Panics
    /// Panics if an argument is out of bounds.
    pub(super) fn launch_config(self, warps: u32, args: &SearchArgs, query_bytes: u32) -> LaunchConfig {
        let check = |name, value: u32, min: u32, max: u32| {
            assert!((min..=max).contains(&value), "{name} ({value}) must be {min} to {max}");
        };
        check("beam.frontier_len", args.beam.frontier_len, 1, self.max_frontier_len());
        check("beam.width", args.beam.width, 1, args.beam.frontier_len);
        check("k", args.k, 0, args.beam.frontier_len);
        check("candidates.len", args.candidates.len, 0, args.beam.frontier_len);
        check("beam.expansions", args.beam.expansions, 1, if self == Self::Team { warps } else { u32::MAX });
        let (stride, visited_buckets) = (args.graph.edges_stride, args.beam.visited_buckets);
        assert!(
            stride > 0 && stride.is_multiple_of(WARP_SIZE),
            "edges_stride ({stride}) must be a multiple of 32"
        );
        let (starts, parts) = (args.start.stride, args.start.parts);
        assert!(
            parts > 1 || args.queries_len.checked_mul(starts).is_some(),
            "{} queries of start.stride ({starts}) must be below 2^32",
            args.queries_len
        );
        assert!(
            parts == 1
                || !args.start.lists.is_null()
                || args.graph.start_points_len.div_ceil(starts) == parts,
            "start.parts ({parts}) must be 1, or as many as {} start points have of {starts}",
            args.graph.start_points_len
        );
        assert!(
            args.start.lists.is_null() || starts == 0 && parts > 0 && args.queries_len.is_multiple_of(parts),
            "lists of queries have no start.stride ({starts}), and {parts} parts each"
        );
        assert!(
            visited_buckets == 0 || visited_buckets >= WARP_SIZE && visited_buckets.is_power_of_two(),
            "beam.visited_buckets ({visited_buckets}) must be 0 or a power of two from 32 on"
        );
        let is_team = self == Self::Team;
        let params = LayoutParams { query_bytes, has_list: is_team || self == Self::SharedMemory, is_team };
        let shared = Layout::new(args, params).end;
        LaunchConfig::linear(args.queries_len, warps * WARP_SIZE).with_shared(shared)
    }
}
