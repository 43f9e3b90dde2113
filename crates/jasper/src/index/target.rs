//! What a search looks for.

use jasper_core::{Element, Key, MatrixView, Vectors};
use jasper_data::{ReadAt, Rows, VectorFile};

/// What [`Index::search`](crate::Index::search) looks for: the nearest keys to a vector, all keys within a distance of it, or
/// the nearest other keys to the vector of a key. A slice, an array or a `Vec` is a vector. A
/// [batch](crate::Index::search_batch) looks for each of several vectors: a [`MatrixView`], or all [`Vectors`].
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
/// let both = MatrixView::new(&[0_u8, 0, 9, 8], 2)?;
/// let within_five = index.search_batch(Target::within(both, 5.0 * 5.0), SearchParams::new(10))?;
/// assert_eq!(within_five.iter().map(Iterator::count).collect::<Vec<_>>(), [2, 1]);
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
    /// All keys within `radius` of a vector, or of each vector of a batch, nearest first: those that the beam search
    /// finds and whose distance, in the metric of the index, is at most `radius`. L2 distances are squared, so give the
    /// square of the radius.
    ///
    /// The search starts with its parameters and doubles `k` and the beam width until the farthest hit is beyond the
    /// radius, or every key is a hit. In a batch, only the queries that have more hits are searched for again. As in
    /// any approximate search, keys may be missed, less likely with a wider beam. On a CUDA device, at most 1024 keys
    /// can be found, which is the widest beam there. The results of a batch take the memory of as many hits for each
    /// query as the most that one has.
    pub fn within(vectors: impl Into<Vectors<'a>>, radius: f32) -> Self {
        Self(Kind::Within(vectors.into(), radius))
    }

    /// The nearest keys to the vector of a key, without the key itself. Other keys of an identical vector are hits, at
    /// distance 0.
    pub fn key(key: Key) -> Self {
        Self(Kind::Key(key))
    }
}

impl<'a> From<Vectors<'a>> for Target<'a> {
    fn from(vectors: Vectors<'a>) -> Self {
        Self(Kind::Vector(vectors))
    }
}

/// Makes targets of whatever vectors are made of: a blanket implementation would be one for targets, too.
macro_rules! targets {
    ($(($($generics:tt)*) $Vectors:ty,)*) => {$(
        impl<'a, $($generics)*> From<$Vectors> for Target<'a> {
            fn from(vectors: $Vectors) -> Self {
                Vectors::from(vectors).into()
            }
        }
    )*};
}

targets! {
    (T: Element) &'a [T],
    (T: Element, const N: usize) &'a [T; N],
    (T: Element) &'a Vec<T>,
    (T: Element) MatrixView<'a, T>,
    (T: Element) &MatrixView<'a, T>,
    (T: Element) &'a Rows<T>,
    (S: ReadAt) &'a VectorFile<S>,
}
