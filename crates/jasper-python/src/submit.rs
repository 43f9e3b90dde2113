//! Searches and changes for asyncio: queued in the library, and awaited without a thread for each.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use jasper::{Hit, InsertReport, Key, Matches, NewKeys, Pending, Update};
use jasper_vamana::MatchesMut;
use pyo3::intern;
use pyo3::prelude::*;

use crate::arrays::{self, Array, Input, key_array};
use crate::attributes::optional_frame;
use crate::errors::{Integer, Raise};
use crate::index::Index;
use crate::interop;
use crate::results::matches_of;
use crate::search::Options;

type Search = Pending<Vec<Hit>>;

/// What a call awaits.
trait Work: Send {
    /// Whether all of it is done. If not, what is not wakes `waker`.
    fn poll(&mut self, waker: &Waker) -> Poll<PyResult<()>>;

    /// The result of the call, once it is done.
    fn result<'py>(self: Box<Self>, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;
}

#[pymethods]
impl Index {
    /// Finds the keys nearest to a query, or to each of several, for asyncio: returns a future of the running loop at
    /// once. Arguments and the result are as of search, for arrays in host memory.
    ///
    /// Searches that are queued at the same time are executed as one batch, so many single queries take about as long
    /// as a batch. Cancelling the future cancels searches that have not started. A filter of excluded keys is not
    /// supported: await asyncio.to_thread(index.search, ...) instead.
    ///
    /// Raises ParameterError, at once or when awaited.
    ///
    /// >>> import asyncio, jasper, numpy as np
    /// >>> vectors = np.random.default_rng(0).random((1000, 16), dtype=np.float32)
    /// >>> index = jasper.Index.build(vectors)
    /// >>> async def main():
    /// ...     found = await asyncio.gather(*(index.search_async(query, 1) for query in vectors[:100]))
    /// ...     return [int(keys[0]) for keys, _ in found]
    /// >>> asyncio.run(main()) == list(range(100))
    /// True
    #[pyo3(signature = (queries, k = Integer::from(10), *, beam_width = None, recall = None, filter = None,
                        distances = "auto", rerank = None),
           text_signature = "($self, queries, k=10, *, beam_width=None, recall=None, filter=None, distances=\"auto\", \
                             rerank=None)")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn search_async<'py>(
        slf: &Bound<'py, Self>,
        queries: &Bound<'py, PyAny>,
        k: Integer,
        beam_width: Option<Integer>,
        recall: Option<f64>,
        filter: Option<&Bound<'py, PyAny>>,
        distances: &str,
        rerank: Option<Integer>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let options = Options::new(k, beam_width, recall, filter, distances, rerank)?;
        let event_loop = running_loop(py)?;
        let array = Array::new(queries, "queries")?;
        let rows = array.rows()?;
        let searches: VecDeque<Search> = slf.get().call(py, |index| {
            let filters = options.filters();
            let params = options.params(index, rows.len(), &filters)?;
            let submit = |row| {
                index.submit(rows.slice(row..row + 1), params.of_queries(row..row + 1)).map_err(Raise::raise)
            };
            (0..rows.len()).map(submit).collect()
        })?;
        let shape = (!array.is_one()).then_some([rows.len(), options.k]);
        let (keys, distances) = Matches::new(searches.len(), options.k).map_err(Raise::raise)?.into_arrays();
        let (k, queries) = (options.k, queries.clone().unbind());
        let searches = Searches { searches, keys, distances, written: 0, k, shape, queries };
        Awaited::start(slf, &event_loop, Box::new(searches))
    }

    /// Adds vectors under keys, for asyncio: returns a future of the running loop at once, which gives the keys. Arguments
    /// are as of insert, for arrays in host memory.
    ///
    /// Changes that are queued at the same time are made together. They are made in the order in which they are queued.
    /// Cancelling the future cancels a change that has not begun.
    ///
    /// Raises what insert raises, at once or when awaited.
    ///
    /// >>> import asyncio, jasper
    /// >>> index = jasper.Index(2)
    /// >>> async def main():
    /// ...     await asyncio.gather(*(index.insert_async([key, 1.0], key) for key in range(50)))
    /// ...     await index.delete_async([3, 4])
    /// ...     return len(index)
    /// >>> asyncio.run(main())
    /// 48
    #[pyo3(signature = (vectors, keys, *, attributes = None))]
    fn insert_async<'py>(
        slf: &Bound<'py, Self>,
        vectors: &Bound<'py, PyAny>,
        keys: &Bound<'py, PyAny>,
        attributes: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        queue_insert(slf, vectors, keys, attributes, false)
    }

    /// Adds vectors under keys, and replaces those of keys that are in the index already, for asyncio: see insert_async and
    /// upsert.
    #[pyo3(signature = (vectors, keys, *, attributes = None))]
    fn upsert_async<'py>(
        slf: &Bound<'py, Self>,
        vectors: &Bound<'py, PyAny>,
        keys: &Bound<'py, PyAny>,
        attributes: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        queue_insert(slf, vectors, keys, attributes, true)
    }

    /// Deletes a key, or an array of keys, for asyncio: see insert_async and delete. Ids are looked up at once. Raises UnknownKeyError when awaited.
    fn delete_async<'py>(slf: &Bound<'py, Self>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let event_loop = running_loop(slf.py())?;
        let keys = slf.get().named(slf.py(), keys, false)?;
        let change = slf
            .get()
            .call(slf.py(), |index| index.submit_update(Update::delete(&keys)).map_err(Raise::raise))?;
        Awaited::start(slf, &event_loop, Box::new(Change::Delete(change, 0)))
    }
}

fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import(intern!(py, "asyncio"))?.call_method0("get_running_loop")
}

fn queue_insert<'py>(
    slf: &Bound<'py, Index>,
    vectors: &Bound<'py, PyAny>,
    keys: &Bound<'py, PyAny>,
    attributes: Option<&Bound<'py, PyAny>>,
    replaces: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let event_loop = running_loop(slf.py())?;
    let keys = arrays::keys(keys)?;
    let vectors = Input::new(vectors, None)?;
    let source = vectors.source()?;
    let attributes = optional_frame(attributes, source.len(), None)?;
    let change = slf.get().call(slf.py(), |index| {
        let entries = NewKeys::from(&keys).with_attributes(attributes.as_ref());
        let update = if replaces { Update::upsert(source, entries) } else { Update::insert(source, entries) };
        index.submit_update(update).map_err(Raise::raise)
    })?;
    Awaited::start(slf, &event_loop, Box::new(Change::Insert(change, keys)))
}

/// A change of one call, and what it returns.
enum Change {
    Insert(Pending<InsertReport>, Vec<Key>),
    /// The number of deleted keys, once it is done.
    Delete(Pending<usize>, usize),
}

impl Work for Change {
    fn poll(&mut self, waker: &Waker) -> Poll<PyResult<()>> {
        let context = &mut Context::from_waker(waker);
        let polled = match self {
            Self::Insert(change, _) => Pin::new(change).poll(context).map_ok(drop),
            Self::Delete(change, count) => Pin::new(change).poll(context).map_ok(|deleted| *count = deleted),
        };
        polled.map_err(Raise::raise)
    }

    fn result<'py>(self: Box<Self>, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match *self {
            Self::Insert(_, keys) => Ok(key_array(py, keys).into_any()),
            Self::Delete(_, count) => Ok(count.into_pyobject(py)?.into_any()),
        }
    }
}

/// The work of one call, and the asyncio future that it completes.
#[pyclass(frozen, module = "jasper._native")]
struct Awaited {
    /// `None` once the future is done.
    work: Mutex<Option<Box<dyn Work>>>,
    future: Py<PyAny>,
    event_loop: Py<PyAny>,
    /// The index waits for its searches and changes when it is dropped, so it is not dropped before them.
    _index: Py<Index>,
}

