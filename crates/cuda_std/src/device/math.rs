//! Arithmetic by inline assembly, one instruction each.

use core::arch::asm;

/// One instruction without memory or side effects: `instruction!("name" (inputs) -> output type)`.
macro_rules! instruction {
    ($name:literal, $a:expr, $b:expr) => {{
        let result;
        // SAFETY: arithmetic on registers.
        unsafe {
            asm!(concat!($name, " {}, {}, {};"), out(reg32) result, in(reg32) $a, in(reg32) $b,
                options(pure, nomem, nostack));
        }
        result
    }};
    ($name:literal, $a:expr, $b:expr, $c:expr) => {{
        let result;
        // SAFETY: arithmetic on registers.
        unsafe {
            asm!(concat!($name, " {}, {}, {}, {};"), out(reg32) result, in(reg32) $a, in(reg32) $b, in(reg32) $c,
                options(pure, nomem, nostack));
        }
        result
    }};
}

#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    instruction!("fma.rn.f32", a, b, c)
}

#[inline(always)]
pub fn half_to_f32(half: u16) -> f32 {
    let result;
    // SAFETY: arithmetic on registers.
    unsafe { asm!("cvt.f32.f16 {}, {};", out(reg32) result, in(reg16) half, options(pure, nomem, nostack)) };
    result
}

#[inline(always)]
pub fn half2_to_f32(halves: u32) -> (f32, f32) {
    (half_to_f32(halves as u16), half_to_f32((halves >> 16) as u16))
}

#[inline(always)]
pub fn f32_to_half2(low: f32, high: f32) -> u32 {
    // The instruction takes the upper half first.
    instruction!("cvt.rn.f16x2.f32", high, low)
}

#[inline(always)]
pub fn dp4a_u32(a: u32, b: u32, c: u32) -> u32 {
    instruction!("dp4a.u32.u32", a, b, c)
}

#[inline(always)]
pub fn dp4a_i32(a: u32, b: u32, c: i32) -> i32 {
    instruction!("dp4a.s32.s32", a, b, c)
}

#[inline(always)]
pub fn dp4a_u32_i32(a: u32, b: u32, c: i32) -> i32 {
    instruction!("dp4a.u32.s32", a, b, c)
}

#[inline(always)]
pub fn absolute_difference_u8x4(a: u32, b: u32) -> u32 {
    instruction!("vabsdiff4.u32.u32.u32", a, b, 0_u32)
}

#[inline(always)]
pub fn absolute_difference_i8x4(a: u32, b: u32) -> u32 {
    instruction!("vabsdiff4.u32.s32.s32", a, b, 0_u32)
}

#[inline(always)]
pub fn floor(x: f32) -> f32 {
    let result;
    // SAFETY: arithmetic on registers.
    unsafe { asm!("cvt.rmi.f32.f32 {}, {};", out(reg32) result, in(reg32) x, options(pure, nomem, nostack)) };
    result
}

#[inline(always)]
pub fn round_to_i32(x: f32) -> i32 {
    let result;
    // SAFETY: arithmetic on registers.
    unsafe { asm!("cvt.rni.s32.f32 {}, {};", out(reg32) result, in(reg32) x, options(pure, nomem, nostack)) };
    result
}

#[inline(always)]
pub fn sqrt_f32(x: f32) -> f32 {
    let result;
    // SAFETY: arithmetic on registers.
    unsafe { asm!("sqrt.rn.f32 {}, {};", out(reg32) result, in(reg32) x, options(pure, nomem, nostack)) };
    result
}

#[inline(always)]
pub fn sqrt_f64(x: f64) -> f64 {
    let result;
    // SAFETY: arithmetic on registers.
    unsafe { asm!("sqrt.rn.f64 {}, {};", out(reg64) result, in(reg64) x, options(pure, nomem, nostack)) };
    result
}
