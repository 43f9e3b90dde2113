//! The coordinate types of vectors.

use std::fmt;

use bytemuck::Pod;
use half::f16;
use half::slice::HalfFloatSliceExt as _;

use crate::ROW_ALIGN_BYTES;
use crate::distance::{DistanceFns, SimdLevel, select};
use crate::vectors::{AnySource, Source};

/// A coordinate type: f32, [`f16`](struct@f16), u8 or i8.
///
/// Vectors are stored in this type on the host and on the device; kernels widen in registers. The trait is sealed,
/// since distance kernels exist for these four types only.
pub trait Element:
    Pod + Default + PartialEq + PartialOrd + fmt::Debug + Send + Sync + sealed::Sealed + 'static
{
    /// The type as a value.
    const KIND: ElementKind;

    /// Whether dot products and squared distances are computed exactly, as they are for integers.
    const EXACT_SUMS: bool = Self::KIND.is_integer();

    /// Converts to f32, without loss.
    fn to_f32(self) -> f32;

    /// Converts from f32 to the nearest value. Integers round to nearest, ties to even, and saturate; NaN becomes 0.
    fn from_f32(value: f32) -> Self;

    /// Converts values to f32, as [`Self::to_f32`] does, with wide instructions if the CPU has them.
    ///
    /// # Panics
    /// Panics if the lengths differ.
    fn slice_to_f32(values: &[Self], out: &mut [f32]) {
        assert_eq!(values.len(), out.len(), "as many values as places");
        out.iter_mut().zip(values).for_each(|(out, x)| *out = x.to_f32());
    }

    /// Converts values from f32, as [`Self::from_f32`] does, with wide instructions if the CPU has them.
    ///
    /// # Panics
    /// Panics if the lengths differ.
    fn slice_from_f32(values: &[f32], out: &mut [Self]) {
        assert_eq!(values.len(), out.len(), "as many values as places");
        out.iter_mut().zip(values).for_each(|(out, &x)| *out = Self::from_f32(x));
    }

    /// The distance functions for this CPU, chosen once per process.
    fn distance_fns() -> &'static DistanceFns<Self>;

    /// The distance functions of the widest level up to `level` that this CPU supports, for tests and benches.
    fn distance_fns_at(level: SimdLevel) -> DistanceFns<Self>;
}

/// An [`Element`] type as a value, as in file headers and on command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum ElementKind {
    /// 32-bit float.
    F32,
    /// 16-bit float, IEEE binary16.
    F16,
    /// Unsigned byte.
    U8,
    /// Signed byte.
    I8,
}

impl ElementKind {
    /// All kinds, in the order of their numbers in the index file.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::U8, Self::I8];

    /// Size of one coordinate in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
            Self::U8 | Self::I8 => 1,
        }
    }

    /// Coordinates of a row with its padding: see [`padded_len`](crate::padded_len).
    pub const fn padded_len(self, dimension: usize) -> usize {
        dimension.next_multiple_of(ROW_ALIGN_BYTES / self.size())
    }

    /// Bytes of a row with its padding.
    pub const fn row_bytes(self, dimension: usize) -> usize {
        self.padded_len(dimension) * self.size()
    }

    /// Whether arithmetic on this type is exact.
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::U8 | Self::I8)
    }

    /// `f32`, `f16`, `u8` or `i8`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::U8 => "u8",
            Self::I8 => "i8",
        }
    }

    /// The number of the type in the index file.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The type with this number in the index file.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

impl fmt::Display for ElementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Evaluates an expression with the type of an [`ElementKind`].
#[doc(hidden)]
#[macro_export]
macro_rules! with_element {
    ($kind:expr, $T:ident => $body:expr) => {
        match $kind {
            $crate::ElementKind::F32 => {
                type $T = f32;
                $body
            }
            $crate::ElementKind::F16 => {
                type $T = $crate::f16;
                $body
            }
            $crate::ElementKind::U8 => {
                type $T = u8;
                $body
            }
            $crate::ElementKind::I8 => {
                type $T = i8;
                $body
            }
        }
    };
}

mod sealed {
    use crate::vectors::{AnySource, Source};

    /// The element types, and the variant of each.
    pub trait Sealed: Sized {
        fn any(source: Source<'_, Self>) -> AnySource<'_>;
        fn of(source: AnySource<'_>) -> Option<Source<'_, Self>>;
    }
}

macro_rules! element {
    ($type:ty, $kind:ident, $to:expr, $from:expr $(, $slices:item)*) => {
        impl sealed::Sealed for $type {
            fn any(source: Source<'_, Self>) -> AnySource<'_> {
                AnySource::$kind(source)
            }

            fn of(source: AnySource<'_>) -> Option<Source<'_, Self>> {
                match source {
                    AnySource::$kind(source) => Some(source),
                    _ => None,
                }
            }
        }

        impl Element for $type {
            const KIND: ElementKind = ElementKind::$kind;

            #[inline]
            fn to_f32(self) -> f32 {
                $to(self)
            }

            #[inline]
            fn from_f32(value: f32) -> Self {
                $from(value)
            }

            $($slices)*

            fn distance_fns() -> &'static DistanceFns<Self> {
                static FNS: std::sync::OnceLock<DistanceFns<$type>> = std::sync::OnceLock::new();
                FNS.get_or_init(|| Self::distance_fns_at(SimdLevel::detect()))
            }

            fn distance_fns_at(level: SimdLevel) -> DistanceFns<Self> {
                select::distance_fns(level)
            }
        }
    };
}

element!(f32, F32, |x| x, |x| x);
element!(
    f16,
    F16,
    f16::to_f32,
    f16::from_f32,
    // A conversion of single values would detect the features of the CPU each time.
    fn slice_to_f32(values: &[Self], out: &mut [f32]) {
        values.convert_to_f32_slice(out);
    },
    fn slice_from_f32(values: &[f32], out: &mut [Self]) {
        out.convert_from_f32_slice(values);
    }
);
element!(u8, U8, f32::from, |x: f32| x.round_ties_even() as u8);
element!(i8, I8, f32::from, |x: f32| x.round_ties_even() as i8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_round_and_saturate() {
        assert_eq!(u8::from_f32(-3.0), 0);
        assert_eq!(u8::from_f32(300.0), 255);
        assert_eq!(u8::from_f32(2.5), 2);
        assert_eq!(i8::from_f32(-200.0), -128);
        assert_eq!(f16::from_f32(1.5).to_f32(), 1.5);
        for kind in ElementKind::ALL {
            assert_eq!(ElementKind::from_code(kind.code()), Some(kind));
        }
    }

    #[test]
    fn slices_are_converted_as_single_values_are() {
        fn check<T: Element>() {
            let values: Vec<f32> = (0..300).map(|i| (i as f32 - 150.0) * 0.987_654).collect();
            for len in [0, 1, 7, 8, 37, 300] {
                let mut narrow = vec![T::default(); len];
                T::slice_from_f32(&values[..len], &mut narrow);
                assert!(
                    narrow.iter().zip(&values).all(|(x, &value)| *x == T::from_f32(value)),
                    "{}",
                    T::KIND
                );
                let mut wide = vec![0.0; len];
                T::slice_to_f32(&narrow, &mut wide);
                assert!(wide.iter().zip(&narrow).all(|(&value, x)| value == x.to_f32()), "{}", T::KIND);
            }
        }
        check::<f32>();
        check::<f16>();
        check::<u8>();
        check::<i8>();
    }
}
