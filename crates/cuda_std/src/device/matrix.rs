//! Matrix products of a warp.

use core::arch::asm;

use super::lanes::collective;
use crate::primitive::{Collective, Mma};

/// The four sums that a lane holds, as the intrinsics return them.
#[repr(C)]
struct Sums(u32, u32, u32, u32);

#[rustfmt::skip]
unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.mma.m16n8k32.row.col.s8"]
    fn mma_s8(a0: u32, a1: u32, a2: u32, a3: u32, b0: u32, b1: u32, c0: u32, c1: u32, c2: u32, c3: u32) -> Sums;
    #[link_name = "llvm.nvvm.mma.m16n8k32.row.col.u8"]
    fn mma_u8(a0: u32, a1: u32, a2: u32, a3: u32, b0: u32, b1: u32, c0: u32, c1: u32, c2: u32, c3: u32) -> Sums;
}

/// The intrinsic takes vectors of f16, which Rust has no stable type for.
///
/// # Safety
/// All lanes of the warp call this together.
#[inline(always)]
unsafe fn mma_f16(a: [u32; 4], b: [u32; 2], c: [u32; 4]) -> Sums {
    let (mut d0, mut d1, mut d2, mut d3) = (c[0], c[1], c[2], c[3]);
    // SAFETY: upheld by the caller.
    unsafe {
        asm!(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{0},{1},{2},{3}}}, {{{4},{5},{6},{7}}}, {{{8},{9}}}, {{{0},{1},{2},{3}}};",
            inout(reg32) d0, inout(reg32) d1, inout(reg32) d2, inout(reg32) d3,
            in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3], in(reg32) b[0], in(reg32) b[1],
            options(nomem, nostack),
        );
    }
    Sums(d0, d1, d2, d3)
}

/// # Safety
/// All lanes of the warp call this together.
#[inline(always)]
pub unsafe fn mma(op: Mma, a: [u32; 4], b: [u32; 2], c: [u32; 4]) -> [u32; 4] {
    // SAFETY: upheld by the caller.
    let Sums(mut d0, mut d1, mut d2, mut d3) = unsafe {
        match op {
            Mma::M16N8K32I8 => mma_s8(a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], c[2], c[3]),
            Mma::M16N8K32U8 => mma_u8(a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], c[2], c[3]),
            Mma::M16N8K16F16 => mma_f16(a, b, c),
        }
    };
    // LLVM does not know that all lanes must come to these intrinsics. It would move one into the branch that uses its
    // result: the first instruction needs the result, and stays. It would copy this block into the arms of a branch
    // around it: it does not copy a vote.
    // SAFETY: upheld by the caller.
    unsafe {
        asm!("// {} {} {} {}", inout(reg32) d0, inout(reg32) d1, inout(reg32) d2, inout(reg32) d3, options(nomem, nostack));
        collective(Collective::VoteAny, 0_u32, 0);
    }
    [d0, d1, d2, d3]
}
