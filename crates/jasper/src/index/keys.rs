//! Keys that a change names.

use jasper_core::Key;

/// The keys of vectors that are [inserted](crate::Index::insert). A slice, an array or a `Vec` gives one key per vector.
#[derive(Clone, Copy, Debug)]
pub enum NewKeys<'a> {
    /// One key per vector, all different.
    Given(&'a [Key]),
    /// The keys after the largest ever used, 0 in a new index: [`InsertReport::first_key`] is the first of them.
    ///
    /// [`InsertReport::first_key`]: crate::report::InsertReport::first_key
    Next,
}

/// Keys to [delete](crate::Index::delete). A slice, an array or a `Vec` means [`Self::All`].
#[derive(Clone, Copy, Debug)]
pub enum DeleteKeys<'a> {
    /// All of these keys. If one is not in the index, or is given twice, none is deleted.
    All(&'a [Key]),
    /// Those of these keys that are in the index. A key that is given twice is deleted once.
    Present(&'a [Key]),
}

impl<'a> From<&'a [Key]> for NewKeys<'a> {
    fn from(keys: &'a [Key]) -> Self {
        Self::Given(keys)
    }
}

impl<'a, const N: usize> From<&'a [Key; N]> for NewKeys<'a> {
    fn from(keys: &'a [Key; N]) -> Self {
        Self::Given(keys)
    }
}

impl<'a> From<&'a Vec<Key>> for NewKeys<'a> {
    fn from(keys: &'a Vec<Key>) -> Self {
        Self::Given(keys)
    }
}

impl<'a> From<&'a [Key]> for DeleteKeys<'a> {
    fn from(keys: &'a [Key]) -> Self {
        Self::All(keys)
    }
}

impl<'a, const N: usize> From<&'a [Key; N]> for DeleteKeys<'a> {
    fn from(keys: &'a [Key; N]) -> Self {
        Self::All(keys)
    }
}

impl<'a> From<&'a Vec<Key>> for DeleteKeys<'a> {
    fn from(keys: &'a Vec<Key>) -> Self {
        Self::All(keys)
    }
}
