//! Warp collectives by LLVM intrinsics, which the optimizer knows not to duplicate.

use crate::Word;
use crate::primitive::Collective;

/// A value and a predicate, as the intrinsics return them.
#[repr(C)]
struct Flagged {
    value: u32,
    flag: bool,
}

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    fn warp_sync(mask: u32);
    #[link_name = "llvm.nvvm.shfl.sync.up.i32p"]
    fn shuffle_up(mask: u32, value: u32, delta: u32, bounds: u32) -> Flagged;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32p"]
    fn shuffle_idx(mask: u32, value: u32, lane: u32, bounds: u32) -> Flagged;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32p"]
    fn shuffle_xor(mask: u32, value: u32, bits: u32, bounds: u32) -> Flagged;
    #[link_name = "llvm.nvvm.vote.all.sync"]
    fn vote_all(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    fn vote_any(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    fn ballot(mask: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i32"]
    fn match_any(mask: u32, value: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.add"]
    fn reduce_add(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umin"]
    fn reduce_min(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umax"]
    fn reduce_max(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.or"]
    fn reduce_or(value: u32, mask: u32) -> u32;
}

/// The mask of all lanes.
const ALL: u32 = u32::MAX;

/// # Safety
/// The lanes of the warp call this together.
#[inline(always)]
pub unsafe fn collective<T: Word>(op: Collective, value: T, argument: u32) -> (T, bool) {
    let word = value.bits() as u32;
    // SAFETY: upheld by the caller.
    let (result, flag) = unsafe {
        match op {
            Collective::ShuffleUp | Collective::Shuffle(_) | Collective::ShuffleXor => {
                return shuffle(op, value, argument);
            }
            Collective::Sync => {
                warp_sync(ALL);
                (word, false)
            }
            Collective::VoteAll => (word, vote_all(ALL, word != 0)),
            Collective::VoteAny => (word, vote_any(ALL, word != 0)),
            Collective::Ballot => (ballot(ALL, word != 0), false),
            Collective::MatchAny => (match_any(ALL, word), false),
            Collective::ReduceAdd => (reduce_add(word, ALL), false),
            Collective::ReduceMin => (reduce_min(word, ALL), false),
            Collective::ReduceMax => (reduce_max(word, ALL), false),
            Collective::ReduceOr => (reduce_or(word, ALL), false),
            Collective::SumU32(width) => (butterfly(word, width, u32::wrapping_add), false),
            Collective::SumF32(width) => {
                let add = |a, b| (f32::from_bits(a) + f32::from_bits(b)).to_bits();
                (butterfly(word, width, add), false)
            }
        }
    };
    (T::from_bits(u64::from(result)), flag)
}

/// Shuffles a value, with one instruction per register.
#[inline(always)]
unsafe fn shuffle<T: Word>(op: Collective, value: T, argument: u32) -> (T, bool) {
    // SAFETY: upheld by the caller. The bounds of a shuffle are the last lane that it may read.
    let word = |value| unsafe {
        match op {
            Collective::ShuffleUp => shuffle_up(ALL, value, argument, 0),
            Collective::Shuffle(width) => shuffle_idx(ALL, value, argument, (32 - width) << 8 | 31),
            _ => shuffle_xor(ALL, value, argument, 31),
        }
    };
    let bits = value.bits();
    let Flagged { value: low, flag } = word(bits as u32);
    let high = if size_of::<T>() == 8 { word((bits >> 32) as u32).value } else { 0 };
    (T::from_bits(u64::from(low) | u64::from(high) << 32), flag)
}

/// The sum over each segment of `width` lanes by a butterfly.
#[inline(always)]
unsafe fn butterfly(value: u32, width: u32, add: impl Fn(u32, u32) -> u32) -> u32 {
    let (mut sum, mut distance) = (value, width / 2);
    while distance > 0 {
        // SAFETY: upheld by the caller.
        sum = add(sum, unsafe { shuffle_xor(ALL, sum, distance, (32 - width) << 8 | 31) }.value);
        distance /= 2;
    }
    sum
}
