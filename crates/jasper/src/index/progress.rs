//! The callback that long calls report their progress to.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{ControlFlow, Deref};
use std::sync::{Arc, Mutex};

use jasper_core::{Progress, sync};

use super::Index;

/// A callback that calls share, or none.
#[derive(Clone, Default)]
pub(crate) struct Callback(Option<Arc<Mutex<Report>>>);

type Report = dyn FnMut(Progress) -> ControlFlow<()> + Send;

impl Callback {
    pub(crate) fn new(report: impl FnMut(Progress) -> ControlFlow<()> + Send + 'static) -> Self {
        Self(Some(Arc::new(Mutex::new(report))))
    }

    /// Whether there is one.
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// The callback of one call.
    pub(crate) fn report(&self) -> impl FnMut(Progress) -> ControlFlow<()> + '_ {
        move |progress| match &self.0 {
            Some(report) => sync::lock(report)(progress),
            None => ControlFlow::Continue(()),
        }
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Callback" } else { "None" })
    }
}

/// An index whose calls report their progress.
struct WithProgress<'a> {
    index: Index,
    /// The index is not moved meanwhile.
    original: PhantomData<&'a Index>,
}

impl Deref for WithProgress<'_> {
    type Target = Index;

    fn deref(&self) -> &Index {
        &self.index
    }
}

impl Index {
    /// The index with a callback, which receives progress reports of its calls and may cancel them. Inserts, upserts,
    /// consolidation, compaction, quantizing, tuning, saving, snapshots, checking and rebuilding report; other calls do not.
    /// Builds and opening have [`IndexBuilder::with_progress`](crate::IndexBuilder::with_progress) and
    /// [`OpenOptions::with_progress`](crate::OpenOptions::with_progress).
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// # use jasper::{ErrorKind, IndexBuilder, MatrixView, Metric, NewKeys};
    /// # use jasper_core::synthetic::Clusters;
    /// # let vectors: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
    /// let report = |progress: jasper::Progress| {
    ///     println!("{}: {} of {}", progress.stage, progress.done, progress.total);
    ///     ControlFlow::Continue(())
    /// };
    /// let vectors = MatrixView::new(&vectors, 16)?;
    /// let index = IndexBuilder::new(Metric::L2).with_progress(report).build(vectors)?;
    /// index.delete(&[1, 2, 3])?;
    /// assert_eq!(index.with_progress(report).consolidate()?.freed, 3);
    ///
    /// let cancelled = index.with_progress(|_| ControlFlow::Break(())).insert(vectors.slice(0..10), NewKeys::NEXT);
    /// assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::Cancelled);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "does nothing until a call"]
    pub fn with_progress(
        &self,
        report: impl FnMut(Progress) -> ControlFlow<()> + Send + 'static,
    ) -> impl Deref<Target = Self> {
        let index = Self { inner: Arc::clone(&self.inner), progress: Callback::new(report) };
        WithProgress { index, original: PhantomData }
    }
}
