//! Launch parameters: warps per query, vertices expanded at the same time, the size of the visited cache, and the parts
//! of a scan; and what searches cost on a device.

use gpu_kernels::knn::MAX_K;
use gpu_kernels::search::{MAX_BEAM_WIDTH, MIN_TEAM_WARPS};
use jasper_vamana::{CostModel, DistanceCost, LaunchParams, MemorySpace, ProductCost, SearchError};

/// Warps of a team on short rows: a leader, and two workers for each of three mailboxes. The seventh worker is left
/// over.
const TEAM_WARPS: u32 = 8;
/// Warps of a team on long rows, if there are no more queries than multiprocessors: each team has a multiprocessor to
/// itself.
const LONG_TEAM_WARPS: u32 = 16;
/// Batches of up to this many queries per multiprocessor are searched by teams: one warp per query would leave most of
/// the device idle.
const TEAMS_PER_MULTIPROCESSOR: u32 = 2;
/// Mailboxes of a team: the number of vertices whose neighbors are processed concurrently.
const TEAM_MAILBOXES: u32 = 3;
/// Mailboxes of a team on long rows, where more workers share the neighbors of one vertex.
const LONG_TEAM_MAILBOXES: u32 = 2;
/// Rows of at least this many bytes are long.
const LONG_ROW: u32 = 1 << 10;
/// Buckets of the visited cache with one warp per query. A larger cache would lower the occupancy, and a smaller one
/// would forget too many slots (docs/notebook/search-ablations.md).
const VISITED_BUCKETS: u32 = 1024;
/// Buckets of the visited cache for rows of at least `LONG_VISITED_ROW` bytes, for which occupancy is lower anyway, and
/// a repeated distance costs more.
const LONG_VISITED_BUCKETS: u32 = 2048;
const LONG_VISITED_ROW: u32 = 192;
/// Buckets of the visited cache for quantized searches: up to a beam width of `CODE_VISITED_WIDTH`, and above.
const CODE_VISITED_BUCKETS: u32 = 512;
const WIDE_CODE_VISITED_BUCKETS: u32 = 1024;
const CODE_VISITED_WIDTH: usize = 64;
/// Buckets of the visited cache for a team, which has more shared memory to itself.
const TEAM_VISITED_BUCKETS: u32 = 4096;
/// Maximum number of buckets of the visited cache.
const MAX_VISITED_BUCKETS: u32 = 1 << 15;
/// Maximum number of vertices expanded at the same time.
const MAX_EXPANSIONS: u32 = 8;

/// Least slots of a part of a scan: shorter ones do not save what the second launch costs.
const MIN_PART: usize = 256;

/// Slots of a part of a long scan.
const LONG_PART: usize = 2048;
/// Most parts of a long scan of many queries, for each multiprocessor and for each query.
const PARTS_PER_MULTIPROCESSOR: usize = 64;
const MAX_PARTS: usize = 64;

/// Nanoseconds per byte that a kernel reads over PCIe.
const HOST_NS_PER_BYTE: f64 = 0.02;

/// Nanoseconds per byte that a scan of many queries reads: they read the same vectors, mostly from caches.
const CACHE_NS_PER_BYTE: f64 = 1.0 / 9000.0;

/// What searches cost on a device with vectors in `storage`, measured on an H200 with 132 multiprocessors: hops of one
/// query, the bandwidth of beam searches (docs/src/gpu-search.md#wide-beams), and filtered searches
/// (docs/notebook/experiments.md#gpu-filtered-batches-as-products-single-queries-in-parts).
pub(crate) fn cost_model(multiprocessors: u32, storage: MemorySpace) -> CostModel {
    let device_ns_per_byte = 1.0 / 4500.0;
    let (ns_per_byte, scan_ns_per_byte) = match storage {
        MemorySpace::Device => (device_ns_per_byte, CACHE_NS_PER_BYTE),
        MemorySpace::Host => (HOST_NS_PER_BYTE, HOST_NS_PER_BYTE),
    };
    CostModel {
        max_beam_width: MAX_BEAM_WIDTH as usize,
        hop_ns: 2000.0,
        // If vectors are on the host, beam searches read codes, which are on the device. Other work of a batch from
        // host memory is included.
        beam_distance: DistanceCost { ns: 0.075, ns_per_byte: 1.0 / 3600.0 },
        scan_distance: DistanceCost { ns: 0.02, ns_per_byte: scan_ns_per_byte },
        small_batch_scan_distance: DistanceCost { ns: 0.3, ns_per_byte },
        small_batch_max: (TEAMS_PER_MULTIPROCESSOR * multiprocessors) as usize,
        scan_ns: 10_000.0,
        // The host calls a predicate for every key once, whatever the strategy.
        filter_call_ns: 0.0,
        key_look_up_ns: 0.0,
        keeps_slots: true,
        keeps_used: true,
        product: Some(ProductCost {
            max_k: MAX_K,
            ns: 300_000.0,
            tile: 128,
            least_tiles: 2 * multiprocessors as usize,
            pair_ns: 1.5e-3,
            f32_ns: 8e-5,
            byte_ns: 5e-6,
            gather_ns_per_byte: ns_per_byte + device_ns_per_byte,
        }),
    }
}

