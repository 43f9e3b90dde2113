//! Barriers, collectives and deadlocks.

use cuda_std::emulator::{Emulator, Fault, Waiting};
use cuda_std::prelude::*;

use super::{SEEDS, block, faults, message};

fn groups(fault: &Fault) -> Vec<Waiting> {
    match fault {
        Fault::Deadlock { groups, .. } | Fault::PartialBarrier { groups, .. } => groups.clone(),
        _ => panic!("{fault}"),
    }
}

#[test]
fn a_barrier_reached_by_a_part_of_the_block() {
    for fault in faults(96, || {
        if thread::thread_idx_x() < 40 {
            unsafe { thread::sync_threads() };
        }
    }) {
        assert_eq!(
            message(&fault),
            "kernel `kernel`, block (0, 0): a barrier was reached by a part of the block:\n  threads 0..=39 wait at \
             sync_threads (at synchronization.rs)\n  threads 40..=95 have returned"
        );
    }
}

#[test]
fn a_deadlock_lists_what_threads_wait_for() {
    for fault in faults(64, || unsafe {
        match thread::thread_idx_x() {
            0..16 => warp::sync_warp(),
            16..32 => {
                warp::shuffle_xor(1_u32, 1);
            }
            63 => {}
            _ => thread::sync_threads(),
        }
    }) {
        assert_eq!(
            message(&fault),
            "kernel `kernel`, block (0, 0) is stuck:\n  threads 0..=15 wait at sync_warp of the whole warp (at \
             synchronization.rs)\n  threads 16..=31 wait at shuffle_xor of the whole warp (at synchronization.rs)\n  \
             threads 32..=62 wait at sync_threads (at synchronization.rs)\n  thread 63 has returned"
        );
        assert_eq!(groups(&fault)[2].threads, (32..63).collect::<Vec<_>>());
    }
}

#[test]
fn shuffles_read_lanes_that_take_part() {
    for fault in faults(32, || unsafe {
        if warp::lane_id() < 16 {
            warp::shuffle_xor(1_u32, 16);
        }
    }) {
        let Fault::InactiveLane { at, lane, mask } = &fault else { panic!("{fault}") };
        assert_eq!((at.thread + 16, *mask), (*lane, 0xffff));
    }
    // A lane that has returned takes no part.
    for fault in faults(32, || unsafe {
        if warp::lane_id() != 9 {
            warp::shuffle(1_u32, 9);
        }
    }) {
        assert!(
            message(&fault)
                .ends_with("the shuffle of lanes 0xfffffdff reads lane 9, which takes no part in it"),
            "{fault}"
        );
    }
    let sum = faults(16, || unsafe {
        warp::sum(1_u32, 32);
    });
    assert!(sum.iter().all(|fault| matches!(fault, Fault::InactiveLane { .. })), "{sum:?}");
}

#[test]
fn widths_are_powers_of_two() {
    let fault = block(1, 32, || unsafe {
        warp::shuffle_in_segment(1_u32, 1, 12);
    })
    .unwrap_err();
    assert!(message(&fault).ends_with("width (12) must be 1, 2, 4, 8, 16 or 32"), "{fault}");
}

#[test]
#[expect(clippy::if_same_then_else, reason = "two barriers at different places")]
fn lanes_of_a_warp_come_to_a_barrier_together() {
    for fault in faults(64, || unsafe {
        if thread::thread_idx_x() < 40 {
            thread::sync_threads();
        } else {
            thread::sync_threads();
        }
    }) {
        assert!(
            message(&fault).contains("thread 40, at synchronization.rs: diverged from thread 39 of its warp"),
            "{fault}"
        );
    }
    for seed in SEEDS {
        // Whole warps may come from different places.
        block(seed, 64, || unsafe {
            if thread::thread_idx_x() < 32 {
                thread::sync_threads();
            } else {
                thread::sync_threads();
            }
        })
        .unwrap();
    }
    let fault = block(1, 64, || unsafe {
        if thread::thread_idx_x() < 32 {
            thread::sync_threads();
        } else {
            thread::sync_threads_count(true);
        }
    })
    .unwrap_err();
    assert!(message(&fault).contains("waits at sync_threads_count, and thread 0 at sync_threads"), "{fault}");
}

#[test]
fn barriers_count_and_decide() {
    for seed in SEEDS {
        block(seed, 96, || unsafe {
            let thread = thread::thread_idx_x();
            assert_eq!(thread::sync_threads_count(thread.is_multiple_of(3)), 32);
            assert!(thread::sync_threads_or(thread == 70) && !thread::sync_threads_or(false));
        })
        .unwrap();
    }
}

#[test]
fn endless_polling_is_a_deadlock() {
    let emulator = Emulator::new(1).max_polls(1000);
    let flag = emulator.upload("flag", &[0_u32]);
    let fault = emulator
        .launch("spin", (1, 1), 32, 0, || unsafe { while global::load_relaxed(flag.as_ptr()) == 0 {} })
        .unwrap_err();
    assert!(message(&fault).contains("is stuck:"), "{fault}");
    assert!(
        message(&fault).contains("wait for another thread, again and again (at synchronization.rs)"),
        "{fault}"
    );
}
