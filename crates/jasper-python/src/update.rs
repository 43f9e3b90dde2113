//! Changes: inserts, deletes, consolidation, quantization and tuning.

use jasper::attributes::{ColumnKind, Frame, Value};
use jasper::tune::{Goal, TuneQueries};
use jasper::{DeleteKeys, Key, NewKeys, SearchLimits};
use jasper_data::GroundTruth;
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::arrays::{self, Array, Input, key_array};
use crate::attributes::optional_frame;
use crate::errors::{Integer, ParameterError, Raise, count};
use crate::functions::neighbors;
use crate::index::Index;
use crate::options::quantize_mode;
use crate::results::report;

/// Keys are below this, because they are int64 in Python.
const KEY_LIMIT: Key = 1 << 63;

#[pymethods]
impl Index {
    /// Adds vectors, of shape (n, dim), or (dim,) for one, and returns their keys. Without keys, they get those that
    /// follow the largest key ever used. All are added, or none. Numbers are rounded to the type of the index. attributes
    /// and ids are those of Index.build; ids is needed only to make the column of ids.
    ///
    /// Raises DuplicateKeyError if a key is in the index already, or given twice; ParameterError, also for numbers that
    /// the type of the index cannot hold.
    ///
    /// >>> import jasper
    /// >>> index = jasper.Index(2)
    /// >>> index.insert([[1.0, 2.0], [3.0, 4.0]])
    /// array([0, 1])
    /// >>> index.insert([5.0, 6.0], keys=100)
    /// array([100])
    #[pyo3(signature = (vectors, keys = None, *, attributes = None, ids = None, progress = None))]
    fn insert<'py>(
        &self,
        py: Python<'py>,
        vectors: &Bound<'py, PyAny>,
        keys: Option<&Bound<'py, PyAny>>,
        attributes: Option<&Bound<'py, PyAny>>,
        ids: Option<&str>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let keys = keys.map(arrays::keys).transpose()?;
        let vectors = Input::new(vectors, None)?;
        let source = vectors.source()?;
        let attributes = optional_frame(attributes, source.len(), ids)?;
        let keys = if let Some(keys) = keys {
            let entries = NewKeys::from(&keys).with_attributes(attributes.as_ref());
            self.small_or_long(py, progress, source.len(), |index| {
                let _turn = self.share_ids();
                index.insert(source, entries)
            })?;
            keys
        } else {
            let next = self.call(py, |index| Ok(index.stats().next_key))?;
            if source.len() as Key > KEY_LIMIT.saturating_sub(next) {
                return Err(ParameterError::new_err("there are no keys left below 2**63; give keys"));
            }
            let entries = NewKeys::NEXT.with_attributes(attributes.as_ref());
            let insert = |index: &jasper::Index| {
                let _turn = self.share_ids();
                index.insert(source, entries)
            };
            let report = self.small_or_long(py, progress, source.len(), insert)?;
            report.first_key.into_iter().flat_map(|first| first..first + report.keys as Key).collect()
        };
        Ok(key_array(py, keys))
    }

    /// Adds vectors under keys, and replaces those of keys that are in the index already, with their attributes. Returns
    /// the keys. Arguments are as of insert.
    ///
    /// Without keys, attributes must have the column of ids. A vector whose id is in the index replaces that of its key;
    /// the others get new keys, as those without an id do. Ids are looked up and vectors replaced in one step for other
    /// methods of this object, but not for changes of insert_async and upsert_async that are queued meanwhile: do not give
    /// new keys to these and let upsert choose others at the same time.
    ///
    /// >>> import jasper
    /// >>> index = jasper.Index.build([[1.0], [2.0]], attributes={"name": ["a", "b"]}, ids="name")
    /// >>> index.upsert([[3.0], [4.0]], attributes={"name": ["c", "a"]})
    /// array([2, 0])
    /// >>> index["a"]
    /// array([4.], dtype=float32)
    #[pyo3(signature = (vectors, keys = None, *, attributes = None, ids = None, progress = None))]
    fn upsert<'py>(
        &self,
        py: Python<'py>,
        vectors: &Bound<'py, PyAny>,
        keys: Option<&Bound<'py, PyAny>>,
        attributes: Option<&Bound<'py, PyAny>>,
        ids: Option<&str>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let keys = keys.map(arrays::keys).transpose()?;
        let vectors = Input::new(vectors, None)?;
        let source = vectors.source()?;
        let attributes = optional_frame(attributes, source.len(), ids)?;
        if let Some(keys) = keys {
            let entries = NewKeys::from(&keys).with_attributes(attributes.as_ref());
            self.small_or_long(py, progress, source.len(), |index| {
                let _turn = self.share_ids();
                index.upsert(source, entries)
            })?;
            return Ok(key_array(py, keys));
        }
        let rows = self.call(py, |index| ids_of_rows(index, attributes.as_ref()))?;
        let keys = self.small_or_long(py, progress, source.len(), |index| {
            let _turn = self.lock_ids();
            let mut next = index.stats().next_key..;
            let key =
                |id: &Option<String>| id.as_ref().and_then(|id| index.key_of(id)).or_else(|| next.next());
            let keys: Vec<Key> = rows.iter().map_while(key).collect();
            index.upsert(source, NewKeys::from(&keys).with_attributes(attributes.as_ref())).map(|_| keys)
        })?;
        Ok(key_array(py, keys))
    }

    /// Deletes a key, an id, or an array of them, and returns how many. Searches no longer return them; their vectors are
    /// removed by consolidate, and can be restored until then.
    ///
    /// Raises UnknownKeyError if a key is not in the index, or ignores such keys if missing is "ignore".
    ///
    /// >>> import jasper
    /// >>> index = jasper.Index(1)
    /// >>> keys = index.insert([[0.0], [1.0], [2.0]])
    /// >>> index.delete([0, 1, 8], missing="ignore"), len(index)
    /// (2, 1)
    #[pyo3(signature = (keys, *, missing = "raise"))]
    fn delete(&self, py: Python<'_>, keys: &Bound<'_, PyAny>, missing: &str) -> PyResult<usize> {
        let keys = self.named(py, keys, missing == "ignore")?;
        let keys = match missing {
            "raise" => DeleteKeys::All(&keys),
            "ignore" => DeleteKeys::Present(&keys),
            other => {
                return Err(ParameterError::new_err(format!(
                    "missing ({other:?}) must be \"raise\" or \"ignore\""
                )));
            }
        };
        self.call(py, |index| index.delete(keys).map_err(Raise::raise))
    }

    /// Deletes a key, or an id. Raises UnknownKeyError.
    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = self.named_one(py, key)?;
        self.call(py, |index| index.delete(&[key]).map(drop).map_err(Raise::raise))
    }

    /// Restores deleted keys, which is possible until consolidate. Raises UnknownKeyError for keys that cannot be
    /// restored, and DuplicateKeyError for those that are not deleted; none is restored then.
    fn undelete(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let keys = arrays::keys(keys)?;
        self.call(py, |index| index.undelete(&keys).map_err(Raise::raise))
    }

    /// Adds all vectors of another index, with their keys and attributes, and returns a report. The other index stays
    /// as it is; it may have another dtype or be on another device. This is an insert of as many vectors: merge the
    /// smaller index into the larger one.
    ///
    /// Raises DuplicateKeyError if a key is in both; ParameterError if the metrics or dimensions differ.
    ///
    /// >>> import jasper
    /// >>> index, other = jasper.Index.build([[0.0], [1.0]]), jasper.Index(1)
    /// >>> keys = other.insert([[2.0]], keys=7)
    /// >>> index.merge(other).keys, index[7]
    /// (1, array([2.], dtype=float32))
    #[pyo3(signature = (other, *, progress = None))]
    fn merge<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, Self>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let other = other.get();
        let merged = self.long_with(py, other, progress, |index, other| {
            let _turn = self.share_ids();
            index.merge(other)
        })?;
        report(py, &merged)
    }

    /// Removes deleted vectors from the graph and frees their memory for inserts. It is worthwhile when a tenth of the
    /// vectors is deleted. Returns a report.
    ///
    /// >>> import jasper
    /// >>> index = jasper.Index(1)
    /// >>> keys = index.insert([[0.0], [1.0], [2.0]])
    /// >>> del index[1]
    /// >>> index.consolidate().freed
    /// 1
    #[pyo3(signature = (*, progress = None))]
    fn consolidate<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        report(py, &self.long(py, progress, |index| index.consolidate())?)
    }

    /// Moves vectors into freed memory, and returns the memory behind them to the system. Searches wait. Returns a
    /// report.
    #[pyo3(signature = (*, progress = None))]
    fn compact<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        report(py, &self.long(py, progress, |index| index.compact())?)
    }

    /// Quantizes the vectors, for faster searches, and returns the name of the quantization: "rabitq:BITS" with 1 to 8
    /// bits per coordinate, or "mixed:SECTORS" of 32 bytes per vector. "auto" tries some and keeps the one whose searches
    /// cost least, within the precision of the costs, on the device of the index; if exact searches cost less, it returns
    /// None, and the index has no codes. Replaces the codes that there are. None drops them: searches are exact again.
    ///
    /// "sketches" keeps the codes that there are, and adds bytes that speed up exact searches of float32 on the CPU, with
    /// the same results. They are not saved with the index.
    ///
    /// Raises ParameterError for codes by which searches would lose most neighbors of some vectors, as those of few far
    /// clusters or of a tight one in other data do; force=True takes them. "auto" passes over them.
    ///
    /// >>> import jasper, numpy as np
    /// >>> vectors = np.random.default_rng(0).random((1000, 32), dtype=np.float32)
    /// >>> index = jasper.Index.build(vectors)
    /// >>> index.quantize("rabitq:4")
    /// 'rabitq:4'
    #[pyo3(signature = (quantization = Some("auto"), *, force = false, progress = None),
           text_signature = "($self, quantization=\"auto\", *, force=False, progress=None)")]
    fn quantize(
        &self,
        py: Python<'_>,
        quantization: Option<&str>,
        force: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Option<String>> {
        let device = self.call(py, |index| Ok(index.device()))?;
        let mode = quantize_mode(quantization, device, force)?;
        let report = self.long(py, progress, |index| index.quantize(mode))?;
        Ok(report.quantization.map(|quantization| quantization.to_string()))
    }

    /// Drops the vectors of a quantized index and keeps their codes. It can be searched, with estimated distances, and
    /// keys can be deleted; other changes raise Error.
    fn drop_vectors(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |index| index.drop_vectors().map_err(Raise::raise))
    }

    /// Bounds what a search may ask for, for services that pass on the parameters of their clients: memory and time are
    /// proportional to them. A search beyond a bound raises ParameterError. None is no bound. Not saved with the index.
    ///
    /// >>> import jasper
    /// >>> index = jasper.Index(2)
    /// >>> index.set_limits(max_k=100, max_beam_width=1000, max_queries=10_000)
    #[pyo3(signature = (*, max_k = None, max_beam_width = None, max_queries = None))]
    fn set_limits(
        &self,
        py: Python<'_>,
        max_k: Option<Integer>,
        max_beam_width: Option<Integer>,
        max_queries: Option<Integer>,
    ) -> PyResult<()> {
        let bound = |name, value: Option<Integer>| value.map_or(Ok(usize::MAX), |value| count(name, value));
        let limits = SearchLimits::new()
            .max_k(bound("max_k", max_k)?)
            .max_beam_width(bound("max_beam_width", max_beam_width)?)
            .max_queries(bound("max_queries", max_queries)?);
        self.call(py, |index| {
            index.set_limits(limits);
            Ok(())
        })
    }

    /// Finds the narrowest beam that reaches a recall at k, and keeps it with the index for search(recall=...).
    ///
    /// Queries are a sample of the vectors of the index, or those given, of shape (n, dim). Their true neighbors are
    /// found by brute force, or given as truth: Matches as of exact_search, or keys of shape (n, depth) with depth at
    /// least k.
    ///
    /// Returns a report. Raises Error if no beam reaches the recall.
    ///
    /// >>> import jasper, numpy as np
    /// >>> vectors = np.random.default_rng(0).random((2000, 8), dtype=np.float32)
    /// >>> index = jasper.Index.build(vectors)
    /// >>> report = index.tune(0.9, k=10)
    /// >>> int(index.search(vectors[0], 10, recall=0.9).keys[0])
    /// 0
    #[pyo3(signature = (recall = 0.95, k = Integer::from(10), *, queries = None, truth = None, progress = None),
           text_signature = "($self, recall=0.95, k=10, *, queries=None, truth=None, progress=None)")]
    fn tune<'py>(
        &self,
        py: Python<'py>,
        recall: f64,
        k: Integer,
        queries: Option<&Bound<'py, PyAny>>,
        truth: Option<&Bound<'py, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let goal = Goal { k: count("k", k)?, recall };
        let (queries, truth) = match (queries, truth) {
            (None, None) => {
                let tuned = self.long(py, progress, |index| index.tune(goal, TuneQueries::sampled()))?;
                return report(py, &tuned);
            }
            (Some(queries), truth) => (queries, truth.map(ground_truth).transpose()?),
            (None, Some(_)) => return Err(ParameterError::new_err("truth is of queries; give these too")),
        };
        let queries = Array::new(queries, "queries")?;
        let queries = queries.rows()?;
        let tuned = self.long(py, progress, |index| {
            index.tune(goal, TuneQueries::Given { queries: queries.into(), truth: truth.as_ref() })
        })?;
        report(py, &tuned)
    }

    /// Verifies every vector, edge and key, and that every vector can be reached. Returns a report; is_sound says
    /// whether there are no errors.
    ///
    /// >>> import jasper
    /// >>> jasper.Index(4).check().is_sound
    /// True
    #[pyo3(signature = (*, progress = None))]
    fn check<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.long(py, progress, |index| index.check())?;
        let result = report(py, &found)?;
        result.setattr("is_sound", found.is_sound())?;
        Ok(result)
    }
}

