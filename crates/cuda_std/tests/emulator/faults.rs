//! Faults of single accesses, and their messages.

use cuda_std::emulator::{AccessKind, Address, Emulator, Fault};
use cuda_std::prelude::*;

use super::{at, block, faults, message};

#[test]
fn an_off_by_one_row_is_reported_with_its_place() {
    let emulator = Emulator::new(1);
    let rows = emulator.upload("rows", &[0.0_f32; 100 * 32]);
    let line = line!() + 3;
    let sum_row = |row: u32| unsafe {
        let element = row * 32 + warp::lane_id();
        let value = global::load(at(&rows, element));
        warp::sum(value, 32);
    };
    let launch = |rows: u32| emulator.launch("sum_rows", (rows, 1), 32, 0, || sum_row(thread::block_idx_x()));
    assert_eq!(launch(100).map(|report| report.blocks), Ok(100));
    let fault = launch(101).unwrap_err();
    let Fault::OutOfBounds { at, access } = &fault else { panic!("{fault}") };
    assert_eq!((&*at.kernel, at.block), ("sum_rows", (100, 0)));
    let site = at.site.expect("accesses have a place");
    assert!(site.file().ends_with("faults.rs") && site.line() == line, "{site}");
    let Address::Buffer { name, offset, element_bytes, len } = &access.address else { panic!("{access}") };
    assert_eq!((&**name, *element_bytes, *len), ("rows", 4, 3200));
    assert_eq!(*offset, i64::from(12800 + 4 * at.thread));
    assert_eq!((access.kind, access.bytes), (AccessKind::Load, 4));
    assert_eq!(
        message(&fault),
        format!(
            "kernel `sum_rows`, block (100, 0), thread {}, at faults.rs: load of 4 bytes at `rows` +{} bytes \
             (element {} of 3200) is out of bounds",
            at.thread,
            12800 + 4 * at.thread,
            3200 + at.thread
        )
    );
}

#[test]
fn accesses_outside_of_buffers_are_reported() {
    let emulator = Emulator::new(1);
    let launch = |address: usize| {
        emulator
            .launch("kernel", (1, 1), 1, 0, || unsafe { global::store(address as *mut u32, 1) })
            .unwrap_err()
    };
    assert_eq!(
        message(&launch(64)),
        "kernel `kernel`, block (0, 0), thread 0, at faults.rs: store of 4 bytes at address 0x40, and the emulator has \
         no buffer is out of bounds"
    );
    let buffer = emulator.upload("values", &[0_u64; 4]);
    let before = launch(buffer.as_ptr() as usize - 4);
    assert!(message(&before).contains("at `values` -4 bytes (element -1 of 4) is out of bounds"), "{before}");
    let address = buffer.as_ptr() as usize;
    drop(buffer);
    let after_drop = launch(address);
    assert!(message(&after_drop).ends_with("the emulator has no buffer is out of bounds"), "{after_drop}");
}

#[test]
fn the_address_must_be_a_multiple_of_the_size() {
    let emulator = Emulator::new(1);
    let values = emulator.upload("values", &[0_u32; 8]);
    let kernel = || unsafe { global::load(at(&values, 1).cast::<[u32; 4]>()) };
    let fault = emulator
        .launch("kernel", (1, 1), 1, 0, || {
            kernel();
        })
        .unwrap_err();
    assert!(
        message(&fault).ends_with(
            "load of 16 bytes at `values` +4 bytes (element 1 of 8) is misaligned; the address must be a multiple of 16"
        ),
        "{fault}"
    );
    let shared = block(1, 1, || unsafe { shared::dynamic_shared_mem::<u8>().add(2).cast().store(1_u32) });
    let fault = shared.unwrap_err();
    assert!(
        message(&fault).ends_with(
            "store of 4 bytes at byte 2 of 1024 of shared memory is misaligned; the address must be a multiple of 4"
        ),
        "{fault}"
    );
}

#[test]
fn shared_memory_ends_where_the_launch_says() {
    let past = |bytes: u32| {
        let emulator = Emulator::new(1);
        emulator.launch("kernel", (1, 1), 1, bytes, || unsafe {
            shared::dynamic_shared_mem().add(15).store(1_u32)
        })
    };
    assert_eq!(past(64).map(|report| report.blocks), Ok(1));
    let fault = past(60).unwrap_err();
    assert!(
        message(&fault).ends_with("store of 4 bytes at byte 60 of 60 of shared memory is out of bounds"),
        "{fault}"
    );
}

