//! Several blocks: races between them, and progress of blocks that wait for each other.

use cuda_std::emulator::{Buffer, Emulator, Fault, Report};
use cuda_std::prelude::*;

use super::{SEEDS, at, message};

#[test]
fn blocks_that_write_the_same_race() {
    for seed in SEEDS {
        let emulator = Emulator::new(seed);
        let out = emulator.allocate::<u32>("out", 100);
        let launch = |stride: u32| {
            emulator.launch("kernel", (10, 1), 10, 0, || unsafe {
                let (block, thread) = (thread::block_idx_x(), thread::thread_idx_x());
                global::store(at(&out, block * stride + thread), block);
            })
        };
        launch(10).unwrap();
        let fault = launch(9).unwrap_err();
        let Fault::Race { at, other, .. } = &fault else { panic!("{fault}") };
        assert_eq!(at.block.0.abs_diff(other.block.0), 1);
        assert_eq!(9 * at.block.0 + at.thread, 9 * other.block.0 + other.thread);
        assert!(message(&fault).contains("at grids.rs: store of 4 bytes at `out` +"), "{fault}");
    }
}

#[test]
fn blocks_that_write_neighboring_bytes_do_not() {
    for seed in SEEDS {
        let emulator = Emulator::new(seed);
        let out = emulator.upload("out", &[0_u8; 32]);
        let launch = |reader: u32| {
            emulator.launch("kernel", (32, 1), 1, 0, || unsafe {
                let block = thread::block_idx_x();
                global::store(at(&out, block), block as u8);
                if block == reader {
                    // The bytes of blocks 4 to 7.
                    global::load(at(&out, 4).cast::<u32>());
                }
            })
        };
        launch(99).unwrap();
        assert!(out.read().unwrap().into_iter().eq(0..32));
        let fault = launch(6).unwrap_err();
        assert!(matches!(fault, Fault::Race { .. }), "{fault}");
    }
}

#[test]
fn a_read_only_load_and_a_store_of_another_block() {
    for seed in SEEDS {
        let emulator = Emulator::new(seed);
        let values = emulator.upload("values", &[0_u32; 64]);
        let launch = |written: u32| {
            emulator.launch("kernel", (20, 1), 32, 0, || unsafe {
                global::load_streaming(at(&values, warp::lane_id()));
                if thread::block_idx_x() == 9 && warp::lane_id() == 3 {
                    global::store(at(&values, written), 1);
                }
            })
        };
        launch(40).unwrap();
        let fault = launch(20).unwrap_err();
        assert!(matches!(fault, Fault::ReadOnly { .. }), "{fault}");
    }
}

/// A chain of blocks: each adds its number to the sum of the block before, which it waits for. Blocks take their place
/// in the chain in the order in which they begin. The sums are in the words that are waited for, or beside them.
unsafe fn chain(ticket: &Buffer<u32>, sums: &Buffer<u32>, ready: &Buffer<u32>, beside: bool) {
    unsafe {
        let place = shared::dynamic_shared_mem::<u32>();
        if thread::thread_idx_x() == 0 {
            place.store(atomic::add(at(ticket, 0), 1));
        }
        thread::sync_threads();
        let place = place.load();
        if thread::thread_idx_x() != 0 {
            return;
        }
        let mut before = 1;
        if place > 0 {
            loop {
                before = global::load_relaxed(at(ready, place - 1));
                if before > 0 {
                    break;
                }
                thread::nanosleep(100);
            }
            if beside {
                thread::block_fence();
                before = global::load(at(sums, place - 1));
            }
        }
        if beside {
            global::store(at(sums, place), before + place);
            thread::block_fence();
        }
        atomic::exchange(at(ready, place), before + place);
    }
}

