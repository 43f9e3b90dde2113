//! No header, however it lies, makes a reader ask for more memory than the file could fill.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{body, damaged, seeds};

/// The system's allocator, which remembers the largest request.
struct Remembering;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Remembering {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Remembering = Remembering;

/// The one test of this file, since all tests of a process share its allocator.
#[test]
fn a_reader_asks_for_no_more_than_the_file_could_fill() {
    for seed in seeds() {
        // A byte widens to a f32 or, with its line feed, to a u64; a growing list asks for twice what it holds.
        let allowed = 8 * seed.bytes.len() + 1024;
        for bytes in damaged(seed) {
            LARGEST.store(0, Ordering::Relaxed);
            body(seed)(&bytes);
            let asked = LARGEST.load(Ordering::Relaxed);
            assert!(asked <= allowed, "{}: asked for {asked} bytes, {allowed} allowed", seed.name);
        }
    }
}
