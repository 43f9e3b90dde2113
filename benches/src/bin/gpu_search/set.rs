//! A set of `make_sets.py`: its files, its index, and the recall of results.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use jasper::{Element, ElementKind, Index, IndexBuilder, Key, Metric, OpenOptions, VectorFile};
use jasper_core::Slot;
use jasper_core::recall::mean_recall;
use jasper_data::{GroundTruth, Rows};
use jasper_graph::Graph;
use serde_json::json;

/// Vectors with queries and their true neighbors: `sift-1m.base.u8bin`, `sift-1m.query.u8bin`, `sift-1m.gt.ibin`.
pub struct Set {
    /// Its name, `sift-1m`.
    pub name: String,
    base: VectorFile,
    queries: VectorFile,
    truth: GroundTruth,
}

/// Extensions of vector files.
const EXTENSIONS: [&str; 2] = ["u8bin", "fbin"];

impl Set {
    /// Opens the files of the set `name` in `folder`.
    pub fn open(folder: &Path, name: &str) -> Result<Self> {
        let file = |part: &str, extension: &str| folder.join(format!("{name}.{part}.{extension}"));
        let Some(extension) = EXTENSIONS.into_iter().find(|extension| file("base", extension).exists())
        else {
            bail!("{name}: no base file in {}; make it by `make_sets.py {name} FOLDER`", folder.display());
        };
        let truth = GroundTruth::read(file("gt", "ibin"))?;
        let base = VectorFile::open(file("base", extension))?;
        truth.check_ids(base.len()).context(name.to_owned())?;
        Ok(Self { name: name.into(), base, queries: VectorFile::open(file("query", extension))?, truth })
    }

    /// The element type of the file.
    pub fn element(&self) -> ElementKind {
        self.base.element()
    }

    /// Inner product for text-to-image sets, squared L2 for all others.
    pub fn metric(&self) -> Metric {
        if self.name.starts_with("t2i") { Metric::InnerProduct } else { Metric::L2 }
    }

    /// The vectors.
    pub fn vectors<T: Element>(&self) -> Result<Rows<T>> {
        Ok(self.base.load_as()?)
    }

    /// The queries, those with known neighbors first.
    pub fn queries<T: Element>(&self) -> Result<Rows<T>> {
        Ok(self.queries.load_as()?)
    }

    /// Opens the index in `cache`, or builds it and saves it there. Prints how long that took.
    pub fn index(&self, builder: IndexBuilder<'_>, cache: Option<&Path>) -> Result<Index> {
        let file = cache.map(|folder| folder.join(format!("{}.jasper", self.name)));
        let begun = Instant::now();
        if let Some(file) = file.as_ref().filter(|file| file.exists()) {
            return Ok(Index::open(file)?);
        }
        let index = builder.build(&self.base)?;
        let report = index.stats().build.context("it was built")?;
        let (params, seconds) = (index.stats().params, begun.elapsed().as_secs_f64());
        let line = json!({
            "what": "build", "set": self.name, "device": report.device.to_string(), "threads": rayon::current_num_threads(),
            "max_degree": params.max_degree(), "build_beam_width": params.build_beam_width(),
            "max_batch_share": params.max_batch_share(), "alpha": params.alpha(), "seconds": seconds,
            "rows_per_second": index.len() as f64 / seconds, "mean_degree": report.mean_degree,
        });
        println!("{line}");
        if let Some(file) = &file {
            fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
            index.save(file)?;
        }
        Ok(index)
    }

    /// Mean recall@`k` of `keys`, `k` per query. The queries are those of the set, repeated; only the first occurrence
    /// of each counts.
    pub fn recall(&self, k: usize, keys: &[Key]) -> f64 {
        let len = keys.len().min(self.truth.len() * k);
        mean_recall(&keys[..len], k, |query| self.truth.truth(query))
    }
}

