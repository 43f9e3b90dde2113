//! Kernels without one of their synchronizations: those that are needed are found, and one that is not.

use cuda_std::emulator::{Emulator, Fault, Site};
use cuda_std::prelude::*;

use super::SEEDS;
use super::kernels::{bitonic_sort, scan};

/// The sites of `run`, and of these the ones that it does not need.
fn needless(run: impl Fn(&Emulator) -> Result<(), Fault>) -> (Vec<Site>, Vec<Site>) {
    let whole = Emulator::new(0);
    run(&whole).unwrap();
    let sites = whole.sites();
    let passes =
        |site: &Site| SEEDS.map(|seed| run(&Emulator::new(seed).without(site))).all(|run| run.is_ok());
    let needless = sites.iter().copied().filter(passes).collect();
    (sites, needless)
}

#[test]
fn each_synchronization_of_a_kernel_is_needed() {
    let (sites, needless) = needless(|emulator| {
        let from = emulator.upload("from", &[1; 256]);
        let to = emulator.allocate("to", 256);
        emulator.launch("scan", (1, 1), 256, 32, || unsafe { scan(&from, &to) })?;
        let values = emulator.upload("values", &(0..64).rev().collect::<Vec<u32>>());
        emulator.launch("sort", (1, 1), 32, 256, || unsafe { bitonic_sort(&values) }).map(|_| ())
    });
    assert_eq!((sites.len(), needless), (3, Vec::new()));
    assert!(sites.iter().all(|site| site.file().ends_with("kernels.rs")));
}

#[test]
fn unneeded_synchronization_is_found() {
    let line = line!() + 5;
    let (sites, needless) = needless(|emulator| {
        let kernel = || unsafe {
            let (thread, words) = (thread::thread_idx_x(), shared::dynamic_shared_mem::<u32>());
            words.add(thread).store(1);
            thread::sync_threads();
            words.add(63 - thread).load();
            warp::sync_warp();
            words.add(thread / 2).load();
            thread::sync_threads();
        };
        emulator.launch("kernel", (1, 1), 64, 256, kernel).map(|_| ())
    });
    let lines = |sites: Vec<Site>| sites.iter().map(|site| site.line()).collect::<Vec<_>>();
    assert_eq!(lines(sites), [line, line + 2, line + 4]);
    // Nothing is written after the barrier: there is nothing to order.
    assert_eq!(lines(needless), [line + 2, line + 4]);
}
