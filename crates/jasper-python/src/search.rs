//! Searches.

use std::time::{Duration, Instant};

use jasper::tune::Goal;
use jasper::{Device, Distances, Filter as RustFilter, Hit, Key, Matches, SearchParams, Target};
use numpy::{PyArrayDyn, PyArrayMethods, PyReadwriteArrayDyn, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::arrays::{Array, Rows};
use crate::call;
use crate::device::DeviceArray;
use crate::errors::{Error, Integer, ParameterError, Raise, count};
use crate::filter::Filters;
use crate::index::Index;
use crate::interop;
use crate::results::{self, matches, matches_of};

/// Ctrl-C stops a batch within about this time.
const PART_TIME: Duration = Duration::from_millis(100);

/// Matches that a search within a radius begins with.
const RADIUS_K: u64 = 10;

/// Arguments that all searches have.
pub struct Options {
    pub k: usize,
    beam_width: Option<usize>,
    recall: Option<f64>,
    filters: Filters,
    distances: Distances,
    rerank: Option<usize>,
}

impl Options {
    pub fn new(
        k: Integer,
        beam_width: Option<Integer>,
        recall: Option<f64>,
        filter: Option<&Bound<'_, PyAny>>,
        distances: &str,
        rerank: Option<Integer>,
    ) -> PyResult<Self> {
        let k = count("k", k)?;
        let beam_width = beam_width.map(|width| count("beam_width", width)).transpose()?;
        let rerank = rerank.map(|rerank| count("rerank", rerank)).transpose()?;
        let refuse = |message: &str| Err(ParameterError::new_err(message.to_owned()));
        let distances = match (distances, rerank) {
            ("auto", _) => Distances::Auto,
            ("exact", None) => Distances::Exact,
            ("quantized", rerank) => Distances::Quantized { rerank: rerank.unwrap_or(usize::MAX) },
            ("exact", Some(_)) => {
                return refuse("rerank is for quantized distances; leave it out with distances=\"exact\"");
            }
            (other, _) => {
                return refuse(&format!(
                    "distances ({other:?}) must be \"auto\", \"exact\" or \"quantized\""
                ));
            }
        };
        if recall.is_some() && beam_width.is_some() {
            return refuse("recall chooses the beam width; give one of recall and beam_width");
        }
        let filters = Filters::from_argument(filter)?;
        Ok(Self { k, beam_width, recall, filters, distances, rerank })
    }

    /// The filters, for [`Self::params`].
    pub fn filters(&self) -> Vec<RustFilter<'_>> {
        self.filters.list()
    }

    /// The search parameters for a batch of `queries` queries, with [`Self::filters`].
    pub fn params<'a>(
        &self,
        index: &jasper::Index,
        queries: usize,
        filters: &'a [RustFilter<'a>],
    ) -> PyResult<SearchParams<'a>> {
        let mut params = SearchParams::new(self.k);
        if let Some(recall) = self.recall {
            let goal = Goal { k: self.k, recall };
            goal.check().map_err(Raise::raise)?;
            params = index.tuned().params(goal, queries).ok_or_else(|| {
                let k = self.k;
                Error::new_err(format!(
                    "no search is tuned for recall {recall} at k {k}; call Index.tune({recall}, {k})"
                ))
            })?;
        }
        params.beam_width = self.beam_width.or(params.beam_width);
        params.distances = match (self.distances, self.rerank) {
            (Distances::Auto, Some(rerank)) if index.stats().quantization.is_some() => {
                Distances::Quantized { rerank }
            }
            (distances, _) => distances,
        };
        params.filter = self.filters.of(filters);
        params.check_filters(queries).map_err(Raise::raise)?;
        // Here, because batches are searched in parts, and before memory is allocated for results.
        index.limits().check(&params, queries).map_err(Raise::raise)?;
        params.check().map_err(Raise::raise)?;
        Ok(params)
    }
}

