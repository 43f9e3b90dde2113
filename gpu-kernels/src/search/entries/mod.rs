//! The tables of search kernels, by what they score.

pub(super) mod exact;
pub(super) mod quantized;
