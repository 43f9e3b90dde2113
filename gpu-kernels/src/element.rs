//! Arithmetic on coordinates, 32 bits of them at a time, for distances and exact k-NN.

use cuda_std::warp::Summand;
use cuda_std::{global, math, mma};

use crate::DevicePtr;

/// Coordinates as packed words: one f32, two f16, four bytes or eight 4-bit integers. Unused coordinates of a word
/// are zero, and add nothing.
pub(crate) trait Packed: 'static {
    /// The type of sums.
    type Sum: Summand;
    /// The empty sum.
    const ZERO: Self::Sum;

    /// `sum` and the products of the coordinates of two words, in order.
    fn product(sum: Self::Sum, a: u32, b: u32) -> Self::Sum;
    /// `sum` and the squared differences of the coordinates of two words, in order.
    fn squared_difference(sum: Self::Sum, a: u32, b: u32) -> Self::Sum;
    /// The sum as f32, rounded once.
    fn to_f32(sum: Self::Sum) -> f32;
}

/// An element of vectors, as packed words.
pub(crate) trait DeviceElement: Packed {
    /// Number of u32 words that [`Self::unpack`] produces from 16 bytes.
    const UNPACKED: usize;
    /// The type of the unpacked words.
    type Unpacked: DeviceElement<Sum = Self::Sum>;
    /// The type of a coordinate, read alone.
    type Number: Into<f32> + Into<f64>;

    /// Coordinate `i` of a vector.
    ///
    /// # Safety
    /// The vector has the coordinate, in global memory that is not written during the launch.
    unsafe fn coordinate(vector: DevicePtr<u8>, i: u32) -> Self::Number;

    /// Unpacks 16 bytes into words that take fewer instructions to sum. Only the first [`Self::UNPACKED`] are used.
    fn unpack(unit: [u32; 4]) -> [u32; 8];
}

/// 32-bit floats.
pub(crate) struct F32;
/// 16-bit floats, summed up as 32-bit ones.
pub(crate) struct F16;
/// Unsigned bytes.
pub(crate) struct U8;
/// Signed bytes.
pub(crate) struct I8;
/// Signed 4-bit integers, -8 to 7, as multiples of 16.
pub(crate) struct I4;

impl Packed for F32 {
    type Sum = f32;
    const ZERO: f32 = 0.0;

    fn product(sum: f32, a: u32, b: u32) -> f32 {
        math::fma(f32::from_bits(a), f32::from_bits(b), sum)
    }

    fn squared_difference(sum: f32, a: u32, b: u32) -> f32 {
        let difference = f32::from_bits(a) - f32::from_bits(b);
        math::fma(difference, difference, sum)
    }

    fn to_f32(sum: f32) -> f32 {
        sum
    }
}

impl DeviceElement for F32 {
    const UNPACKED: usize = 4;
    type Unpacked = Self;
    type Number = f32;

    unsafe fn coordinate(vector: DevicePtr<u8>, i: u32) -> f32 {
        // SAFETY: upheld by the caller.
        unsafe { global::load_readonly(vector.cast().at(i as usize)) }
    }

    fn unpack(unit: [u32; 4]) -> [u32; 8] {
        let [a, b, c, d] = unit;
        [a, b, c, d, 0, 0, 0, 0]
    }
}

impl Packed for F16 {
    type Sum = f32;
    const ZERO: f32 = 0.0;

    fn product(sum: f32, a: u32, b: u32) -> f32 {
        let ((a0, a1), (b0, b1)) = (math::half2_to_f32(a), math::half2_to_f32(b));
        math::fma(a1, b1, math::fma(a0, b0, sum))
    }

    fn squared_difference(sum: f32, a: u32, b: u32) -> f32 {
        let ((a0, a1), (b0, b1)) = (math::half2_to_f32(a), math::half2_to_f32(b));
        let (low, high) = (a0 - b0, a1 - b1);
        math::fma(high, high, math::fma(low, low, sum))
    }

    fn to_f32(sum: f32) -> f32 {
        sum
    }
}

impl DeviceElement for F16 {
    const UNPACKED: usize = 8;
    type Unpacked = F32;
    type Number = f32;

    unsafe fn coordinate(vector: DevicePtr<u8>, i: u32) -> f32 {
        // SAFETY: upheld by the caller.
        math::half_to_f32(unsafe { global::load_readonly(vector.cast().at(i as usize)) })
    }

