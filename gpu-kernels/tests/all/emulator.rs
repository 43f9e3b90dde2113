//! The suite in the emulator: no GPU, and every access checked.

use cuda_std::emulator::Emulator;
use gpu_kernels::emulated::EmulatedStream;
use gpu_kernels::suite;

/// Makes a test of each test of the suite: it runs with several orders of threads and blocks.
macro_rules! in_the_emulator {
    ($($test:ident)*) => { $(
        #[test]
        fn $test() {
            for seed in 0..2 {
                suite::$test(&EmulatedStream::new(Emulator::new(seed).threads(2)), seed);
            }
        }
    )* };
}

gpu_kernels::tests_of_the_suite!(in_the_emulator);
