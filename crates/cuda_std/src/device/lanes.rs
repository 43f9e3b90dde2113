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

/// # Safety
/// The lanes of `mask` call this together, with the same mask and width.
#[inline(always)]
pub unsafe fn collective<T: Word>(
    op: Collective,
    mask: u32,
    value: T,
    argument: u32,
    width: u32,
) -> (T, bool) {
    let word = value.bits() as u32;
    // SAFETY: the caller's promise.
    let (result, flag) = unsafe {
        match op {
            Collective::ShuffleUp | Collective::ShuffleIdx | Collective::ShuffleXor => {
                return shuffle(op, mask, value, argument, width);
            }
            Collective::Sync => {
                warp_sync(mask);
                (word, false)
            }
            Collective::VoteAll => (word, vote_all(mask, word != 0)),
            Collective::VoteAny => (word, vote_any(mask, word != 0)),
            Collective::Ballot => (ballot(mask, word != 0), false),
            Collective::MatchAny => (match_any(mask, word), false),
            Collective::ReduceAdd => (reduce_add(word, mask), false),
            Collective::ReduceMin => (reduce_min(word, mask), false),
            Collective::ReduceMax => (reduce_max(word, mask), false),
            Collective::ReduceOr => (reduce_or(word, mask), false),
            Collective::ButterflyAddU32 => (butterfly(mask, word, width, u32::wrapping_add), false),
            Collective::ButterflyAddF32 => {
                let add = |a, b| (f32::from_bits(a) + f32::from_bits(b)).to_bits();
                (butterfly(mask, word, width, add), false)
            }
        }
    };
    (T::from_bits(u64::from(result)), flag)
}

/// Shuffles a value, with one instruction per register.
#[inline(always)]
unsafe fn shuffle<T: Word>(op: Collective, mask: u32, value: T, argument: u32, width: u32) -> (T, bool) {
    let bits = value.bits();
    // SAFETY: the caller's promise.
    let (low, inside) = unsafe { shuffle_word(op, mask, bits as u32, argument, width) };
    let high = if size_of::<T>() == 8 {
        // SAFETY: the caller's promise.
        unsafe { shuffle_word(op, mask, (bits >> 32) as u32, argument, width) }.0
    } else {
        0
    };
    (T::from_bits(u64::from(low) | u64::from(high) << 32), inside)
}

#[inline(always)]
unsafe fn shuffle_word(op: Collective, mask: u32, value: u32, argument: u32, width: u32) -> (u32, bool) {
    // The operand of the instruction: the segment mask, and the last lane of a segment.
    let segment = (32 - width) << 8;
    // SAFETY: the caller's promise.
    let Flagged { value, flag } = unsafe {
        match op {
            Collective::ShuffleUp => shuffle_up(mask, value, argument, segment),
            Collective::ShuffleIdx => shuffle_idx(mask, value, argument, segment | 31),
            _ => shuffle_xor(mask, value, argument, segment | 31),
        }
    };
    (value, flag)
}

/// The sum over each segment by a butterfly.
#[inline(always)]
unsafe fn butterfly(mask: u32, value: u32, width: u32, add: impl Fn(u32, u32) -> u32) -> u32 {
    let mut sum = value;
    let mut distance = width / 2;
    while distance > 0 {
        // SAFETY: the caller's promise.
        let (other, _) = unsafe { shuffle_word(Collective::ShuffleXor, mask, sum, distance, width) };
        sum = add(sum, other);
        distance /= 2;
    }
    sum
}
