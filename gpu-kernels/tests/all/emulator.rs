//! The suite in the emulator: no GPU, and every access checked.

use cuda_std::emulator::Emulator;
use gpu_kernels::emulated::EmulatedStream;
use gpu_kernels::suite;

/// The seed of the data and of the order of threads and blocks. The first run of [`mutations`](super::mutations) has
/// another.
const SEED: u64 = 1;

/// Makes a test of each test of the suite.
macro_rules! in_the_emulator {
    ($($test:ident)*) => { $(
        #[test]
        fn $test() {
            suite::$test(&EmulatedStream::new(Emulator::new(SEED).threads(2)), SEED);
        }
    )* };
}

gpu_kernels::tests_of_the_suite!(in_the_emulator);
