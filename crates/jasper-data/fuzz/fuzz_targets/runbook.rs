//! Any bytes as what `jasper_data::fuzz::runbook` reads.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jasper_data::fuzz::runbook(bytes));
