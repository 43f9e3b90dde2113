//! Any bytes as what the body `runbook` reads.
#![no_main]

#[path = "../../tests/data/fuzz.rs"]
#[allow(dead_code, reason = "the other targets call the other bodies")]
mod fuzz;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::runbook(bytes));
