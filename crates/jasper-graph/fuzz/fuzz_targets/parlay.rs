//! Any bytes as what `jasper_graph::fuzz::parlay` reads.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    jasper_graph::fuzz::parlay(bytes);
});
