//! The kernel suite on a device: the tests that the emulator runs, with the same results.

use gpu_kernels::suite;
use jasper_cuda::Stream;

/// Defines a test for each test of the suite, run with several seeds.
macro_rules! on_the_device {
    ($($test:ident)*) => { $(
        #[test]
        fn $test() {
            let Some(context) = crate::common::context() else { return };
            let stream = Stream::new(&context).unwrap();
            for seed in 0..4 {
                suite::$test(&stream, seed);
            }
        }
    )* };
}

gpu_kernels::tests_of_the_suite!(on_the_device);
