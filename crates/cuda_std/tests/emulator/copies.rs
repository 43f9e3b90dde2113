//! Asynchronous copies: nothing is there before the wait, and a barrier is needed for what others copied.

use cuda_std::emulator::{Buffer, Emulator, Fault};
use cuda_std::prelude::*;

use super::{SEEDS, at, told};

/// What a kernel that copies may leave out.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    Wait,
    Barrier,
}

/// Each thread copies 16 bytes in two groups, and sums what its neighbour copied first.
unsafe fn neighbours_sum(from: &Buffer<u32>, to: &Buffer<u32>, without: Without) {
    unsafe {
        let thread = thread::thread_idx_x();
        let threads = thread::block_dim_x();
        let chunks = shared::dynamic_shared_mem::<[u32; 4]>();
        async_copy::copy16(chunks.add(thread), at(from, 4 * thread).cast());
        async_copy::commit();
        async_copy::copy16(chunks.add(threads + thread), at(from, 0).cast());
        async_copy::commit();
        if without != Without::Wait {
            async_copy::wait::<1>();
        }
        if without != Without::Barrier {
            thread::sync_threads();
        }
        let chunk = chunks.add((thread + 1) % threads).load();
        global::store(at(to, thread), chunk.iter().sum());
        async_copy::wait::<0>();
        if chunks.add(threads + thread).load() != [0, 1, 2, 3] {
            panic!("not the second group");
        }
    }
}

fn run(seed: u64, without: Without) -> Result<Vec<u32>, Fault> {
    let emulator = Emulator::new(seed);
    let from = emulator.upload("from", &(0..256).collect::<Vec<u32>>());
    let to = emulator.allocate("to", 64);
    emulator.launch("neighbours_sum", (1, 1), 64, 2048, || unsafe { neighbours_sum(&from, &to, without) })?;
    to.read()
}

#[test]
fn data_arrives_at_the_wait() {
    let sums: Vec<u32> = (0..64).map(|thread| 16 * ((thread + 1) % 64) + 6).collect();
    for seed in SEEDS {
        assert_eq!(run(seed, Without::Nothing).unwrap(), sums);
        let fault = run(seed, Without::Wait).unwrap_err();
        assert!(matches!(fault, Fault::InFlight { .. }), "{fault}");
        assert!(told(&fault).ends_with("meets an asynchronous copy that was not waited for"), "{fault}");
        let fault = run(seed, Without::Barrier).unwrap_err();
        assert!(!matches!(fault, Fault::Panic { .. } | Fault::Stuck { .. }), "{fault}");
    }
}

#[test]
fn nothing_is_stored_where_a_copy_arrives() {
    let emulator = Emulator::new(1);
    let from = emulator.upload("from", &[7_u32; 4]);
    let launch = |wait: bool| {
        emulator.launch("kernel", (1, 1), 1, 16, || unsafe {
            let chunk = shared::dynamic_shared_mem::<[u32; 4]>();
            async_copy::copy16(chunk, from.as_ptr().cast());
            async_copy::commit();
            if wait {
                async_copy::wait::<0>();
            }
            chunk.cast::<u32>().store(1);
            if chunk.load() != [1, 7, 7, 7] {
                panic!("{:?}", chunk.load());
            }
        })
    };
    launch(true).unwrap();
    assert!(matches!(launch(false), Err(Fault::InFlight { .. })));
}

#[test]
fn a_copy_races_with_those_who_still_read() {
    for seed in SEEDS {
        let emulator = Emulator::new(seed);
        let from = emulator.upload("from", &[7_u32; 4]);
        let launch = |barrier: bool| {
            emulator.launch("kernel", (1, 1), 64, 16, || unsafe {
                let chunk = shared::dynamic_shared_mem::<[u32; 4]>();
                if thread::thread_idx_x() == 0 {
                    chunk.store([1; 4]);
                }
                thread::sync_threads();
                chunk.load();
                if barrier {
                    thread::sync_threads();
                }
                if thread::thread_idx_x() == 0 {
                    async_copy::copy16(chunk, from.as_ptr().cast());
                    async_copy::commit();
                    async_copy::wait::<0>();
                }
            })
        };
        launch(true).unwrap();
        let fault = launch(false).unwrap_err();
        assert!(matches!(fault, Fault::Race { .. } | Fault::InFlight { .. }), "{fault}");
    }
}