#[test]
fn a_chain_of_blocks_passes_sums_in_atomic_words_only() {
    for seed in SEEDS {
        for threads in [1, 2] {
            let emulator = Emulator::new(seed).threads(threads);
            let launch = |beside: bool| {
                let ticket = emulator.upload("ticket", &[0]);
                let sums = emulator.allocate::<u32>("sums", 40);
                let ready = emulator.upload("ready", &[0; 40]);
                let kernel = || unsafe { chain(&ticket, &sums, &ready, beside) };
                emulator.launch("chain", (40, 1), 64, 4, kernel)?;
                ready.read()
            };
            let sums = launch(false).unwrap();
            assert!((0..40).all(|index| sums[index] == 1 + (0..=index as u32).sum::<u32>()));
            // A fence of a block orders nothing between blocks.
            let fault = launch(true).unwrap_err();
            assert!(matches!(fault, Fault::Race { .. }), "{fault}");
        }
    }
}

#[test]
fn a_block_that_waits_for_one_which_has_not_begun_is_stuck() {
    let emulator = Emulator::new(1).max_polls(1000);
    let ready = emulator.upload("ready", &[0; 40]);
    let fault = emulator.launch("kernel", (40, 1), 32, 0, || unsafe {
        let block = thread::block_idx_x();
        if block > 0 {
            while global::load_relaxed(at(&ready, block - 1)) == 0 {}
        }
        if warp::lane_id() == 0 {
            atomic::exchange(at(&ready, block), 1_u32);
        }
    });
    assert!(matches!(fault, Err(Fault::Deadlock { .. })), "{fault:?}");
}

/// A kernel with all kinds of turns: what it answers, and what was done.
fn mixture(seed: u64, threads: usize) -> (Vec<u32>, Report) {
    let emulator = Emulator::new(seed).threads(threads);
    let out = emulator.allocate("out", 30 * 4 * 96);
    let report = emulator
        .launch("mixture", (30, 4), 96, 4, || unsafe {
            let thread = thread::thread_idx_x();
            let order = shared::dynamic_shared_mem::<u32>();
            if thread == 0 {
                order.store(0);
            }
            thread::sync_threads();
            // In which order do the threads come by?
            let mine = order.atomic_add(1);
            let sum = warp::sum(mine, 8);
            let block = thread::block_idx_y() * thread::grid_dim_x() + thread::block_idx_x();
            global::store(at(&out, block * 96 + thread), sum);
        })
        .unwrap();
    (out.read().unwrap(), report)
}

#[test]
fn a_seed_decides_everything_on_any_number_of_threads() {
    for seed in SEEDS {
        let (answer, report) = mixture(seed, 1);
        assert_eq!(mixture(seed, 1), (answer.clone(), report.clone()));
        assert_eq!(mixture(seed, 2), (answer.clone(), report.clone()));
        assert_eq!(mixture(seed, 5), (answer.clone(), report));
        assert_ne!(mixture(seed + 1, 1).0, answer);
    }
}

#[test]
fn a_seed_decides_which_fault_is_reported() {
    let fault = |seed, threads| {
        let emulator = Emulator::new(seed).threads(threads);
        let out = emulator.allocate::<u32>("out", 1000);
        let launch = emulator.launch("kernel", (100, 1), 64, 0, || unsafe {
            // Many races, within blocks and between them.
            global::store(at(&out, thread::index_1d() % 1000), 1);
        });
        let message = launch.unwrap_err().to_string();
        let (place, _) = message.split_once(" bytes (element").unwrap();
        place.to_owned()
    };
    for seed in SEEDS {
        assert_eq!(fault(seed, 1), fault(seed, 1));
        assert_eq!(fault(seed, 1), fault(seed, 2));
        assert_eq!(fault(seed, 1), fault(seed, 3));
    }
}

#[test]
fn a_fault_is_reported_rather_than_the_wait_for_its_block() {
    for seed in SEEDS {
        for threads in [1, 2, 4] {
            let emulator = Emulator::new(seed).threads(threads);
            let ticket = emulator.upload("ticket", &[0]);
            let ready = emulator.upload("ready", &[0; 40]);
            let fault = emulator.launch("kernel", (40, 1), 1, 0, || unsafe {
                let place = atomic::add(at(&ticket, 0), 1);
                assert!(place != 9, "the tenth block fails");
                while place > 0 && global::load_relaxed(at(&ready, place - 1)) == 0 {
                    thread::nanosleep(100);
                }
                atomic::exchange(at(&ready, place), 1_u32);
            });
            assert!(matches!(fault, Err(Fault::Panic { .. })), "{fault:?}");
        }
    }
}
