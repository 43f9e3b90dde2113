//! Calls that run without the interpreter lock: progress, cancellation, Ctrl-C and forks.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use jasper::Progress;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::device::keep_current;
use crate::errors::Error;

/// Shortest time between two checks for Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(20);

/// Number of forks between the process that imported the module and this one.
static FORKS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread runs Python code inside a call.
    static INSIDE_CALL: Cell<bool> = const { Cell::new(false) };
}

#[pyfunction]
fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Counts the forks of this process from now on.
pub fn count_forks(py: Python<'_>) -> PyResult<()> {
    let os = py.import("os")?;
    if os.hasattr("register_at_fork")? {
        let hooks = PyDict::new(py);
        hooks.set_item("after_in_child", wrap_pyfunction!(after_fork, py)?)?;
        os.call_method("register_at_fork", (), Some(&hooks))?;
    }
    Ok(())
}

/// The process that an index was made in.
#[derive(Clone, Copy, PartialEq)]
pub struct Process(usize);

impl Process {
    pub fn current() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Checks that an index of this process may be called here.
    pub fn check(self) -> PyResult<()> {
        if INSIDE_CALL.get() {
            let message = "an index cannot be called from a progress callback, or while it reads vectors: the call would \
                           wait for itself; do it after the call";
            return Err(Error::new_err(message));
        }
        if self != Self::current() {
            let message = "the index was made before this process was forked, and its threads are gone; open it in this \
                           process, or start processes with the method `spawn`";
            return Err(Error::new_err(message));
        }
        Ok(())
    }
}

/// Runs Python code inside a call that has released the interpreter lock.
pub fn attach<R>(code: impl FnOnce(Python<'_>) -> R) -> R {
    Python::attach(|py| {
        let outer = INSIDE_CALL.replace(true);
        let result = code(py);
        INSIDE_CALL.set(outer);
        result
    })
}

/// Receives the progress of a call.
pub type Report = Box<dyn FnMut(Progress) -> ControlFlow<()> + Send>;

/// Runs a long call without the interpreter lock. Each progress report goes to `callback`, if there is one; the call is
/// cancelled if that returns `False` or raises, and by Ctrl-C.
pub fn long<R: Send>(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    call: impl FnOnce(Report) -> PyResult<R> + Send,
) -> PyResult<R> {
    let bar = match callback {
        Some(flag) if flag.bind(py).is_instance_of::<PyBool>() => Bar::new(flag.bind(py))?,
        callback => Bar { callback, is_ours: false },
    };
    let callback = bar.callback.as_ref().map(|callback| callback.clone_ref(py));
    let (raise, raised) = mpsc::channel();
    let mut checked = Instant::now();
    let report = move |progress: Progress| {
        if callback.is_none() && checked.elapsed() < SIGNAL_INTERVAL {
            return ControlFlow::Continue(());
        }
        checked = Instant::now();
        match attach(|py| proceed(py, callback.as_ref(), progress)) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                // Received below: the call has not returned.
                let _ = raise.send(error);
                ControlFlow::Break(())
            }
        }
    };
    let result = py.detach(|| keep_current(|| call(Box::new(report))));
    bar.close(py)?;
    raised.try_recv().map_or(result, Err)
}

/// What receives the progress of a call.
struct Bar {
    callback: Option<Py<PyAny>>,
    /// Whether it is one of `jasper._progress`, which is closed at the end.
    is_ours: bool,
}

impl Bar {
    /// A bar for `progress=True`; nothing for `False`.
    fn new(flag: &Bound<'_, PyAny>) -> PyResult<Self> {
        let is_ours = flag.is_truthy()?;
        let bar = || flag.py().import("jasper._progress")?.call_method0("Bar").map(Bound::unbind);
        Ok(Self { callback: is_ours.then(bar).transpose()?, is_ours })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match &self.callback {
            Some(bar) if self.is_ours => bar.call_method0(py, "close").map(drop),
            _ => Ok(()),
        }
    }
}

/// Whether a call is to go on.
fn proceed(py: Python<'_>, callback: Option<&Py<PyAny>>, progress: Progress) -> PyResult<bool> {
    py.check_signals()?;
    let Some(callback) = callback else { return Ok(true) };
    let answer = callback.bind(py).call1((progress.stage.to_string(), progress.done, progress.total))?;
    Ok(!answer.is(PyBool::new(py, false)))
}
