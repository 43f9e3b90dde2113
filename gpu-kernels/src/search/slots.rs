//! What one query of a launch has for itself: the slots that it scans, and the slots that may be its results.

#[cfg(feature = "kernels")]
use cuda_std::prelude::*;

use crate::DevicePtr;
#[cfg(feature = "kernels")]
use crate::bits;

/// A part of the slots that a query scans: some elements of a table.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct ListPart {
    /// The address of a table of u32 in device memory.
    pub table: u64,
    /// The first element.
    pub first: u32,
    /// How many there are.
    pub len: u32,
}

impl ListPart {
    /// `len` elements of `list`, from `first` on.
    pub fn new(list: DevicePtr<u32>, first: u32, len: u32) -> Self {
        Self { table: list.at(0) as u64, first, len }
    }

    /// Part `index`.
    ///
    /// # Safety
    /// The array has it.
    #[cfg(feature = "kernels")]
    pub(super) unsafe fn load(parts: DevicePtr<Self>, index: u32) -> (DevicePtr<u32>, u32) {
        // SAFETY: upheld by the caller.
        let [low, high, first, len] =
            unsafe { global::load_readonly(parts.cast::<[u32; 4]>().at(index as usize)) };
        let table = DevicePtr::new((u64::from(high) << 32 | u64::from(low)) as *const u32);
        (table.add(first as usize), len)
    }
}

/// A test of a slot. A slot may be a result of a query if all of the query's clauses hold, which are tests of which one at
/// least holds.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct SlotTest {
    /// The address of a table of u32 in device memory, whose lowest bits are flags; 0 for a test that always holds.
    pub table: u64,
    /// The least rank, or the code.
    pub first: u32,
    /// How many ranks there are, or what the table is.
    pub len: u32,
}

impl SlotTest {
    /// A test that always holds.
    pub const ALL: Self = Self { table: 0, first: 0, len: Self::BITMAP };
    /// A rank, or the code of a list, of a vertex with several keys: all tests hold, and the host decides.
    pub const ANY: u32 = u32::MAX;
    /// A rank, or the code of a list, of a slot without a key: no test holds.
    pub const NO_KEY: u32 = u32::MAX - 1;
    /// A rank that is in no range.
    pub const NO_RANK: u32 = u32::MAX - 2;

    /// The [`Self::len`] of a bitmap.
    const BITMAP: u32 = u32::MAX;
    /// The [`Self::len`] of lists of codes.
    const CODES: u32 = u32::MAX - 1;
    /// The next test is of the same clause.
    const IS_JOINED: u64 = 1;
    /// The opposite is tested.
    const IS_OPPOSITE: u64 = 2;

    /// Whether the bit of the slot is set.
    pub fn bitmap(words: DevicePtr<u32>) -> Self {
        Self { table: words.at(0) as u64, first: 0, len: Self::BITMAP }
    }

    /// Whether the rank of the slot is one of `len` from `first` on, which are below [`Self::NO_RANK`]. `ranks` has an element
    /// for each slot.
    pub fn ranks(ranks: DevicePtr<u32>, first: u32, len: u32) -> Self {
        Self { table: ranks.at(0) as u64, first, len: len.min(Self::CODES - 1) }
    }

    /// Whether the list of codes of the slot has `code`. Of `lists`, the elements with the numbers `slot`
    /// and `slot + 1` are where the list of a slot begins and ends.
    pub fn code(lists: DevicePtr<u32>, code: u32) -> Self {
        Self { table: lists.at(0) as u64, first: code, len: Self::CODES }
    }

    /// The opposite, but for [`Self::ANY`] and [`Self::NO_KEY`], for which this is the same.
    #[must_use]
    pub fn opposite(self) -> Self {
        Self { table: self.table ^ Self::IS_OPPOSITE, ..self }
    }

    /// The same test, with the next in one clause.
    #[must_use]
    pub fn joined(self) -> Self {
        Self { table: self.table | Self::IS_JOINED, ..self }
    }
}

#[cfg(feature = "kernels")]
impl SlotTest {
    /// Whether a slot passes `len` tests.
    ///
    /// # Safety
    /// The array has as many tests, and their tables have the slot.
    pub(super) unsafe fn all_hold(tests: DevicePtr<Self>, len: u32, slot: u32) -> bool {
        let (mut index, mut clause_holds) = (0, false);
        while index < len {
            // SAFETY: upheld by the caller.
            unsafe {
                let [low, high, first, len] =
                    global::load_readonly(tests.cast::<[u32; 4]>().at(index as usize));
                let test = Self { table: u64::from(high) << 32 | u64::from(low), first, len };
                clause_holds = clause_holds || test.holds(slot);
                if test.table & Self::IS_JOINED == 0 {
                    if !clause_holds {
                        return false;
                    }
                    clause_holds = false;
                }
            }
            index += 1;
        }
        true
    }

    /// # Safety
    /// The table has the slot.
    unsafe fn holds(self, slot: u32) -> bool {
        let table = DevicePtr::new((self.table & !(Self::IS_JOINED | Self::IS_OPPOSITE)) as *const u32);
        let is_opposite = self.table & Self::IS_OPPOSITE != 0;
        // SAFETY: upheld by the caller; a list of codes is within the table.
        unsafe {
            match self.len {
                Self::BITMAP => table.is_null() || bits::contains(table, slot) != is_opposite,
                Self::CODES => {
                    let mut at = global::load_readonly(table.at(slot as usize));
                    let end = global::load_readonly(table.at(slot as usize + 1));
                    while at < end {
                        let code = global::load_readonly(table.at(at as usize));
                        if code == self.first || code >= Self::NO_KEY {
                            return code == Self::ANY || code == self.first && !is_opposite;
                        }
                        at += 1;
                    }
                    is_opposite
                }
                len => match global::load_readonly(table.at(slot as usize)) {
                    Self::ANY => true,
                    Self::NO_KEY => false,
                    rank => (rank.wrapping_sub(self.first) < len) != is_opposite,
                },
            }
        }
    }
}