#[test]
fn uninitialized_bytes_are_not_read() {
    for fault in faults(32, || unsafe {
        let bytes = shared::dynamic_shared_mem::<u8>().add(4 * thread::thread_idx_x());
        bytes.store(1);
        bytes.add(1).store(1);
        bytes.add(3).store(1);
        bytes.cast::<u32>().load();
    }) {
        assert!(matches!(fault, Fault::Uninitialized { .. }), "{fault}");
        assert!(
            message(&fault).ends_with("of 1024 of shared memory reads what was never written"),
            "{fault}"
        );
    }
    let fault = block(1, 1, || unsafe {
        shared::dynamic_shared_mem::<u32>().atomic_add(1);
    })
    .unwrap_err();
    assert!(
        message(&fault).contains("atomic store of 4 bytes at byte 0 of 1024 of shared memory reads"),
        "{fault}"
    );
    let emulator = Emulator::new(1);
    let sums = emulator.allocate::<u64>("sums", 3);
    let add = || {
        emulator.launch("add", (1, 1), 1, 0, || unsafe {
            atomic::add(at(&sums, 2), 1);
        })
    };
    let fault = add().unwrap_err();
    assert!(
        message(&fault).contains("at `sums` +16 bytes (element 2 of 3) reads what was never written"),
        "{fault}"
    );
}

#[test]
fn the_host_reads_no_uninitialized_bytes() {
    let emulator = Emulator::new(1);
    let mut out = emulator.allocate::<u16>("out", 70);
    let write = |threads: u32| {
        emulator.launch("kernel", (1, 1), threads, 0, || unsafe {
            let index = thread::thread_idx_x();
            global::store(at(&out, index), index as u16);
        })
    };
    write(69).unwrap();
    let fault = out.read().unwrap_err();
    assert_eq!(
        fault.to_string(),
        "element 69 of `out` (70 elements) was never written; a launch must write all that is read"
    );
    write(70).unwrap();
    assert!(out.read().unwrap().into_iter().eq(0..70));
    out.fill(3);
    assert_eq!(out.read().unwrap(), [0x0303; 70]);
    out.write(&[7, 8]);
    assert_eq!(out.read().unwrap()[..3], [7, 8, 0x0303]);
}

#[test]
fn a_panic_of_the_kernel_is_a_fault_of_its_thread() {
    let fault = block(1, 64, || assert!(thread::thread_idx_x() != 40, "thread 40 gives up")).unwrap_err();
    assert_eq!(fault.to_string(), "kernel `kernel`, block (0, 0), thread 40: panicked: thread 40 gives up");
}

#[test]
fn a_fault_ends_the_launch_and_leaves_the_emulator_usable() {
    let emulator = Emulator::new(1);
    let out = emulator.upload("out", &[0_u32; 1]);
    for _ in 0..3 {
        let fault = emulator.launch("kernel", (100, 1), 64, 64, || unsafe {
            thread::sync_threads();
            shared::dynamic_shared_mem::<u32>().load();
        });
        assert!(matches!(fault, Err(Fault::Uninitialized { .. })), "{fault:?}");
        emulator
            .launch("kernel", (100, 1), 64, 64, || unsafe {
                atomic::add(at(&out, 0), 1);
            })
            .unwrap();
    }
    assert_eq!(out.read().unwrap(), [3 * 6400]);
}

#[test]
fn values_are_dropped_when_a_fault_ends_threads() {
    let held = std::sync::Arc::new(());
    let fault = block(1, 64, || {
        let mine = held.clone();
        assert!(thread::thread_idx_x() != 63);
        unsafe { thread::sync_threads() };
        drop(mine);
    });
    assert!(matches!(fault, Err(Fault::Panic { .. })), "{fault:?}");
    assert_eq!(std::sync::Arc::strong_count(&held), 1);
}

#[test]
fn invalid_launches_are_refused() {
    let launch =
        |grid, threads, shared| Emulator::new(1).launch("kernel", grid, threads, shared, || ()).map(|_| ());
    assert_eq!(launch((0, 1), 32, 0), Ok(()));
    assert_eq!(launch((1, 1), 1024, 227 << 10), Ok(()));
    let refused = |grid, threads, shared| launch(grid, threads, shared).unwrap_err().to_string();
    assert_eq!(refused((1, 1), 1025, 0), "kernel `kernel`: threads of a block (1025) must be 1 to 1024");
    assert_eq!(refused((1, 1), 0, 0), "kernel `kernel`: threads of a block (0) must be 1 to 1024");
    assert!(refused((1, 1), 32, 232_449).ends_with("bytes of shared memory (232449) must be at most 232448"));
    assert!(refused((1, 65_536), 32, 0).ends_with("blocks in y (65536) must be at most 65535"));
}

#[test]
#[should_panic = "functions of cuda_std run in kernels only"]
fn kernels_run_in_launches_only() {
    thread::thread_idx_x();
}
