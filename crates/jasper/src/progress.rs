//! Calls with a progress callback.

use std::fmt;

use jasper_core::{Element, ProgressFn};

use crate::{AnyIndex, Index, IndexBuilder, OpenOptions};

/// An [`Index`], [`AnyIndex`], [`IndexBuilder`] or [`OpenOptions`], with a [callback](ProgressFn) that receives progress
/// reports of its calls and may cancel them. Made by their method `with_progress`, such as
/// [`Index::with_progress`].
///
/// ```
/// use std::ops::ControlFlow;
/// # use jasper::bench::synthetic::Clusters;
/// # use jasper::{IndexBuilder, MatrixView, Metric, UpdateError};
/// # let vectors: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
/// let mut report = |progress: jasper::Progress| {
///     println!("{}: {} of {}", progress.stage, progress.done, progress.total);
///     ControlFlow::Continue(())
/// };
/// let builder = IndexBuilder::new(Metric::L2);
/// let index = builder.with_progress(&mut report).build(&MatrixView::new(&vectors, 16)?)?;
/// index.delete(&[1, 2, 3])?;
/// assert_eq!(index.with_progress(&mut report).consolidate()?.freed, 3);
///
/// let more = MatrixView::new(&vectors[..160], 16)?;
/// let cancelled = index.with_progress(&mut |_| ControlFlow::Break(())).insert_auto(&more);
/// assert!(matches!(cancelled, Err(UpdateError::Cancelled(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "does nothing until a call"]
pub struct WithProgress<'a, T> {
    pub(crate) inner: &'a T,
    pub(crate) progress: &'a mut ProgressFn<'a>,
}

impl<T: Element> Index<T> {
    /// The index with a callback for one call.
    pub fn with_progress<'a>(&'a self, progress: &'a mut ProgressFn<'_>) -> WithProgress<'a, Self> {
        WithProgress { inner: self, progress }
    }
}

impl AnyIndex {
    /// See [`Index::with_progress`].
    pub fn with_progress<'a>(&'a self, progress: &'a mut ProgressFn<'_>) -> WithProgress<'a, Self> {
        WithProgress { inner: self, progress }
    }
}

impl IndexBuilder<'_> {
    /// The builder with a callback for building an index.
    pub fn with_progress<'a>(&'a self, progress: &'a mut ProgressFn<'_>) -> WithProgress<'a, Self> {
        WithProgress { inner: self, progress }
    }
}

impl OpenOptions {
    /// The options with a callback for opening an index.
    pub fn with_progress<'a>(&'a self, progress: &'a mut ProgressFn<'_>) -> WithProgress<'a, Self> {
        WithProgress { inner: self, progress }
    }
}

impl<T: fmt::Debug> fmt::Debug for WithProgress<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WithProgress").field(&self.inner).finish()
    }
}

/// Defines calls with progress: methods of a type, with `&self` and no callback, and of [`WithProgress`]. Their bodies have
/// the value and the callback under the names given after `as`. Documentation is that of the type's method.
macro_rules! long_calls {
    (impl$(<$T:ident: $Bound:ident>)? $Of:ident$(<$Argument:tt>)? as ($value:ident, $progress:ident); $(
        $(#[$doc:meta])*
        pub fn $name:ident$(<$G:ident: $GBound:ident>)?(
            $($argument:ident: $Type:ty),* $(,)?
        ) -> $Output:ty $body:block
    )*) => {
        impl$(<$T: $Bound>)? $Of$(<$Argument>)? {$(
            $(#[$doc])*
            pub fn $name$(<$G: $GBound>)?(&self, $($argument: $Type),*) -> $Output {
                self.with_progress(&mut jasper_core::no_progress).$name($($argument),*)
            }
        )*}

        impl$(<$T: $Bound>)? $crate::WithProgress<'_, $Of$(<$Argument>)?> {$(
            #[doc = concat!("See [`", stringify!($Of), "::", stringify!($name), "`].\n\n# Errors")]
            #[doc = "The errors of that method, and an error if the callback cancels the call."]
            pub fn $name$(<$G: $GBound>)?(self, $($argument: $Type),*) -> $Output {
                let Self { inner: $value, progress: $progress } = self;
                $body
            }
        )*}
    };
}
pub(crate) use long_calls;
