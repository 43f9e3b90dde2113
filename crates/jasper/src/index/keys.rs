//! What a change names: keys, and their attributes.

use jasper_attributes::Frame;
use jasper_core::Key;

/// The keys of vectors that are [inserted](crate::Index::insert), and their attributes. A slice, an array or a `Vec`
/// gives one key per vector, all different. With a [`Frame`], there are attributes: a row for each vector. A frame
/// alone means [`Self::NEXT`] with these attributes.
///
/// ```
/// # use jasper::{ElementKind, IndexBuilder, MatrixView, Metric, SearchParams};
/// use jasper::attributes::{Frame, column};
///
/// let index = IndexBuilder::new(Metric::L2).empty(ElementKind::F32, 2)?;
/// let attributes = Frame::new(2).column("year", [1999, 2024])?.column("lang", ["en", "de"])?;
/// index.insert(MatrixView::new(&[0.5, 1.5, 2.5, 3.5_f32], 2)?, (&[70, 50], &attributes))?;
/// let recent = column("year").ge(2000);
/// let hits = index.search(&[0.5_f32, 1.5], SearchParams::new(10).filter(&recent))?;
/// assert_eq!((hits.len(), hits[0].key), (1, 50));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NewKeys<'a> {
    /// `None` for those after the largest ever used.
    pub(crate) keys: Option<&'a [Key]>,
    pub(crate) attributes: Option<&'a Frame>,
}

impl<'a> NewKeys<'a> {
    /// The keys after the largest ever used, 0 in a new index: [`InsertReport::first_key`] is the first of them.
    ///
    /// [`InsertReport::first_key`]: crate::InsertReport::first_key
    pub const NEXT: Self = Self { keys: None, attributes: None };

    /// The same keys with these attributes, or with none.
    #[must_use]
    pub fn with_attributes(self, attributes: Option<&'a Frame>) -> Self {
        Self { attributes, ..self }
    }
}

impl<'a, K: Into<NewKeys<'a>>> From<(K, &'a Frame)> for NewKeys<'a> {
    fn from((keys, attributes): (K, &'a Frame)) -> Self {
        Self { attributes: Some(attributes), ..keys.into() }
    }
}

impl<'a> From<&'a Frame> for NewKeys<'a> {
    fn from(attributes: &'a Frame) -> Self {
        Self { attributes: Some(attributes), ..Self::NEXT }
    }
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
        Self { keys: Some(keys), ..Self::NEXT }
    }
}

impl<'a, const N: usize> From<&'a [Key; N]> for NewKeys<'a> {
    fn from(keys: &'a [Key; N]) -> Self {
        Self { keys: Some(keys), ..Self::NEXT }
    }
}

impl<'a> From<&'a Vec<Key>> for NewKeys<'a> {
    fn from(keys: &'a Vec<Key>) -> Self {
        Self { keys: Some(keys), ..Self::NEXT }
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
