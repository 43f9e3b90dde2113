//! The reference implementation in plain Rust, also used where no SIMD implementation exists.

use super::select::{Simd, SimdLevel};
use crate::Element;

/// Partial sums of a float reduction.
const PARTIAL_SUMS: usize = 64;

pub(crate) struct Scalar;

macro_rules! scalar {
    ($reduce:ident: $($type:ty),*) => {$(
        impl Simd<$type> for Scalar {
            const LEVEL: SimdLevel = SimdLevel::Scalar;

            unsafe fn sum<const SQUARED: bool>(a: *const $type, b: *const $type, len: usize) -> f32 {
                // SAFETY: the caller says that both are readable for `len`.
                let (a, b) = unsafe { (std::slice::from_raw_parts(a, len), std::slice::from_raw_parts(b, len)) };
                $reduce(a, b, |x, y| if SQUARED { (x - y, x - y) } else { (x, y) })
            }

            unsafe fn scale(values: &mut [$type], factor: f64) {
                scale(values, factor);
            }
        }
    )*};
}

scalar!(reduce_floats: f32, half::f16);
scalar!(reduce_integers: u8, i8);

/// Multiplies each element in f64, and rounds the product to f32 and then to `T`.
pub(super) fn scale<T: Element>(values: &mut [T], factor: f64) {
    for value in values {
        *value = T::from_f32((f64::from(value.to_f32()) * factor) as f32);
    }
}

/// Sums the products of `factors(x, y)` in the fixed order.
fn reduce_floats<T: Element>(a: &[T], b: &[T], factors: impl Fn(f32, f32) -> (f32, f32)) -> f32 {
    let mut sums = [0.0_f32; PARTIAL_SUMS];
    // In chunks, so that the compiler sees independent sums and can vectorize them.
    for (a, b) in a.chunks(PARTIAL_SUMS).zip(b.chunks(PARTIAL_SUMS)) {
        for ((sum, x), y) in sums.iter_mut().zip(a).zip(b) {
            let (p, q) = factors(x.to_f32(), y.to_f32());
            *sum = p.mul_add(q, *sum);
        }
    }
    // As four registers of sixteen lanes: add the registers pairwise, then halve the lanes.
    let mut lanes: [f32; 16] =
        std::array::from_fn(|i| (sums[i] + sums[16 + i]) + (sums[32 + i] + sums[48 + i]));
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] += lanes[half + i];
        }
    }
    lanes[0]
}

/// Sums the products of `factors(x, y)`. Integer sums are exact in any order.
fn reduce_integers<T: Element + Into<i32>>(
    a: &[T],
    b: &[T],
    factors: impl Fn(i32, i32) -> (i32, i32),
) -> f32 {
    let products = a.iter().zip(b).map(|(&x, &y)| factors(x.into(), y.into()));
    products.map(|(p, q)| p * q).sum::<i32>() as f32
}
