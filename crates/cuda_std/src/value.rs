//! Types of values that one instruction loads or stores.

/// A value that one instruction loads or stores.
///
/// In memory it must be aligned to its *size*: `[u32; 4]` to 16 bytes, although Rust requires only 4.
///
/// # Safety
/// Every bit pattern is valid, there is no padding, and the size is 1, 2, 4, 8 or 16 bytes.
pub unsafe trait Value: Copy + 'static {}

/// A value of one or two registers, for shuffles, atomic operations and relaxed accesses.
///
/// # Safety
/// The size is 4 or 8 bytes.
pub unsafe trait Word: Value {
    /// The bits, zero above those of the value.
    fn bits(self) -> u64;
    /// The value of the low bits.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! values {
    ($($T:ty),*) => { $(
        // SAFETY: integers, f32 and arrays of them have no padding and no invalid bits; `size_of` is checked below.
        unsafe impl Value for $T {}
        const _: () = assert!(matches!(size_of::<$T>(), 1 | 2 | 4 | 8 | 16));
    )* };
}
values!(u8, i8, u16, i16, u32, i32, f32, u64, i64, [u8; 4], [u8; 16], [i8; 4], [i8; 16], [u16; 2], [u16; 8]);
values!([u32; 2], [u32; 4], [i32; 2], [i32; 4], [f32; 2], [f32; 4], [u64; 2]);

macro_rules! words {
    ($($T:ty: |$value:ident| $bits:expr, |$from:ident| $back:expr;)*) => { $(
        // SAFETY: 4 or 8 bytes, as the assertion says.
        unsafe impl Word for $T {
            #[inline(always)]
            fn bits(self) -> u64 {
                let $value = self;
                $bits
            }
            #[inline(always)]
            fn from_bits($from: u64) -> Self {
                $back
            }
        }
        const _: () = assert!(matches!(size_of::<$T>(), 4 | 8));
    )* };
}
words! {
    u32: |value| u64::from(value), |bits| bits as u32;
    i32: |value| u64::from(value as u32), |bits| bits as i32;
    f32: |value| u64::from(value.to_bits()), |bits| f32::from_bits(bits as u32);
    u64: |value| value, |bits| bits;
    i64: |value| value as u64, |bits| bits as i64;
    [u32; 2]: |value| u64::from(value[0]) | u64::from(value[1]) << 32, |bits| [bits as u32, (bits >> 32) as u32];
}
