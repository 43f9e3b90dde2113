//! Searches that go on.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use jasper::Key;
use pyo3::prelude::*;

use crate::arrays::{self, Array};
use crate::errors::{Integer, Raise};
use crate::index::Index;
use crate::results::matches_of;
use crate::search::Options;

/// An iterator of pages of matches: see Index.pages.
#[pyclass(frozen, module = "jasper._native")]
pub struct Pages {
    index: Py<Index>,
    /// A copy of the query.
    query: Py<PyAny>,
    options: Options,
    /// The keys of the pages so far; `None` after the last page.
    returned: Mutex<Option<HashSet<Key>>>,
}

#[pymethods]
impl Index {
    /// Finds the keys nearest to a query page by page: an iterator of matches, `k` at a time, nearest first, and no key
    /// twice. The last page may be shorter.
    ///
    /// Each page is searched for when it is asked for, in the index as it is then, by a search for all pages so far: so
    /// later pages take longer. On a CUDA device they have at most 1024 keys in all. query is an array of shape (dim,);
    /// the other arguments are as of search.
    ///
    /// after
    ///     Keys that were returned before, in another process for example: the pages go on after them.
    ///
    /// >>> import jasper
    /// >>> index = jasper.Index.build([[0.0], [1.0], [2.0], [3.0], [4.0]])
    /// >>> [page.keys.tolist() for page in index.pages([0.0], 2)]
    /// [[0, 1], [2, 3], [4]]
    /// >>> next(index.pages([0.0], 2, after=[0, 1])).keys
    /// array([2, 3])
    #[pyo3(signature = (query, k = Integer::from(10), *, beam_width = None, filter = None, distances = "auto",
                        rerank = None, after = None),
           text_signature = "($self, query, k=10, *, beam_width=None, filter=None, distances=\"auto\", rerank=None, \
                             after=None)")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn pages(
        slf: &Bound<'_, Self>,
        query: &Bound<'_, PyAny>,
        k: Integer,
        beam_width: Option<Integer>,
        filter: Option<&Bound<'_, PyAny>>,
        distances: &str,
        rerank: Option<Integer>,
        after: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pages> {
        let py = slf.py();
        let options = Options::new(k, beam_width, None, filter, distances, rerank)?;
        let array = Array::new(query, "query")?;
        array.one()?;
        slf.get().call(py, |index| options.params(index, 1, &options.filters()).map(drop))?;
        let after = after.map(arrays::keys).transpose()?.unwrap_or_default();
        Ok(Pages {
            index: slf.clone().unbind(),
            query: array.copy()?,
            options,
            returned: Mutex::new(Some(after.into_iter().collect())),
        })
    }
}

#[pymethods]
impl Pages {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let query = Array::new(self.query.bind(py), "query")?;
        let vector = query.one()?;
        let page = self.index.get().call(py, |index| {
            let mut state = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(returned) = state.take() else { return Ok(None) };
            let filters = self.options.filters();
            let params = self.options.params(index, 1, &filters)?;
            let mut pages = jasper::Pages::new(index, vector, params).after(returned.iter().copied());
            let Some(hits) = pages.next().transpose().map_err(Raise::raise)? else { return Ok(None) };
            if hits.len() == params.k {
                let keys = hits.iter().map(|hit| hit.key);
                *state = Some(returned.into_iter().chain(keys).collect());
            }
            Ok(Some(hits))
        })?;
        let Some(hits) = page else { return Ok(None) };
        let found = hits.into_iter().map(|hit| (hit.key, hit.distance)).unzip();
        matches_of(py, found, None).map(Some)
    }
}