    fn unpack(unit: [u32; 4]) -> [u32; 8] {
        let mut words = [0; 8];
        for i in 0..4 {
            let (low, high) = math::half2_to_f32(unit[i]);
            words[2 * i] = low.to_bits();
            words[2 * i + 1] = high.to_bits();
        }
        words
    }
}

/// Elements that tensor cores multiply.
pub(crate) trait MatrixElement: DeviceElement {
    /// `c` and the product of 16 x 8 words with 8 x 8: the fragments of [`mma`].
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together.
    unsafe fn matrix_product(a: [u32; 4], b: [u32; 2], c: [Self::Sum; 4]) -> [Self::Sum; 4];
}

impl MatrixElement for F16 {
    unsafe fn matrix_product(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
        // SAFETY: upheld by the caller.
        unsafe { mma::m16n8k16_f16(a, b, c) }
    }
}

macro_rules! bytes {
    ($type:ident, $byte:ident, $dp4a:expr, $absolute_difference:path, $mma:path) => {
        impl Packed for $type {
            type Sum = i32;
            const ZERO: i32 = 0;

            fn product(sum: i32, a: u32, b: u32) -> i32 {
                $dp4a(a, b, sum)
            }

            fn squared_difference(sum: i32, a: u32, b: u32) -> i32 {
                let apart = $absolute_difference(a, b);
                math::dp4a_u32(apart, apart, sum as u32) as i32
            }

            fn to_f32(sum: i32) -> f32 {
                sum as f32
            }
        }

        impl DeviceElement for $type {
            const UNPACKED: usize = 4;
            type Unpacked = Self;
            type Number = $byte;

            unsafe fn coordinate(vector: DevicePtr<u8>, i: u32) -> $byte {
                // SAFETY: upheld by the caller.
                unsafe { global::load_readonly(vector.cast().at(i as usize)) }
            }

            fn unpack(unit: [u32; 4]) -> [u32; 8] {
                F32::unpack(unit)
            }
        }

        /// Partial sums may wrap, but the total is exact, because the squared length of the longest vector fits an i32.
        impl MatrixElement for $type {
            unsafe fn matrix_product(a: [u32; 4], b: [u32; 2], c: [i32; 4]) -> [i32; 4] {
                // SAFETY: upheld by the caller.
                unsafe { $mma(a, b, c) }
            }
        }
    };
}

bytes!(
    U8,
    u8,
    |a, b, sum: i32| math::dp4a_u32(a, b, sum as u32) as i32,
    math::absolute_difference_u8x4,
    mma::m16n8k32_u8
);
bytes!(I8, i8, math::dp4a_i32, math::absolute_difference_i8x4, mma::m16n8k32_i8);

impl I4 {
    /// The higher halves of the bytes of a word, and the lower halves, as bytes that are multiples of 16.
    fn halves(word: u32) -> [u32; 2] {
        [word, word << 4].map(|word| word & 0xf0f0_f0f0)
    }
}

impl Packed for I4 {
    type Sum = i32;
    const ZERO: i32 = 0;

    fn product(sum: i32, a: u32, b: u32) -> i32 {
        let ([a0, a1], [b0, b1]) = (Self::halves(a), Self::halves(b));
        I8::product(I8::product(sum, a0, b0), a1, b1)
    }

    fn squared_difference(sum: i32, a: u32, b: u32) -> i32 {
        let ([a0, a1], [b0, b1]) = (Self::halves(a), Self::halves(b));
        I8::squared_difference(I8::squared_difference(sum, a0, b0), a1, b1)
    }

    fn to_f32(sum: i32) -> f32 {
        sum as f32
    }
}

/// What is summed over the coordinates of two vectors: [`crate::graph::DistanceOpKind`] as a type.
pub(crate) trait DistanceOp: 'static {
    /// `sum` plus the terms of the coordinates of `a` and `b`.
    fn add<E: Packed>(sum: E::Sum, a: u32, b: u32) -> E::Sum;
}

/// The squared difference.
pub(crate) struct SquaredL2;
/// The product.
pub(crate) struct Dot;

impl DistanceOp for SquaredL2 {
    fn add<E: Packed>(sum: E::Sum, a: u32, b: u32) -> E::Sum {
        E::squared_difference(sum, a, b)
    }
}

impl DistanceOp for Dot {
    fn add<E: Packed>(sum: E::Sum, a: u32, b: u32) -> E::Sum {
        E::product(sum, a, b)
    }
}
