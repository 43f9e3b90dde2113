//! Tests of what the host asks of the driver, with a stub of the driver in its place: no GPU.
//!
//! Each test runs in a child process that finds the stub first. The stub is compiled by `cc`.

#![cfg(target_os = "linux")]

mod allocations;

use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use gpu_kernels::rows::{QuantizeSq8, QuantizeSq8Args};
use gpu_kernels::{DevicePtr, DevicePtrMut, Stream as _};
use jasper_core::ElementKind;
use jasper_cuda::{Context, Error, Module, PeakMemory, PoolRetention, Stream};

/// Set in the child process.
const CHILD: &str = "JASPER_STUB";

/// Runs the test `name` in a child process with the stub, and returns false; returns true in that process.
fn has_stub(name: &str, environment: &[(&str, &str)]) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stub/driver.c");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let library = folder.path().join("libcuda.so.1");
    let compiled =
        Command::new(compiler).args(["-shared", "-fPIC", "-w", source, "-o"]).arg(&library).status();
    assert!(compiled.unwrap().success());
    let output = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("LD_LIBRARY_PATH", folder.path())
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    false
}

fn stream() -> Stream {
    Stream::new(&Context::open(0).unwrap()).unwrap()
}

#[test]
fn a_module_is_unloaded_in_its_context() {
    if !has_stub("a_module_is_unloaded_in_its_context", &[]) {
        return;
    }
    let context = Context::open(0).unwrap();
    let (one, last) = (Module::load(&context, "").unwrap(), Module::load(&context, "").unwrap());
    // No context is current in a new thread.
    let in_a_thread = |module: Module| {
        let unload = move || {
            drop(module);
            jasper_driver::take_failure()
        };
        thread::spawn(unload).join().unwrap()
    };
    assert_eq!(in_a_thread(one), None);
    // The module holds the context alone: it must be unloaded first.
    drop(context);
    assert_eq!(in_a_thread(last), None);
}

#[test]
fn copies_run_while_another_is_filled() {
    if !has_stub("copies_run_while_another_is_filled", &[]) {
        return;
    }
    let (send, done) = mpsc::channel();
    thread::spawn(move || {
        let stream = stream();
        let (mut outer, inner) = (stream.allocate::<u32>(4).unwrap(), stream.upload(&[1, 2, 3, 4]).unwrap());
        let fill = |_, out: &mut [u32]| {
            stream.read_range(&inner, 0..4, 1, |range, values| out[range].copy_from_slice(values))?;
            stream.upload(out).map(drop)
        };
        stream.write::<u32, Error>(&mut outer, 4, 1, fill).unwrap();
        send.send(stream.download(&outer).unwrap()).unwrap();
    });
    assert_eq!(done.recv_timeout(Duration::from_secs(60)).as_deref(), Ok(&[1, 2, 3, 4][..]));
}

#[test]
fn a_device_without_memory_pools_allocates() {
    if !has_stub("a_device_without_memory_pools_allocates", &[("STUB_WITHOUT_POOLS", "1")]) {
        return;
    }
    let stream = stream();
    let context = stream.context();
    let retention = PoolRetention::new(context).unwrap();
    assert!(PeakMemory::new(context).unwrap().is_none());
    let buffer = stream.upload(&[1_u64, 2, 3]).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [1, 2, 3]);
    assert!(context.free_memory().unwrap().device > 0);
    drop((buffer, retention));
    assert_eq!(jasper_driver::take_failure(), None);
}

#[test]
fn a_launch_of_a_known_kernel_allocates_nothing() {
    if !has_stub("a_launch_of_a_known_kernel_allocates_nothing", &[]) {
        return;
    }
    let stream = stream();
    let launch = || {
        let args = QuantizeSq8Args {
            vectors: DevicePtr::null(),
            centers: DevicePtr::null(),
            bytes: DevicePtrMut::null(),
            rows_len: 1,
            row_bytes: 16,
            row_words: 4,
            scale: 1.0,
        };
        // SAFETY: the stub runs nothing.
        unsafe { stream.launch(&QuantizeSq8 { element: ElementKind::F32 }, args) }.unwrap();
    };
    assert!(allocations::count(launch) > 0, "the first launch loads the kernel");
    assert_eq!(allocations::count(launch), 0);
}
