//! The kernels of the family, by what they score.

pub(super) mod exact;
pub(super) mod quantized;
