//! Values of a launch that become constants when a kernel is JIT compiled, and values that stay unknown before.
//!
//! A kernel for many shapes decides at run time what a kernel for one shape would know at compile time. PTX is compiled
//! when it is loaded, and may be changed before: [`constant`] marks a value in the text, and `jasper_ptx::specialize`
//! replaces it by a number. The driver's compiler then removes the branches that the number rules out, and unrolls
//! loops.

/// Marks `value` as constant number `N` of the kernel, and returns it. It is the same in every thread of a launch.
#[inline(always)]
#[must_use]
pub fn constant<const N: u32>(value: u32) -> u32 {
    #[cfg(not(target_arch = "nvptx64"))]
    return value;
    #[cfg(target_arch = "nvptx64")]
    {
        let result;
        // SAFETY: arithmetic on registers.
        unsafe {
            core::arch::asm!(
                "mov.b32 {}, {}; // constant {}",
                out(reg32) result, in(reg32) value, const N,
                options(pure, nomem, nostack)
            );
        }
        result
    }
}

/// Returns `value`, about which LLVM then knows nothing. What follows from it inside a loop is computed there, instead of
/// before the loop, where it would take registers throughout. The driver's compiler sees the value.
#[inline(always)]
#[must_use]
pub fn opaque(value: u32) -> u32 {
    #[cfg(not(target_arch = "nvptx64"))]
    return value;
    #[cfg(target_arch = "nvptx64")]
    {
        let result;
        // SAFETY: a move between registers. It is not `pure`, so that it stays where it is.
        unsafe {
            core::arch::asm!("mov.b32 {}, {};", out(reg32) result, in(reg32) value, options(nomem, nostack));
        }
        result
    }
}