impl Awaited {
    /// The future of some work.
    fn start<'py>(
        index: &Bound<'py, Index>,
        event_loop: &Bound<'py, PyAny>,
        work: Box<dyn Work>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = index.py();
        let future = event_loop.call_method0(intern!(py, "create_future"))?;
        let awaited = Self {
            work: Mutex::new(Some(work)),
            future: future.clone().unbind(),
            event_loop: event_loop.clone().unbind(),
            _index: index.clone().unbind(),
        };
        let awaited = Bound::new(py, awaited)?;
        future
            .call_method1(intern!(py, "add_done_callback"), (awaited.getattr(intern!(py, "withdraw"))?,))?;
        Self::advance(&awaited)?;
        Ok(future)
    }
}

/// The searches of one call.
struct Searches {
    /// Those without a result.
    searches: VecDeque<Search>,
    keys: Vec<Key>,
    distances: Vec<f32>,
    /// Entries of both arrays that have results.
    written: usize,
    k: usize,
    /// That of a batch.
    shape: Option<[usize; 2]>,
    queries: Py<PyAny>,
}

#[pymethods]
impl Awaited {
    /// Sets the result if there is one, on the thread of the event loop. Else what is unfinished calls this again.
    fn advance(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let mut guard = this.work.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(work) = guard.as_mut() else { return Ok(()) };
        let polled = work.poll(&Waker::from(Arc::new(WakeLoop(slf.clone().unbind()))));
        let Poll::Ready(result) = polled else { return Ok(()) };
        let work = guard.take();
        // Callbacks of the future run on the loop, and call `withdraw`.
        drop(guard);
        let future = this.future.bind(py);
        if future.call_method0(intern!(py, "done"))?.is_truthy()? {
            return Ok(());
        }
        match result.and_then(|()| work.map(|work| work.result(py)).transpose()) {
            Ok(result) => future.call_method1(intern!(py, "set_result"), (result,))?,
            Err(error) => future.call_method1(intern!(py, "set_exception"), (error,))?,
        };
        Ok(())
    }

    /// Withdraws what has not begun, once the future is done or cancelled.
    fn withdraw(&self, _future: &Bound<'_, PyAny>) {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(work);
    }
}

impl Work for Searches {
    /// Writes finished results, in the order of the queries. The first unfinished search wakes `waker`.
    fn poll(&mut self, waker: &Waker) -> Poll<PyResult<()>> {
        while let Some(search) = self.searches.front_mut() {
            let hits = match Pin::new(search).poll(&mut Context::from_waker(waker)) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.raise())),
                Poll::Ready(Ok(hits)) => hits,
            };
            let row = self.written..self.written + self.k;
            MatchesMut::new(&mut self.keys[row.clone()], &mut self.distances[row]).fill(hits.into_iter());
            self.searches.pop_front();
            self.written += self.k;
        }
        Poll::Ready(Ok(()))
    }

    fn result<'py>(self: Box<Self>, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let found = matches_of(py, (self.keys, self.distances), self.shape)?;
        interop::matches_like(self.queries.bind(py), &found)
    }
}

/// Makes the loop call [`Awaited::advance`], from a thread of the library.
struct WakeLoop(Py<Awaited>);

impl Wake for WakeLoop {
    fn wake(self: Arc<Self>) {
        // This fails only after the interpreter or the event loop has shut down, when no task awaits the result.
        let _ = Python::try_attach(move |py| {
            let awaited = self.0.bind(py);
            let advance = awaited.getattr(intern!(py, "advance"))?;
            let event_loop = awaited.get().event_loop.bind(py);
            event_loop.call_method1(intern!(py, "call_soon_threadsafe"), (advance,))?;
            // Dropped by a detached thread, the reference would keep the index until the next call of this package.
            drop(self);
            PyResult::Ok(())
        });
    }
}
