//! The fast rotation, alternating signs and Hadamard transforms, as `jasper_quant::Rotation` defines it.
//!
//! A warp has a row. Coordinate `i` belongs to lane `i % 32`, in *layer* `i / 32`. Windows and halves begin at
//! multiples of 32, so a step combines coordinates of one lane, except for the first five butterflies of a transform,
//! which are shuffles. Each pass loads up to eight layers, makes as many butterflies as these allow, and stores them.

use cuda_std::prelude::*;

use super::RotateArgs;
use crate::collectives::{row_of_warp, warp_stride};
use crate::{DevicePtr, DevicePtrMut, WARP_SIZE};

/// Rounds per rotation.
const ROUNDS: usize = 4;

/// The memory of a row that is rotated.
trait RowMemory: Copy {
    /// # Safety
    /// The row has coordinate `i`, which belongs to this lane.
    unsafe fn get(self, i: u32) -> f32;

    /// # Safety
    /// The same as for [`Self::get`].
    unsafe fn put(self, i: u32, x: f32);
}

impl RowMemory for Shared<f32> {
    #[inline(always)]
    unsafe fn get(self, i: u32) -> f32 {
        // SAFETY: upheld by the caller.
        unsafe { self.add(i).load() }
    }

    #[inline(always)]
    unsafe fn put(self, i: u32, x: f32) {
        // SAFETY: upheld by the caller.
        unsafe { self.add(i).store(x) }
    }
}

impl RowMemory for DevicePtrMut<f32> {
    #[inline(always)]
    unsafe fn get(self, i: u32) -> f32 {
        // SAFETY: upheld by the caller.
        unsafe { global::load(self.at(i as usize)) }
    }

    #[inline(always)]
    unsafe fn put(self, i: u32, x: f32) {
        // SAFETY: upheld by the caller.
        unsafe { global::store(self.at(i as usize), x) }
    }
}

/// The steps of a Hadamard transform between `N` values of a lane, smallest distance first.
#[inline(always)]
fn butterflies<const N: usize>(x: &mut [f32; N]) {
    let mut half = 1;
    while half < N {
        for i in 0..N {
            if i & half == 0 {
                (x[i], x[i + half]) = (x[i] + x[i + half], x[i] - x[i + half]);
            }
        }
        half *= 2;
    }
}

/// The first pass of a window of `layers`: factors, the five butterflies between lanes, and those between `N` layers.
/// Returns `N`.
///
/// # Safety
/// The row and its factors exist; `layers` is a multiple of `N`. All 32 lanes of the warp call this together.
#[inline(always)]
unsafe fn first_pass<P: RowMemory, const N: usize>(
    row: P,
    factors: DevicePtr<f32>,
    first: u32,
    layers: u32,
) -> u32 {
    let mut layer = 0;
    while layer < layers {
        // SAFETY: the coordinates belong to this lane, in layers of the window.
        unsafe {
            let at = first + layer * WARP_SIZE + warp::lane_id();
            let mut x = [0.0; N];
            for i in 0..N {
                let at = at + i as u32 * WARP_SIZE;
                x[i] = row.get(at) * global::load_readonly(factors.at(at as usize));
                let mut apart = 1;
                while apart < WARP_SIZE {
                    let other = warp::shuffle_xor(x[i], apart);
                    x[i] = if warp::lane_id() & apart == 0 { x[i] + other } else { other - x[i] };
                    apart *= 2;
                }
            }
            butterflies(&mut x);
            for i in 0..N {
                row.put(at + i as u32 * WARP_SIZE, x[i]);
            }
        }
        layer += N as u32;
    }
    N as u32
}

