//! The cost model that chooses between beam search and exact scan.
//!
//! A beam search expands about as many vertices as its beam is wide, and computes distances to neighbors that are read
//! at random. A scan computes a distance to every vertex that may be returned: for each query by itself or, where a
//! platform has such a kernel, as one matrix product of all queries with all these vertices. Times are estimated from
//! measured rates; only their ratios matter, and these are alike on machines of one kind. `gpu_search filters` (crate
//! `jasper-benches`) prints hops, distances and times on a GPU.

/// What a search costs where it runs: the limits there, and times that were measured, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostModel {
    /// The widest beam.
    pub max_beam_width: usize,
    /// Least time of a hop when there is one query, which waits for memory. Hops of several queries overlap.
    pub hop_ns: f64,
    /// A distance of a beam search.
    pub beam_distance: DistanceCost,
    /// A distance of a scan of each query by itself.
    pub scan_distance: DistanceCost,
    /// [`Self::scan_distance`] in batches of at most [`Self::small_batch_max`] queries, where several multiprocessors
    /// scan for each query. On a CPU this is a dummy.
    pub small_batch_scan_distance: DistanceCost,
    /// The largest batch in which several multiprocessors scan for each query; 0 on a CPU.
    pub small_batch_max: usize,
    /// Time of a scan that does not depend on its length.
    pub scan_ns: f64,
    /// A call of a predicate, which a scan makes for every key.
    pub filter_call_ns: f64,
    /// Finding the slot of a key that a filter allows.
    pub key_look_up_ns: f64,
    /// Whether searches read the slots of a filter as a set, which is kept for the next one.
    pub keeps_slots: bool,
    /// Whether the slots of a set of keys that is used again are kept as a set.
    pub keeps_used: bool,
    /// The cost of a scan as a matrix product, if there is one.
    pub product: Option<ProductCost>,
}

/// The cost of a distance between a query and one of many vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistanceCost {
    /// Least time, of short vectors.
    pub ns: f64,
    /// Time per byte of a vector, of long ones.
    pub ns_per_byte: f64,
}

/// The cost of a scan as a matrix product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProductCost {
    /// Most hits per query.
    pub max_k: usize,
    /// Time that does not depend on the size.
    pub ns: f64,
    /// Queries, and vectors, of a tile: a product computes whole tiles.
    pub tile: usize,
    /// Tiles that are computed at once: fewer take as long.
    pub least_tiles: usize,
    /// A pair of a query and a vector, besides its coordinates.
    pub pair_ns: f64,
    /// A coordinate of a pair of f32 vectors.
    pub f32_ns: f64,
    /// A byte of a pair of other vectors, which tensor cores multiply.
    pub byte_ns: f64,
    /// Gathering the vectors, per byte.
    pub gather_ns_per_byte: f64,
}

/// The work of a search: what its time depends on, besides the platform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Workload {
    pub(crate) queries: usize,
    pub(crate) k: usize,
    /// Coordinates of a vector, with padding.
    pub(crate) coordinates: usize,
    /// Bytes of a vector that a scan reads.
    pub(crate) row_bytes: usize,
    /// Bytes of a vector, or of its code, that a beam search reads.
    pub(crate) beam_row_bytes: usize,
    /// Whether vectors are of f32.
    pub(crate) is_f32: bool,
    /// Whether there are vectors, or codes only.
    pub(crate) has_vectors: bool,
    /// Most neighbors of a vertex.
    pub(crate) max_degree: usize,
}

/// The share of the neighbors of an expanded vertex that were not visited before: 23 to 55 of 64 were measured
/// (docs/src/how-search-works.md).
const SHARE_UNVISITED: f64 = 0.6;

impl CostModel {
    /// The CPU of the host. Measured with 64 x f32 (docs/notebook/experiments.md#cpu-slots-of-a-filter-kept-by-the-index): a
    /// scan computes distances twice as fast as a beam search, whose vectors are scattered and whose frontier is
    /// sorted.
    pub const CPU: Self = Self {
        max_beam_width: usize::MAX,
        hop_ns: 0.0,
        beam_distance: DistanceCost { ns: 28.0, ns_per_byte: 0.11 },
        scan_distance: DistanceCost { ns: 14.0, ns_per_byte: 0.055 },
        small_batch_scan_distance: DistanceCost { ns: 14.0, ns_per_byte: 0.055 },
        small_batch_max: 0,
        scan_ns: 0.0,
        filter_call_ns: 3.5,
        key_look_up_ns: 15.0,
        keeps_slots: false,
        keeps_used: true,
        product: None,
    };

    /// The time of a beam search that expands `hops` vertices per query.
    pub(crate) fn beam_search(&self, work: &Workload, hops: f64) -> f64 {
        let distances = work.max_degree as f64 * SHARE_UNVISITED;
        let hop = distances * self.beam_distance.of_row(work.beam_row_bytes);
        hops * self.hop_ns.max(work.queries as f64 * hop)
    }

    /// The time of a scan of `vertices`, the faster way.
    pub(crate) fn scan(&self, work: &Workload, vertices: usize) -> f64 {
        let alone = self.scan_alone(work, vertices);
        self.product(work, vertices).map_or(alone, |product| product.min(alone))
    }

