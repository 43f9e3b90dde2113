//! Searches for asyncio: queued in the library, and awaited without a thread for each.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use jasper::{Hit, Key, Matches, MatchesMut, SearchError, with_element};
use pyo3::intern;
use pyo3::prelude::*;

use crate::arrays::Array;
use crate::errors::{Integer, Raise};
use crate::index::Index;
use crate::interop;
use crate::results::matches_of;
use crate::search::Options;

type Search = Pin<Box<dyn Future<Output = Result<Vec<Hit>, SearchError>> + Send>>;

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
        let event_loop = py.import(intern!(py, "asyncio"))?.call_method0("get_running_loop")?;
        let (searches, shape) = with_element!(slf.get().element, T => {
            let array = Array::<T>::queries(queries, "queries")?;
            let view = array.view()?;
            let searches: Vec<Search> = slf.get().call(py, |index| {
                let params = options.params(index, view.len())?;
                let submit = |row| Ok(Box::pin(index.submit::<T>(row, params).map_err(Raise::raise)?) as Search);
                view.rows().map(submit).collect::<PyResult<_>>()
            })?;
            (searches, (!array.is_one()).then_some([view.len(), options.k]))
        });
        let future = event_loop.call_method0(intern!(py, "create_future"))?;
        let (keys, distances) = Matches::new(searches.len(), options.k).map_err(Raise::raise)?.into_arrays();
        let state = State { searches: searches.into(), keys, distances, written: 0 };
        let awaited = Awaited {
            state: Mutex::new(Some(state)),
            k: options.k,
            shape,
            queries: queries.clone().unbind(),
            future: future.clone().unbind(),
            event_loop: event_loop.unbind(),
            _index: slf.clone().unbind(),
        };
        let awaited = Bound::new(py, awaited)?;
        future
            .call_method1(intern!(py, "add_done_callback"), (awaited.getattr(intern!(py, "withdraw"))?,))?;
        Awaited::advance(&awaited)?;
        Ok(future)
    }
}

/// The searches of one call, and the asyncio future that they complete.
#[pyclass(frozen, module = "jasper._native")]
struct Awaited {
    /// `None` once the future is done.
    state: Mutex<Option<State>>,
    k: usize,
    /// That of a batch.
    shape: Option<[usize; 2]>,
    queries: Py<PyAny>,
    future: Py<PyAny>,
    event_loop: Py<PyAny>,
    /// The index waits for its searches when it is dropped, so it is not dropped before them.
    _index: Py<Index>,
}

struct State {
    /// Those without a result.
    searches: VecDeque<Search>,
    keys: Vec<Key>,
    distances: Vec<f32>,
    /// Entries of both arrays that have results.
    written: usize,
}

#[pymethods]
impl Awaited {
    /// Collects finished results, on the thread of the event loop. The first unfinished search calls this again.
    fn advance(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let mut guard = this.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = guard.as_mut() else { return Ok(()) };
        let polled = state.poll(this.k, &Waker::from(Arc::new(WakeLoop(slf.clone().unbind()))));
        let Poll::Ready(result) = polled else { return Ok(()) };
        let found = guard.take().map(|state| (state.keys, state.distances));
        // Callbacks of the future run on the loop, and call `withdraw`.
        drop(guard);
        let future = this.future.bind(py);
        if future.call_method0(intern!(py, "done"))?.is_truthy()? {
            return Ok(());
        }
        let result = result.map_err(Raise::raise).and_then(|()| {
            let found = matches_of(py, found.unwrap_or_default(), this.shape)?;
            interop::matches_like(this.queries.bind(py), &found)
        });
        match result {
            Ok(found) => future.call_method1(intern!(py, "set_result"), (found,))?,
            Err(error) => future.call_method1(intern!(py, "set_exception"), (error,))?,
        };
        Ok(())
    }

    /// Withdraws the searches that have not begun, once the future is done or cancelled.
    fn withdraw(&self, _future: &Bound<'_, PyAny>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(state);
    }
}

impl State {
    /// Writes finished results, in the order of the queries. The first unfinished search wakes `waker`.
    fn poll(&mut self, k: usize, waker: &Waker) -> Poll<Result<(), SearchError>> {
        while let Some(search) = self.searches.front_mut() {
            let hits = match search.as_mut().poll(&mut Context::from_waker(waker)) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(hits)) => hits,
            };
            let row = self.written..self.written + k;
            MatchesMut::new(&mut self.keys[row.clone()], &mut self.distances[row]).fill(hits.into_iter());
            self.searches.pop_front();
            self.written += k;
        }
        Poll::Ready(Ok(()))
    }
}

/// Makes the loop call [`Awaited::advance`], from a thread that searches.
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
