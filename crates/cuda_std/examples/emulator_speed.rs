//! How fast the emulator is: warp operations, turns of threads, barriers and other units a second of one CPU.
//!
//! Times are those that the kernel of Linux counts for the thread, so that a busy machine disturbs them little.
//!
//! `cargo run --release --package jasper-cuda-std --example emulator_speed`

#![expect(clippy::undocumented_unsafe_blocks, reason = "the emulator checks what these kernels do")]

use std::fs;

use cuda_std::emulator::{Emulator, Fault, Report};
use cuda_std::prelude::*;

/// CPU time of this thread.
fn seconds() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts CPU time");
    text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).expect("nanoseconds")
        * 1e-9
}

/// Runs a launch, and prints its rates; `units` is how many of what `name` says it makes.
fn measure(name: &str, units: f64, launch: impl Fn() -> Result<Report, Fault>) -> Result<(), Fault> {
    let warm = launch()?;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = seconds();
        let report = launch()?;
        best = best.min(seconds() - start);
        assert_eq!(report, warm, "a seed decides everything");
    }
    let rate = |count: u64| count as f64 / best / 1e6;
    println!(
        "{name:28} {:7.3} s  {:6.2} M warp operations/s  {:6.1} M turns/s  {:7.3} M barriers/s  {:8.3} M units/s",
        best,
        rate(warm.warp_operations),
        rate(warm.turns),
        rate(warm.barriers),
        units / best / 1e6,
    );
    Ok(())
}

fn main() -> Result<(), Fault> {
    let emulator = Emulator::new(7);
    let rows: Vec<f32> = (0..1000 * 128).map(|index| (index % 251) as f32).collect();
    let rows = emulator.upload("rows", &rows);
    let ids: Vec<u32> = (0..20_000_u32).map(|index| index.wrapping_mul(2_654_435_761) % 1000).collect();
    let ids = emulator.upload("ids", &ids);
    let distances = emulator.allocate::<f32>("distances", 20_000);
    let words = emulator.upload("words", &vec![1_u32; 256 * 200]);

    for (name, whole) in [("distances, five shuffles", false), ("distances, warp_sum", true)] {
        measure(name, 20_000.0, || {
            emulator.launch("distances", (40, 1), 128, 0, || unsafe {
                let lane = warp::lane_id() as usize;
                let mut index = thread::index_1d() / 32;
                let query: [f32; 4] = global::load_readonly(rows.as_ptr().add(4 * lane).cast());
                while index < 20_000 {
                    let id = global::load_readonly(ids.as_ptr().add(index as usize)) as usize;
                    let row: [f32; 4] = global::load_streaming(rows.as_ptr().add(128 * id + 4 * lane).cast());
                    let part = row.iter().zip(query).fold(0.0, |sum, (a, b)| math::fma(a - b, a - b, sum));
                    let mut sum = part;
                    if whole {
                        sum = warp::warp_sum(warp::FULL_MASK, part, 32);
                    } else {
                        for distance in [16, 8, 4, 2, 1] {
                            sum += warp::warp_shuffle_xor(warp::FULL_MASK, sum, distance, 32).0;
                        }
                    }
                    if lane == 0 {
                        global::store(distances.as_mut_ptr().add(index as usize), sum);
                    }
                    index += 160;
                }
            })
        })?;
    }
    let rounds = 50;
    let threads = f64::from(rounds) * 200.0 * 256.0;
    measure("barriers and shared words", 2.0 * threads, || {
        emulator.launch("barriers", (200, 1), 256, 1024, || unsafe {
            let thread = thread::thread_idx_x();
            let shared = shared::dynamic_shared_mem::<u32>();
            let mut value = global::load(words.as_ptr().add(thread::index_1d() as usize));
            for _ in 0..rounds {
                shared.add(thread).store(value);
                thread::sync_threads();
                value = shared.add((thread + 1) % 256).load() + 1;
                thread::sync_threads();
            }
            global::store(words.as_mut_ptr().add(thread::index_1d() as usize), value);
        })
    })?;
    measure("sync_warp and shared words", 2.0 * threads, || {
        emulator.launch("sync_warp", (200, 1), 256, 1024, || unsafe {
            let (thread, lane) = (thread::thread_idx_x(), warp::lane_id());
            let shared = shared::dynamic_shared_mem::<u32>().add(thread - lane);
            let mut value = thread;
            for _ in 0..rounds {
                shared.add(lane).store(value);
                warp::sync_warp(warp::FULL_MASK);
                value = shared.add((lane + 1) % 32).load() + 1;
                warp::sync_warp(warp::FULL_MASK);
            }
        })
    })?;
    measure("shared loads, no meetings", threads, || {
        emulator.launch("loads", (200, 1), 256, 1024, || unsafe {
            let thread = thread::thread_idx_x();
            let shared = shared::dynamic_shared_mem::<u32>();
            shared.add(thread).store(thread);
            thread::sync_threads();
            let mut sum = 0;
            for round in 0..rounds {
                sum += shared.add((thread + round) % 256).load();
            }
            assert!(sum > 0);
        })
    })
}