    /// Whether a scan of `vertices` is faster as a product than for each query by itself.
    pub(crate) fn prefers_product(&self, work: &Workload, vertices: usize) -> bool {
        self.product(work, vertices).is_some_and(|product| product < self.scan_alone(work, vertices))
    }

    /// The time that each query takes to test slots, of which a scan computes distances to those that pass: half of the least
    /// time of a distance each.
    pub(crate) fn tests(&self, work: &Workload, slots: usize) -> f64 {
        work.queries as f64 * slots as f64 * self.scanned(work).ns / 2.0
    }

    /// The time of a scan of each query by itself.
    fn scan_alone(&self, work: &Workload, vertices: usize) -> f64 {
        let distance = self.scanned(work).of_row(work.row_bytes);
        self.scan_ns + work.queries as f64 * vertices as f64 * distance
    }

    fn scanned(&self, work: &Workload) -> DistanceCost {
        if work.queries <= self.small_batch_max { self.small_batch_scan_distance } else { self.scan_distance }
    }

    /// The time of a scan as a product; `None` if that is impossible.
    fn product(&self, work: &Workload, vertices: usize) -> Option<f64> {
        let is_possible = |cost: &ProductCost| work.has_vectors && vertices > 0 && work.k <= cost.max_k;
        let cost = self.product.filter(is_possible)?;
        let tiles = work.queries.div_ceil(cost.tile) as f64 * vertices.div_ceil(cost.tile) as f64;
        let (amount, ns) =
            if work.is_f32 { (work.coordinates, cost.f32_ns) } else { (work.row_bytes, cost.byte_ns) };
        let tile = (cost.tile * cost.tile) as f64 * (cost.pair_ns + amount as f64 * ns);
        let gather = vertices as f64 * work.row_bytes as f64 * cost.gather_ns_per_byte;
        Some(cost.ns + gather + tiles.max(cost.least_tiles as f64) * tile)
    }
}

impl DistanceCost {
    /// The cost of a distance to a row of `bytes`.
    fn of_row(&self, bytes: usize) -> f64 {
        self.ns.max(self.ns_per_byte * bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCT: ProductCost = ProductCost {
        max_k: 100,
        ns: 50.0,
        tile: 10,
        least_tiles: 4,
        pair_ns: 0.0,
        f32_ns: 0.001,
        byte_ns: 0.0001,
        gather_ns_per_byte: 0.0,
    };
    const DEVICE: CostModel = CostModel {
        hop_ns: 100.0,
        beam_distance: DistanceCost { ns: 0.5, ns_per_byte: 0.01 },
        scan_distance: DistanceCost { ns: 1.0, ns_per_byte: 0.01 },
        small_batch_scan_distance: DistanceCost { ns: 0.5, ns_per_byte: 0.01 },
        small_batch_max: 2,
        scan_ns: 20.0,
        product: Some(PRODUCT),
        ..CostModel::CPU
    };
    const WORK: Workload = Workload {
        queries: 1,
        k: 10,
        coordinates: 16,
        row_bytes: 64,
        beam_row_bytes: 64,
        is_f32: true,
        has_vectors: true,
        max_degree: 50,
    };

    #[test]
    fn hops_of_one_query_wait_and_those_of_many_overlap() {
        // 30 distances of 0.64 ns.
        assert_eq!(DEVICE.beam_search(&WORK, 10.0), 1000.0);
        let many = Workload { queries: 1000, ..WORK };
        assert!((DEVICE.beam_search(&many, 10.0) - 192_000.0).abs() < 1e-6);
    }

    #[test]
    fn few_queries_share_the_device_in_a_scan() {
        let scan = |queries| DEVICE.scan_alone(&Workload { queries, ..WORK }, 100);
        assert!((scan(2) - (20.0 + 200.0 * 0.64)).abs() < 1e-9);
        assert!((scan(3) - (20.0 + 300.0 * 1.0)).abs() < 1e-9);
    }

    #[test]
    fn a_product_takes_whole_tiles_and_vectors() {
        // 4 tiles at least, of 100 pairs of 16 coordinates.
        assert!((DEVICE.product(&WORK, 1).unwrap() - (50.0 + 4.0 * 1.6)).abs() < 1e-9);
        let many = Workload { queries: 21, ..WORK };
        assert!((DEVICE.product(&many, 31).unwrap() - (50.0 + 12.0 * 1.6)).abs() < 1e-9);
        let bytes = Workload { is_f32: false, row_bytes: 16, ..many };
        assert!(DEVICE.product(&bytes, 1000) < DEVICE.product(&many, 1000));
        assert_eq!(DEVICE.product(&Workload { k: 101, ..many }, 31), None);
        assert_eq!(DEVICE.product(&Workload { has_vectors: false, ..many }, 31), None);
        assert_eq!(DEVICE.product(&many, 0), None);
        assert!(!DEVICE.prefers_product(&WORK, 10) && DEVICE.prefers_product(&many, 31));
        assert_eq!(DEVICE.scan(&many, 31), DEVICE.product(&many, 31).unwrap());
        assert_eq!(DEVICE.scan(&WORK, 10), DEVICE.scan_alone(&WORK, 10));
    }
}
