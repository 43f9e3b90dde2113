//! Races within a block, found for every seed.

use cuda_std::emulator::{AccessKind, Emulator, Fault};
use cuda_std::prelude::*;

use super::{SEEDS, at, block, faults, message};

/// The two threads of a race, the lower one first.
fn threads(fault: &Fault) -> (u32, u32) {
    let Fault::Race { at, other, .. } = fault else { panic!("{fault}") };
    (at.thread.min(other.thread), at.thread.max(other.thread))
}

fn word() -> Shared<u32> {
    shared::dynamic_shared_mem()
}

#[test]
fn lanes_of_a_warp_race_like_any_threads() {
    let line = line!() + 4;
    let exchange = |sync: bool| {
        move || unsafe {
            let lane = warp::lane_id();
            word().add(lane).store(lane);
            if sync {
                warp::sync_warp();
            }
            word().add(lane ^ 1).load();
        }
    };
    for seed in SEEDS {
        block(seed, 32, exchange(true)).unwrap();
    }
    for fault in faults(32, exchange(false)) {
        if let Fault::Uninitialized { .. } = fault {
            continue; // The reader came first.
        }
        let (low, high) = threads(&fault);
        assert_eq!(low ^ 1, high);
        let Fault::Race { at, access, other } = &fault else { panic!("{fault}") };
        assert_eq!((access.kind, other.kind), (AccessKind::Load, AccessKind::Store));
        assert_eq!((at.site.unwrap().line(), other.site.line()), (line + 4, line));
    }
}

#[test]
fn a_race_names_both_threads_and_both_places() {
    let fault = block(3, 64, || unsafe {
        match thread::thread_idx_x() {
            3 => word().store(1),
            40 => word().store(2),
            _ => {}
        }
    })
    .unwrap_err();
    let (one, other) = if message(&fault).contains("thread 40, at") { (40, 3) } else { (3, 40) };
    let Fault::Race { at, .. } = &fault else { panic!("{fault}") };
    let (one, other) = if at.thread == one { (one, other) } else { (other, one) };
    assert_eq!(
        message(&fault),
        format!(
            "kernel `kernel`, block (0, 0), thread {one}, at races.rs: store of 4 bytes at byte 0 of 1024 of shared \
             memory races with the store by block (0, 0), thread {other}, at races.rs; no barrier, sync_warp or \
             fence orders the two"
        )
    );
}

#[test]
fn a_read_before_a_write_is_a_race_for_every_order() {
    // All read, one writes without waiting for the others: whoever comes first.
    for fault in faults(64, || unsafe {
        if thread::thread_idx_x() == 0 {
            word().store(1);
        }
        thread::sync_threads();
        word().load();
        if thread::thread_idx_x() == 17 {
            word().store(2);
        }
    }) {
        let (low, high) = threads(&fault);
        assert!(low != high && (low == 17 || high == 17), "{fault}");
    }
}

#[test]
fn shuffles_and_votes_order_nothing() {
    let kernel = |meet: fn()| {
        move || unsafe {
            let lane = warp::lane_id();
            word().add(lane).store(lane);
            meet();
            word().add(31 - lane).load();
        }
    };
    let meetings: [fn(); 5] = [
        || unsafe {
            warp::shuffle_xor(0_u32, 1);
        },
        || unsafe {
            warp::ballot(true);
        },
        || unsafe {
            warp::reduce_add(1);
        },
        || unsafe {
            warp::match_any(1);
        },
        || unsafe {
            warp::sum(1_u32, 32);
        },
    ];
    for meet in meetings {
        for fault in faults(32, kernel(meet)) {
            let (low, high) = threads(&fault);
            assert_eq!(low, 31 - high);
        }
    }
    for seed in SEEDS {
        block(seed, 32, kernel(|| unsafe { warp::sync_warp() })).unwrap();
    }
}

#[test]
fn sync_warp_orders_the_lanes_that_take_part_only() {
    let kernel = |writer: u32| {
        move || unsafe {
            let lane = warp::lane_id();
            if lane == writer {
                word().store(1);
            }
            if lane < 8 {
                warp::sync_warp();
            }
            if lane == 7 {
                word().load();
            }
        }
    };
    for seed in SEEDS {
        block(seed, 32, kernel(2)).unwrap();
        let fault = block(seed, 32, kernel(8)).unwrap_err();
        assert!(matches!(fault, Fault::Uninitialized { .. }) || threads(&fault) == (7, 8), "{fault}");
    }
}

#[test]
fn sync_warp_does_not_order_warps() {
    for fault in faults(64, || unsafe {
        word().store(0);
        warp::sync_warp();
    }) {
        let (low, high) = threads(&fault);
        assert!(low < high);
    }
    for seed in SEEDS {
        let fault = block(seed, 64, || unsafe {
            if thread::thread_idx_x() == 5 {
                word().store(0);
            }
            warp::sync_warp();
            if thread::thread_idx_x() == 37 {
                word().store(1);
            }
        });
        assert_eq!(threads(&fault.unwrap_err()), (5, 37));
    }
}

