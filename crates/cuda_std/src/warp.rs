//! Warp collectives: shuffles, votes, matches and reductions.
//!
//! Bit `i` of `mask` says whether lane `i` participates. Only [`sync_warp`] orders memory; the other collectives
//! exchange values.

use crate::primitive::{Collective, Special};
use crate::{Word, imp};

/// Lanes of a warp.
pub const WARP_SIZE: u32 = 32;
/// The mask of all 32 lanes.
pub const FULL_MASK: u32 = u32::MAX;

/// The index of this thread in its warp (`%laneid`).
#[inline(always)]
#[track_caller]
pub fn lane_id() -> u32 {
    imp::special(Special::Lane)
}

/// Barrier of the lanes of `mask`: all their writes before it are visible to all of them afterwards (`bar.warp.sync`).
///
/// # Safety
/// Every lane of `mask`, and no other, calls this with the same mask.
#[inline(always)]
#[track_caller]
pub unsafe fn sync_warp(mask: u32) {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::collective(Collective::Sync, mask, 0_u32, 0, WARP_SIZE) };
}

macro_rules! shuffles {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// `width` is a power of two up to 32: the warp is divided into segments of `width` lanes, which shuffle
        /// independently. The flag is false if the source lane is outside of the segment; the value is then the lane's
        /// own. Values of 8 bytes take two instructions.
        ///
        /// # Safety
        /// Every lane of `mask`, and no other, calls this with the same mask and `width`. The source lane is in `mask`.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name<T: Word>(mask: u32, value: T, delta: u32, width: u32) -> (T, bool) {
            // SAFETY: the caller's promise is the back end's.
            unsafe { imp::collective(Collective::$op, mask, value, delta, width) }
        }
    )* };
}
shuffles! {
    /// The value of the lane `delta` below (`shfl.sync.up.b32`).
    warp_shuffle_up, ShuffleUp;
    /// The value of lane `delta` of the segment (`shfl.sync.idx.b32`).
    warp_shuffle_idx, ShuffleIdx;
    /// The value of the lane whose index is this one's xor `delta` (`shfl.sync.bfly.b32`). A lane of an earlier segment
    /// counts as inside.
    warp_shuffle_xor, ShuffleXor;
}

/// Whether `predicate` holds in every lane of `mask` (`vote.sync.all.pred`).
///
/// # Safety
/// The same as for [`sync_warp`].
#[inline(always)]
#[track_caller]
pub unsafe fn warp_vote_all(mask: u32, predicate: bool) -> bool {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::collective(Collective::VoteAll, mask, u32::from(predicate), 0, WARP_SIZE).1 }
}

/// Whether `predicate` holds in any lane of `mask` (`vote.sync.any.pred`).
///
/// # Safety
/// The same as for [`sync_warp`].
#[inline(always)]
#[track_caller]
pub unsafe fn warp_vote_any(mask: u32, predicate: bool) -> bool {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::collective(Collective::VoteAny, mask, u32::from(predicate), 0, WARP_SIZE).1 }
}

/// The lanes of `mask` in which `predicate` holds (`vote.sync.ballot.b32`).
///
/// # Safety
/// The same as for [`sync_warp`].
#[inline(always)]
#[track_caller]
pub unsafe fn warp_vote_ballot(mask: u32, predicate: bool) -> u32 {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::collective(Collective::Ballot, mask, u32::from(predicate), 0, WARP_SIZE).0 }
}

/// The lanes of `mask` with the same value (`match.any.sync.b32`).
///
/// # Safety
/// The same as for [`sync_warp`].
#[inline(always)]
#[track_caller]
pub unsafe fn warp_match_any(mask: u32, value: u32) -> u32 {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::collective(Collective::MatchAny, mask, value, 0, WARP_SIZE).0 }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// The same as for [`sync_warp`].
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(mask: u32, value: u32) -> u32 {
            // SAFETY: the caller's promise is the back end's.
            unsafe { imp::collective(Collective::$op, mask, value, 0, WARP_SIZE).0 }
        }
    )* };
}
reductions! {
    /// The wrapping sum over the lanes of `mask` (`redux.sync.add.s32`).
    warp_reduce_add, ReduceAdd;
    /// The least value among the lanes of `mask` (`redux.sync.min.u32`).
    warp_reduce_min, ReduceMin;
    /// The greatest value among the lanes of `mask` (`redux.sync.max.u32`).
    warp_reduce_max, ReduceMax;
    /// The bits that any lane of `mask` has (`redux.sync.or.b32`).
    warp_reduce_or, ReduceOr;
}

/// A type that [`warp_sum`] adds: f32, or integers, which wrap.
pub trait Summand: Word {
    #[doc(hidden)]
    const SUM: Collective;
}
impl Summand for f32 {
    const SUM: Collective = Collective::ButterflyAddF32;
}
impl Summand for u32 {
    const SUM: Collective = Collective::ButterflyAddU32;
}
impl Summand for i32 {
    const SUM: Collective = Collective::ButterflyAddU32;
}

/// The sum over each segment of `width` lanes, in all of them (`shfl.sync.bfly.b32` and an addition for each power of
/// two below `width`, the greatest first: `width` fixes the order of an f32 sum, and every lane gets the same bits).
///
/// # Safety
/// Every lane of `mask`, and no other, calls this with the same mask and `width`, a power of two up to 32. The mask
/// consists of whole segments.
#[inline(always)]
#[track_caller]
pub unsafe fn warp_sum<T: Summand>(mask: u32, value: T, width: u32) -> T {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::collective(T::SUM, mask, value, 0, width).0 }
}
