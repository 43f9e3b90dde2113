//! Groups of sorted keys: where each run of keys begins that are equal but for their low bits.
//!
//! ```text
//! keys >> shift   3 3 3 5 8 8
//! begins          0     3 4   6      group g is begins[g]..begins[g + 1]
//! ```

#[cfg(feature = "kernels")]
mod kernel;
#[cfg(not(target_arch = "nvptx64"))]
mod plan;

#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{FindGroups, Groups};

use crate::scan::Round;
use crate::{DevicePtr, DevicePtrMut};

/// What the search for groups takes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GroupArgs {
    /// `[len]`, ascending but for the low `shift` bits.
    pub keys: DevicePtr<u64>,
    /// `[groups + 1]`, at most `len + 1`: where each group begins, and the end of the last.
    pub begins: DevicePtrMut<u32>,
    /// `[1]`: how many groups there are.
    pub count: DevicePtrMut<u32>,
    /// Of as many tiles as hold `len` keys, and one at least.
    pub round: Round,
    /// Keys.
    pub len: u32,
    /// Low bits that do not count, below 64.
    pub shift: u32,
}
