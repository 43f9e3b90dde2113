//! The kernels of the family, by what they score.

pub(super) mod codes;
pub(super) mod exact;
