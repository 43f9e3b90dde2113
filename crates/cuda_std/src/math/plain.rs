//! The host's arithmetic in plain Rust.

use half::f16;

pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

pub fn half_to_f32(half: u16) -> f32 {
    f16::from_bits(half).to_f32()
}

pub fn half2_to_f32(halves: u32) -> (f32, f32) {
    (half_to_f32(halves as u16), half_to_f32((halves >> 16) as u16))
}

pub fn f32_to_half2(low: f32, high: f32) -> u32 {
    let bits = |value| u32::from(f16::from_f32(value).to_bits());
    bits(low) | bits(high) << 16
}

pub fn dp4a_u32(a: u32, b: u32, c: u32) -> u32 {
    dot(a, b, c as i32, i32::from, i32::from) as u32
}

pub fn dp4a_i32(a: u32, b: u32, c: i32) -> i32 {
    dot(a, b, c, signed, signed)
}

pub fn dp4a_u32_i32(a: u32, b: u32, c: i32) -> i32 {
    dot(a, b, c, i32::from, signed)
}

fn signed(byte: u8) -> i32 {
    i32::from(byte as i8)
}

/// `c` plus the products of the four bytes of `a` and `b`, as the numbers that they stand for.
fn dot(a: u32, b: u32, c: i32, of_a: fn(u8) -> i32, of_b: fn(u8) -> i32) -> i32 {
    let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    products.fold(c, |sum, (a, b)| sum.wrapping_add(of_a(a) * of_b(b)))
}

pub fn absolute_difference_u8x4(a: u32, b: u32) -> u32 {
    absolute_difference(a, b, i32::from)
}

pub fn absolute_difference_i8x4(a: u32, b: u32) -> u32 {
    absolute_difference(a, b, signed)
}

/// How far the four bytes of `a` and `b` are apart, as the numbers that they stand for: at most 255.
fn absolute_difference(a: u32, b: u32, number: fn(u8) -> i32) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|i| number(a[i]).abs_diff(number(b[i])) as u8))
}

pub fn floor(x: f32) -> f32 {
    x.floor()
}

pub fn round_to_i32(x: f32) -> i32 {
    x.round_ties_even() as i32
}

pub fn sqrt_f32(x: f32) -> f32 {
    x.sqrt()
}

pub fn sqrt_f64(x: f64) -> f64 {
    x.sqrt()
}
