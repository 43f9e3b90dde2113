//! Every function of `cuda_std`, in the emulator, against plain Rust.

use cuda_std::emulator::Emulator;
use cuda_std_kernels::{Args, cases};

/// Runs all cases; the error says what is wrong with the first that is.
fn run(emulator: &Emulator) -> Result<(), String> {
    let (input, cases) = cases();
    let input = emulator.upload("input", &input);
    for case in cases {
        let output = emulator.upload("output", &case.before);
        let (grid, block, shared) = (case.launch.grid, case.launch.block, case.launch.shared);
        let kernel = || {
            let args = Args { input: input.as_ptr(), output: output.as_mut_ptr() };
            // SAFETY: the case's own launch.
            unsafe { (case.kernel)(args) }
        };
        emulator.launch(case.entry, grid, block, shared, kernel).map_err(|fault| fault.to_string())?;
        let after = output.read().map_err(|fault| fault.to_string())?;
        if let Some(wrong) = (0..after.len()).find(|&word| after[word] != case.after[word]) {
            let (found, expected) = (after[wrong], case.after[wrong]);
            return Err(format!("word {wrong} of {} is {found:#x}, not {expected:#x}", case.entry));
        }
    }
    Ok(())
}

#[test]
fn every_function_gives_its_answer_whatever_the_order_of_threads() {
    for seed in 0..8 {
        assert_eq!(run(&Emulator::new(seed)), Ok(()), "seed {seed}");
    }
}

#[test]
fn no_barrier_of_these_kernels_can_go() {
    let whole = Emulator::new(0);
    assert_eq!(run(&whole), Ok(()));
    let sites = whole.sites();
    assert_eq!(sites.len(), 3, "sync_threads twice, sync_warp once: {sites:?}");
    for site in sites {
        assert!(run(&Emulator::new(0).without(site)).is_err(), "nothing fails without {site}");
    }
}
