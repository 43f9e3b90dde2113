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
    /// The same; the result is 1 if any brought `true`.
    Or(bool),
}

/// What the lanes named by a mask do together. `value`, `argument` and `width` are those of
/// `collective(op, mask, value, argument, width)`; an operation without a result gives back its `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Memory is ordered among the lanes of the mask. No value.
    Sync,
    /// The value of the lane `argument` below, within segments of `width` lanes.
    ShuffleUp,
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
    /// The wrapping sum of all values (u32), as the other reductions in any order.
    ReduceAdd,
    /// The least.
    ReduceMin,
    /// The greatest.
    ReduceMax,
    /// The bits that any has.
    ReduceOr,
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
}

/// What an atomic operation puts in place of what it found; it gives back what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update<T> {
    /// The wrapping sum of integers.
    Add(T),
    /// The lesser, unsigned.
    Min(T),
    /// The bits of both.
    And(T),
    /// The bits of either.
    Or(T),
    /// This value.
    Exchange(T),
}

#[cfg(not(target_arch = "nvptx64"))]
impl<T: crate::Word> Update<T> {
    /// What is in memory afterwards, where `old` was found.
    pub(crate) fn apply(self, old: T) -> T {
        let found = old.bits();
        T::from_bits(match self {
            Self::Add(value) => found.wrapping_add(value.bits()),
            Self::Min(value) => found.min(value.bits()),
            Self::And(value) => found & value.bits(),
            Self::Or(value) => found | value.bits(),
            Self::Exchange(value) => value.bits(),
        })
    }
}

/// The matrix product that the lanes of a warp compute together; `mma` has the shapes and who holds what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mma {
    /// 16 x 32 times 32 x 8 of i8, sums in i32.
    M16N8K32I8,
    /// 16 x 32 times 32 x 8 of u8, sums in i32.
    M16N8K32U8,
}
