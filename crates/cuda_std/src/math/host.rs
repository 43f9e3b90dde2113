//! Arithmetic that takes more than one operation on the host.

pub fn signed(byte: u8) -> i32 {
    i32::from(byte as i8)
}

/// `c` plus the products of the four bytes of `a` and `b`, converted by `of_a` and `of_b`.
pub fn dot(a: u32, b: u32, c: i32, of_a: fn(u8) -> i32, of_b: fn(u8) -> i32) -> i32 {
    let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    products.fold(c, |sum, (a, b)| sum.wrapping_add(of_a(a) * of_b(b)))
}

/// The absolute differences of the four bytes of `a` and `b`, converted by `number`. Each is at most 255.
pub fn absolute_difference(a: u32, b: u32, number: fn(u8) -> i32) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|i| number(a[i]).abs_diff(number(b[i])) as u8))
}
