//! Sets of slots in device memory: bit maps, 32 slots per word, as [`SearchArgs::allowed`](crate::search::SearchArgs) has
//! them.
//!
//! | module | holds |
//! | --- | --- |
//! | `mark` | the kernel that adds slots to a set, or removes them |
//! | `list` | the kernel that lists the slots of a set |
//! | `plan` | [`Mark`] and [`List`]: their grids; [`mark`] and [`Slots`]: their launches |

#[cfg(feature = "kernels")]
mod list;
#[cfg(feature = "kernels")]
mod mark;
#[cfg(not(target_arch = "nvptx64"))]
mod plan;

#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{List, Mark, Slots, mark};

#[cfg(feature = "kernels")]
use cuda_std::prelude::*;

use crate::scan::LookBack;
use crate::{DevicePtr, DevicePtrMut};

/// Slots per word.
pub(crate) const WORD: u32 = u32::BITS;
/// Threads per block that marks.
#[cfg(not(target_arch = "nvptx64"))]
const MARK_THREADS: u32 = 256;

/// A change of a set.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds slots.
    Add,
    /// Removes slots.
    Remove,
}

/// Arguments of the kernel that changes a set.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MarkArgs {
    /// `[len]`: slots, in any order; duplicates are allowed.
    pub slots: DevicePtr<u32>,
    /// `[words]`: the set.
    pub bits: DevicePtrMut<u32>,
    /// `[1]`: the number of slots that changed, to which the launch adds.
    pub changed: DevicePtrMut<u32>,
    /// Slots.
    pub len: u32,
    /// Which change.
    pub change: Change,
}

/// Arguments of the kernel that lists a set.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ListArgs {
    /// `[words]`: the set to list, from `first` on; null for all slots.
    pub bits: DevicePtr<u32>,
    /// `[words]`: slots to leave out, from `first` on; null for none.
    pub except: DevicePtr<u32>,
    /// `[slots]`, at most `len`: the slots, ascending.
    pub slots: DevicePtrMut<u32>,
    /// `[1]`: the number of slots listed.
    pub count: DevicePtrMut<u32>,
    /// With as many tiles as hold `len` slots.
    pub look_back: LookBack,
    /// The slot of the lowest bit.
    pub first: u32,
    /// Slots to consider.
    pub len: u32,
}

/// Whether `slot` is in the set, which must not change during the launch.
///
/// # Safety
/// The set has a bit for it.
#[cfg(feature = "kernels")]
#[inline(always)]
pub(crate) unsafe fn contains(bits: DevicePtr<u32>, slot: u32) -> bool {
    // SAFETY: the caller's promise.
    let word = unsafe { global::load_readonly(bits.at((slot / WORD) as usize)) };
    word >> (slot % WORD) & 1 == 1
}