#[pymethods]
impl Index {
    /// Finds the keys nearest to a query, or to each of several.
    ///
    /// queries is an array of shape (dim,) or (n, dim), of numpy or any library that has DLPack or the CUDA array
    /// interface, in host memory or on the device of the index. Numbers are converted to the type of the index, on a device
    /// only floats to floats. Returns Matches(keys, distances) of shape (k,) or (n, k), nearest first: keys are int64,
    /// distances float32, in the metric of the index. Where there are fewer than k, keys are -1 and distances inf.
    ///
    /// beam_width
    ///     How many of the nearest vectors found are expanded; by default the larger of 64 and 2 k. A wider beam finds
    ///     more and takes longer.
    /// recall
    ///     Uses the beam that Index.tune found for this recall, instead of beam_width.
    /// filter
    ///     Which keys may be returned: keys; bools, of which that of key 0 is the first; an expression on attributes, such
    ///     as "year >= 2020 and lang in ('en', 'de')" or {"year": {"$gte": 2020}}; a Filter; or a list of such filters, one
    ///     for each query.
    /// distances
    ///     Those that traverse the graph: "exact", or "quantized", estimated from the codes of a quantized index.
    ///     "auto" is "quantized" if the index is quantized, and "exact" otherwise.
    /// rerank
    ///     How many of the nearest vectors found by estimated distances get exact ones in the end; the whole frontier
    ///     by default. With 0, results have estimated distances. Ignored if distances is "auto" and the
    ///     index is not quantized.
    /// out
    ///     Arrays of int64 and float32 in host memory to write the results to, contiguous, of the shape of the results.
    /// stream
    ///     For queries on a device, a stream of that device: its number, or an object of torch, cupy or cuda.core. The
    ///     search is queued there and not waited for: keep the queries, and do not change them, until the stream is
    ///     past it. What the current stream does next waits for the results: keep these until it is past what reads
    ///     them. By default, the search follows the work of the current stream, and results are complete on return.
    ///
    /// Results are arrays of the library of the queries, where they are. On a device, queries are not copied if they
    /// are contiguous, of the type of the index, rows are multiples of 16 bytes, and the metric is not "cosine" of
    /// floats; results are views with strides. Values are not checked there, which would wait for the device: a query
    /// with NaN or infinity gets arbitrary keys; other queries are unaffected. With a filter or deleted vectors there
    /// may be fewer than k. Of identical vectors only the first key is returned.
    ///
    /// May be called from several threads. Raises ParameterError.
    ///
    /// >>> import jasper, numpy as np
    /// >>> vectors = np.random.default_rng(0).random((1000, 16), dtype=np.float32)
    /// >>> index = jasper.Index.build(vectors)
    /// >>> keys, distances = index.search(vectors[:3], 10)
    /// >>> keys.shape, keys[:, 0], distances[:, 0]
    /// ((3, 10), array([0, 1, 2]), array([0., 0., 0.], dtype=float32))
    #[pyo3(signature = (queries, k = Integer::from(10), *, beam_width = None, recall = None, filter = None,
                        distances = "auto", rerank = None, out = None, stream = None),
           text_signature = "($self, queries, k=10, *, beam_width=None, recall=None, filter=None, distances=\"auto\", \
                             rerank=None, out=None, stream=None)")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn search<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'py, PyAny>,
        k: Integer,
        beam_width: Option<Integer>,
        recall: Option<f64>,
        filter: Option<&Bound<'py, PyAny>>,
        distances: &str,
        rerank: Option<Integer>,
        out: Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = Options::new(k, beam_width, recall, filter, distances, rerank)?;
        // Not asked of arrays of numpy, whose answer takes longer than a step of a search.
        let is_numpy = queries.is_instance_of::<PyUntypedArray>();
        let on_device = if is_numpy { None } else { DeviceArray::new(queries, "queries")? };
        let refuse = |message: &str| Err(ParameterError::new_err(message.to_owned()));
        match (&on_device, &out, stream) {
            (Some(_), Some(_), _) => return refuse("out is for queries in host memory; leave it out"),
            (None, _, Some(_)) => return refuse("stream is for queries on a CUDA device; leave it out"),
            _ => {}
        }
        if let Some(on_device) = on_device {
            return self.search_on_device(&on_device, &options, stream);
        }
        let array = Array::new(queries, "queries")?;
        match out {
            Some(out) => self.search_into(py, &array, &options, out),
            None => interop::matches_like(queries, &self.search_new(py, &array, &options)?),
        }
    }

    /// How a search with a filter is executed, for a batch of queries: a report with the number of keys, how many of them are
    /// allowed, about and at most, and the width of the beam, or None for an exact scan of the keys that are allowed.
    ///
    /// >>> import jasper
    /// >>> index = jasper.Index.build([[1.0], [2.0], [3.0]], attributes={"year": [1999, 2020, 2024]})
    /// >>> index.explain("year >= 2020").allowed
    /// 2
    #[pyo3(signature = (filter = None, k = Integer::from(10), *, beam_width = None, queries = Integer::from(1)),
           text_signature = "($self, filter=None, k=10, *, beam_width=None, queries=1)")]
    fn explain<'py>(
        &self,
        py: Python<'py>,
        filter: Option<&Bound<'py, PyAny>>,
        k: Integer,
        beam_width: Option<Integer>,
        queries: Integer,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = Options::new(k, beam_width, None, filter, "auto", None)?;
        let queries = count("queries", queries)?;
        let explained = self.call(py, |index| {
            let filters = options.filters();
            let params = options.params(index, filters.len().max(1), &filters)?;
            index.explain(params, queries).map_err(Raise::raise)
        })?;
        results::report(py, &explained)
    }

    /// Finds the keys nearest to the vector of a key, or of an id, without the key itself. Arguments and results are as of
    /// search, for one query. Raises UnknownKeyError.
    ///
    /// >>> import jasper, numpy as np
    /// >>> index = jasper.Index.build(np.array([[0.0], [1.0], [3.0]], dtype=np.float32))
    /// >>> index.search_by_key(0, 2).keys
    /// array([1, 2])
    #[pyo3(signature = (key, k = Integer::from(10), *, beam_width = None, recall = None, filter = None,
                        distances = "auto", rerank = None),
           text_signature = "($self, key, k=10, *, beam_width=None, recall=None, filter=None, distances=\"auto\", \
                             rerank=None)")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn search_by_key<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        k: Integer,
        beam_width: Option<Integer>,
        recall: Option<f64>,
        filter: Option<&Bound<'py, PyAny>>,
        distances: &str,
        rerank: Option<Integer>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = Options::new(k, beam_width, recall, filter, distances, rerank)?;
        let key = self.named_one(py, key)?;
        self.search_one(py, &options, |index, params| index.search(Target::key(key), params))
    }

    /// Finds the keys within a distance of a query, or of each of several: those whose distance in the metric of the
    /// index is at most `radius` (squared, for "l2"), nearest first, as many as there are. Some may be missed, fewer
    /// with a wider beam.
    ///
    /// queries is an array of shape (dim,) or (n, dim). For several, the results have as many columns as the most keys
    /// of a query; where there are fewer, keys are -1 and distances inf. The other arguments are as of search.
    ///
    /// >>> import jasper, numpy as np
    /// >>> index = jasper.Index.build(np.array([[0.0], [1.0], [3.0]], dtype=np.float32))
    /// >>> index.search_within([0.0], 1.5).keys
    /// array([0, 1])
    /// >>> index.search_within([[0.0], [3.0]], 1.5).keys
    /// array([[ 0,  1],
    ///        [ 2, -1]])
    #[pyo3(signature = (queries, radius, *, beam_width = None, filter = None, distances = "auto", rerank = None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn search_within<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'py, PyAny>,
        radius: f32,
        beam_width: Option<Integer>,
        filter: Option<&Bound<'py, PyAny>>,
        distances: &str,
        rerank: Option<Integer>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = Options::new(RADIUS_K.into(), beam_width, None, filter, distances, rerank)?;
        let (given, queries) = (queries, Array::new(queries, "queries")?);
        let rows = queries.rows()?;
        if queries.is_one() {
            let hits = self.call(py, |index| {
                let filters = options.filters();
                let params = options.params(index, 1, &filters)?;
                index.search(Target::within(rows, radius), params).map_err(Raise::raise)
            })?;
            let found = hits.into_iter().map(|Hit { key, distance }| (key, distance)).unzip();
            return interop::matches_like(given, &matches_of(py, found, None)?);
        }
        let found = self.call(py, |index| {
            let filters = options.filters();
            let params = options.params(index, rows.len(), &filters)?;
            within_in_parts(index, rows, radius, params)
        })?;
        let shape = [found.queries(), found.k()];
        interop::matches_like(given, &matches_of(py, found.into_arrays(), Some(shape))?)
    }
}