/// A later pass of a window of `layers`: the butterflies between `N` layers that are `apart`. Returns `N`.
///
/// # Safety
/// The row exists; `layers` is a multiple of `N * apart`.
#[inline(always)]
unsafe fn later_pass<P: RowMemory, const N: usize>(row: P, first: u32, layers: u32, apart: u32) -> u32 {
    let mut number = 0;
    while number < layers / N as u32 {
        let layer = number / apart * apart * N as u32 + number % apart;
        let at = first + layer * WARP_SIZE + warp::lane_id();
        // SAFETY: the coordinates belong to this lane, in layers of the window.
        unsafe {
            let mut x = [0.0; N];
            for i in 0..N {
                x[i] = row.get(at + i as u32 * apart * WARP_SIZE);
            }
            butterflies(&mut x);
            for i in 0..N {
                row.put(at + i as u32 * apart * WARP_SIZE, x[i]);
            }
        }
        number += 1;
    }
    N as u32
}

/// All rounds on one row.
///
/// # Safety
/// The row exists. All 32 lanes of the warp call this together.
#[inline(always)]
unsafe fn rotate<P: RowMemory>(row: P, args: &RotateArgs) {
    let layers = args.dimension / WARP_SIZE;
    // The largest power of two that fits.
    let window = 1 << (31 - layers.leading_zeros());
    for round in 0..ROUNDS {
        let factors = args.factors.add(round * args.dimension as usize);
        let first = if round % 2 == 0 { 0 } else { layers - window };
        // SAFETY: the layers are those of the row, which has at least two, as does a window; the warp is converged
        // here.
        unsafe {
            let mut layer = if first == 0 { window } else { 0 };
            let end = if first == 0 { layers } else { first };
            while layer < end {
                let at = layer * WARP_SIZE + warp::lane_id();
                row.put(at, row.get(at) * global::load_readonly(factors.at(at as usize)));
                layer += 1;
            }
            let mut apart = match window {
                2 => first_pass::<P, 2>(row, factors, first * WARP_SIZE, window),
                4 => first_pass::<P, 4>(row, factors, first * WARP_SIZE, window),
                _ => first_pass::<P, 8>(row, factors, first * WARP_SIZE, window),
            };
            while apart < window {
                apart *= match window / apart {
                    2 => later_pass::<P, 2>(row, first * WARP_SIZE, window, apart),
                    4 => later_pass::<P, 4>(row, first * WARP_SIZE, window, apart),
                    _ => later_pass::<P, 8>(row, first * WARP_SIZE, window, apart),
                };
            }
            if window < layers {
                kac_step(row, args.dimension);
            }
        }
    }
}

/// A step of Kac's walk, which rotates the two halves of a row towards each other.
///
/// # Safety
/// The row exists.
#[inline(always)]
unsafe fn kac_step<P: RowMemory>(row: P, dimension: u32) {
    let half = dimension / 2;
    // SAFETY: half a row is a multiple of 32, so both coordinates are this lane's.
    warp_stride(half, |i| unsafe {
        let (a, b) = (row.get(i), row.get(half + i));
        row.put(i, (a + b) * core::f32::consts::FRAC_1_SQRT_2);
        row.put(half + i, (a - b) * core::f32::consts::FRAC_1_SQRT_2);
    });
}

/// Rotates rows in shared memory; one warp per row.
///
/// # Safety
/// The arguments are as the docs of their fields say; a block has shared memory for a row per warp.
#[kernel(max_threads = 256)]
pub unsafe fn rotate_shared(args: RotateArgs) {
    let number = row_of_warp();
    if number >= args.rows_len as usize {
        return;
    }
    let row = args.values.add(number * args.dimension as usize);
    let shared_row =
        shared::dynamic_shared_mem::<f32>().add(thread::thread_idx_x() / WARP_SIZE * args.dimension);
    // SAFETY: the row exists, and its place in shared memory belongs to this warp; no lane reads what another writes.
    unsafe {
        warp_stride(args.dimension, |i| shared_row.put(i, row.get(i)));
        rotate(shared_row, &args);
        warp_stride(args.dimension, |i| row.put(i, shared_row.get(i)));
    }
}

/// Rotates rows of any length in global memory; one warp per row.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn rotate_global(args: RotateArgs) {
    let number = row_of_warp();
    if number < args.rows_len as usize {
        // SAFETY: the row exists; no lane reads or writes what another writes.
        unsafe { rotate(args.values.add(number * args.dimension as usize), &args) };
    }
}
