//! Vectors under keys, with queries: made, read or written; and the recall of results by exact distances.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use jasper::cuda::Context;
use jasper::data::{
    GroundTruth, ThreadPool, ThreadPoolBuilder, VectorFile, VectorFileOptions, write_vectors,
};
use jasper::{
    Device, DeviceChoice, Element, ElementKind, Index, IndexBuilder, Key, MatrixView, Metric, NO_KEY,
};
use jasper_benches::exact_neighbors;
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
    context: Option<Context>,
}

/// Vectors under keys, and queries.
#[derive(Clone)]
pub struct Set<T> {
    pub name: String,
    pub metric: Metric,
    pub dimension: usize,
    /// One per row, ascending.
    pub keys: Vec<Key>,
    pub rows: Vec<T>,
    pub queries: Vec<T>,
}

/// The set of a folder, before its element is known.
pub struct Stored {
    pub name: String,
    metric: Metric,
    pub element: ElementKind,
    rows: VectorFile,
    queries: VectorFile,
}

impl Bench {
    pub fn new(device: DeviceChoice, rows: usize) -> Result<Self> {
        let device = device.resolve()?.context("--device is cpu or cuda:0, ..")?;
        let context = device.cuda_ordinals().first().map(|&ordinal| Context::open(ordinal)).transpose()?;
        Ok(Self { device, rows, pool: ThreadPoolBuilder::new().build()?, context })
    }

    /// Queries of a set, at most: enough to fill a GPU, or that a CPU finds the true neighbors of in a second.
    pub fn queries(&self) -> usize {
        if self.context.is_some() { 10_000 } else { 1_000 }
    }

    /// Draws the rows and queries of a distribution.
    pub fn make<T: Element>(&self, distribution: &Distribution) -> Set<T> {
        let &Distribution { name, dimension, metric, draw, .. } = distribution;
        let part = |rows, is_query| {
            let values = self.pool.install(|| draw(Part { dimension, rows, is_query }));
            let mut elements = vec![T::default(); values.len()];
            T::slice_from_f32(&values, &mut elements);
            elements
        };
        let (rows, queries) = (part(self.rows, false), part(self.queries(), true));
        Set { name: name.into(), metric, dimension, keys: (0..self.rows as Key).collect(), rows, queries }
    }

    /// Reads the rows and queries of a folder.
    pub fn read<T: Element>(&self, stored: &Stored) -> Result<Set<T>> {
        let Stored { name, metric, rows, queries, .. } = stored;
        let first = |file: &VectorFile, rows: usize| -> Result<Vec<T>> {
            let file = VectorFileOptions::new().max_rows(rows.min(file.len())).open(file.path())?;
            let mut values = vec![T::default(); file.len() * file.dimension()];
            file.read_rows_as(0..file.len(), &mut values)?;
            Ok(values)
        };
        let (rows, queries) = (first(rows, self.rows)?, first(queries, self.queries())?);
        let dimension = stored.rows.dimension();
        let keys = (0..(rows.len() / dimension) as Key).collect();
        Ok(Set { name: name.clone(), metric: *metric, dimension, keys, rows, queries })
    }

    /// The exact neighbors of the queries, as numbers of rows.
    pub fn truth<T: Element>(&self, set: &Set<T>) -> Result<GroundTruth> {
        let k = KEPT.min(set.keys.len());
        Ok(exact_neighbors(self.context.as_ref(), set.rows(), set.queries(), k, set.metric, &self.pool)?)
    }
}

impl Stored {
    /// Opens the files of a folder as `benches/peers/files.py` describes them.
    pub fn open(folder: &Path) -> Result<Self> {
        let meta: Value = serde_json::from_str(&fs::read_to_string(folder.join("meta.json"))?)?;
        let metric = meta["metric"].as_str().context("meta.json has no metric")?.parse()?;
        let open = |part: &str| {
            let named = |extension: &&str| folder.join(format!("{part}.{extension}")).exists();
            let extension = ["fbin", "f16bin", "u8bin", "i8bin"].into_iter().find(named);
            let extension = extension.with_context(|| format!("no {part}.fbin, f16bin, u8bin or i8bin"))?;
            anyhow::Ok(VectorFile::open(folder.join(format!("{part}.{extension}")))?)
        };
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (rows, queries) = (open("base")?, open("query")?);
        let element = if meta["element"] == "f16" { ElementKind::F16 } else { rows.element() };
        Ok(Self { name, metric, element, rows, queries })
    }
}

