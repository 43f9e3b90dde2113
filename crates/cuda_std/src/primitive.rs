//! The operations of a back end, as values.
//!
//! On the device they are constants after inlining, so a `match` over one costs nothing.

/// A special register.
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

/// A barrier of the block. The result is 0 unless described otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// Barrier 0, of all threads.
    All,
    /// Barrier 0; the result is the number of threads with `true`.
    Count(bool),
    /// Barrier 0; the result is 1 if any thread has `true`.
    Or(bool),
}

/// A collective of the lanes of a warp. `value` and `argument` are those of `collective(op, value, argument)`; an
/// operation without a result returns its `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Orders memory among the lanes. No result.
    Sync,
    /// The value of lane `argument` of a segment of this many lanes.
    Shuffle(u32),
    /// The value of the lane whose index is this one's xor `argument`.
    ShuffleXor,
    /// The value of the lane `argument` below. The flag says whether there is one.
    ShuffleUp,
    /// The flag says whether every value is nonzero.
    VoteAll,
    /// The flag says whether any value is nonzero.
    VoteAny,
    /// Bit `i` of the result says whether the value of lane `i` is nonzero.
    Ballot,
    /// Bit `i` of the result says whether lane `i` has the same value.
    MatchAny,
    /// The wrapping sum of all values (u32).
    ReduceAdd,
    /// The minimum.
    ReduceMin,
    /// The maximum.
    ReduceMax,
    /// The bitwise or.
    ReduceOr,
    /// Sums over segments of this many lanes, as wrapping u32, by exchange with the lanes `width / 2`, ..., 2, 1 away.
    SumU32(u32),
    /// The same sums as f32; the order of the additions is that of the exchanges.
    SumF32(u32),
}

/// How a value is read from global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// `ld.global`: ordered by barriers and fences only.
    Weak,
    /// `ld.global.nc`: the launch does not write there.
    ReadOnly,
    /// `ld.global.nc.L1::no_allocate`: the launch does not write there, and the load does not allocate in L1.
    Streaming,
    /// `ld.relaxed.gpu.global`: other threads may write concurrently.
    Relaxed,
}

/// An atomic update, which stores a new value and returns the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update<T> {
    /// The wrapping sum of integers.
    Add(T),
    /// The unsigned minimum.
    Min(T),
    /// The bitwise and.
    And(T),
    /// The bitwise or.
    Or(T),
    /// The given value.
    Exchange(T),
}

#[cfg(not(target_arch = "nvptx64"))]
impl<T: crate::Word> Update<T> {
    /// The new value, given the `old` one.
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

/// A matrix product of a warp; `mma` describes the fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mma {
    /// 16 x 32 times 32 x 8 of i8, sums in i32.
    M16N8K32I8,
    /// 16 x 32 times 32 x 8 of u8, sums in i32.
    M16N8K32U8,
    /// 16 x 16 times 16 x 8 of f16, sums in f32.
    M16N8K16F16,
}
