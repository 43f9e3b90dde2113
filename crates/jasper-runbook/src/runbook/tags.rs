//! The set of live tags, as ranges: validating a runbook takes time in its number of steps, not of points.

use std::collections::BTreeMap;
use std::ops::Range;

use super::StepError;

/// A set of tags, as maximal ranges that neither overlap nor touch.
#[derive(Debug, Default)]
pub(super) struct Tags {
    /// Start and end of each range.
    ranges: BTreeMap<u32, u32>,
    len: usize,
}

impl Tags {
    /// Number of tags.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds `tags`, none of which may be in the set.
    pub(super) fn insert(&mut self, tags: &Range<u32>) -> Result<(), StepError> {
        let before = self.at_or_before(tags.start).unwrap_or(0..0);
        if before.contains(&tags.start) {
            return Err(StepError::Live(tags.start));
        }
        if let Some((&live, _)) = self.ranges.range(tags.clone()).next() {
            return Err(StepError::Live(live));
        }
        self.len += tags.len();
        let mut tags = tags.clone();
        if !before.is_empty() && before.end == tags.start {
            tags.start = before.start;
        }
        if let Some(end) = self.ranges.remove(&tags.end) {
            tags.end = end;
        }
        self.ranges.insert(tags.start, tags.end);
        Ok(())
    }

    /// Removes `tags`, all of which must be in the set.
    pub(super) fn remove(&mut self, tags: &Range<u32>) -> Result<(), StepError> {
        let around = self.around(tags)?;
        self.len -= tags.len();
        self.ranges.remove(&around.start);
        for rest in [around.start..tags.start, tags.end..around.end] {
            if !rest.is_empty() {
                self.ranges.insert(rest.start, rest.end);
            }
        }
        Ok(())
    }

    /// The range that holds all of `tags`.
    pub(super) fn around(&self, tags: &Range<u32>) -> Result<Range<u32>, StepError> {
        let around = self.at_or_before(tags.start).filter(|range| range.contains(&tags.start));
        let around = around.ok_or(StepError::NotLive(tags.start))?;
        if around.end < tags.end { Err(StepError::NotLive(around.end)) } else { Ok(around) }
    }

    /// The last range that starts at or before `tag`.
    fn at_or_before(&self, tag: u32) -> Option<Range<u32>> {
        self.ranges.range(..=tag).next_back().map(|(&start, &end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jasper_core::synthetic::permutation;

    use super::*;

    #[test]
    fn it_is_the_set_that_it_stands_for() {
        let (mut tags, mut naive) = (Tags::default(), BTreeSet::new());
        let (starts, lengths) = (permutation(4000, 1), permutation(4000, 2));
        for (step, (start, length)) in starts.into_iter().zip(lengths).enumerate() {
            let range = start % 60..start % 60 + 1 + length % 12;
            if step % 2 == 0 {
                let live = range.clone().find(|tag| naive.contains(tag));
                assert_eq!(tags.insert(&range), live.map_or(Ok(()), |tag| Err(StepError::Live(tag))));
                naive.extend(range.filter(|_| live.is_none()));
            } else {
                let gone = range.clone().find(|tag| !naive.contains(tag));
                assert_eq!(tags.remove(&range), gone.map_or(Ok(()), |tag| Err(StepError::NotLive(tag))));
                naive.retain(|tag| gone.is_some() || !range.contains(tag));
            }
            assert_eq!(tags.len(), naive.len());
            let apart: Vec<_> = tags.ranges.iter().collect();
            assert!(apart.windows(2).all(|pair| pair[0].1 < pair[1].0), "{apart:?}");
        }
    }
}
