//! Every function of `cuda_std`, in the emulator, against plain Rust.

use cuda_std::emulator::Emulator;
use cuda_std_kernels::{Args, cases};

#[test]
fn every_function_gives_its_answer_under_every_order_of_threads() {
    for seed in 0..8 {
        let emulator = Emulator::new(seed);
        let (input, cases) = cases();
        let input = emulator.upload("input", &input);
        for case in cases {
            let output = emulator.upload("output", &case.before);
            let args = Args { input: input.as_ptr(), output: output.as_mut_ptr() };
            let (grid, block, shared) = (case.launch.grid, case.launch.block, case.launch.shared);
            // SAFETY: the case's own launch.
            let launched = emulator.launch(case.entry, grid, block, shared, || unsafe { (case.kernel)(args) });
            launched.unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
            let after = output.read().unwrap();
            let wrong = after.iter().zip(&case.after).position(|(found, expected)| found != expected);
            assert_eq!(wrong, None, "seed {seed}: the first word that {} has wrong", case.entry);
        }
    }
}
