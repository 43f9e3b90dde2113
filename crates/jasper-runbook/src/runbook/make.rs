//! Generators of the runbooks of big-ann-benchmarks, over any data set. Rows are inserted in the order of the base.

use std::ops::Range;

use jasper_core::synthetic::permutation;

use super::{Operation, Runbook, RunbookError};

impl Runbook {
    /// The maximum number of rounds of a generated runbook.
    pub const MAX_ROUNDS: u32 = 10_000;

    /// A sliding window over `rows` rows in `rounds` parts. Half of the parts are inserted; then each round inserts a
    /// part, deletes the oldest, and searches.
    ///
    /// # Errors
    /// Returns [`RunbookError`] where there are fewer rows than rounds, fewer than two rounds, or more than
    /// [`Self::MAX_ROUNDS`].
    pub fn sliding_window(dataset: &str, rows: u32, rounds: u32) -> Result<Self, RunbookError> {
        check_rounds(rounds, 2, rows)?;
        let window = rounds / 2;
        Self::new(
            dataset,
            (0..rounds).flat_map(|round| {
                let comes = Operation::Insert(part(rows, rounds, round));
                let goes =
                    round.checked_sub(window).map(|oldest| Operation::Delete(part(rows, rounds, oldest)));
                let is_full = round + 1 >= window;
                [Some(comes), goes, is_full.then_some(Operation::Search)].into_iter().flatten()
            }),
        )
    }

    /// Each of `rounds` rounds inserts a part of `rows`, deletes expired parts, and searches. Of 19 parts, 15 expire
    /// after a fifth of the rounds, 3 after a half, and one never, drawn from `seed`.
    ///
    /// # Errors
    /// Returns [`RunbookError`] where there are fewer rows than rounds, no rounds, or more than [`Self::MAX_ROUNDS`].
    pub fn expiration_time(dataset: &str, rows: u32, rounds: u32, seed: u64) -> Result<Self, RunbookError> {
        check_rounds(rounds, 1, rows)?;
        let fate = permutation(rounds as usize, seed);
        let life = |round: u32| match u64::from(fate[round as usize]) * 19 / u64::from(rounds) {
            0 => rounds,
            1..4 => (rounds / 2).max(1),
            _ => (rounds / 5).max(1),
        };
        Self::new(
            dataset,
            (0..rounds).flat_map(|round| {
                let expired = (0..round).filter(move |&old| old + life(old) == round);
                let goes = expired.map(|old| Operation::Delete(part(rows, rounds, old)));
                [Operation::Insert(part(rows, rounds, round))]
                    .into_iter()
                    .chain(goes)
                    .chain([Operation::Search])
            }),
        )
    }

    /// Inserts points, then in each of `rounds` rounds replaces a `share` of them by new rows, and searches. All `rows`
    /// are used.
    ///
    /// # Errors
    /// Returns [`RunbookError`] where the share is not above 0 and at most 1, where rows or share are too small for a
    /// round to replace anything, where there are no rounds, or more than [`Self::MAX_ROUNDS`].
    pub fn replacing(dataset: &str, rows: u32, rounds: u32, share: f64) -> Result<Self, RunbookError> {
        check_rounds(rounds, 1, rows)?;
        if !(share > 0.0 && share <= 1.0) {
            return Err(RunbookError::Share(share));
        }
        let points = (f64::from(rows) / (1.0 + f64::from(rounds) * share)) as u32;
        let replaced = (f64::from(points) * share) as u32;
        if replaced == 0 {
            return Err(RunbookError::NothingReplaced { share, points });
        }
        // Cycles over the tags. The last ones, fewer than a round replaces, keep their vectors.
        let cycle = points / replaced;
        let rounds = (0..rounds).flat_map(|round| {
            let (tags, ids) = (round % cycle * replaced, points + round * replaced);
            let of = |start| start..start + replaced;
            [Operation::Replace { tags: of(tags), ids: of(ids) }, Operation::Search]
        });
        Self::new(dataset, [Operation::Insert(0..points), Operation::Search].into_iter().chain(rounds))
    }
}

/// Checks that there are at least `least` rounds, each with a row.
fn check_rounds(rounds: u32, least: u32, rows: u32) -> Result<(), RunbookError> {
    if rounds < least || rounds > rows.min(Runbook::MAX_ROUNDS) {
        return Err(RunbookError::Rounds { rounds, least, rows });
    }
    Ok(())
}

/// Part `index` of `rows` rows in `parts` parts.
fn part(rows: u32, parts: u32, index: u32) -> Range<u32> {
    let at = |index: u32| (u64::from(rows) * u64::from(index) / u64::from(parts)) as u32;
    at(index)..at(index + 1)
}
