//! The suite of the kernels on a device: the tests that the emulator runs, and the same answers.

mod common;

use gpu_kernels::suite;
use jasper_cuda::Stream;

/// Makes a test of each test of the suite: it runs with several seeds.
macro_rules! on_the_device {
    ($($test:ident)*) => { $(
        #[test]
        fn $test() {
            let Some(context) = common::context() else { return };
            let stream = Stream::new(&context).unwrap();
            for seed in 0..4 {
                suite::$test(&stream, seed);
            }
        }
    )* };
}

on_the_device! {
    back_edges_are_sorted_and_grouped
    distances_agree_with_the_twin
    exact_knn_agrees_with_the_twin
    exact_knn_searches_in_parts
    groups_agree_with_the_twin
    scans_agree_with_the_twin
    scans_end_at_their_length
    sorts_agree_with_the_twin
    sorts_go_by_their_bits_alone
}
