//! A number per row.

use std::sync::Arc;

use bytemuck::Pod;

use super::Parts;

/// Rows of a part.
const PART: usize = 1024;

/// What a row may hold.
pub(crate) trait Cell: Pod {
    /// What it holds before it is set.
    const NONE: Self;
}

/// Codes of words.
impl Cell for u32 {
    const NONE: Self = 0;
}

/// Numbers in an order that is their own.
impl Cell for i64 {
    const NONE: Self = Self::MIN;
}

/// Keys.
impl Cell for u64 {
    const NONE: Self = jasper_core::NO_KEY;
}

#[derive(Clone, Debug)]
struct Part<T>([T; PART]);

impl<T: Cell> Default for Part<T> {
    fn default() -> Self {
        Self([T::NONE; PART])
    }
}

/// A number per row, [`Cell::NONE`] if none was set.
#[derive(Clone, Debug)]
pub(crate) struct Cells<T: Cell>(Parts<Arc<Part<T>>>);

impl<T: Cell> Cells<T> {
    #[inline]
    pub(crate) fn get(&self, row: u32) -> T {
        let row = row as usize;
        self.0.get(row / PART).map_or(T::NONE, |part| part.0[row % PART])
    }

    pub(crate) fn set(&mut self, row: u32, value: T) {
        let row = row as usize;
        Arc::make_mut(self.0.get_mut(row / PART)).0[row % PART] = value;
    }

    /// Writes the first `rows` rows.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>, mut rows: usize) {
        for part in self.0.iter() {
            let part = &part.0[..rows.min(PART)];
            bytes.extend_from_slice(bytemuck::cast_slice(part));
            rows -= part.len();
        }
        std::iter::repeat_n(T::NONE, rows)
            .for_each(|none| bytes.extend_from_slice(bytemuck::bytes_of(&none)));
    }

    pub(crate) fn memory(&self) -> usize {
        self.0.iter().count() * size_of::<Part<T>>()
    }
}

impl<T: Cell> Default for Cells<T> {
    fn default() -> Self {
        Self(Parts::default())
    }
}

impl<T: Cell> FromIterator<T> for Cells<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values = values.into_iter().peekable();
        let parts = std::iter::from_fn(|| {
            values.peek()?;
            let mut part = Part::default();
            part.0.iter_mut().zip(values.by_ref()).for_each(|(cell, value)| *cell = value);
            Some(Arc::new(part))
        });
        Self(parts.collect())
    }
}
