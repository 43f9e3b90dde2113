//! No header makes a reader allocate more memory than the file could fill.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::common::{body, damaged, seeds};

/// The system's allocator, which records the largest request of each thread.
struct Recording;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn record(size: usize) {
    // Not available while a thread ends.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Recording {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        record(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        record(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        record(size);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Recording = Recording;

#[test]
fn readers_allocate_no_more_than_the_file_could_fill() {
    for seed in seeds() {
        // A byte becomes an f32 or, with its line feed, a u64, and a growing vector doubles.
        let allowed = 8 * seed.bytes.len() + 1024;
        for bytes in damaged(seed) {
            LARGEST.set(0);
            body(seed)(&bytes);
            let asked = LARGEST.get();
            assert!(asked <= allowed, "{}: asked for {asked} bytes, {allowed} allowed", seed.name);
        }
    }
}
