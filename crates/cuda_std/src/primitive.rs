//! The words in which the public modules speak to a back end: what is asked for, never how it is done.
//!
//! On the device every value below is a constant by the time the compiler has inlined its way down, so that a
//! `match` over it costs nothing.

/// A register that tells a thread where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `%tid.x`
    ThreadIdxX,
    /// `%ctaid.x`
    BlockIdxX,
    /// `%ctaid.y`
    BlockIdxY,
    /// `%ntid.x`
    BlockDimX,
    /// `%nctaid.x`
    GridDimX,
    /// `%nctaid.y`
    GridDimY,
    /// `%laneid`
    Lane,
}

/// A meeting of the threads of a block. Its result is 0 where none is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// All threads of the block, at barrier 0.
    All,
    /// The same; the result is how many brought `true`.
    Count(bool),
    /// The same; the result is 1 if all brought `true`.
    And(bool),
    /// The same; the result is 1 if any brought `true`.
    Or(bool),
    /// The first `threads` threads (a multiple of 32) that come to the named barrier, 1 to 15.
    Named {
        /// Which of the block's barriers.
        barrier: u32,
        /// How many threads it waits for.
        threads: u32,
    },
}

/// Who sees the writes before a fence in order with those after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The threads of the block.
    Block,
    /// Every thread on the device.
    Device,
}

/// What the lanes named by a mask do together. `value`, `argument` and `width` are those of
/// `collective(op, mask, value, argument, width)`; an operation without a result gives back its `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Memory is ordered among the lanes of the mask. No value.
    Sync,
    /// The value of the lane `argument` below, within segments of `width` lanes.
    ShuffleUp,
    /// The value of the lane `argument` above, within segments of `width` lanes.
    ShuffleDown,
    /// The value of lane `argument` of the segment.
    ShuffleIdx,
    /// The value of the lane whose number differs by the bits of `argument`.
    ShuffleXor,
    /// The flag says whether every value is nonzero.
    VoteAll,
    /// The flag says whether any value is nonzero.
    VoteAny,
    /// Bit `i` of the value says whether lane `i` brought a value that is not zero.
    Ballot,
    /// Bit `i` of the value says whether lane `i` brought the same value.
    MatchAny,
    /// The mask and true if all brought the same value; else 0 and false.
    MatchAll,
    /// The wrapping sum of all values (u32), as the other reductions in any order.
    ReduceAdd,
    /// The least.
    ReduceMin,
    /// The greatest.
    ReduceMax,
    /// The bits that all have.
    ReduceAnd,
    /// The bits that any has.
    ReduceOr,
    /// The bits that an odd number has.
    ReduceXor,
    /// Sums over segments of `width` lanes, as wrapping u32, by exchange with the lanes `width / 2`, ..., 2, 1 away.
    ButterflyAddU32,
    /// The same of f32: the order of the additions is that of the exchanges.
    ButterflyAddF32,
}

/// How a value is read from global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// `ld.global`: ordered by barriers and fences only.
    Weak,
    /// `ld.global.nc`: nobody writes there during the launch.
    ReadOnly,
    /// `ld.global.nc.L1::no_allocate`: the same, and this block will not read it again.
    Streaming,
    /// `ld.relaxed.gpu.global`: may meet a write of another thread.
    Relaxed,
    /// `ld.acquire.gpu.global`: what was written before the release that it sees is seen as well.
    Acquire,
}

/// How a value is written to global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// `st.global`: ordered by barriers and fences only.
    Weak,
    /// `st.release.gpu.global`: after everything that this thread did before.
    Release,
}

/// What an atomic operation puts in place of what it found; it gives back what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update<T> {
    /// The wrapping sum of integers.
    Add(T),
    /// The sum of f32.
    AddFloat(T),
    /// The lesser, unsigned.
    Min(T),
    /// The greater, unsigned.
    Max(T),
    /// The bits of both.
    And(T),
    /// The bits of either.
    Or(T),
    /// This value.
    Exchange(T),
    /// `new` where `expected` was found, else what was found.
    CompareExchange {
        /// What must be there.
        expected: T,
        /// What is put there.
        new: T,
    },
}

#[cfg(not(target_arch = "nvptx64"))]
impl<T: crate::Word> Update<T> {
    /// What is in memory afterwards, where `old` was found.
    pub(crate) fn apply(self, old: T) -> T {
        let found = old.bits();
        T::from_bits(match self {
            Self::Add(value) => found.wrapping_add(value.bits()),
            Self::AddFloat(value) => {
                let sum = f32::from_bits(found as u32) + f32::from_bits(value.bits() as u32);
                u64::from(sum.to_bits())
            }
            Self::Min(value) => found.min(value.bits()),
            Self::Max(value) => found.max(value.bits()),
            Self::And(value) => found & value.bits(),
            Self::Or(value) => found | value.bits(),
            Self::Exchange(value) => value.bits(),
            Self::CompareExchange { expected, new } if expected.bits() == found => new.bits(),
            Self::CompareExchange { .. } => found,
        })
    }
}

/// The matrix product that the lanes of a warp compute together; `mma` has the shapes and who holds what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mma {
    /// 16 x 16 times 16 x 8 of f16, sums in f32.
    M16N8K16F16,
    /// 16 x 32 times 32 x 8 of i8, sums in i32.
    M16N8K32I8,
    /// 16 x 32 times 32 x 8 of u8, sums in i32.
    M16N8K32U8,
}
