//! Changes that are queued.

use jasper_core::Vectors;
use jasper_vamana::{InsertReport, OnConflict};

use super::{DeleteKeys, NewKeys};
use crate::changes::InsertEntries;
use crate::changes::small::Made;

/// A change for [`Index::submit_update`](crate::Index::submit_update), whose future returns an `R`.
///
/// ```
/// # use jasper::{ElementKind, IndexBuilder, Metric};
/// # use std::task::{Context, Poll, Waker};
/// use jasper::Update;
///
/// let index = IndexBuilder::new(Metric::L2).empty(ElementKind::F32, 2)?;
/// let change = async {
///     let inserted = index.submit_update(Update::insert(&[0.5_f32, 1.5], &[7]))?;
///     let deleted = index.submit_update(Update::delete(&[7]))?;
///     assert_eq!(inserted.await?.keys, 1);
///     Ok::<_, Box<dyn std::error::Error>>(deleted.await?)
/// };
/// // In a server, the runtime polls.
/// let mut change = std::pin::pin!(change);
/// let deleted = loop {
///     if let Poll::Ready(deleted) = change.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
///         break deleted?;
///     }
///     std::thread::yield_now();
/// };
/// assert!(deleted == 1 && index.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
#[must_use = "does nothing until it is submitted"]
pub struct Update<'a, R = InsertReport> {
    pub(super) change: Change<'a>,
    pub(super) result: fn(Made) -> R,
}

#[derive(Clone, Copy)]
pub(super) enum Change<'a> {
    Insert(Vectors<'a>, InsertEntries<'a>),
    Delete(DeleteKeys<'a>),
}

impl<'a> Update<'a> {
    /// An [insert](crate::Index::insert).
    pub fn insert(vectors: impl Into<Vectors<'a>>, keys: impl Into<NewKeys<'a>>) -> Self {
        let entries = InsertEntries::new(keys.into(), OnConflict::Refuse);
        Self { change: Change::Insert(vectors.into(), entries), result: Made::inserted }
    }

    /// An [upsert](crate::Index::upsert).
    pub fn upsert(vectors: impl Into<Vectors<'a>>, keys: impl Into<NewKeys<'a>>) -> Self {
        let entries = InsertEntries::new(keys.into(), OnConflict::Replace);
        Self { change: Change::Insert(vectors.into(), entries), result: Made::inserted }
    }
}

impl<'a> Update<'a, usize> {
    /// A [delete](crate::Index::delete).
    pub fn delete(keys: impl Into<DeleteKeys<'a>>) -> Self {
        Self { change: Change::Delete(keys.into()), result: Made::deleted }
    }
}

impl<R> std::fmt::Debug for Update<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.change {
            Change::Insert(..) => "Update(insert)",
            Change::Delete(_) => "Update(delete)",
        })
    }
}