impl Index {
    /// Searches for one query, and returns new arrays.
    fn search_one<'py>(
        &self,
        py: Python<'py>,
        options: &Options,
        search: impl FnOnce(&jasper::Index, SearchParams<'_>) -> Result<Vec<Hit>, jasper::Error> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = self.call(py, |index| {
            let filters = options.filters();
            let params = options.params(index, 1, &filters)?;
            let mut found = Matches::new(1, options.k).map_err(Raise::raise)?;
            let hits = search(index, params).map_err(Raise::raise)?;
            found.as_mut().fill(hits.into_iter());
            Ok(found.into_arrays())
        })?;
        matches_of(py, found, None)
    }

    /// Searches, and returns new arrays.
    fn search_new<'py>(
        &self,
        py: Python<'py>,
        queries: &Array<'py>,
        options: &Options,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rows = queries.rows()?;
        if queries.is_one() {
            return self.search_one(py, options, |index, params| index.search(rows, params));
        }
        self.call(py, |index| options.params(index, rows.len(), &options.filters()).map(drop))?;
        self.search_into(py, queries, options, results::arrays(py, rows.len(), options.k)?)
    }

    /// Searches, and writes to these arrays.
    fn search_into<'py>(
        &self,
        py: Python<'py>,
        queries: &Array<'py>,
        options: &Options,
        (keys, distances): (Bound<'py, PyAny>, Bound<'py, PyAny>),
    ) -> PyResult<Bound<'py, PyAny>> {
        let rows = queries.rows()?;
        let shape = [rows.len(), options.k];
        let shape = if queries.is_one() { &shape[1..] } else { &shape[..] };
        {
            let (mut keys, mut distances) = (output::<i64>(&keys, shape)?, output::<f32>(&distances, shape)?);
            let keys: &mut [Key] = bytemuck::cast_slice_mut(keys.as_slice_mut()?);
            let distances = distances.as_slice_mut()?;
            self.call(py, |index| {
                let filters = options.filters();
                let params = options.params(index, rows.len(), &filters)?;
                search_parts(index, rows, params, keys, distances)
            })?;
        }
        matches(keys, distances, py)
    }
}

