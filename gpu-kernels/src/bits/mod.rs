//! Sets of slots in device memory: a bit for each, 32 a word, as [`SearchArgs::allowed`](crate::search::SearchArgs) has
//! them.
//!
//! | module | holds |
//! | --- | --- |
//! | `mark` | the kernel that puts slots of a list into a set, or takes them out |
//! | `list` | the kernel that lists the slots of a set |
//! | `plan` | [`Mark`] and [`List`]: the grids of both; [`mark`] and [`Slots`]: what is launched |

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

use crate::scan::Round;
use crate::{DevicePtr, DevicePtrMut};

/// Slots of a word.
pub(crate) const WORD: u32 = u32::BITS;
/// Threads of a block that marks.
#[cfg(not(target_arch = "nvptx64"))]
const MARK_THREADS: u32 = 256;

/// What becomes of the slots of a list.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// They are in the set.
    Add,
    /// They are not.
    Remove,
}

/// What a change of a set takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MarkArgs {
    /// `[len]`: slots, in any order; a slot may be there more than once.
    pub slots: DevicePtr<u32>,
    /// `[words]`: the set, with a bit for each of them.
    pub bits: DevicePtrMut<u32>,
    /// `[1]`: slots that were not as they are now, added to what is there.
    pub changed: DevicePtrMut<u32>,
    /// Slots.
    pub len: u32,
    /// Which change.
    pub change: Change,
}

/// What a list of the slots of a set takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ListArgs {
    /// `[words]`: the slots that are listed, from `first` on; null if all are.
    pub bits: DevicePtr<u32>,
    /// `[words]`: slots that are not, from `first` on; null if there are none such.
    pub but: DevicePtr<u32>,
    /// `[slots]`, at most `len`: the slots, rising.
    pub slots: DevicePtrMut<u32>,
    /// `[1]`: how many there are.
    pub count: DevicePtrMut<u32>,
    /// Of as many tiles as hold `len` slots.
    pub round: Round,
    /// The slot of the lowest bit.
    pub first: u32,
    /// Slots that are looked at.
    pub len: u32,
}

/// Whether `slot` is in the set, which nobody changes meanwhile.
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
