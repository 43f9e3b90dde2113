//! A list per row: bytes of a string, or codes of words.

use std::sync::Arc;

use super::Parts;

/// Rows of a part: few, because strings are long.
const PART: usize = 256;
/// Items of a part that rows no longer use, before those in use are moved together. Not fewer than those in use.
const UNUSED: usize = 1024;

/// Where the list of a row is in its part.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    len: u32,
}

/// The span of a row that has no list.
const NONE: Span = Span { start: u32::MAX, len: 0 };

#[derive(Clone, Debug)]
struct Part<T> {
    spans: [Span; PART],
    items: Vec<T>,
    /// Items in a span.
    used: usize,
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Self { spans: [NONE; PART], items: Vec::new(), used: 0 }
    }
}

impl<T: Copy> Part<T> {
    fn get(&self, place: usize) -> Option<&[T]> {
        let Span { start, len } = self.spans[place];
        (start != NONE.start).then(|| &self.items[start as usize..][..len as usize])
    }

    fn set(&mut self, place: usize, list: Option<&[T]>) {
        self.used -= self.spans[place].len as usize;
        self.spans[place] = NONE;
        if self.items.len() - self.used > self.used + UNUSED {
            let old = std::mem::take(&mut self.items);
            for span in self.spans.iter_mut().filter(|span| span.start != NONE.start) {
                let list = &old[span.start as usize..][..span.len as usize];
                span.start = self.items.len() as u32;
                self.items.extend_from_slice(list);
            }
        }
        if let Some(list) = list {
            self.spans[place] = Span { start: self.items.len() as u32, len: list.len() as u32 };
            self.items.extend_from_slice(list);
            self.used += list.len();
        }
    }
}

/// A list per row, or none. A list has up to [`crate::value::MAX_LEN`] items, so that those of a part fit its spans.
#[derive(Clone, Debug)]
pub(crate) struct Lists<T>(Parts<Arc<Part<T>>>);

impl<T: Copy> Lists<T> {
    #[inline]
    pub(crate) fn get(&self, row: u32) -> Option<&[T]> {
        self.0.get(row as usize / PART)?.get(row as usize % PART)
    }

    pub(crate) fn set(&mut self, row: u32, list: Option<&[T]>) {
        Arc::make_mut(self.0.get_mut(row as usize / PART)).set(row as usize % PART, list);
    }

    pub(crate) fn memory(&self) -> usize {
        self.0.iter().map(|part| size_of::<Part<T>>() + part.items.capacity() * size_of::<T>()).sum()
    }

    /// The lists of consecutive rows.
    pub(crate) fn collect<'a>(lists: impl IntoIterator<Item = Option<&'a [T]>>) -> Self
    where
        T: 'a,
    {
        let mut lists = lists.into_iter().peekable();
        let parts = std::iter::from_fn(|| {
            lists.peek()?;
            let mut part = Part::default();
            lists.by_ref().take(PART).enumerate().for_each(|(place, list)| part.set(place, list));
            part.items.shrink_to_fit();
            Some(Arc::new(part))
        });
        Self(parts.collect())
    }
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self(Parts::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_lists_while_others_change() {
        let mut lists = Lists::default();
        for round in 0..50_u32 {
            for row in 0..40 {
                let list = vec![row + round; (row + round) as usize % 9];
                lists.set(row * 30, (row % 7 != round % 7).then_some(list.as_slice()));
            }
            let part = lists.0.get(0).unwrap();
            assert!(part.items.len() <= 2 * part.used + UNUSED + 10);
            for row in 0..40 {
                let expected = (row % 7 != round % 7).then(|| vec![row + round; (row + round) as usize % 9]);
                assert_eq!(lists.get(row * 30), expected.as_deref());
            }
        }
        assert_eq!(lists.get(1_000_000), None);
        let copy = Lists::collect((0..1200).map(|row| lists.get(row)));
        assert!((0..1200).all(|row| lists.get(row) == copy.get(row)));
    }
}