/// The graph of an index of f32, with vectors of another element: coordinates are rounded, edges stay. For graphs without
/// deletes.
pub fn convert<T: Element>(index: &Index) -> Result<Index> {
    let other = index.read_graph(|graph: &Graph| -> Result<_> {
        let order: Vec<Slot> = graph.keys().live_slots().collect();
        let mut other = Graph::new(T::KIND, graph.metric(), graph.dimension(), *graph.params())?;
        let (mut row, mut slots) = (Vec::new(), vec![Slot::new(0); graph.slots()]);
        for (number, &slot) in order.iter().enumerate() {
            let vector: Vec<T> = graph.vectors().get(slot).iter().map(|&value| T::from_f32(value)).collect();
            let squared_norm = other.vectors().prepare(number, &vector, &mut row)?;
            let new = other.add_vector(&row, squared_norm)?;
            graph.keys().keys_of(slot).for_each(|key| other.keys_mut().assign_unused(key, new));
            slots[slot.index()] = new;
        }
        let renamed = |old: &[Slot]| old.iter().map(|slot| slots[slot.index()]).collect::<Vec<_>>();
        for slot in order {
            let neighbors = renamed(graph.adjacency().neighbors(slot));
            other.adjacency_mut().set_neighbors(slots[slot.index()], &neighbors);
        }
        other.adjacency_mut().set_start_points(renamed(graph.adjacency().start_points()));
        Ok(other)
    })??;
    Ok(OpenOptions::new().open_graph(other)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper::{Device, MatrixView, SearchParams, f16};
    use jasper_core::no_progress;
    use jasper_core::synthetic::Clusters;
    use jasper_data::{ThreadPoolBuilder, exact_knn, write_vectors};

    /// The set `tiny-1k` of some vectors and queries, in files.
    fn files() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let (rows, queries): (Vec<f32>, Vec<f32>) =
            (Clusters::new(8, 1).rows(1000, 0), Clusters::new(8, 1).rows(20, 1));
        let rows = MatrixView::new(&rows, 8).unwrap();
        let queries = MatrixView::new(&queries, 8).unwrap();
        let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let truth = exact_knn(rows, queries, 20, Metric::L2, &pool, &mut no_progress).unwrap();
        write_vectors(folder.path().join("tiny-1k.base.fbin"), rows).unwrap();
        write_vectors(folder.path().join("tiny-1k.query.fbin"), queries).unwrap();
        truth.write(folder.path().join("tiny-1k.gt.ibin")).unwrap();
        folder
    }

    #[test]
    fn an_index_is_built_once() {
        let folder = files();
        let set = Set::open(folder.path(), "tiny-1k").unwrap();
        assert_eq!((set.element(), set.metric(), set.truth.len()), (ElementKind::F32, Metric::L2, 20));
        let cache = folder.path().join("graphs");
        let builder = |max_degree| IndexBuilder::new(Metric::L2).device(Device::CPU).max_degree(max_degree);
        let built = set.index(builder(64), Some(&cache)).unwrap();
        // A second build would refuse this degree.
        let opened = set.index(builder(0), Some(&cache)).unwrap();
        assert_eq!((built.len(), opened.len(), opened.stats().params.max_degree()), (1000, 1000, 64));
        assert!(set.index(builder(0), None).is_err());
        assert!(Set::open(folder.path(), "none-1k").is_err());
    }

    #[test]
    fn converted_graphs_find_the_same() {
        let folder = files();
        let set = Set::open(folder.path(), "tiny-1k").unwrap();
        let index = set.index(IndexBuilder::new(Metric::L2).device(Device::CPU), None).unwrap();
        let converted = convert::<f16>(&index).unwrap();
        assert_eq!(converted.check().unwrap().mean_degree, index.check().unwrap().mean_degree);
        let queries = set.queries::<f16>().unwrap();
        let matches = converted.search_batch(queries.view(), SearchParams::new(10)).unwrap();
        assert!(set.recall(10, matches.keys()) > 0.95);
    }

    #[test]
    fn recall_counts_queries_that_are_known() {
        let folder = files();
        let set = Set::open(folder.path(), "tiny-1k").unwrap();
        let right: Vec<u64> =
            (0..20).flat_map(|query| &set.truth.truth(query).ids[..10]).map(|&id| id.into()).collect();
        let again: Vec<u64> = right.iter().copied().chain([u64::MAX; 10]).collect();
        assert_eq!(set.recall(10, &again), 1.0, "the 21st query is the first again, and counts no more");
        let wrong: Vec<u64> = right.iter().map(|id| id + 5000).collect();
        assert_eq!((set.recall(10, &wrong), set.recall(10, &right[..100])), (0.0, 1.0));
    }
}
