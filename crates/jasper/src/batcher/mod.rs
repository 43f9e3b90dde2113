//! Gathers the calls of many callers into batches: single searches, for [`Index::submit`](crate::Index::submit) and, on a
//! CUDA device, [`Index::search`](crate::Index::search); and small changes.
//!
//! | module | holds |
//! | --- | --- |
//! | `request` | what one caller asked for, and its answer |
//! | `queue` | the queue of searches |
//! | `gather` | the queue of small changes |

mod gather;
mod queue;
mod request;
#[cfg(test)]
mod tests;

mod sync {
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
    pub(super) use std::thread;
}

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};

use jasper_attributes::Expression;
use jasper_core::{VectorBuffer, VectorView};
use jasper_graph::KeyFilter;
use jasper_vamana::{Filter, Hit, Matches, MatchesMut, SearchError, SearchParams};

use crate::backend::{Backend, StartedSearch};
use crate::error::Result;
pub(crate) use gather::{ChangeRunner, Gather};
use queue::{BatchRunner, Queue};
pub(crate) use request::Submitted;

/// Number of threads that answer queued searches.
const SEARCH_THREADS: usize = 4;

pub(crate) type Answer = Result<Vec<Hit>, SearchError>;

/// A search that may wait for others.
pub(crate) struct Query {
    vector: VectorBuffer,
    /// The parameters without the filter.
    params: SearchParams<'static>,
    filter: Option<OwnedFilter>,
}

/// A filter that outlives its caller.
enum OwnedFilter {
    Keys(KeyFilter),
    Where(Expression),
}

impl Query {
    /// `None` if the filter is a predicate, which the query cannot own.
    fn new(query: VectorView<'_>, params: SearchParams<'_>) -> Option<Self> {
        let (params, filter) = params.of_query(0).split_filter();
        let filter = match filter {
            None => None,
            Some(Filter::Keys(keys)) => Some(OwnedFilter::Keys(keys.clone())),
            Some(Filter::Where(expression)) => Some(OwnedFilter::Where(expression.clone())),
            Some(Filter::Predicate(_) | Filter::PerQuery(_)) => return None,
        };
        Some(Self { vector: query.into(), params, filter })
    }

    fn filter(&self) -> Option<Filter<'_>> {
        self.filter.as_ref().map(|filter| match filter {
            OwnedFilter::Keys(keys) => Filter::Keys(keys),
            OwnedFilter::Where(expression) => Filter::Where(expression),
        })
    }

    fn params(&self) -> SearchParams<'_> {
        self.filter().map_or(self.params, |filter| self.params.filter(filter))
    }
}

/// The filters of a batch, in which all queries have one or none has.
struct BatchFilters<'a>(Vec<Filter<'a>>);

impl<'a> BatchFilters<'a> {
    fn new(batch: &[&'a Query]) -> Self {
        let mut filters: Vec<_> = batch.iter().filter_map(|query| query.filter()).collect();
        if filters.iter().all(|filter| *filter == filters[0]) {
            filters.truncate(1);
        }
        Self(filters)
    }

    /// The parameters of the batch, which are those of each of its queries but for the filter.
    fn params<'b>(&'b self, of_each: SearchParams<'b>) -> SearchParams<'b> {
        match &self.0[..] {
            [] => of_each,
            [of_all] => of_each.filter(*of_all),
            filters => of_each.filter(filters),
        }
    }
}

/// Runs batches on the backend of an index.
struct Runner(Arc<dyn Backend>);

impl BatchRunner for Runner {
    type Query = Query;
    type Answer = Answer;
    type Started = Box<dyn StartedSearch>;

    fn are_compatible(&self, first: &Query, other: &Query) -> bool {
        first.params == other.params
            && first.filter.is_some() == other.filter.is_some()
            && first.vector.dimension() == other.vector.dimension()
    }

    /// Where the search cannot be started, `run` reports the error.
    fn start(&self, batch: &[&Query]) -> Option<Box<dyn StartedSearch>> {
        let filters = BatchFilters::new(batch);
        self.0.start_search(&vectors(batch), filters.params(batch[0].params)).ok().flatten()
    }

    /// After an error, `run` reports it.
    fn poll(&self, started: &mut Box<dyn StartedSearch>, answer: &mut dyn FnMut(usize, Answer)) -> bool {
        started.poll(&mut |query, hits| answer(query, Ok(hits))).unwrap_or(true)
    }

