//! Sets of slots in device memory: bit maps, 32 slots per word, as [`FilterArgs::allowed`](crate::search::FilterArgs)
//! has them.
//!
//! | module | holds |
//! | --- | --- |
//! | `list` | the kernel that lists the slots of a set |
//! | `slot_list` | [`SlotList`]: a list, and its launch |

#[cfg(feature = "kernels")]
mod list;

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    mod slot_list;

    pub use slot_list::SlotList;
    use crate::launch::kernels;
} }

#[cfg(feature = "kernels")]
use cuda_std::prelude::*;

use crate::prefix_sum::LookBack;
use crate::{DevicePtr, DevicePtrMut};

/// Slots per word.
pub(crate) const SLOTS_PER_WORD: u32 = u32::BITS;

/// Arguments of [`ListSlots`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ListSlotsArgs {
    /// `[words]`: the set to list, from `first` on.
    pub bits: DevicePtr<u32>,
    /// `[slots]`, at most `len`: the slots, ascending.
    pub slots: DevicePtrMut<u32>,
    /// `[1]`: the number of slots listed.
    pub count: DevicePtrMut<u32>,
    /// The look-back of the launch, with as many tiles as hold `len` slots.
    pub look_back: LookBack,
    /// The slot of the lowest bit.
    pub first: u32,
    /// Slots to consider.
    pub len: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
kernels! {
    /// The kernel that lists the slots of a set. It reads each word once.
    ListSlots(ListSlotsArgs) = list::list_slots, |args| args.look_back.select_launch();
}

/// Whether `slot` is in the set, which must not change during the launch.
///
/// # Safety
/// The set has a bit for `slot`.
#[cfg(feature = "kernels")]
pub(crate) unsafe fn contains(bits: DevicePtr<u32>, slot: u32) -> bool {
    // SAFETY: upheld by the caller.
    let word = unsafe { global::load_readonly(bits.at((slot / SLOTS_PER_WORD) as usize)) };
    word >> (slot % SLOTS_PER_WORD) & 1 == 1
}
