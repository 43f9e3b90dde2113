//! One setting of a search on a device, and its measurement.

use anyhow::{Context as _, Result};
use jasper::{Distances, Element, Index, LaunchParams, Matches, MatrixView, Profile, SearchParams};
use jasper_benches::front::Measured;
use jasper_core::padded_len;
use jasper_cuda::{Context, Stream, copy_bandwidth};
use serde_json::{Value, json};

use super::set::Set;

/// Queries of the largest batch.
pub const MAX_QUERIES: usize = 100_000;
/// What the library uses for large batches: one warp per query.
pub const ONE_WARP: LaunchParams = LaunchParams { warps: 1, expansions: 1, visited_buckets: 1024 };

/// How a batch is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Results per query.
    pub k: usize,
    /// Entries of the frontier.
    pub beam_width: usize,
    /// Launch parameters.
    pub launch: LaunchParams,
}

/// The measurement of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The setting.
    pub setting: Setting,
    /// Queries of the batch.
    pub queries: usize,
    /// Mean recall@k; ties count as found.
    pub recall: f64,
    /// Queries per second: the batch over the median time of its launch.
    pub rate: f64,
    /// Vertices expanded per query.
    pub hops: f64,
    /// Distances computed per query.
    pub distances: f64,
    /// Bytes of vectors, codes and edges requested per second, from any memory.
    pub bytes_per_second: f64,
}

impl Measured for Point {
    fn recall(&self) -> f64 {
        self.recall
    }

    fn rate(&self) -> f64 {
        self.rate
    }
}

/// An index on a device, and the queries of its set.
pub struct Bench<'a, T: Element> {
    /// The set.
    pub set: &'a Set,
    /// The index.
    pub index: Index,
    /// Bytes per second of a copy within the device.
    pub copy: f64,
    queries: Vec<T>,
    distances: Distances,
}

impl<'a, T: Element> Bench<'a, T> {
    /// Repeats the queries of the set up to [`MAX_QUERIES`]. Prints the device.
    pub fn new(set: &'a Set, index: Index, distances: Distances) -> Result<Self> {
        let ordinals = index.device().cuda_ordinals();
        let &ordinal = ordinals.first().context("the index is on a device")?;
        let copy = copy_bandwidth(&Stream::new(&Context::open(ordinal)?)?)?;
        println!("{}", json!({"what": "device", "name": index.device_info().name, "gb_per_s": copy / 1e9}));
        let loaded = set.queries::<T>()?;
        let queries =
            (0..MAX_QUERIES).flat_map(|i| loaded.view().row(i % loaded.view().len())).copied().collect();
        Ok(Self { set, index, copy, queries, distances })
    }

    /// The first `count` queries from `first` on.
    pub fn queries(&self, first: usize, count: usize) -> MatrixView<'_, T> {
        let all = MatrixView::new(&self.queries, self.index.dimension()).expect("whole rows");
        all.slice(first..first + count)
    }

    /// Parameters of a setting.
    pub fn params(&self, setting: Setting) -> SearchParams<'static> {
        let Setting { k, beam_width, launch } = setting;
        SearchParams::new(k).beam_width(beam_width).launch(launch).distances(self.distances)
    }

    /// Measures a setting with a batch of `count` queries.
    pub fn measure(&self, setting: Setting, count: usize) -> Result<Point> {
        let (queries, params) = (self.queries(0, count), self.params(setting));
        let (mut keys, mut distances) = Matches::new(count, setting.k)?.into_arrays();
        let cost = self.index.search_batch_into(queries, params, &mut keys, &mut distances)?.cost;
        let seconds = Profile::device_time(&self.index, queries, params)?
            .context("the index is on a device")?
            .as_secs_f64();
        let (hops, distances) = (cost.hops as f64 / count as f64, cost.distances as f64 / count as f64);
        let bytes = hops * self.edge_bytes() + self.bytes_of_distances(distances, setting.beam_width);
        Ok(Point {
            setting,
            queries: count,
            recall: self.set.recall(setting.k, &keys),
            rate: count as f64 / seconds,
            hops,
            distances,
            bytes_per_second: bytes * count as f64 / seconds,
        })
    }

    /// Bytes of a vertex's edges at full degree.
    fn edge_bytes(&self) -> f64 {
        (self.index.stats().params.max_degree() * size_of::<u32>()) as f64
    }

    /// Bytes of the vectors, or of the codes and reranked vectors, of a search.
    fn bytes_of_distances(&self, distances: f64, beam_width: usize) -> f64 {
        let stats = self.index.stats();
        let vector_bytes = (padded_len::<T>(stats.dimension) * size_of::<T>()) as f64;
        if stats.quantization.is_none() {
            return distances * vector_bytes;
        }
        let reranked = match self.distances {
            Distances::Quantized { rerank } => rerank.min(beam_width),
            Distances::Auto | Distances::Exact => beam_width,
        };
        distances * (stats.code_bytes / (stats.live_vertices + stats.free_slots)) as f64
            + reranked as f64 * vector_bytes
    }

    /// A line about this set and element.
    pub fn line(&self, what: &str, fields: Value) -> Value {
        let stats = self.index.stats();
        let mut line = json!({
            "what": what, "set": self.set.name, "element": T::KIND.name(), "vectors": stats.vector_storage.to_string(),
            "codes": stats.quantization.map(|quantization| quantization.to_string()),
        });
        merge(&mut line, fields);
        line
    }
}

impl Point {
    /// The fields of a line; `copy` is the bytes per second of a copy.
    pub fn fields(&self, copy: f64) -> Value {
        let Self {
            setting: Setting { k, beam_width, launch },
            queries,
            recall,
            rate,
            hops,
            distances,
            bytes_per_second,
        } = *self;
        let mut fields = json!({
            "queries": queries, "k": k, "beam_width": beam_width, "recall": rounded(recall, 5),
            "queries_per_second": rate.round(), "hops": rounded(hops, 1), "distances": rounded(distances, 1),
            "gb_per_s": rounded(bytes_per_second / 1e9, 1), "of_copy": rounded(bytes_per_second / copy, 4),
        });
        merge(&mut fields, launch_fields(launch));
        fields
    }
}

#[cfg(test)]
impl Setting {
    /// `k` results with a frontier of `beam_width`, one warp per query.
    pub const fn new(k: usize, beam_width: usize) -> Self {
        Self { k, beam_width, launch: ONE_WARP }
    }
}

/// Launch parameters as fields of a line.
pub fn launch_fields(LaunchParams { warps, expansions, visited_buckets }: LaunchParams) -> Value {
    json!({"warps": warps, "expansions": expansions, "visited_capacity": visited_buckets})
}

/// Adds the fields of one object to another.
pub fn merge(line: &mut Value, fields: Value) {
    if let (Value::Object(line), Value::Object(fields)) = (line, fields) {
        line.extend(fields);
    }
}

/// Rounds to some decimals.
pub fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}
