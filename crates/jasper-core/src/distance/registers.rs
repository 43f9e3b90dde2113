//! The loop over the elements of two vectors, a register at a time, for CPUs without masked loads.

/// Calls `step(register, a, b)` for every `LANES` elements of both vectors, with `register` cycling through
/// `0..REGISTERS`. If fewer elements are left at the end, they are in a copy that is filled with zeros.
///
/// # Safety
/// Both vectors are readable for `len` elements.
#[inline(always)]
pub(super) unsafe fn for_registers<T: Copy + Default, const REGISTERS: usize, const LANES: usize>(
    a: *const T,
    b: *const T,
    len: usize,
    mut step: impl FnMut(usize, *const T, *const T),
) {
    let whole = len / (REGISTERS * LANES) * (REGISTERS * LANES);
    for first in (0..whole).step_by(REGISTERS * LANES) {
        for register in 0..REGISTERS {
            let at = first + register * LANES;
            // SAFETY: `at + LANES <= whole <= len`.
            unsafe { step(register, a.add(at), b.add(at)) };
        }
    }
    // The remainder. Unrolled over registers, so that each index is a compile-time constant.
    for register in 0..REGISTERS {
        let at = whole + register * LANES;
        if at + LANES <= len {
            // SAFETY: checked on the line above.
            unsafe { step(register, a.add(at), b.add(at)) };
        } else if at < len {
            // SAFETY: `at < len`, and fewer than `LANES` elements follow.
            let (a, b) = unsafe {
                (zero_filled::<T, LANES>(a.add(at), len - at), zero_filled::<T, LANES>(b.add(at), len - at))
            };
            step(register, a.as_ptr(), b.as_ptr());
        }
    }
}

/// The first `count` elements at `from`, then zeros. Not inlined, because stored rows are padded and never need it.
///
/// # Safety
/// `count` elements are readable at `from`, and `count <= N`.
#[inline(never)]
unsafe fn zero_filled<T: Copy + Default, const N: usize>(from: *const T, count: usize) -> [T; N] {
    let mut out = [T::default(); N];
    // SAFETY: upheld by the caller.
    unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), count) };
    out
}
