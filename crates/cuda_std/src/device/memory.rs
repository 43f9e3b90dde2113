//! Loads, stores and atomic updates, by inline assembly that names the state space.
//!
//! The options say what the compiler may do: `pure, nomem` (constant data) may be moved and merged; `readonly` stays in
//! order with writes; without options an access is also a compiler barrier.

use core::arch::{asm, global_asm};
use core::mem::transmute_copy;

use crate::primitive::{Load, Update};
use crate::{Value, Word};

// The array of dynamic shared memory, whose size the launch gives. Module assembly survives link-time optimization.
global_asm!(".extern .shared .align 16 .b8 cuda_std_shared[];");

/// Reads a value by the load of its size.
macro_rules! load {
    ($instruction:literal, $class:ident, $address:expr, $T:ty $(, $option:ident)*) => {
        match size_of::<$T>() {
            // Registers have 16 bits at least.
            1 => transmute_copy(&(load!(@ $instruction, ".u8", reg16 u16, $class, $address $(, $option)*) as u8)),
            2 => transmute_copy(&load!(@ $instruction, ".u16", reg16 u16, $class, $address $(, $option)*)),
            4 => transmute_copy(&load!(@ $instruction, ".u32", reg32 u32, $class, $address $(, $option)*)),
            8 => transmute_copy(&load!(@ $instruction, ".u64", reg64 u64, $class, $address $(, $option)*)),
            _ => {
                let (a, b, c, d): (u32, u32, u32, u32);
                asm!(concat!($instruction, ".v4.u32 {{{},{},{},{}}}, [{}];"), out(reg32) a, out(reg32) b,
                    out(reg32) c, out(reg32) d, in($class) $address, options($($option,)* nostack));
                transmute_copy(&[a, b, c, d])
            }
        }
    };
    (@ $instruction:literal, $suffix:literal, $out:ident $bits:ty, $class:ident, $address:expr $(, $option:ident)*) => {{
        let bits: $bits;
        asm!(concat!($instruction, $suffix, " {}, [{}];"), out($out) bits, in($class) $address,
            options($($option,)* nostack));
        bits
    }};
}

/// Writes a value by the store of its size.
macro_rules! store {
    ($instruction:literal, $class:ident, $address:expr, $T:ty, $value:expr) => {
        match size_of::<$T>() {
            1 => {
                let byte: u8 = transmute_copy($value);
                store!(@ $instruction, ".u8", reg16, $class, $address, u16::from(byte));
            }
            2 => store!(@ $instruction, ".u16", reg16, $class, $address, transmute_copy::<$T, u16>($value)),
            4 => store!(@ $instruction, ".u32", reg32, $class, $address, transmute_copy::<$T, u32>($value)),
            8 => store!(@ $instruction, ".u64", reg64, $class, $address, transmute_copy::<$T, u64>($value)),
            _ => {
                let [a, b, c, d]: [u32; 4] = transmute_copy($value);
                asm!(concat!($instruction, ".v4.u32 [{}], {{{},{},{},{}}};"), in($class) $address, in(reg32) a,
                    in(reg32) b, in(reg32) c, in(reg32) d, options(nostack));
            }
        }
    };
    (@ $instruction:literal, $suffix:literal, $in:ident, $class:ident, $address:expr, $bits:expr) => {
        asm!(concat!($instruction, $suffix, " [{}], {};"), in($class) $address, in($in) $bits, options(nostack))
    };
}

/// Updates a word atomically.
macro_rules! update {
    ($space:literal, $class:ident, $address:expr, $T:ty, $update:expr) => {
        match $update {
            Update::Add(value) => update!(@ $space, "add.u", $class, $address, $T, value.bits()),
            Update::Min(value) => update!(@ $space, "min.u", $class, $address, $T, value.bits()),
            Update::And(value) => update!(@ $space, "and.b", $class, $address, $T, value.bits()),
            Update::Or(value) => update!(@ $space, "or.b", $class, $address, $T, value.bits()),
            Update::Exchange(value) => update!(@ $space, "exch.b", $class, $address, $T, value.bits()),
        }
    };
    (@ $space:literal, $op:literal, $class:ident, $address:expr, $T:ty, $value:expr) => {
        if size_of::<$T>() == 8 {
            let old: u64;
            asm!(concat!("atom.", $space, ".", $op, "64 {}, [{}], {};"), out(reg64) old,
                in($class) $address, in(reg64) $value, options(nostack));
            <$T>::from_bits(old)
        } else {
            let old: u32;
            asm!(concat!("atom.", $space, ".", $op, "32 {}, [{}], {};"), out(reg32) old,
                in($class) $address, in(reg32) $value as u32, options(nostack));
            <$T>::from_bits(u64::from(old))
        }
    };
}