    fn run(&self, batch: &[&Query], answer: &mut dyn FnMut(usize, Answer)) {
        let filters = BatchFilters::new(batch);
        let params = filters.params(batch[0].params);
        let together = (batch.len() > 1).then(|| {
            let search = |matches: MatchesMut<'_>| self.0.search_batch(&vectors(batch), params, matches);
            Matches::filled(batch.len(), params.k, search)
        });
        if let Some(Ok(matches)) = together {
            matches.iter().enumerate().for_each(|(query, hits)| answer(query, Ok(hits.collect())));
            return;
        }
        // A filter that does not fit the attributes is an error of its query alone: the others are searched for together.
        let fits = |&number: &usize| self.0.explain(batch[number].params(), 1).is_ok();
        let search_one = |query: &Query| self.0.search_one(query.vector.row(0), query.params());
        let (fitting, others): (Vec<usize>, Vec<usize>) = (0..batch.len()).partition(fits);
        if others.is_empty() || fitting.is_empty() {
            // Each caller gets its own error.
            return batch.iter().enumerate().for_each(|(number, query)| answer(number, search_one(query)));
        }
        others.into_iter().for_each(|number| answer(number, search_one(batch[number])));
        let queries: Vec<_> = fitting.iter().map(|&number| batch[number]).collect();
        self.run(&queries, &mut |query, hits| answer(fitting[query], hits));
    }
}

fn vectors<'a>(batch: &[&'a Query]) -> Vec<VectorView<'a>> {
    batch.iter().map(|query| query.vector.row(0)).collect()
}

/// The queue of an index, and the threads that answer submitted searches.
pub(crate) struct SearchBatcher {
    queue: Arc<Queue<Query, Answer>>,
    runner: Arc<Runner>,
    /// Started by the first queued search.
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Whether `threads` has any; read without its lock.
    has_threads: AtomicBool,
}

impl SearchBatcher {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        let queue = Arc::new(Queue::new(backend.replicas()));
        let runner = Arc::new(Runner(backend));
        Self { queue, runner, threads: Mutex::default(), has_threads: AtomicBool::new(false) }
    }

    /// Searches directly, or where many callers search, in one launch with those that arrive at the same time.
    pub(crate) fn search(&self, vector: VectorView<'_>, params: SearchParams<'_>) -> Answer {
        let permit = self.queue.try_direct();
        match permit.is_none().then(|| self.submit(vector, params)) {
            Some(Ok(submitted)) => submitted.wait(),
            // A predicate cannot be queued, or there are no threads.
            Some(Err(_)) | None => self.runner.0.search_one(vector, params),
        }
    }

    /// Queues a search.
    pub(crate) fn submit(
        &self,
        vector: VectorView<'_>,
        params: SearchParams<'_>,
    ) -> Result<Submitted<Query, Answer>, SearchError> {
        let query = Query::new(vector, params).ok_or(SearchError::SubmittedPredicate)?;
        self.start_threads().map_err(SearchError::Thread)?;
        Ok(self.queue.submit(query))
    }

    /// Starts the search threads unless they have been started. There are fewer if the operating system refuses to start
    /// more.
    fn start_threads(&self) -> io::Result<()> {
        if self.has_threads.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        while threads.is_empty() {
            for i in 0..SEARCH_THREADS {
                let (queue, runner) = (Arc::clone(&self.queue), Arc::clone(&self.runner));
                // A panic ends the batches of this thread, whose callers panic. The thread continues.
                let work = move || while catch_unwind(AssertUnwindSafe(|| queue.work(&*runner))).is_err() {};
                match thread::Builder::new().name(format!("jasper-submit-{i}")).spawn(work) {
                    Ok(thread) => threads.push(thread),
                    Err(error) if i == 0 => return Err(error),
                    Err(_) => break,
                }
            }
        }
        self.has_threads.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for SearchBatcher {
    /// Waits until submitted searches are answered.
    fn drop(&mut self) {
        self.queue.close();
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for handle in threads.drain(..) {
            // A waker may have dropped the index, on a search thread.
            if handle.thread().id() != thread::current().id() {
                let _ = handle.join();
            }
        }
    }
}

impl fmt::Debug for SearchBatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SearchBatcher")
    }
}

/// The result of a submitted call, as a future: see [`Index::submit`](crate::Index::submit) and
/// [`Index::submit_update`](crate::Index::submit_update).
///
/// It works with every async executor and needs none: threads of the index make the call and wake it. Dropping it cancels the
/// call, unless that has begun.
#[must_use = "dropping it cancels the call"]
pub struct Pending<R>(Pin<Box<dyn Future<Output = Result<R>> + Send>>);

impl<R> Pending<R> {
    pub(crate) fn new(call: impl Future<Output = Result<R>> + Send + 'static) -> Self {
        Self(Box::pin(call))
    }
}

impl<R> Future for Pending<R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<R>> {
        self.0.as_mut().poll(context)
    }
}

impl<R> fmt::Debug for Pending<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}
