//! A row, and the grid that its code rounds it to.

use cuda_std::prelude::*;

use crate::DevicePtr;
use crate::sums::{Sum, for_coordinates};

/// The grid of one dimension.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) step: f32,
    pub(super) inverse: f32,
    pub(super) limit: f32,
    pub(super) half: f32,
}

/// The grids of all dimensions.
pub(super) trait Grid: Copy {
    /// # Safety
    /// The dimension exists.
    unsafe fn get(self, i: u32) -> Step;
}

/// All dimensions have the same bits, and steps of 1.
#[derive(Clone, Copy)]
pub(super) struct UniformGrid {
    pub(super) half: f32,
}

impl Grid for UniformGrid {
    unsafe fn get(self, _: u32) -> Step {
        // Magnitudes have half the levels, from 0.
        Step { step: 1.0, inverse: 1.0, limit: self.half - 1.0 + 0.5, half: self.half }
    }
}

impl Grid for DevicePtr<[f32; 4]> {
    unsafe fn get(self, i: u32) -> Step {
        // SAFETY: the caller's promise.
        let [step, inverse, limit, half] = unsafe { global::load_readonly(self.at(i as usize)) };
        Step { step, inverse, limit, half }
    }
}

/// The magnitudes of a rotated and normalized residual, and the grid that they are rounded to.
#[derive(Clone, Copy)]
pub(super) struct Row<D> {
    pub(super) rotated: DevicePtr<f32>,
    pub(super) dimensions: u32,
    /// 1 / length.
    pub(super) factor: f32,
    pub(super) grid: D,
}

/// A grid point relative to the residual.
#[derive(Clone, Copy)]
pub(super) struct GridPoint {
    /// The dot product of the point and the residual.
    pub(super) product: f32,
    /// The squared length of the point.
    pub(super) square: f32,
}

impl GridPoint {
    /// A value that any grid point is nearer than.
    pub(super) const NONE: Self = Self { product: 0.0, square: 1.0 };

    /// Whether the cosine is greater than that of `best`, without division or roots, as on the CPU.
    pub(super) fn is_nearer(self, best: Self) -> bool {
        self.product * self.product * best.square > best.product * best.product * self.square
    }
}

/// The minimum, and `b` if `a` is NaN, as on the CPU.
fn min_not_nan(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

impl<D: Grid> Row<D> {
    /// # Safety
    /// The row has coordinate `i`.
    unsafe fn magnitude(&self, i: u32) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { global::load_readonly(self.rotated.at(i as usize)).abs() * self.factor }
    }

    /// The level of a magnitude at a scale, counted from 0.
    fn level(step: Step, magnitude: f32, scale: f32) -> f32 {
        math::floor(min_not_nan(magnitude * step.inverse * scale, step.limit))
    }

    fn point(step: Step, magnitude: f32, scale: f32) -> f32 {
        (Self::level(step, magnitude, scale) + 0.5) * step.step
    }

    /// The grid points at several scales, in every lane. Called by the whole warp.
    ///
    /// # Safety
    /// The row exists.
    pub(super) unsafe fn products<const N: usize>(&self, scales: [f32; N]) -> [GridPoint; N] {
        let (mut product, mut square) = ([Sum::ZERO; N], [Sum::ZERO; N]);
        for_coordinates(self.dimensions, |half, i| {
            if i < self.dimensions {
                // SAFETY: the row has the coordinate.
                let (step, magnitude) = unsafe { (self.grid.get(i), self.magnitude(i)) };
                for n in 0..N {
                    let point = Self::point(step, magnitude, scales[n]);
                    product[n].add(half, magnitude, point);
                    square[n].add(half, point, point);
                }
            }
        });
        let mut all = [GridPoint { product: 0.0, square: 0.0 }; N];
        for n in 0..N {
            // SAFETY: the warp is converged here.
            all[n] = unsafe { GridPoint { product: product[n].total(), square: square[n].total() } };
        }
        all
    }

    /// The largest magnitude, in every lane.
    ///
    /// # Safety
    /// The row exists. All 32 lanes of the warp call this together.
    pub(super) unsafe fn peak(&self) -> f32 {
        let mut peak = 0;
        for_coordinates(self.dimensions, |_, i| {
            if i < self.dimensions {
                // SAFETY: the row has the coordinate. Numbers that are not negative are ordered as their bits are.
                peak = peak.max(unsafe { self.magnitude(i) }.to_bits());
            }
        });
        // SAFETY: the warp is converged here.
        f32::from_bits(unsafe { warp::reduce_max(peak) })
    }

    /// Stores the levels at a scale; returns, in every lane, the squared length of the residual minus `along` times the
    /// grid point. Called by the whole warp.
    ///
    /// # Safety
    /// The row exists, and a byte per level that no other warp accesses.
    pub(super) unsafe fn store_levels(&self, scale: f32, along: f32, levels: Shared<u8>) -> f32 {
        let mut squared_error = Sum::ZERO;
        for_coordinates(self.dimensions, |half, i| {
            if i < self.dimensions {
                // SAFETY: the coordinate and its level exist.
                unsafe {
                    let (step, x) = (self.grid.get(i), global::load_readonly(self.rotated.at(i as usize)));
                    let magnitude = x.abs() * self.factor;
                    let level = Self::level(step, magnitude, scale);
                    let signed = if x >= 0.0 { step.half + level } else { step.half - 1.0 - level };
                    levels.add(i).store(signed as u32 as u8);
                    let error = magnitude - along * ((level + 0.5) * step.step);
                    squared_error.add(half, error, error);
                }
            }
        });
        // SAFETY: the warp is converged here.
        unsafe { squared_error.total() }
    }

    /// Stores the levels of a zero residual.
    ///
    /// # Safety
    /// The same as for [`Self::store_levels`].
    pub(super) unsafe fn store_zero(&self, levels: Shared<u8>) {
        for_coordinates(self.dimensions, |_, i| {
            if i < self.dimensions {
                // SAFETY: the dimension and its level exist.
                unsafe { levels.add(i).store(self.grid.get(i).half as u32 as u8) };
            }
        });
    }
}
