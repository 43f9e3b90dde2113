//! Scores: integers in the order of the distances to one query, cheap to compute from the sums of a tile.

use core::marker::PhantomData;

use super::product::Product;
use super::tensor_core_product::TensorCoreProduct;
use super::thread_product::ThreadProduct;
use crate::coordinates::{Bytes, Coordinates};

/// An element and a metric, as the scan sees them.
pub(super) trait Score: 'static {
    /// What rows hold.
    type Element: Coordinates;
    /// How pairs are summed up.
    type Product: Product<Self>;
    /// Whether a score needs the squared length of the row.
    const NEEDS_SQUARE: bool;

    /// The score of a row, less for a nearer one. `square` is 0 unless needed.
    fn score(sum: Sum<Self>, square: Sum<Self>) -> u32;
}

/// A score whose sums are computed word by word, without tensor cores.
pub(super) trait Pairwise: Score {
    /// `sum` and what a word of the query and one of the row, unpacked, add to it.
    fn add(sum: Sum<Self>, query: u32, row: u32) -> Sum<Self>;
}

/// What a score is summed up in.
pub(super) type Sum<S> = <<S as Score>::Element as Coordinates>::Sum;

/// Squared L2 of floats: summed up as it is, since products would cancel.
pub(super) struct FloatL2<E>(PhantomData<E>);
/// The negated inner product of floats.
pub(super) struct FloatDot<E>(PhantomData<E>);
/// Squared L2 of bytes, less the squared length of the query: one product a pair.
pub(super) struct ByteL2<E>(PhantomData<E>);
/// The negated inner product of bytes.
pub(super) struct ByteDot<E>(PhantomData<E>);
/// The angle between floats.
pub(super) struct FloatCosine<E>(PhantomData<E>);
/// The angle between bytes.
pub(super) struct ByteCosine<E>(PhantomData<E>);

impl<E: Coordinates<Sum = f32>> Score for FloatL2<E> {
    type Element = E;
    type Product = ThreadProduct<Self>;
    const NEEDS_SQUARE: bool = false;

    #[inline(always)]
    fn score(sum: f32, _: f32) -> u32 {
        ordered_bits(sum)
    }
}

impl<E: Coordinates<Sum = f32>> Pairwise for FloatL2<E> {
    #[inline(always)]
    fn add(sum: f32, query: u32, row: u32) -> f32 {
        E::Unpacked::squared_difference(sum, query, row)
    }
}

impl<E: Coordinates<Sum = f32>> Score for FloatDot<E> {
    type Element = E;
    type Product = ThreadProduct<Self>;
    const NEEDS_SQUARE: bool = false;

    #[inline(always)]
    fn score(sum: f32, _: f32) -> u32 {
        ordered_bits(-sum)
    }
}

impl<E: Coordinates<Sum = f32>> Pairwise for FloatDot<E> {
    #[inline(always)]
    fn add(sum: f32, query: u32, row: u32) -> f32 {
        E::Unpacked::product(sum, query, row)
    }
}

impl<E: Bytes> Score for ByteL2<E> {
    type Element = E;
    type Product = TensorCoreProduct;
    const NEEDS_SQUARE: bool = true;

    #[inline(always)]
    fn score(sum: i32, square: i32) -> u32 {
        // May wrap on the way, but ends between the squared lengths of query and row.
        ordered_integer(square.wrapping_sub(sum << 1))
    }
}

impl<E: Bytes> Score for ByteDot<E> {
    type Element = E;
    type Product = TensorCoreProduct;
    const NEEDS_SQUARE: bool = false;

    #[inline(always)]
    fn score(sum: i32, _: i32) -> u32 {
        ordered_integer(sum.wrapping_neg())
    }
}

impl<E: Coordinates<Sum = f32>> Score for FloatCosine<E> {
    type Element = E;
    type Product = ThreadProduct<Self>;
    const NEEDS_SQUARE: bool = true;

    #[inline(always)]
    fn score(sum: f32, square: f32) -> u32 {
        angle(sum, square)
    }
}

impl<E: Coordinates<Sum = f32>> Pairwise for FloatCosine<E> {
    #[inline(always)]
    fn add(sum: f32, query: u32, row: u32) -> f32 {
        E::Unpacked::product(sum, query, row)
    }
}

impl<E: Bytes> Score for ByteCosine<E> {
    type Element = E;
    type Product = TensorCoreProduct;
    const NEEDS_SQUARE: bool = true;

    #[inline(always)]
    fn score(sum: i32, square: i32) -> u32 {
        angle(sum as f32, square as f32)
    }
}

/// The score of a product and a squared length: the negated cosine times its size, times the squared length of the
/// query, which is in the order of the angle without a root.
#[inline(always)]
fn angle(product: f32, square: f32) -> u32 {
    let size = f32::from_bits(product.to_bits() & !(1 << 31));
    ordered_bits(-(product * size / square))
}

/// Bits that compare as unsigned integers like the numbers compare.
#[inline(always)]
fn ordered_bits(number: f32) -> u32 {
    let bits = number.to_bits();
    // Of a negative number all bits turn over, of another the sign.
    bits ^ ((bits as i32 >> 31) as u32 | 1 << 31)
}

/// The same for integers.
#[inline(always)]
fn ordered_integer(number: i32) -> u32 {
    number as u32 ^ 1 << 31
}
