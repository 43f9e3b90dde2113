//! The pieces of a batch of queries, which devices take from a shared queue.

use std::sync::{Mutex, PoisonError};

use jasper_vamana::MatchesMut;

/// Fewest queries of a piece, unless fewer are left. Less would not keep a GPU busy.
pub(super) const SMALLEST: usize = 2048;

/// Consecutive queries of a batch, and where their results go.
pub(super) struct Piece<'a, T> {
    pub(super) queries: &'a [&'a [T]],
    pub(super) matches: MatchesMut<'a>,
}

/// What no device has taken yet.
///
/// Each piece takes half of a taker's equal share of the remaining queries, so pieces get smaller towards the end. A
/// slower device takes fewer of them, and all devices finish at about the same time.
pub(super) struct Pieces<'a, T> {
    /// The rest of the batch, and pieces that a device took and could not answer.
    left: Mutex<Vec<Piece<'a, T>>>,
    k: usize,
    takers: usize,
    smallest: usize,
}

impl<'a, T> Pieces<'a, T> {
    /// The pieces of a batch with `k` results per query, for this number of takers.
    pub(super) fn new(batch: Piece<'a, T>, k: usize, takers: usize, smallest: usize) -> Self {
        Self { left: Mutex::new(vec![batch]), k, takers, smallest }
    }

    /// The next piece.
    pub(super) fn take(&self) -> Option<Piece<'a, T>> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let Piece { queries, matches } = left.pop()?;
        let count = queries.len().div_ceil(2 * self.takers).max(self.smallest);
        if count >= queries.len() {
            return Some(Piece { queries, matches });
        }
        let (first, rest) = queries.split_at(count);
        let (matches, rest_matches) = matches.split_at(count * self.k);
        left.push(Piece { queries: rest, matches: rest_matches });
        Some(Piece { queries: first, matches })
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Gives back a piece that was not answered.
    pub(super) fn put_back(&self, piece: Piece<'a, T>) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
    }
}

#[cfg(test)]
mod tests {
    use jasper_vamana::Matches;

    use super::*;

    #[test]
    fn pieces_shrink_and_cover_the_batch_once() {
        let row = [0_u8; 1];
        let queries = vec![&row[..]; 20_000];
        let mut matches = Matches::new(queries.len(), 3).unwrap();
        let pieces = Pieces::new(Piece { queries: &queries, matches: matches.as_mut() }, 3, 2, SMALLEST);
        let mut lens = Vec::new();
        while let Some(piece) = pieces.take() {
            if lens.len() == 1 && piece.queries.len() == 3750 {
                pieces.put_back(piece);
                lens.push(0);
                continue;
            }
            lens.push(piece.queries.len());
        }
        assert_eq!(lens[..2], [5000, 0]);
        assert_eq!(lens.iter().sum::<usize>(), 20_000);
        // The last of the batch, and the last of the piece that was given back.
        assert_eq!(lens[2..].iter().filter(|&&len| len < SMALLEST).count(), 2, "{lens:?}");
    }
}
