//! Groups of sorted keys: finds where each run of keys that are equal above their low bits begins.
//!
//! ```text
//! keys >> shift   3 3 3 5 8 8
//! offsets         0     3 4   6      group g is offsets[g]..offsets[g + 1]
//! ```

#[cfg(feature = "kernels")]
mod kernel;

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    mod buffers;

    pub use buffers::Groups;
    use crate::launch::kernels;
} }

use crate::prefix_sum::LookBack;
use crate::{DevicePtr, DevicePtrMut};

/// Arguments of [`FindGroups`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FindGroupsArgs {
    /// `[len]`, ascending but for the low `shift` bits.
    pub keys: DevicePtr<u64>,
    /// `[groups + 1]`, at most `len + 1`: the begin of each group, and the end of the last.
    pub offsets: DevicePtrMut<u32>,
    /// `[1]`: the number of groups.
    pub count: DevicePtrMut<u32>,
    /// The look-back of the launch, with as many tiles as hold `len` keys, at least one.
    pub look_back: LookBack,
    /// Number of keys.
    pub len: u32,
    /// Low bits that are ignored, below 64.
    pub shift: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
kernels! {
    /// The kernel that finds groups. It reads each key once.
    FindGroups(FindGroupsArgs) = kernel::find_groups, |args| args.look_back.select_launch();
}
