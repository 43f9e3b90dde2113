//! Warp collectives: shuffles, votes, matches and reductions.
//!
//! All lanes of the warp take part. Only [`sync_warp`] orders memory; the other collectives exchange values.

use crate::primitive::{Collective, Special};
use crate::{Word, imp};

/// Lanes of a warp.
pub const WARP_SIZE: u32 = 32;

/// The index of this thread in its warp (`%laneid`).
#[inline(always)]
#[track_caller]
pub fn lane_id() -> u32 {
    imp::special(Special::Lane)
}

/// Barrier of the warp: all writes of its lanes before it are visible to all of them afterwards (`bar.warp.sync`).
///
/// # Safety
/// All lanes of the warp call this together.
#[inline(always)]
#[track_caller]
pub unsafe fn sync_warp() {
    // SAFETY: the caller upholds the contract of the back end.
    unsafe { imp::collective(Collective::Sync, 0_u32, 0) };
}

macro_rules! shuffles {
    ($($(#[$doc:meta])* $name:ident($argument:ident) -> $R:ty = $op:expr, |$result:ident| $returned:expr;)*) => { $(
        $(#[$doc])*
        ///
        /// Values of 8 bytes take two instructions.
        ///
        /// # Safety
        /// All lanes of the warp call this together.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name<T: Word>(value: T, $argument: u32) -> $R {
            // SAFETY: the caller upholds the contract of the back end.
            let $result = unsafe { imp::collective($op, value, $argument) };
            $returned
        }
    )* };
}
shuffles! {
    /// The value of a lane (`shfl.sync.idx.b32`); `lane` counts modulo 32.
    shuffle(lane) -> T = Collective::Shuffle(WARP_SIZE), |result| result.0;
    /// The value of the lane whose index is this one's xor `bits`, which is below 32 (`shfl.sync.bfly.b32`).
    shuffle_xor(bits) -> T = Collective::ShuffleXor, |result| result.0;
    /// The value of the lane `delta` below, and whether there is one (`shfl.sync.up.b32`). Without one, the value is
    /// this lane's own.
    shuffle_up(delta) -> (T, bool) = Collective::ShuffleUp, |result| result;
}

/// The value of a lane of this lane's segment of `width` lanes (`shfl.sync.idx.b32`); `lane` counts modulo `width`.
///
/// # Safety
/// All lanes of the warp call this together, with the same `width`, a power of two up to 32.
#[inline(always)]
#[track_caller]
pub unsafe fn shuffle_in_segment<T: Word>(value: T, lane: u32, width: u32) -> T {
    // SAFETY: the caller upholds the contract of the back end.
    unsafe { imp::collective(Collective::Shuffle(width), value, lane).0 }
}

macro_rules! votes {
    ($($(#[$doc:meta])* $name:ident($value:ident: $Value:ty) -> $R:ty = $op:ident.$part:tt;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// All lanes of the warp call this together.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name($value: $Value) -> $R {
            // SAFETY: the caller upholds the contract of the back end.
            unsafe { imp::collective(Collective::$op, u32::from($value), 0).$part }
        }
    )* };
}
votes! {
    /// Whether `predicate` holds in every lane (`vote.sync.all.pred`).
    all(predicate: bool) -> bool = VoteAll.1;
    /// Whether `predicate` holds in any lane (`vote.sync.any.pred`).
    any(predicate: bool) -> bool = VoteAny.1;
    /// The lanes in which `predicate` holds, as a mask (`vote.sync.ballot.b32`).
    ballot(predicate: bool) -> u32 = Ballot.0;
    /// The lanes with the same value, as a mask (`match.any.sync.b32`).
    match_any(value: u32) -> u32 = MatchAny.0;
    /// The wrapping sum over the lanes (`redux.sync.add.s32`).
    reduce_add(value: u32) -> u32 = ReduceAdd.0;
    /// The least value among the lanes (`redux.sync.min.u32`).
    reduce_min(value: u32) -> u32 = ReduceMin.0;
    /// The greatest value among the lanes (`redux.sync.max.u32`).
    reduce_max(value: u32) -> u32 = ReduceMax.0;
    /// The bits that any lane has (`redux.sync.or.b32`).
    reduce_or(value: u32) -> u32 = ReduceOr.0;
}

/// A type that [`sum`] adds: f32, or integers, which wrap.
pub trait Summand: Word {
    #[doc(hidden)]
    const SUM: fn(width: u32) -> Collective;
}
impl Summand for f32 {
    const SUM: fn(u32) -> Collective = Collective::SumF32;
}
impl Summand for u32 {
    const SUM: fn(u32) -> Collective = Collective::SumU32;
}
impl Summand for i32 {
    const SUM: fn(u32) -> Collective = Collective::SumU32;
}

/// The sum over each segment of `width` lanes, in all of them (`shfl.sync.bfly.b32` and an addition for each power of
/// two below `width`, the greatest first: `width` fixes the order of an f32 sum, and every lane gets the same bits).
///
/// # Safety
/// All lanes of the warp call this together, with the same `width`, a power of two up to 32.
#[inline(always)]
#[track_caller]
pub unsafe fn sum<T: Summand>(value: T, width: u32) -> T {
    // SAFETY: the caller upholds the contract of the back end.
    unsafe { imp::collective((T::SUM)(width), value, 0).0 }
}