/// An array of the caller to write results to.
fn output<'py, T: numpy::Element>(
    array: &Bound<'py, PyAny>,
    shape: &[usize],
) -> PyResult<PyReadwriteArrayDyn<'py, T>> {
    let array = array.cast::<PyArrayDyn<T>>().ok();
    let array = array.filter(|array| array.shape() == shape && array.is_c_contiguous() && array.is_aligned());
    array.and_then(|array| array.try_readwrite().ok()).ok_or_else(|| {
        ParameterError::new_err(format!(
            "out must be an array of int64 and one of float32, contiguous, writeable and not in use, of shape {shape:?}"
        ))
    })
}

/// Searches for a batch, one part after another, so that Ctrl-C is noticed in between.
fn search_parts(
    index: &jasper::Index,
    queries: Rows<'_>,
    params: SearchParams<'_>,
    keys: &mut [Key],
    distances: &mut [f32],
) -> PyResult<()> {
    let mut start = 0;
    let mut part = if index.device() == Device::CPU { 1 << 10 } else { 1 << 16 };
    loop {
        let end = queries.len().min(start + part);
        let entries = start * params.k..end * params.k;
        let began = Instant::now();
        index
            .search_batch_into(
                queries.slice(start..end),
                params.of_queries(start..end),
                &mut keys[entries.clone()],
                &mut distances[entries],
            )
            .map_err(Raise::raise)?;
        if end == queries.len() {
            return Ok(());
        }
        start = end;
        part = if began.elapsed() < PART_TIME / 2 { part * 2 } else { (part / 2).max(1) };
        call::attach(|py| py.check_signals())?;
    }
}

/// Searches within a radius for a batch, in parts between which Ctrl-C is noticed.
fn within_in_parts(
    index: &jasper::Index,
    queries: Rows<'_>,
    radius: f32,
    params: SearchParams<'_>,
) -> PyResult<Matches> {
    const PART: usize = 1 << 10;
    let mut parts = Vec::new();
    for start in (0..queries.len().max(1)).step_by(PART) {
        let part = start..queries.len().min(start + PART);
        let target = Target::within(queries.slice(part.clone()), radius);
        parts.push(index.search_batch(target, params.of_queries(part)).map_err(Raise::raise)?);
        call::attach(|py| py.check_signals())?;
    }
    let most = parts.iter().map(Matches::k).max().unwrap_or(1);
    let mut found = Matches::new(queries.len(), most).map_err(Raise::raise)?;
    let rows = parts.iter().flat_map(|part| (0..part.queries()).map(|query| part.hits(query)));
    found.as_mut().rows(most).zip(rows).for_each(|(mut row, hits)| _ = row.fill(hits));
    Ok(found)
}
