//! Launch configurations: warps per query, expansions per step, and the size of the visited cache.

use jasper_vamana::{SearchError, TunedLaunch};

/// Warps of a team on short rows: a leader, and two workers for each of three work slots. The seventh worker is left
/// over.
const TEAM: u32 = 8;
/// Warps of a team on long rows, if there are no more queries than multiprocessors: each team has a multiprocessor to
/// itself.
const LONG_TEAM: u32 = 16;
/// Batches of up to this many queries per multiprocessor are searched by teams: one warp per query would leave most of
/// the device idle.
const TEAMS_PER_MULTIPROCESSOR: u32 = 2;
/// Work slots of a team: the number of vertices whose neighbors are scored concurrently.
const AHEAD: u32 = 3;
/// Work slots of a team on long rows, where more workers share the neighbors of one vertex.
const LONG_AHEAD: u32 = 2;
/// Rows of at least this many bytes are long.
const LONG_ROW: u32 = 1 << 10;
/// Slots of the visited cache with one warp per query. A larger cache would lower the occupancy, and a smaller one
/// would forget too many ids (docs/src/search-ablations.md).
const VISITED_SLOTS: u32 = 1024;
/// Slots of the visited cache for rows of at least `LONG_VISITED_ROW` bytes, for which occupancy is lower anyway, and a
/// repeated distance costs more.
const LONG_VISITED_SLOTS: u32 = 2048;
const LONG_VISITED_ROW: u32 = 192;
/// Slots of the visited cache for quantized searches: up to a beam width of `CODE_VISITED_WIDTH`, and above.
const CODE_VISITED_SLOTS: u32 = 512;
const WIDE_CODE_VISITED_SLOTS: u32 = 1024;
const CODE_VISITED_WIDTH: usize = 64;
/// Slots of the visited cache for a team, which has more shared memory to itself.
const TEAM_VISITED_SLOTS: u32 = 4096;
/// Maximum number of slots of the visited cache.
const MAX_VISITED_SLOTS: u32 = 1 << 15;
/// Maximum number of vertices expanded in one step.
const MAX_EXPANSIONS: u32 = 8;

/// The launch configuration for a batch of `queries` over rows of `row_bytes` bytes, if the search does not set one.
///
/// A team has the results of a search that expands one vertex after another. A warp that expands several vertices per
/// step reaches the same recall, but its results differ. It is not used here, so that the results of a query depend
/// neither on the size of the batch nor on the device.
pub(crate) fn default_launch(queries: usize, multiprocessors: u32, row_bytes: u32) -> TunedLaunch {
    if queries > (TEAMS_PER_MULTIPROCESSOR * multiprocessors) as usize {
        let visited_slots = if row_bytes < LONG_VISITED_ROW { VISITED_SLOTS } else { LONG_VISITED_SLOTS };
        return TunedLaunch { warps: 1, expansions: 1, visited_slots };
    }
    let is_long = row_bytes >= LONG_ROW;
    TunedLaunch {
        warps: if is_long && queries <= multiprocessors as usize { LONG_TEAM } else { TEAM },
        expansions: if is_long { LONG_AHEAD } else { AHEAD },
        visited_slots: TEAM_VISITED_SLOTS,
    }
}

/// The launch configuration for a batch of quantized searches, if the search does not set one.
pub(super) fn default_code_launch(
    queries: usize,
    multiprocessors: u32,
    row_bytes: u32,
    beam_width: usize,
) -> TunedLaunch {
    let mut launch = default_launch(queries, multiprocessors, row_bytes);
    if launch.warps == 1 {
        let is_narrow = beam_width <= CODE_VISITED_WIDTH;
        launch.visited_slots = if is_narrow { CODE_VISITED_SLOTS } else { WIDE_CODE_VISITED_SLOTS };
    }
    launch
}

/// Checks a launch configuration given by the user.
///
/// # Errors
/// Returns [`SearchError::Launch`], naming the value that is out of range.
pub(super) fn check_launch(launch: TunedLaunch) -> Result<(), SearchError> {
    let TunedLaunch { warps, expansions, visited_slots } = launch;
    let refuse = |name, value, bound| Err(SearchError::Launch { name, value, bound });
    if warps == 0 {
        return refuse("warps", warps, "at least 1");
    }
    if !(1..=MAX_EXPANSIONS).contains(&expansions) {
        return refuse("expansions", expansions, "between 1 and 8");
    }
    let is_valid = visited_slots == 0
        || (32..=MAX_VISITED_SLOTS).contains(&visited_slots) && visited_slots.is_power_of_two();
    if is_valid {
        Ok(())
    } else {
        refuse("visited_slots", visited_slots, "0, or a power of two between 32 and 32768")
    }
}
