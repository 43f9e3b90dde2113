//! Vectors under keys, with queries: made, read or written; and the recall of results by exact distances.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use jasper::{
    Device, Element, ElementKind, Index, IndexBuilder, Key, MatrixView, Metric, NO_KEY, SearchParams,
    VectorFile, Vectors,
};
use jasper_benches::exact_neighbors;
use jasper_core::with_element;
use jasper_cuda::{Context, Stream, copy_bandwidth};
use jasper_data::{GroundTruth, ThreadPool, ThreadPoolBuilder, VectorFileOptions, write_vectors};
use serde_json::{Value, json};

use crate::draw::Part;
use crate::sets::Distribution;

/// Results per query.
pub const K: usize = 10;
/// Neighbors that are kept of each query, as files of sets have them.
const KEPT: usize = 100;

/// Where and how much is measured.
pub struct Bench {
    pub device: Device,
    /// Rows of a set, at most.
    pub rows: usize,
    /// Computes exact distances, unless there is a GPU.
    pub pool: ThreadPool,
    /// Bytes per second of a copy within a GPU.
    pub copy: Option<f64>,
    context: Option<Context>,
}

/// Vectors under keys, and queries.
#[derive(Clone)]
pub struct Set {
    pub name: String,
    /// That of its distribution, or `real`.
    pub group: &'static str,
    /// What the coordinates are rounded to.
    pub element: ElementKind,
    pub metric: Metric,
    pub dimension: usize,
    /// One per row, ascending.
    pub keys: Vec<Key>,
    pub rows: Vec<f32>,
    pub queries: Vec<f32>,
}

impl Bench {
    pub fn new(device: Device, rows: usize) -> Result<Self> {
        let device = device.resolve()?.context("--device is cpu or cuda:0, ..")?;
        let context = device.cuda_ordinals().first().map(|&ordinal| Context::open(ordinal)).transpose()?;
        let copy = context.as_ref().map(|context| copy_bandwidth(&Stream::new(context)?)).transpose()?;
        Ok(Self { device, rows, pool: ThreadPoolBuilder::new().build()?, copy, context })
    }

    /// Queries of a set, at most: enough to fill a GPU, or that a CPU finds the true neighbors of in a second.
    pub fn queries(&self) -> usize {
        if self.context.is_some() { 10_000 } else { 1_000 }
    }

    /// Draws the rows and queries of a distribution.
    pub fn make(&self, distribution: &Distribution) -> Set {
        let &Distribution { name, group, dimension, element, metric, draw } = distribution;
        let part = |rows, is_query| {
            let mut values = self.pool.install(|| draw(Part { dimension, rows, is_query }));
            round(element, &mut values);
            values
        };
        let (rows, queries) = (part(self.rows, false), part(self.queries(), true));
        let keys = (0..self.rows as Key).collect();
        Set { name: name.into(), group, element, metric, dimension, keys, rows, queries }
    }

    /// Reads the rows and queries of a folder, which `benches/peers/files.py` describes.
    pub fn read(&self, name: &str, folder: &Path) -> Result<Set> {
        let meta: Value = serde_json::from_str(&fs::read_to_string(folder.join("meta.json"))?)?;
        let metric = meta["metric"].as_str().context("meta.json has no metric")?.parse()?;
        let extension = if folder.join("base.u8bin").exists() { "u8bin" } else { "fbin" };
        let read = |part: &str, rows: usize| -> Result<(VectorFile, Vec<f32>)> {
            let path = folder.join(format!("{part}.{extension}"));
            let rows = rows.min(VectorFile::open(&path)?.len());
            let file = VectorFileOptions::new().max_rows(rows).open(&path)?;
            let mut values = vec![0.0; file.len() * file.dimension()];
            file.read_rows_as(0..file.len(), &mut values)?;
            Ok((file, values))
        };
        let ((file, mut rows), (_, mut queries)) = (read("base", self.rows)?, read("query", self.queries())?);
        let element = if meta["element"] == "f16" { ElementKind::F16 } else { file.element() };
        round(element, &mut rows);
        round(element, &mut queries);
        let (dimension, keys) = (file.dimension(), (0..file.len() as Key).collect());
        Ok(Set { name: name.into(), group: "real", element, metric, dimension, keys, rows, queries })
    }

    /// The exact neighbors of the queries, as numbers of rows.
    pub fn truth(&self, set: &Set) -> Result<GroundTruth> {
        let k = KEPT.min(set.keys.len());
        Ok(exact_neighbors(self.context.as_ref(), set.rows(), set.queries(), k, set.metric, &self.pool)?)
    }
}

impl Set {
    /// Builds an index with the default parameters. Returns it and the seconds that took.
    pub fn build(&self, device: Device) -> Result<(Index, f64)> {
        self.in_element(self.rows(), |vectors| {
            let begun = Instant::now();
            let index = IndexBuilder::new(self.metric).device(device).keys(&self.keys).build(vectors)?;
            Ok((index, begun.elapsed().as_secs_f64()))
        })
    }

