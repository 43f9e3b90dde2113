//! What a search looks for.

use jasper_core::{Element, Key, Vectors};

/// What [`Index::search`](crate::Index::search) looks for: the nearest keys to a vector, all keys within a distance of it, or
/// the nearest other keys to the vector of a key. A slice, an array or a `Vec` is a vector.
///
/// ```
/// use jasper::{IndexBuilder, MatrixView, Metric, SearchParams, Target};
/// let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&[0_u8, 0, 3, 4, 9, 9], 2)?)?;
///
/// let nearest = index.search(&[3_u8, 5], SearchParams::new(1))?;
/// assert_eq!(nearest[0].key, 1);
/// let other = index.search(Target::key(2), SearchParams::new(1))?;
/// assert_eq!(other[0].key, 1);
/// let within_five = index.search(Target::within(&[0_u8, 0], 5.0 * 5.0), SearchParams::new(10))?;
/// assert_eq!(within_five.iter().map(|hit| hit.distance).collect::<Vec<_>>(), [0.0, 25.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Target<'a>(pub(super) Kind<'a>);

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind<'a> {
    Vector(Vectors<'a>),
    Within(Vectors<'a>, f32),
    Key(Key),
}

impl<'a> Target<'a> {
    /// All keys within `radius` of a vector, nearest first: those that the beam search finds and whose distance, in the
    /// metric of the index, is at most `radius`. L2 distances are squared, so give the square of the radius.
    ///
    /// The search starts with its parameters and doubles `k` and the beam width until the farthest hit is beyond the
    /// radius, or every key is a hit. As in any approximate search, keys may be missed, less likely with a wider beam. On a
    /// CUDA device, at most 1024 keys can be found, which is the widest beam there.
    pub fn within(vector: impl Into<Vectors<'a>>, radius: f32) -> Self {
        Self(Kind::Within(vector.into(), radius))
    }

    /// The nearest keys to the vector of a key, without the key itself. Other keys of an identical vector are hits, at
    /// distance 0.
    pub fn key(key: Key) -> Self {
        Self(Kind::Key(key))
    }
}

impl<'a, T: Element> From<&'a [T]> for Target<'a> {
    fn from(vector: &'a [T]) -> Self {
        Self(Kind::Vector(vector.into()))
    }
}

impl<'a, T: Element, const N: usize> From<&'a [T; N]> for Target<'a> {
    fn from(vector: &'a [T; N]) -> Self {
        Self(Kind::Vector(vector.into()))
    }
}

impl<'a, T: Element> From<&'a Vec<T>> for Target<'a> {
    fn from(vector: &'a Vec<T>) -> Self {
        Self(Kind::Vector(vector.into()))
    }
}