impl<T: Element> Set<T> {
    pub fn rows(&self) -> MatrixView<'_, T> {
        MatrixView::new(&self.rows, self.dimension).expect("whole rows")
    }

    pub fn queries(&self) -> MatrixView<'_, T> {
        MatrixView::new(&self.queries, self.dimension).expect("whole rows")
    }

    /// Builds an index with the default parameters.
    pub fn build(&self, device: Device) -> Result<Index<T>> {
        Ok(IndexBuilder::new(self.metric).device(device).keys(&self.keys).build(&self.rows())?)
    }

    /// The rows of some keys, ascending, with the same queries.
    pub fn part(&self, keys: Vec<Key>) -> Self {
        let rows = keys.iter().flat_map(|&key| self.row(key)).copied().collect();
        Self { keys, rows, queries: self.queries.clone(), name: self.name.clone(), ..*self }
    }

    /// The vector of a key that is in the set.
    pub fn row(&self, key: Key) -> &[T] {
        let number = self.keys.binary_search(&key).expect("an index returns keys that were inserted");
        self.rows().row(number)
    }

    /// Mean recall of `found`, [`K`] keys per query: the share of them that are no farther than the true neighbor of
    /// rank [`K`].
    pub fn recall(&self, truth: &GroundTruth, found: &[Key]) -> f64 {
        let mut hits = 0;
        for ((query, found), number) in self.queries().rows().zip(found.chunks(K)).zip(0..) {
            let farthest =
                distance(self.metric, query, self.rows().row(truth.truth(number).ids[K - 1] as usize));
            // Sums of floats depend on their order.
            let bound = farthest + 1e-9 * farthest.abs();
            let mut found: Vec<Key> = found.iter().copied().filter(|&key| key != NO_KEY).collect();
            found.sort_unstable();
            found.dedup();
            hits += found.iter().filter(|&&key| distance(self.metric, query, self.row(key)) <= bound).count();
        }
        hits as f64 / (truth.len() * K) as f64
    }

    /// Writes the set to `folder` as `benches/peers/files.py` describes it. f16 becomes f32, which it knows.
    pub fn write(&self, folder: &Path, truth: &GroundTruth) -> Result<()> {
        fs::create_dir_all(folder)?;
        let (extension, dtype) = match T::KIND {
            ElementKind::U8 => ("u8bin", "uint8"),
            ElementKind::I8 => ("i8bin", "int8"),
            ElementKind::F16 | ElementKind::F32 => ("fbin", "float32"),
        };
        for (part, rows) in [("base", self.rows()), ("query", self.queries())] {
            let file = folder.join(format!("{part}.{extension}"));
            if T::KIND == ElementKind::F16 {
                let mut floats = vec![0.0_f32; rows.len() * self.dimension];
                T::slice_to_f32(if part == "base" { &self.rows } else { &self.queries }, &mut floats);
                write_vectors(file, MatrixView::new(&floats, self.dimension)?)?;
            } else {
                write_vectors(file, rows)?;
            }
        }
        truth.write(folder.join("gt.ibin"))?;
        let meta = json!({"metric": self.metric.to_string(), "dtype": dtype, "element": T::KIND.name()});
        Ok(fs::write(folder.join("meta.json"), meta.to_string())?)
    }
}

/// The distance of two vectors in 64 bits; exact for integers, but for cosine.
fn distance<T: Element>(metric: Metric, a: &[T], b: &[T]) -> f64 {
    let sum = |term: fn(f64, f64) -> f64, a: &[T], b: &[T]| -> f64 {
        a.iter().zip(b).map(|(x, y)| term(f64::from(x.to_f32()), f64::from(y.to_f32()))).sum()
    };
    let dot = |a, b| sum(|x, y| x * y, a, b);
    match metric {
        Metric::L2 => sum(|x, y| (x - y) * (x - y), a, b),
        Metric::InnerProduct => -dot(a, b),
        Metric::Cosine => 1.0 - dot(a, b) / (dot(a, a) * dot(b, b)).sqrt(),
    }
}
