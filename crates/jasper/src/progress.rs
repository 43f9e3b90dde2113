//! Long calls with a progress callback.

use std::fmt;

use jasper_core::{Element, ProgressFn};

use crate::{AnyIndex, Index, OpenOptions};

/// An [`Index`], an [`AnyIndex`] or [`OpenOptions`], with a [callback](ProgressFn) that receives progress reports of
/// its long calls and may cancel them. Made by [`Index::with_progress`], [`AnyIndex::with_progress`] or
/// [`OpenOptions::with_progress`].
///
/// ```
/// use std::ops::ControlFlow;
/// # use jasper::bench::synthetic::Clusters;
/// # use jasper::{IndexBuilder, MatrixView, Metric, UpdateError};
/// # let vectors: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
/// let index = IndexBuilder::new(Metric::L2).build(&MatrixView::new(&vectors, 16)?)?;
/// index.delete(&[1, 2, 3])?;
/// let mut report = |progress: jasper::Progress| {
///     println!("{}: {} of {}", progress.stage, progress.done, progress.total);
///     ControlFlow::Continue(())
/// };
/// assert_eq!(index.with_progress(&mut report).consolidate()?.freed, 3);
///
/// let more = MatrixView::new(&vectors[..160], 16)?;
/// let cancelled = index.with_progress(&mut |_| ControlFlow::Break(())).insert_auto(&more);
/// assert!(matches!(cancelled, Err(UpdateError::Cancelled(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "does nothing until a call"]
pub struct WithProgress<'a, T> {
    pub(crate) inner: T,
    pub(crate) progress: &'a mut ProgressFn<'a>,
}

impl<T: Element> Index<T> {
    /// The index with a callback for one long call.
    pub fn with_progress<'a>(&'a self, progress: &'a mut ProgressFn<'_>) -> WithProgress<'a, &'a Self> {
        WithProgress { inner: self, progress }
    }
}

impl AnyIndex {
    /// See [`Index::with_progress`].
    pub fn with_progress<'a>(&'a self, progress: &'a mut ProgressFn<'_>) -> WithProgress<'a, &'a Self> {
        WithProgress { inner: self, progress }
    }
}

impl OpenOptions {
    /// The options with a callback for opening an index.
    pub fn with_progress<'a>(self, progress: &'a mut ProgressFn<'_>) -> WithProgress<'a, Self> {
        WithProgress { inner: self, progress }
    }
}

impl<T: fmt::Debug> fmt::Debug for WithProgress<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WithProgress").field(&self.inner).finish()
    }
}
