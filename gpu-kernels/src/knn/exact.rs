//! Distances in f64, summed in the order of the CPU's exact k-NN, so that both rank rows alike.

use cuda_std::prelude::*;

use super::score::{ByteCosine, ByteDot, ByteL2, FloatCosine, FloatDot, FloatL2, Score};
use crate::DevicePtr;
use crate::coordinates::{Coordinates, F16, F32, I8, U8};

/// Lanes that share a distance: the CPU has as many partial sums.
pub(super) const LANES: u32 = 8;

/// An element whose coordinates can be read one by one.
pub(super) trait Exact: Coordinates {
    /// Coordinate `i` of a vector; exact.
    ///
    /// # Safety
    /// The vector has more than `i` coordinates, in global memory that is not written during the launch.
    unsafe fn coordinate(vector: DevicePtr<u8>, i: u32) -> f64;
}

macro_rules! exact {
    ($($element:ident: $type:ty, |$value:ident| $as_f64:expr;)*) => { $(
        impl Exact for $element {
            #[inline(always)]
            unsafe fn coordinate(vector: DevicePtr<u8>, i: u32) -> f64 {
                // SAFETY: the caller's promise.
                let $value = unsafe { global::load_readonly(vector.cast::<$type>().at(i as usize)) };
                $as_f64
            }
        }
    )* };
}
exact! {
    F32: f32, |x| f64::from(x);
    F16: u16, |x| f64::from(math::half_to_f32(x));
    U8: u8, |x| f64::from(x);
    I8: i8, |x| f64::from(x);
}

/// The sum of `term` over two vectors, in all eight lanes that share it. Whole warp.
///
/// # Safety
/// Both vectors have `dimension` coordinates in global memory that is not written during the launch. `dimension` is the
/// same in every lane of the warp.
#[inline(always)]
unsafe fn sum<E: Exact>(
    a: DevicePtr<u8>,
    b: DevicePtr<u8>,
    dimension: u32,
    term: impl Fn(f64, f64) -> f64,
) -> f64 {
    // SAFETY: coordinates are below the dimension.
    let term = |i: u32| unsafe { term(E::coordinate(a, i), E::coordinate(b, i)) };
    let whole = dimension / LANES * LANES;
    let mut own = 0.0;
    let mut i = 0;
    while i < whole {
        own += term(i + warp::lane_id() % LANES);
        i += LANES;
    }
    let mut sum = 0.0;
    for lane in 0..LANES {
        // SAFETY: the whole warp comes here.
        sum +=
            f64::from_bits(unsafe { warp::warp_shuffle_idx(warp::FULL_MASK, own.to_bits(), lane, LANES).0 });
    }
    let mut tail = 0.0;
    while i < dimension {
        tail += term(i);
        i += 1;
    }
    sum + tail
}

/// A metric's exact distance.
pub(super) trait Distance: Score<Element: Exact> {
    /// The distance of two vectors, in all eight lanes that share it. Whole warp.
    ///
    /// # Safety
    /// As for the sum of a term: both vectors have `dimension` coordinates, and it is the same in the whole warp.
    unsafe fn distance(query: DevicePtr<u8>, row: DevicePtr<u8>, dimension: u32) -> f64;
}

macro_rules! distance {
    ($($score:ident: $function:ident),*) => { $(
        impl<E: Exact> Distance for $score<E>
        where
            Self: Score<Element = E>,
        {
            #[inline(always)]
            unsafe fn distance(query: DevicePtr<u8>, row: DevicePtr<u8>, dimension: u32) -> f64 {
                // SAFETY: the caller's promise.
                unsafe { $function::<E>(query, row, dimension) }
            }
        }
    )* };
}
distance!(FloatL2: squared_l2, FloatDot: product, FloatCosine: angle);
distance!(ByteL2: squared_l2, ByteDot: product, ByteCosine: angle);

#[inline(always)]
unsafe fn squared_l2<E: Exact>(query: DevicePtr<u8>, row: DevicePtr<u8>, dimension: u32) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { sum::<E>(query, row, dimension, |x, y| (x - y) * (x - y)) }
}

#[inline(always)]
unsafe fn product<E: Exact>(query: DevicePtr<u8>, row: DevicePtr<u8>, dimension: u32) -> f64 {
    // SAFETY: the caller's promise. From zero, so that no distance is -0.0.
    unsafe { 0.0 - sum::<E>(query, row, dimension, |x, y| x * y) }
}

#[inline(always)]
unsafe fn angle<E: Exact>(query: DevicePtr<u8>, row: DevicePtr<u8>, dimension: u32) -> f64 {
    // SAFETY: the caller's promise.
    let (product, squares) = unsafe {
        let dot = |a, b| sum::<E>(a, b, dimension, |x, y| x * y);
        (dot(query, row), dot(query, query) * dot(row, row))
    };
    (1.0 - product / math::sqrt_f64(squares)).max(0.0)
}

/// Bits that compare as unsigned integers like the distances compare, and never [`NO_ENTRY`](super::list::NO_ENTRY).
#[inline(always)]
pub(super) fn ordered_bits(distance: f64) -> u64 {
    let bits = distance.to_bits();
    bits ^ ((bits as i64 >> 63) as u64 | 1 << 63)
}

/// The distance whose bits these are.
#[inline(always)]
pub(super) fn from_orderable(bits: u64) -> f64 {
    f64::from_bits(bits ^ ((!bits as i64 >> 63) as u64 | 1 << 63))
}