    /// Calls `call` with rows or queries in the element of the set, which has all of their values.
    pub fn in_element<R>(
        &self,
        vectors: MatrixView<'_, f32>,
        call: impl FnOnce(Vectors<'_>) -> Result<R>,
    ) -> Result<R> {
        let vectors = Vectors::from(vectors);
        with_element!(self.element, T => vectors.with_matrix(|vectors: MatrixView<'_, T>| call(vectors.into()))?)
    }

    pub fn rows(&self) -> MatrixView<'_, f32> {
        MatrixView::new(&self.rows, self.dimension).expect("whole rows")
    }

    pub fn queries(&self) -> MatrixView<'_, f32> {
        MatrixView::new(&self.queries, self.dimension).expect("whole rows")
    }

    /// The rows of some keys, ascending, with the same queries.
    pub fn part(&self, keys: Vec<Key>) -> Self {
        let rows = keys.iter().flat_map(|&key| self.row(key)).copied().collect();
        Self { keys, rows, queries: self.queries.clone(), name: self.name.clone(), ..*self }
    }

    /// The vector of a key that is in the set.
    pub fn row(&self, key: Key) -> &[f32] {
        let number = self.keys.binary_search(&key).expect("an index returns keys that were inserted");
        self.rows().row(number)
    }

    /// Mean recall with a beam width: the share of [`K`] results that are no farther than the true neighbor of that
    /// rank.
    pub fn recall(&self, index: &Index, truth: &GroundTruth, beam_width: usize) -> Result<f64> {
        let params = SearchParams::new(K).beam_width(beam_width);
        let found = index.search_batch(self.queries(), params)?;
        let mut hits = 0;
        for (number, (query, found)) in self.queries().rows().zip(found.keys().chunks(K)).enumerate() {
            let last = self.rows().row(truth.truth(number).ids[K - 1] as usize);
            let farthest = distance(self.metric, query, last);
            // Sums of floats depend on their order.
            let bound = farthest + 1e-9 * farthest.abs();
            let mut found: Vec<Key> = found.iter().copied().filter(|&key| key != NO_KEY).collect();
            found.sort_unstable();
            found.dedup();
            hits += found.iter().filter(|&&key| distance(self.metric, query, self.row(key)) <= bound).count();
        }
        Ok(hits as f64 / (truth.len() * K) as f64)
    }

    /// Writes the set to `folder` as `benches/peers/files.py` describes it. f16 becomes f32, which it knows.
    pub fn write(&self, folder: &Path, truth: &GroundTruth) -> Result<()> {
        fs::create_dir_all(folder)?;
        let is_u8 = self.element == ElementKind::U8;
        for (part, rows) in [("base", self.rows()), ("query", self.queries())] {
            if is_u8 {
                let write =
                    |rows: MatrixView<'_, u8>| write_vectors(folder.join(format!("{part}.u8bin")), rows);
                Vectors::from(rows).with_matrix(write)??;
            } else {
                write_vectors(folder.join(format!("{part}.fbin")), rows)?;
            }
        }
        truth.write(folder.join("gt.ibin"))?;
        let (metric, dtype) = (self.metric.to_string(), if is_u8 { "uint8" } else { "float32" });
        let meta = json!({"metric": metric, "dtype": dtype, "element": self.element.name()});
        Ok(fs::write(folder.join("meta.json"), meta.to_string())?)
    }
}

/// Rounds values to what an element holds.
pub fn round(element: ElementKind, values: &mut [f32]) {
    with_element!(element, T => values.iter_mut().for_each(|x| *x = T::from_f32(*x).to_f32()));
}

/// The distance of two vectors in 64 bits.
fn distance(metric: Metric, a: &[f32], b: &[f32]) -> f64 {
    let sum = |term: fn(f64, f64) -> f64, a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(&x, &y)| term(f64::from(x), f64::from(y))).sum()
    };
    let dot = |a, b| sum(|x, y| x * y, a, b);
    match metric {
        Metric::L2 => sum(|x, y| (x - y) * (x - y), a, b),
        Metric::InnerProduct => -dot(a, b),
        Metric::Cosine => 1.0 - dot(a, b) / (dot(a, a) * dot(b, b)).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::SETS;

    #[test]
    fn ties_count_and_files_hold_the_set() {
        let bench = Bench::new(Device::CPU, 300).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for name in ["one-hot", "ip-equal-norms", "sphere"] {
            let set = bench.make(SETS.iter().find(|distribution| distribution.name == name).unwrap());
            let truth = bench.truth(&set).unwrap();
            let (index, _) = set.build(bench.device).unwrap();
            // A beam that holds all rows finds neighbors as near as the true ones, if not the same.
            assert_eq!(set.recall(&index, &truth, 300).unwrap(), 1.0, "{name}");
            set.write(&folder.path().join(name), &truth).unwrap();
            let read = bench.read(name, &folder.path().join(name)).unwrap();
            assert_eq!((read.element, read.metric), (set.element, set.metric));
            assert!(read.rows == set.rows && read.queries == set.queries && read.name == name);
        }
    }
}
