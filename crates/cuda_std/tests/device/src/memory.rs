//! `global` and `shared`: every width of load and store, every kind of load. Whatever way the bytes take, the output is
//! a copy of the input.

use cuda_std::prelude::*;
use cuda_std::{Value, Word};

use crate::Args;
#[cfg(not(target_arch = "nvptx64"))]
use crate::{Case, LaunchConfig};

/// Bytes that each type has room for: four values of the widest.
const PART: usize = 64;
/// Types that are copied as values, and as words.
const VALUES: usize = 9;
const WORDS: usize = 4;
/// Bytes that a thread writes.
const ROW: usize = (VALUES + WORDS) * PART;
/// Bytes from the input of one thread to that of the next: the inputs overlap.
const STEP: usize = 16;

/// A thread's bytes: where they come from, where they go, and 16 bytes of shared memory of its own.
#[derive(Clone, Copy)]
struct Row {
    input: *const u8,
    output: *mut u8,
    room: Shared<u8>,
}

impl Row {
    /// Copies four values of part `part` by the loads and stores that every value has.
    #[inline(always)]
    unsafe fn copy_values<T: Value>(self, part: usize) {
        // SAFETY: a part has room for four values of any type, aligned to 16 bytes as the rows are.
        unsafe {
            let (input, output) =
                (self.input.add(part * PART).cast::<T>(), self.output.add(part * PART).cast::<T>());
            let room = self.room.cast::<T>();
            room.store(global::load(input));
            global::store(output, room.load());
            global::store(output.add(1), global::load(input.add(1)));
            global::store(output.add(2), global::load_readonly(input.add(2)));
            global::store(output.add(3), global::load_streaming(input.add(3)));
        }
    }

    /// Copies four values of part `part` by the loads and stores that have an order.
    #[inline(always)]
    unsafe fn copy_words<T: Word>(self, part: usize) {
        // SAFETY: as above.
        unsafe {
            let (input, output) =
                (self.input.add(part * PART).cast::<T>(), self.output.add(part * PART).cast::<T>());
            for i in 0..4 {
                let room = self.room.cast::<T>();
                room.store_relaxed(global::load_relaxed(input.add(i)));
                global::store_relaxed(output.add(i), room.load_relaxed());
            }
        }
    }
}

/// Every thread copies its bytes, type by type.
///
/// # Safety
/// Launched as [`cases`](crate::cases) says.
#[kernel(max_threads = 32)]
pub unsafe fn memory(args: Args) {
    let thread = thread::thread_idx_x();
    // SAFETY: the launch has `ROW` bytes of output and 16 of shared memory a thread; of input, `STEP` bytes a thread
    // and `ROW` more.
    unsafe {
        let row = Row {
            input: args.input.cast::<u8>().add(thread as usize * STEP),
            output: args.output.cast::<u8>().add(thread as usize * ROW),
            room: shared::dynamic_shared_mem::<[u32; 4]>().add(thread).cast(),
        };
        global::prefetch_l2(row.input.add(ROW / 2));
        row.copy_values::<u8>(0);
        row.copy_values::<i8>(1);
        row.copy_values::<u16>(2);
        row.copy_values::<u32>(3);
        row.copy_values::<i32>(4);
        row.copy_values::<f32>(5);
        row.copy_values::<u64>(6);
        row.copy_values::<[u32; 2]>(7);
        row.copy_values::<[u32; 4]>(8);
        row.copy_words::<u32>(VALUES);
        row.copy_words::<f32>(VALUES + 1);
        row.copy_words::<u64>(VALUES + 2);
        row.copy_words::<[u32; 2]>(VALUES + 3);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn case(input: &[u32]) -> Case {
    let launch = LaunchConfig { grid: (1, 1), block: 32, shared: 32 * 16 };
    let sizes: [usize; VALUES + WORDS] = [1, 1, 2, 4, 4, 4, 8, 8, 16, 4, 4, 8, 8];
    let rows = launch.threads().flat_map(|(_, _, thread)| {
        let words = &input[thread as usize * STEP / 4..];
        (0..ROW / 4).map(move |word| {
            let copied = word % (PART / 4) < sizes[word / (PART / 4)];
            if copied { words[word] } else { 0 }
        })
    });
    Case::new("memory", memory, launch, rows.collect(), &[], &[])
}