#[test]
fn barriers_order_the_block_each_time() {
    let kernel = |rounds: u32, last: bool| {
        move || unsafe {
            let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
            word().add(thread).store(thread);
            for _ in 0..rounds {
                thread::sync_threads();
                let value = word().add((thread + 1) % threads).load();
                thread::sync_threads();
                word().add(thread).store(value);
            }
            if last {
                thread::sync_threads();
            }
            let value = word().add((thread + 33) % threads).load();
            if last && value != (thread + 33 + rounds) % threads {
                panic!("thread {thread} reads an old value");
            }
        }
    };
    for seed in SEEDS {
        block(seed, 96, kernel(5, true)).unwrap();
        let fault = block(seed, 96, kernel(5, false)).unwrap_err();
        let (low, high) = threads(&fault);
        assert!(high - low == 33 || low + 96 - high == 33, "{fault}");
    }
}

#[test]
fn neighboring_bytes_do_not_race() {
    let bytes = || shared::dynamic_shared_mem::<u8>();
    for seed in SEEDS {
        block(seed, 64, || unsafe { bytes().add(thread::thread_idx_x()).store(1) }).unwrap();
        let fault =
            block(seed, 64, || unsafe { bytes().add(thread::thread_idx_x() / 2).store(1) }).unwrap_err();
        let (low, high) = threads(&fault);
        assert_eq!(low / 2, high / 2);
    }
}

#[test]
fn atomics_race_with_plain_accesses_only() {
    let count = |barrier: bool| {
        move || unsafe {
            if thread::thread_idx_x() == 0 {
                word().store(0);
            }
            thread::sync_threads();
            word().atomic_add(1);
            if barrier {
                thread::sync_threads();
            }
            let all = word().load();
            if all != thread::block_dim_x() {
                panic!("{all}");
            }
        }
    };
    for seed in SEEDS {
        block(seed, 64, count(true)).unwrap();
        let fault = block(seed, 64, count(false)).unwrap_err();
        assert!(matches!(&fault, Fault::Race { .. } | Fault::Panic { .. }), "{fault}");
    }
    for fault in faults(2, || unsafe {
        if thread::thread_idx_x() == 0 {
            word().store(0);
        } else {
            word().atomic_add(1);
        }
    }) {
        assert!(matches!(fault, Fault::Race { .. } | Fault::Uninitialized { .. }), "{fault}");
    }
}

#[test]
fn global_memory_races_within_a_block() {
    for seed in SEEDS {
        let emulator = Emulator::new(seed);
        let values = emulator.upload("values", &[0_u32; 64]);
        let launch = |barrier: bool| {
            emulator.launch("kernel", (1, 1), 64, 0, || unsafe {
                let thread = thread::thread_idx_x();
                global::store(at(&values, thread), thread);
                if barrier {
                    thread::sync_threads();
                }
                global::load(at(&values, 63 - thread));
            })
        };
        launch(true).unwrap();
        let fault = launch(false).unwrap_err();
        let (low, high) = threads(&fault);
        assert_eq!(low, 63 - high);
        assert!(message(&fault).contains(" of 4 bytes at `values` +"), "{fault}");
    }
}

#[test]
fn read_only_loads_are_of_what_the_launch_does_not_write() {
    for seed in SEEDS {
        let emulator = Emulator::new(seed);
        let values = emulator.upload("values", &[0_u32; 64]);
        let launch = |written: u32| {
            emulator.launch("kernel", (1, 1), 64, 0, || unsafe {
                let thread = thread::thread_idx_x();
                if thread < 32 {
                    global::load_readonly(at(&values, thread));
                }
                thread::sync_threads();
                if thread == 40 {
                    global::store(at(&values, written), 1);
                }
            })
        };
        launch(32).unwrap();
        let fault = launch(31).unwrap_err();
        assert!(
            message(&fault).ends_with("one of them is a load of data that the launch must not write"),
            "a barrier does not help: {fault}"
        );
    }
}

#[test]
fn fences_order_relaxed_accesses_of_shared_memory() {
    const GIFT: u32 = 7;
    let hand_on = |fences: (bool, bool)| {
        move || unsafe {
            let (flag, gift) = (word(), word().add(1));
            let thread = thread::thread_idx_x();
            if thread == 0 {
                flag.store(0);
            }
            thread::sync_threads();
            if thread == 40 {
                gift.store(GIFT);
                if fences.0 {
                    thread::block_fence();
                }
                flag.store_relaxed(1);
            } else if thread == 0 {
                while flag.load_relaxed() == 0 {
                    thread::pause();
                }
                if fences.1 {
                    thread::block_fence();
                }
                assert_eq!(gift.load(), GIFT);
            }
        }
    };
    for seed in SEEDS {
        block(seed, 64, hand_on((true, true))).unwrap();
        for fences in [(true, false), (false, true)] {
            let fault = block(seed, 64, hand_on(fences)).unwrap_err();
            assert_eq!(threads(&fault), (0, 40), "{fault}");
        }
    }
}
