//! Searches that go on after their first hits.

use std::collections::HashSet;

use jasper_core::Key;
use jasper_vamana::{Hit, SearchError, SearchParams};

use super::Index;
use super::target::{Kind, Target};
#[cfg(doc)]
use crate::ErrorKind;
use crate::error::Result;

/// A search that goes on: its hits in pages of `k`, nearest first, and no key twice.
///
/// Each page is searched for when it is asked for, in the index as it is then: with a `k` and a beam that are wider by
/// the number of hits returned so far. Pages therefore take longer the further they are from the first, and a key that
/// is inserted meanwhile may be nearer than those of the page before. The last page may have fewer than `k` hits.
///
/// ```
/// use jasper::{IndexBuilder, MatrixView, Metric, Pages, SearchParams};
///
/// let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&[0_u8, 1, 2, 3, 4], 1)?)?; let mut pages =
/// Pages::new(&index, &[0_u8], SearchParams::new(2)); let mut next = || pages.next().transpose().map(|hits|
/// hits.map(|hits| hits.iter().map(|hit| hit.key).collect::<Vec<_>>())); assert_eq!(next()?, Some(vec![0, 1]));
/// assert_eq!(next()?, Some(vec![2, 3])); index.delete(&[4])?; assert_eq!(next()?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`Index::search`], after which there are no more pages. On a CUDA device, pages have at most as many hits
/// in all as its [widest beam](crate::DeviceInfo::max_beam_width), 1024: a page after these fails with
/// [`ErrorKind::InvalidParameter`], as does one whose search exceeds the [limits](Index::set_limits).
#[derive(Debug)]
pub struct Pages<'a> {
    index: &'a Index,
    target: Target<'a>,
    /// Hits are no farther than this.
    radius: f32,
    params: SearchParams<'a>,
    returned: HashSet<Key>,
    ended: bool,
}

impl<'a> Pages<'a> {
    /// The pages of the nearest keys to a target, `k` of the parameters on each. Those of [`Target::within`] end at the
    /// radius.
    pub fn new(index: &'a Index, target: impl Into<Target<'a>>, params: SearchParams<'a>) -> Self {
        let (target, radius) = match target.into().0 {
            Kind::Within(vector, radius) => (Target(Kind::Vector(vector)), radius),
            kind => (Target(kind), f32::INFINITY),
        };
        Self { index, target, radius, params, returned: HashSet::new(), ended: false }
    }

    /// Goes on after hits that other pages returned, in a service that keeps only their keys, for example: these count
    /// as returned.
    #[must_use]
    pub fn after(mut self, keys: impl IntoIterator<Item = Key>) -> Self {
        self.returned.extend(keys);
        self
    }

    /// The next page, and whether it is the last.
    fn search(&self) -> Result<(Vec<Hit>, bool), SearchError> {
        let Self { index, target, radius, params, returned, .. } = self;
        params.check()?;
        let max = index.inner.backend.max_beam_width();
        if returned.len() >= max {
            return Err(SearchError::HitLimit(max));
        }
        let wider = |width: usize| width.saturating_add(returned.len()).min(max.max(width));
        let mut all = params.k(wider(params.k));
        all.beam_width = params.beam_width.map(wider);
        let mut hits = index.search_for(*target, all)?;
        let are_all = hits.len() < all.k || hits.last().is_some_and(|hit| hit.distance > *radius);
        hits.retain(|hit| hit.distance <= *radius && !returned.contains(&hit.key));
        let is_last = are_all && hits.len() <= params.k;
        hits.truncate(params.k);
        Ok((hits, is_last))
    }
}

impl Iterator for Pages<'_> {
    type Item = Result<Vec<Hit>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.search() {
            Ok((hits, is_last)) => {
                self.ended = is_last;
                self.returned.extend(hits.iter().map(|hit| hit.key));
                (!hits.is_empty()).then_some(Ok(hits))
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error.into()))
            }
        }
    }
}
