//! Shared helpers: small sets, exact results, and an index as bytes.

use std::collections::{BTreeMap, BTreeSet};

use jasper::{
    Element, Error, Hit, Index, IndexBuilder, Key, MatrixView, Metric, NO_KEY, SearchParams, SearchReport,
    Vectors,
};

/// Calls a generic function of one element type, and any arguments, for all four.
macro_rules! for_each_element {
    ($test:ident $(, $argument:expr)*) => {{
        $test::<f32>($($argument),*);
        $test::<jasper::f16>($($argument),*);
        $test::<u8>($($argument),*);
        $test::<i8>($($argument),*);
    }};
}
pub(crate) use for_each_element;

/// Rows of `dimension` coordinates.
pub fn view<T: Element>(rows: &[T], dimension: usize) -> MatrixView<'_, T> {
    MatrixView::new(rows, dimension).expect("whole rows")
}

/// A builder for small sets: edges and frontiers small enough that graphs of some hundred vertices are not complete.
pub fn small<'a>(metric: Metric) -> IndexBuilder<'a> {
    IndexBuilder::new(metric).max_degree(8).build_beam_width(16).threads(2)
}

/// The index as its file.
pub fn bytes_of(index: &Index) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.jasper");
    index.save(&path).expect("room on the disk");
    std::fs::read(path).expect("the file just saved")
}

/// The distance of two vectors by the metric's definition, in f64.
pub fn distance<T: Element>(metric: Metric, a: &[T], b: &[T]) -> f64 {
    let pairs = || a.iter().zip(b).map(|(x, y)| (f64::from(x.to_f32()), f64::from(y.to_f32())));
    let dot: f64 = pairs().map(|(x, y)| x * y).sum();
    match metric {
        Metric::L2 => pairs().map(|(x, y)| (x - y).powi(2)).sum(),
        Metric::InnerProduct => -dot,
        Metric::Cosine => {
            let squared = |v: &[T]| v.iter().map(|x| f64::from(x.to_f32()).powi(2)).sum::<f64>();
            1.0 - dot / (squared(a) * squared(b)).sqrt()
        }
    }
}

/// Tolerance of the distance of two vectors, for the rounding of this element and metric.
pub fn tolerance<T: Element>(metric: Metric, a: &[T], b: &[T]) -> f64 {
    let squared = |v: &[T]| v.iter().map(|x| f64::from(x.to_f32()).powi(2)).sum::<f64>();
    match (metric, T::EXACT_SUMS, T::KIND.size()) {
        // Rows are stored at unit length, in their own type.
        (Metric::Cosine, false, 2) => 4e-3,
        (Metric::Cosine, ..) => 1e-6,
        (_, true, _) => 0.0,
        (_, false, _) => 1e-6 * (squared(a) + squared(b)),
    }
}

/// Checks hits against the definition: distances are right and ascend, no key repeats, and no nearer key is missing.
pub fn assert_exact<'a, T: Element>(
    metric: Metric,
    query: &[T],
    hits: &[Hit],
    rows: impl IntoIterator<Item = (Key, &'a [T])>,
) {
    let rows: BTreeMap<Key, &[T]> = rows.into_iter().collect();
    assert!(hits.is_sorted_by(|a, b| a.distance <= b.distance), "{hits:?}");
    assert_eq!(keys(hits).into_iter().collect::<BTreeSet<_>>().len(), hits.len(), "a key twice: {hits:?}");
    for hit in hits {
        let row = rows.get(&hit.key).unwrap_or_else(|| panic!("{hit:?} cannot be an answer"));
        let (given, exact) = (f64::from(hit.distance), distance(metric, query, row));
        assert!(
            (given - exact).abs() <= tolerance(metric, query, row),
            "{} {metric}: {hit:?}, {exact}",
            T::KIND
        );
    }
    let all = exact(metric, query, rows.iter().map(|(&key, &row)| (key, row)));
    for (hit, (key, exact)) in hits.iter().zip(&all) {
        let slack = 2.0 * tolerance(metric, query, rows[key]);
        assert!(f64::from(hit.distance) <= exact + slack, "{} {metric}: {hit:?}, {key} at {exact}", T::KIND);
    }
}

/// All keys with their distances from `query`, nearest first.
pub fn exact<'a, T: Element>(
    metric: Metric,
    query: &[T],
    rows: impl IntoIterator<Item = (Key, &'a [T])>,
) -> Vec<(Key, f64)> {
    let mut all: Vec<_> = rows.into_iter().map(|(key, row)| (key, distance(metric, query, row))).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    all
}

/// All hits, from a search whose frontier holds the whole index.
pub fn everything<T: Element>(index: &Index, query: &[T]) -> Vec<Hit> {
    let wide = (index.stats().live_vertices + index.stats().tombstones).max(index.len()).max(1);
    index.search(query, SearchParams::new(wide).beam_width(wide)).expect("a valid query")
}

/// The keys of some hits.
pub fn keys(hits: &[Hit]) -> Vec<Key> {
    hits.iter().map(|hit| hit.key).collect()
}

/// Batches of searches as lists of hits, `k` per query, with [`Hit::NONE`] where there are fewer.
pub trait SearchHits {
    fn search_hits<'a>(
        &self,
        queries: impl Into<Vectors<'a>>,
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, Error>;

    fn search_hits_into<'a>(
        &self,
        queries: impl Into<Vectors<'a>>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, Error>;
}

impl SearchHits for Index {
    fn search_hits<'a>(
        &self,
        queries: impl Into<Vectors<'a>>,
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, Error> {
        let (keys, distances) = self.search_batch(queries.into(), params)?.into_arrays();
        Ok(keys.into_iter().zip(distances).map(|(key, distance)| Hit { key, distance }).collect())
    }

    fn search_hits_into<'a>(
        &self,
        queries: impl Into<Vectors<'a>>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, Error> {
        let (mut keys, mut distances) = (vec![NO_KEY; hits.len()], vec![f32::INFINITY; hits.len()]);
        let report = self.search_batch_into(queries, params, &mut keys, &mut distances)?;
        let found = keys.into_iter().zip(distances).map(|(key, distance)| Hit { key, distance });
        hits.iter_mut().zip(found).for_each(|(hit, found)| *hit = found);
        Ok(report)
    }
}

/// A vector as an index returns it.
pub fn floats<T: Element>(vector: &[T]) -> Vec<f32> {
    vector.iter().map(|x| x.to_f32()).collect()
}