/// The id of each row of attributes, if it has one.
fn ids_of_rows(index: &jasper::Index, attributes: Option<&Frame>) -> PyResult<Vec<Option<String>>> {
    let columns = index.attributes(&[]);
    let is_of_ids = |&(_, kind): &(&str, Option<ColumnKind>)| kind == Some(ColumnKind::Id);
    let of_index = columns.columns().find(is_of_ids).map(|(name, _)| name);
    let given = attributes.and_then(|frame| {
        let is_ids = |name: &str, kind| match &of_index {
            Some(column) => *column == name,
            None => kind == Some(ColumnKind::Id),
        };
        frame.columns().find(|&(name, kind)| is_ids(name, kind)).map(|(name, _)| (frame, name))
    });
    let Some((frame, name)) = given else {
        let column = of_index.map_or("the argument ids".to_owned(), |column| format!("{column:?}"));
        return Err(ParameterError::new_err(format!(
            "give keys, or attributes with the column of ids ({column})"
        )));
    };
    let id = |row| match frame.value(row, name) {
        Value::Keyword(id) => Some(id),
        _ => None,
    };
    Ok((0..frame.len()).map(id).collect())
}

/// True neighbors in the library's form.
fn ground_truth(truth: &Bound<'_, PyAny>) -> PyResult<GroundTruth> {
    let (keys, distances, depth) = neighbors(truth, "truth")?;
    let ids: Result<Vec<u32>, _> = keys.into_iter().map(u32::try_from).collect();
    let ids =
        ids.map_err(|_| ParameterError::new_err("keys of truth must be below 2**32; give queries alone"))?;
    GroundTruth::new(depth, ids, distances).map_err(|error| ParameterError::new_err(error.to_string()))
}
