//! Tests of the quantizers through the public API.

mod common;
mod quantizers;
mod rabitq;