/// # Safety
/// The same as for the public function of this kind of load.
#[inline(always)]
pub unsafe fn load<T: Value>(how: Load, p: *const T) -> T {
    // SAFETY: upheld by the caller.
    unsafe {
        match how {
            Load::Weak => load!("ld.global", reg64, p, T, readonly),
            Load::ReadOnly => load!("ld.global.nc", reg64, p, T, pure, nomem),
            Load::Streaming => load!("ld.global.nc.L1::no_allocate", reg64, p, T, pure, nomem),
            Load::Relaxed => load!("ld.relaxed.gpu.global", reg64, p, T, readonly),
        }
    }
}

/// # Safety
/// The same as for [`global::store`](crate::global::store).
#[inline(always)]
pub unsafe fn store<T: Value>(p: *mut T, value: T) {
    // SAFETY: upheld by the caller.
    unsafe { store!("st.global", reg64, p, T, &value) }
}

/// # Safety
/// The same as for [`global::store_relaxed`](crate::global::store_relaxed).
#[inline(always)]
pub unsafe fn store_relaxed<T: Value>(p: *mut T, value: T) {
    // SAFETY: upheld by the caller.
    unsafe { store!("st.relaxed.gpu.global", reg64, p, T, &value) }
}

/// # Safety
/// `p` is in global memory.
#[inline(always)]
pub unsafe fn prefetch(p: *const u8) {
    // SAFETY: upheld by the caller.
    unsafe { asm!("prefetch.global.L2 [{}];", in(reg64) p, options(nomem, nostack)) };
}

/// # Safety
/// The same as for [`atomic::add`](crate::atomic::add).
#[inline(always)]
pub unsafe fn update<T: Word>(p: *mut T, update: Update<T>) -> T {
    // SAFETY: upheld by the caller.
    unsafe { update!("global", reg64, p, T, update) }
}

#[inline(always)]
pub fn shared_base() -> u32 {
    let address;
    // SAFETY: takes the address of the symbol above.
    unsafe { asm!("mov.u32 {}, cuda_std_shared;", out(reg32) address, options(pure, nomem, nostack)) };
    address
}

/// # Safety
/// The same as for [`Shared::load`](crate::shared::Shared::load).
#[inline(always)]
pub unsafe fn load_shared<T: Value>(address: u32) -> T {
    // SAFETY: upheld by the caller.
    unsafe { load!("ld.shared", reg32, address, T, readonly) }
}

/// # Safety
/// The same as for [`Shared::store`](crate::shared::Shared::store).
#[inline(always)]
pub unsafe fn store_shared<T: Value>(address: u32, value: T) {
    // SAFETY: upheld by the caller.
    unsafe { store!("st.shared", reg32, address, T, &value) }
}

/// # Safety
/// The same as for [`Shared::load_relaxed`](crate::shared::Shared::load_relaxed).
#[inline(always)]
pub unsafe fn load_shared_relaxed<T: Word>(address: u32) -> T {
    // SAFETY: upheld by the caller.
    unsafe { load!("ld.relaxed.cta.shared", reg32, address, T, readonly) }
}

/// # Safety
/// The same as for [`Shared::store_relaxed`](crate::shared::Shared::store_relaxed).
#[inline(always)]
pub unsafe fn store_shared_relaxed<T: Word>(address: u32, value: T) {
    // SAFETY: upheld by the caller.
    unsafe { store!("st.relaxed.cta.shared", reg32, address, T, &value) }
}

/// # Safety
/// The same as for [`Shared::load`](crate::shared::Shared::load).
#[inline(always)]
pub unsafe fn update_shared<T: Word>(address: u32, update: Update<T>) -> T {
    // SAFETY: upheld by the caller.
    unsafe { update!("shared", reg32, address, T, update) }
}
