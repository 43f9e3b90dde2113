//! Kernels that are right: the same answers as plain code, for every seed.

use cuda_std::emulator::{Buffer, Emulator};
use cuda_std::prelude::*;
use half::f16;

use super::{SEEDS, at, block};

/// Exclusive sums over a block, by warps and then over warps.
pub unsafe fn scan(from: &Buffer<u32>, to: &Buffer<u32>) {
    unsafe {
        let (thread, lane) = (thread::thread_idx_x(), warp::lane_id());
        let sums = shared::dynamic_shared_mem::<u32>();
        let mine = global::load_readonly(at(from, thread::index_1d()));
        let mut sum = mine;
        let mut distance = 1;
        while distance < 32 {
            let (below, inside) = warp::shuffle_up(sum, distance);
            sum += if inside { below } else { 0 };
            distance *= 2;
        }
        if lane == 31 {
            sums.add(thread / 32).store(sum);
        }
        thread::sync_threads();
        let mut before = 0;
        for warp in 0..thread / 32 {
            before += sums.add(warp).load();
        }
        global::store(at(to, thread::index_1d()), before + sum - mine);
    }
}

#[test]
fn a_scan() {
    for seed in SEEDS {
        let emulator = Emulator::new(seed);
        let values: Vec<u32> = (0..5 * 256).map(|index| index * 7 % 31).collect();
        let from = emulator.upload("from", &values);
        let to = emulator.allocate("to", values.len());
        let report = emulator.launch("scan", (5, 1), 256, 32, || unsafe { scan(&from, &to) }).unwrap();
        for (values, sums) in values.chunks(256).zip(to.read().unwrap().chunks(256)) {
            assert!((0..256).all(|index| sums[index] == values[..index].iter().sum::<u32>()));
        }
        assert_eq!((report.blocks, report.barriers, report.warp_operations), (5, 5, 5 * 8 * 5));
    }
}

/// Sorts 64 words in shared memory by one warp, each lane two of them.
pub unsafe fn bitonic_sort(values: &Buffer<u32>) {
    unsafe {
        let lane = warp::lane_id();
        let words = shared::dynamic_shared_mem::<u32>();
        for index in [lane, lane + 32] {
            words.add(index).store(global::load(at(values, index)));
        }
        let mut size = 2;
        while size <= 64 {
            let mut distance = size / 2;
            while distance > 0 {
                warp::sync_warp();
                let low = 2 * lane - lane % distance;
                let (a, b) = (words.add(low).load(), words.add(low + distance).load());
                if (a > b) == (low & size == 0) {
                    words.add(low).store(b);
                    words.add(low + distance).store(a);
                }
                distance /= 2;
            }
            size *= 2;
        }
        warp::sync_warp();
        for index in [lane, lane + 32] {
            global::store(at(values, index), words.add(index).load());
        }
    }
}

#[test]
fn a_sort() {
    for seed in SEEDS {
        let emulator = Emulator::new(seed);
        let values: Vec<u32> = (0..64).map(|index| index * 37 % 64).collect();
        let buffer = emulator.upload("values", &values);
        emulator.launch("sort", (1, 1), 32, 256, || unsafe { bitonic_sort(&buffer) }).unwrap();
        assert!(buffer.read().unwrap().into_iter().eq(0..64));
    }
}

/// Counts values: lanes with the same value elect one to add for all.
unsafe fn histogram(values: &Buffer<u32>, counts: &Buffer<u32>) {
    unsafe {
        let (thread, lane) = (thread::thread_idx_x(), warp::lane_id());
        let mine = shared::dynamic_shared_mem::<u32>();
        if thread < 64 {
            mine.add(thread).store(0);
        }
        thread::sync_threads();
        let value = global::load_readonly(at(values, thread::index_1d()));
        let same = warp::match_any(value);
        if same.trailing_zeros() == lane {
            mine.add(value).atomic_add(same.count_ones());
        }
        thread::sync_threads();
        if thread < 64 {
            atomic::add(at(counts, thread), mine.add(thread).load());
        }
    }
}

#[test]
fn a_histogram() {
    for seed in SEEDS {
        for threads in [1, 2] {
            let emulator = Emulator::new(seed).threads(threads);
            let values: Vec<u32> = (0..20 * 128).map(|index: u32| index * index % 61).collect();
            let from = emulator.upload("values", &values);
            let counts = emulator.upload("counts", &[0; 64]);
            let kernel = || unsafe { histogram(&from, &counts) };
            emulator.launch("histogram", (20, 1), 128, 256, kernel).unwrap();
            let expected: Vec<u32> =
                (0..64).map(|value| values.iter().filter(|&&other| other == value).count() as u32).collect();
            assert_eq!(counts.read().unwrap(), expected);
        }
    }
}

