//! Every SIMD level against the scalar reference, bit for bit, and the reference against f64.

use proptest::prelude::*;

use super::SimdLevel;
use crate::{Element, f16};

fn check_levels<T: Element>(a: &[T], b: &[T]) {
    let reference = T::distance_fns_at(SimdLevel::Scalar);
    let product: f64 = a.iter().zip(b).map(|(x, y)| f64::from(x.to_f32()) * f64::from(y.to_f32())).sum();
    let distance: f64 =
        a.iter().zip(b).map(|(x, y)| (f64::from(x.to_f32()) - f64::from(y.to_f32())).powi(2)).sum();
    let scale: f64 =
        a.iter().zip(b).map(|(x, y)| f64::from((x.to_f32() * y.to_f32()).abs())).sum::<f64>() + 1.0;
    assert!((f64::from((reference.dot)(a, b)) - product).abs() <= 1e-5 * scale);
    assert!((f64::from((reference.squared_l2)(a, b)) - distance).abs() <= 1e-5 * (distance + 1.0));
    for level in SimdLevel::available() {
        let level = T::distance_fns_at(level);
        let expected = [(reference.dot)(a, b), (reference.squared_l2)(a, b)];
        assert_eq!([(level.dot)(a, b), (level.squared_l2)(a, b)], expected, "{:?}", level.level);
        let rows = [b, a, b, b, a];
        let mut out = [0.0; 5];
        (level.dot_many)(a, &rows, &mut out);
        assert_eq!(out, rows.map(|row| (reference.dot)(a, row)));
        (level.squared_l2_many)(a, &rows, &mut out);
        assert_eq!(out, rows.map(|row| (reference.squared_l2)(a, row)));
        let [mut scaled, mut expected] = [a.to_vec(), a.to_vec()];
        (level.scale)(&mut scaled, 0.123_456_789);
        (reference.scale)(&mut expected, 0.123_456_789);
        assert_eq!(scaled, expected, "{:?}", level.level);
    }
}

proptest! {
    #[test]
    fn levels_agree(pairs in proptest::collection::vec((-100.0_f32..100.0, -100.0_f32..100.0), 0..300)) {
        let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        check_levels(&a, &b);
        let convert = |v: &[f32]| v.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>();
        check_levels(&convert(&a), &convert(&b));
        let bytes = |v: &[f32]| v.iter().map(|&x| (x * 2.5) as i32 as u8).collect::<Vec<_>>();
        check_levels(&bytes(&a), &bytes(&b));
        let signed = |v: &[f32]| v.iter().map(|&x| (x * 1.28) as i8).collect::<Vec<_>>();
        check_levels(&signed(&a), &signed(&b));
    }
}

#[test]
fn padding_changes_nothing() {
    let mut a = vec![0.0_f32; 100];
    let mut b = vec![0.0_f32; 100];
    for i in 0..93 {
        a[i] = (i as f32).sin();
        b[i] = (i as f32).cos();
    }
    let fns = f32::distance_fns();
    assert_eq!((fns.squared_l2)(&a, &b), (fns.squared_l2)(&a[..93], &b[..93]));
    assert_eq!((fns.dot)(&a, &b), (fns.dot)(&a[..93], &b[..93]));
}

#[test]
fn the_longest_rows_of_bytes_do_not_overflow() {
    let (a, b) = (vec![0_u8; crate::MAX_DIMENSION], vec![255_u8; crate::MAX_DIMENSION]);
    let expected = crate::MAX_DIMENSION as f32 * 65025.0;
    assert_eq!((u8::distance_fns().squared_l2)(&a, &b), expected);
    assert_eq!((u8::distance_fns().dot)(&b, &b), expected);
    let low = vec![-128_i8; crate::MAX_DIMENSION];
    assert_eq!((i8::distance_fns().squared_l2)(&low, &vec![127; crate::MAX_DIMENSION]), expected);
}