/// In how many parts to scan `slots` slots for each of `queries` queries: about as many as make both launches equally
/// long, while each team has a multiprocessor's share to itself. 1 for one launch.
pub(super) fn scan_parts(slots: usize, k: usize, queries: usize, multiprocessors: u32) -> u32 {
    let teams = (TEAMS_PER_MULTIPROCESSOR * multiprocessors) as usize;
    let balanced = (slots / k.max(1)).isqrt();
    balanced.min(slots / MIN_PART).min(teams / queries.max(1)).max(1) as u32
}

/// In how many parts to scan a list of up to `slots` slots for each of `queries` queries, where several parts may share a
/// multiprocessor: a long list takes one warp as long as thousands of short ones.
pub(super) fn long_scan_parts(slots: usize, k: usize, queries: usize, multiprocessors: u32) -> u32 {
    let few = scan_parts(slots, k, queries, multiprocessors);
    let most = (PARTS_PER_MULTIPROCESSOR * multiprocessors as usize / queries.max(1)).min(MAX_PARTS);
    few.max((slots / LONG_PART).min(most) as u32)
}

/// The launch parameters for a batch of `queries` over rows of `row_bytes` bytes, if the search sets none.
///
/// A team has the results of a search that expands one vertex after another. A single warp that expands several
/// vertices at a time reaches the same recall, but its results differ. That is not used here, so that the results of a
/// query depend neither on the size of the batch nor on the device.
pub(crate) fn default_launch(queries: usize, multiprocessors: u32, row_bytes: u32) -> LaunchParams {
    if queries > (TEAMS_PER_MULTIPROCESSOR * multiprocessors) as usize {
        let visited_buckets =
            if row_bytes < LONG_VISITED_ROW { VISITED_BUCKETS } else { LONG_VISITED_BUCKETS };
        return LaunchParams { warps: 1, expansions: 1, visited_buckets };
    }
    let is_long = row_bytes >= LONG_ROW;
    LaunchParams {
        warps: if is_long && queries <= multiprocessors as usize { LONG_TEAM_WARPS } else { TEAM_WARPS },
        expansions: if is_long { LONG_TEAM_MAILBOXES } else { TEAM_MAILBOXES },
        visited_buckets: TEAM_VISITED_BUCKETS,
    }
}

/// What a search for one of `queries` queries costs, each of which has a filter of its own: neither a product nor the slots
/// of a filter as a set are shared.
pub(super) fn cost_of_each(cost_model: CostModel, queries: usize) -> CostModel {
    let is_small = queries <= cost_model.small_batch_max;
    let share = 1.0 / queries.max(1) as f64;
    CostModel {
        hop_ns: cost_model.hop_ns * share,
        scan_ns: cost_model.scan_ns * share,
        scan_distance: if is_small { cost_model.small_batch_scan_distance } else { cost_model.scan_distance },
        small_batch_max: 0,
        keeps_slots: false,
        keeps_used: false,
        product: None,
        ..cost_model
    }
}

/// The launch parameters for a batch of quantized searches, if the search sets none.
pub(super) fn default_quantized_launch(
    queries: usize,
    multiprocessors: u32,
    row_bytes: u32,
    beam_width: usize,
) -> LaunchParams {
    let mut launch = default_launch(queries, multiprocessors, row_bytes);
    if launch.warps == 1 {
        let is_narrow = beam_width <= CODE_VISITED_WIDTH;
        launch.visited_buckets = if is_narrow { CODE_VISITED_BUCKETS } else { WIDE_CODE_VISITED_BUCKETS };
    }
    launch
}

/// Checks launch parameters given by the user.
///
/// # Errors
/// Returns [`SearchError::Launch`], naming the value that is out of range.
pub(super) fn check_launch(launch: LaunchParams) -> Result<(), SearchError> {
    let LaunchParams { warps, expansions, visited_buckets } = launch;
    let refuse = |name, value, bound| Err(SearchError::Launch { name, value, bound });
    if warps != 1 && warps < MIN_TEAM_WARPS {
        return refuse("warps", warps, "1, or at least 8");
    }
    if !(1..=MAX_EXPANSIONS).contains(&expansions) {
        return refuse("expansions", expansions, "between 1 and 8");
    }
    let is_valid = visited_buckets == 0
        || (32..=MAX_VISITED_BUCKETS).contains(&visited_buckets) && visited_buckets.is_power_of_two();
    if is_valid {
        Ok(())
    } else {
        refuse("visited_buckets", visited_buckets, "0, or a power of two between 32 and 32768")
    }
}