#[test]
fn collectives_of_a_partial_warp() {
    for seed in SEEDS {
        block(seed, 40, || unsafe {
            let (thread, lane) = (thread::thread_idx_x(), warp::lane_id());
            // The second warp has 8 lanes: those that are not there take no part.
            let all = if thread < 32 { u32::MAX } else { 0xff };
            assert_eq!(warp::ballot(true), all);
            assert_eq!(warp::reduce_min(lane ^ 5), 0);
            assert_eq!(warp::reduce_or(1 << lane), all);
            let value = warp::shuffle(u64::from(lane) << 40, lane ^ 3);
            assert_eq!(value, u64::from(lane ^ 3) << 40);
            assert!(warp::all(lane < 32) && !warp::any(lane == 32));
        })
        .unwrap();
    }
}

#[test]
fn sums_are_added_in_the_order_of_the_butterfly() {
    let value = |lane: u32| 1.0 / (lane as f32 + 3.0);
    for width in [2, 8, 32] {
        let mut sums: Vec<f32> = (0..32).map(value).collect();
        let mut distance = width as usize / 2;
        while distance > 0 {
            sums = (0..32).map(|lane| sums[lane] + sums[lane ^ distance]).collect();
            distance /= 2;
        }
        block(1, 32, || unsafe {
            let lane = warp::lane_id();
            let sum: f32 = warp::sum(value(lane), width);
            assert_eq!(sum.to_bits(), sums[lane as usize].to_bits());
        })
        .unwrap();
    }
}

/// Multiplies by the tensor cores what is put into fragments by the page of the instruction, and compares each sum.
#[test]
fn matrix_products_follow_the_layout_of_their_fragments() {
    let a = |row: u32, inner: u32| ((row * 5 + inner * 3) % 17) as i32 - 8;
    let b = |inner: u32, column: u32| ((inner * 7 + column * 2) % 13) as i32 - 6;
    let product = |row: u32, column: u32, unsigned: bool| -> i32 {
        let byte = |value: i32| if unsigned { value as u8 as i32 } else { value };
        (0..32).map(|k| byte(a(row, k)) * byte(b(k, column))).sum()
    };
    let bytes = |value: &dyn Fn(u32) -> i32| u32::from_le_bytes([0, 1, 2, 3].map(|place| value(place) as u8));
    block(1, 32, || unsafe {
        let (group, pair) = (warp::lane_id() / 4, warp::lane_id() % 4);
        let corners = [(group, 0), (group + 8, 0), (group, 1), (group + 8, 1)];
        let sums = [(group, 0), (group, 1), (group + 8, 0), (group + 8, 1)]
            .map(|(row, next)| (row, 2 * pair + next));
        let c = sums.map(|(row, column)| (row * 100 + column) as i32);

        let a_bytes = corners.map(|(row, far)| bytes(&|place| a(row, 4 * pair + place + 16 * far)));
        let b_bytes = [0, 1].map(|far| bytes(&|place| b(4 * pair + place + 16 * far, group)));
        let signed = mma::m16n8k32_i8(a_bytes, b_bytes, c);
        let unsigned = mma::m16n8k32_u8(a_bytes, b_bytes, c);
        for (place, (row, column)) in sums.into_iter().enumerate() {
            assert_eq!(signed[place], product(row, column, false) + c[place]);
            assert_eq!(unsigned[place], product(row, column, true) + c[place]);
        }

        let halves = |value: &dyn Fn(u32) -> i32| {
            let [low, high] = [0, 1].map(|place| f16::from_f32(value(place) as f32).to_bits());
            u32::from(low) | u32::from(high) << 16
        };
        let a_halves = corners.map(|(row, far)| halves(&|place| a(row, 2 * pair + place + 8 * far)));
        let b_halves = [0, 1].map(|far| halves(&|place| b(2 * pair + place + 8 * far, group)));
        let floats = mma::m16n8k16_f16(a_halves, b_halves, c.map(|sum| sum as f32));
        for (place, (row, column)) in sums.into_iter().enumerate() {
            let expected = (0..16).map(|k| a(row, k) * b(k, column)).sum::<i32>() + c[place];
            assert_eq!(floats[place], expected as f32);
        }
    })
    .unwrap();
}
