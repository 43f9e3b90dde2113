//! Scores: integers that order rows as their distances to one query do, and are cheap to compute from the sums of a
//! tile.

use core::marker::PhantomData;

use super::product::Product;
use super::tensor_core_product::TensorCoreProduct;
use super::thread_product::ThreadProduct;
use crate::element::{DeviceElement, MatrixElement, Packed};

/// A metric.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Metric {
    L2,
    InnerProduct,
    Cosine,
}

/// An element and a metric, as the scan and the ranking see them.
pub(super) trait Score: Sized + 'static {
    /// The element of the rows.
    type Element: DeviceElement;
    /// How pairs are summed.
    type Product: Product<Self>;
    const METRIC: Metric;
    /// Whether a score needs the squared norm of the row.
    const NEEDS_SQUARE: bool;

    /// The score of a row, less for a nearer one. `square` is 0 unless needed.
    fn score(sum: Sum<Self>, square: Sum<Self>) -> u32;
}

/// The type of the sums of a score.
pub(super) type Sum<S> = <<S as Score>::Element as Packed>::Sum;

macro_rules! scores {
    ($(
        $(#[$doc:meta])*
        $name:ident<$Bound:path>: $Product:ty, $metric:ident, $needs_square:literal, |$sum:ident, $square:pat_param| $score:expr;
    )*) => { $(
        $(#[$doc])*
        pub(super) struct $name<E>(PhantomData<E>);

        impl<E: $Bound> Score for $name<E> {
            type Element = E;
            type Product = $Product;
            const METRIC: Metric = Metric::$metric;
            const NEEDS_SQUARE: bool = $needs_square;

            #[inline(always)]
            fn score($sum: E::Sum, $square: E::Sum) -> u32 {
                $score
            }
        }
    )* };
}

scores! {
    /// Squared L2 of floats, summed directly: a difference of products would cancel digits.
    FloatL2<DeviceElement<Sum = f32>>: ThreadProduct<Self>, L2, false, |sum, _| ordered_bits(sum);
    /// The negated inner product of floats.
    FloatDot<DeviceElement<Sum = f32>>: ThreadProduct<Self>, InnerProduct, false, |sum, _| ordered_bits(-sum);
    /// The angle between floats.
    FloatCosine<DeviceElement<Sum = f32>>: ThreadProduct<Self>, Cosine, true, |sum, square| angle(sum, square);
    /// Squared L2 of 16-bit floats, minus the squared norm of the query: one product per pair, which cancels digits where
    /// distances are much shorter than vectors.
    HalfL2<MatrixElement<Sum = f32>>: TensorCoreProduct<Self>, L2, true, |sum, square| {
        ordered_bits(square - 2.0 * sum)
    };
    /// The negated inner product of 16-bit floats.
    HalfDot<MatrixElement<Sum = f32>>: TensorCoreProduct<Self>, InnerProduct, false, |sum, _| ordered_bits(-sum);
    /// The angle between 16-bit floats.
    HalfCosine<MatrixElement<Sum = f32>>: TensorCoreProduct<Self>, Cosine, true, |sum, square| angle(sum, square);
    /// Squared L2 of bytes, minus the squared norm of the query: one product per pair. The difference may wrap before
    /// it ends between the squared norms of query and row.
    ByteL2<MatrixElement<Sum = i32>>: TensorCoreProduct<Self>, L2, true, |sum, square| ordered_integer(square.wrapping_sub(sum << 1));
    /// The negated inner product of bytes.
    ByteDot<MatrixElement<Sum = i32>>: TensorCoreProduct<Self>, InnerProduct, false, |sum, _| ordered_integer(sum.wrapping_neg());
    /// The angle between bytes.
    ByteCosine<MatrixElement<Sum = i32>>: TensorCoreProduct<Self>, Cosine, true, |sum, square| angle(sum as f32, square as f32);
}

/// The score of a product and a squared norm: the negated cosine times its magnitude, times the squared norm of the
/// query. It orders rows by their angle, and needs no root.
#[inline(always)]
fn angle(product: f32, square: f32) -> u32 {
    let magnitude = f32::from_bits(product.to_bits() & !(1 << 31));
    ordered_bits(-(product * magnitude / square))
}

/// Bits that compare as unsigned integers like the numbers compare.
#[inline(always)]
fn ordered_bits(number: f32) -> u32 {
    let bits = number.to_bits();
    // Flips all bits of a negative number, and the sign of any other.
    bits ^ ((bits as i32 >> 31) as u32 | 1 << 31)
}

/// The same for integers.
#[inline(always)]
fn ordered_integer(number: i32) -> u32 {
    number as u32 ^ 1 << 31
}
