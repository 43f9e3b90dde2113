//! Which queries with filters of their own share launches.

use jasper_vamana::{BeamSize, Strategy};

use super::launch::OfEach;

/// Slots of a scan from which on it is not launched with short ones.
const LONG_SCAN: usize = 4096;

/// A pass over the queries: all as planned, then those that are left with fewer than `k` results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// As planned.
    Planned,
    /// Scans.
    Scans,
    /// Scans of slots that the host lists.
    ListedScans,
}

/// How queries are searched for: those with the same value share launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// By a scan of the slots that their filters allow, of which there are about four to the power of this many times some
    /// thousand: a long scan would make short ones wait.
    Scan { length: u32 },
    /// By a beam search of this width and frontier.
    Beam { width: u32, frontier_len: u32 },
}

impl Default for Group {
    fn default() -> Self {
        Self::Scan { length: 0 }
    }
}

impl Group {
    pub(super) fn new(strategy: Strategy, listed: usize) -> Self {
        match strategy {
            Strategy::Scan => Self::scan(listed),
            // A device has no beam as wide as `u32`.
            Strategy::Beam(BeamSize { width, frontier_len }) => {
                Self::Beam { width: width as u32, frontier_len: frontier_len as u32 }
            }
        }
    }

    pub(super) fn scan(listed: usize) -> Self {
        Self::Scan { length: (listed / LONG_SCAN).checked_ilog(4).map_or(0, |length| length + 1) }
    }

    /// Whether its queries are scanned.
    pub(crate) fn is_scan(self) -> bool {
        matches!(self, Self::Scan { .. })
    }

    /// The strategy of its queries.
    pub(crate) fn strategy(self) -> Strategy {
        match self {
            Self::Scan { .. } => Strategy::Scan,
            Self::Beam { width, frontier_len } => {
                Strategy::Beam(BeamSize { width: width as usize, frontier_len: frontier_len as usize })
            }
        }
    }
}

/// The place of a query in the order of launches: by group, and long scans by filter, so that those with one filter read its
/// vectors from caches; and its share of [`OfEach`]. Small, because one thread reads those of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(super) group: Group,
    /// Where a long scan begins to read a column.
    pub(super) first_listed: u32,
    /// The number of the plan.
    pub(super) plan: u32,
    /// The index of the query.
    pub(super) query: u32,
    pub(super) lists: u16,
    pub(super) tests: u16,
    pub(super) longest: u32,
}

impl Place {
    /// The most that one of these queries has for itself.
    pub(super) fn most(places: &[Self]) -> OfEach {
        places.iter().fold(OfEach::default(), |most, place| OfEach {
            lists: most.lists.max(place.lists.into()),
            tests: most.tests.max(place.tests.into()),
            longest: most.longest.max(place.longest as usize),
            ..most
        })
    }
}

/// Rounds the size of a beam up, so that the beam searches of a batch are of few sizes. That of a query does not depend on
/// the other queries.
pub(super) fn rounded(strategy: Strategy, max_beam_width: usize) -> Strategy {
    match strategy {
        Strategy::Scan => Strategy::Scan,
        Strategy::Beam(BeamSize { width, frontier_len }) => {
            let up = |len: usize| round_up(len).min(max_beam_width.max(len));
            let width = up(width);
            Strategy::Beam(BeamSize { width, frontier_len: up(frontier_len).max(width) })
        }
    }
}

/// The least number from `len` on that is 2 or 3 times a power of two, and at least 16.
fn round_up(len: usize) -> usize {
    let power = len.next_power_of_two().max(16);
    if len <= power / 4 * 3 { (power / 4 * 3).max(16) } else { power }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beams_are_of_few_sizes() {
        let rounded = [1, 16, 17, 24, 25, 33, 48, 49, 64, 769, 1024].map(round_up);
        assert_eq!(rounded, [16, 16, 24, 24, 32, 48, 48, 64, 64, 1024, 1024]);
    }
}
