//! The host's arithmetic against exact values.

use half::f16;

use super::*;

/// Halves that matter: signs, the ends of the ranges, ties, infinities, and a walk through all exponents.
fn halves() -> Vec<u16> {
    let edges = [0, 1, 2, 0x3ff, 0x400, 0x401, 0x3bff, 0x3c00, 0x3c01, 0x7bfe, 0x7bff, 0x7c00];
    let walk = (0..0x7c00).step_by(0x155);
    edges.into_iter().chain(walk).flat_map(|half| [half, half | 0x8000]).collect()
}

fn pair(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// The half nearest to `value`, ties to even, found without any conversion to halves: by search among all of them.
fn nearest(value: f64) -> f16 {
    let overflow = f64::from(f16::MAX) + 16.0;
    if value.abs() >= overflow {
        return if value > 0.0 { f16::INFINITY } else { f16::NEG_INFINITY };
    }
    let magnitude = |bits: u16| f64::from(f16::from_bits(bits));
    let (mut below, mut above) = (0, 0x7bff);
    while above - below > 1 {
        let middle = (below + above) / 2;
        if magnitude(middle) <= value.abs() { below = middle } else { above = middle }
    }
    let (to_below, to_above) = (value.abs() - magnitude(below), magnitude(above) - value.abs());
    let up = to_above < to_below || (to_above == to_below && above % 2 == 0);
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    f16::from_bits(sign | if up { above } else { below })
}

#[test]
fn every_half_survives_the_way_to_f32_and_back() {
    for bits in 0..=u16::MAX {
        let value = half_to_f32(bits);
        assert_eq!(half2_to_f32(pair(bits, !bits)).0.to_bits(), value.to_bits());
        assert_eq!(half2_to_f32(pair(!bits, bits)).1.to_bits(), value.to_bits());
        if value.is_nan() {
            assert!(f16::from_bits(bits).is_nan());
        } else {
            assert_eq!(f64::from(value), f64::from(f16::from_bits(bits)));
            assert_eq!(f32_to_half2(value, 0.0), pair(bits, 0));
            assert_eq!(f32_to_half2(0.0, value), pair(0, bits));
        }
    }
}

#[test]
fn f32_becomes_the_nearest_half() {
    for half in halves().into_iter().filter(|half| half & 0x7fff < 0x7bff) {
        let (low, high) = (half_to_f32(half), half_to_f32(half + 1));
        let middle = (low + high) / 2.0;
        for value in [middle, f32::from_bits(middle.to_bits() + 1), f32::from_bits(middle.to_bits() - 1)] {
            assert_eq!(f32_to_half2(value, 0.0) as u16, nearest(f64::from(value)).to_bits(), "{value}");
        }
    }
    assert_eq!(f32_to_half2(f32::MAX, -65520.0), 0xfc00_7c00);
    assert_eq!(f32_to_half2(65519.996, f32::MIN_POSITIVE), 0x0000_7bff);
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
