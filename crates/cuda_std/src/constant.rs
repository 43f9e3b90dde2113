//! Values of a launch that become constants when a kernel is JIT compiled.
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
