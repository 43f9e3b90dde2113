//! The suite in the emulator: no GPU, and every access checked.

use cuda_std::emulator::Emulator;
use gpu_kernels::emulated::EmulatedStream;
use gpu_kernels::suite;

/// Runs a test of the suite with several orders of threads and blocks.
fn in_orders(test: impl Fn(&EmulatedStream, u64)) {
    for seed in 0..2 {
        test(&EmulatedStream::new(Emulator::new(seed).threads(2)), seed);
    }
}

#[test]
fn distances() {
    in_orders(suite::distances_agree_with_the_twin);
}

#[test]
fn exact_knn() {
    in_orders(suite::exact_knn_agrees_with_the_twin);
}

#[test]
fn exact_knn_in_parts() {
    in_orders(suite::exact_knn_searches_in_parts);
}

#[test]
fn scans() {
    in_orders(suite::scans_agree_with_the_twin);
    in_orders(suite::scans_end_at_their_length);
}

#[test]
fn sorts() {
    in_orders(suite::sorts_agree_with_the_twin);
}

#[test]
fn sorts_by_some_bits() {
    in_orders(suite::sorts_go_by_their_bits_alone);
}

#[test]
fn groups() {
    in_orders(suite::groups_agree_with_the_twin);
}

#[test]
fn back_edges() {
    in_orders(suite::back_edges_are_sorted_and_grouped);
}
