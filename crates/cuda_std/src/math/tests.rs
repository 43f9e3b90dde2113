//! The host's arithmetic against exact values.

use half::f16;

use super::*;

fn pair(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

#[test]
fn every_half_has_its_f32() {
    for bits in 0..=u16::MAX {
        let value = half_to_f32(bits);
        assert_eq!(half2_to_f32(pair(bits, !bits)).0.to_bits(), value.to_bits());
        assert_eq!(half2_to_f32(pair(!bits, bits)).1.to_bits(), value.to_bits());
        if value.is_nan() {
            assert!(f16::from_bits(bits).is_nan());
        } else {
            assert_eq!(f64::from(value), f64::from(f16::from_bits(bits)));
        }
    }
}

#[test]
fn fma_of_f32_is_rounded_once() {
    let e = f32::EPSILON;
    assert_eq!(fma(1.0 + e, 1.0 - e, -1.0), -e * e);
    assert_eq!((1.0 + e) * (1.0 - e) - 1.0, 0.0);
}

#[test]
fn dot_products_of_bytes_know_their_signs() {
    let bytes = u32::from_le_bytes;
    let (a, b) = (bytes([255, 128, 1, 2]), bytes([255, 127, 128, 3]));
    assert_eq!(dp4a_u32(a, b, 10), 10 + 255 * 255 + 128 * 127 + 128 + 6);
    assert_eq!(dp4a_i32(a, b, -10), -10 + 1 - 128 * 127 - 128 + 6);
    assert_eq!(dp4a_u32_i32(a, b, 10), 10 - 255 + 128 * 127 - 128 + 6);
    assert_eq!(dp4a_u32(1, 1, u32::MAX), 0);
    assert_eq!(dp4a_i32(1, 1, i32::MAX), i32::MIN);
    assert_eq!(absolute_difference_u8x4(a, b), bytes([0, 1, 127, 1]));
    assert_eq!(absolute_difference_i8x4(a, b), bytes([0, 255, 129, 1]));
}
