//! After a kernel's fault every call reports the loss of the context. Runs in a child process, whose context is lost.

use std::process::Command;

use crate::common::PROBE;
use gpu_kernels::{LaunchConfig, Stream as _};
use jasper_cuda::{Context, ErrorKind, Event, Module, Pinned, Stream};

const CHILD: &str = "JASPER_FAULT";

/// What the child process does.
fn ruin(kernel: &str) {
    let context = Context::open(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let probe = Module::load(&context, PROBE).unwrap();
    let buffer = stream.upload(&[1_u32, 2, 3]).unwrap();
    // SAFETY: not at all: that is what this test is about. Address 16 belongs to nobody.
    unsafe { stream.launch_from(&probe, kernel, LaunchConfig::linear(1, 1), &16_u64).unwrap() };
    let cause = stream.synchronize().unwrap_err();
    assert!(matches!(cause.kind, ErrorKind::ContextLost { .. }), "{cause}");
    println!("{cause}");
    for echo in [
        stream.synchronize(),
        stream.download(&buffer).map(drop),
        stream.upload(&[1_u8]).map(drop),
        context.free_memory().map(drop),
        Event::new(&context).map(drop),
        Pinned::<u8>::zeroed(&context, 1).map(drop),
        Module::load(&context, PROBE).map(drop),
        Stream::new(&Context::open(0).unwrap()).map(drop),
    ] {
        assert_eq!(echo, Err(cause.clone()));
    }
    // And everything is dropped here, without a panic.
}

#[test]
fn a_fault_is_told_by_every_call_after_it() {
    if let Ok(kernel) = std::env::var(CHILD) {
        return ruin(&kernel);
    }
    if crate::common::context().is_none() {
        return;
    }
    for kernel in ["poke", "give_up"] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["fault::a_fault_is_told_by_every_call_after_it", "--exact", "--nocapture"])
            .env(CHILD, kernel)
            .output()
            .unwrap();
        let message = [output.stdout, output.stderr].concat();
        let message = String::from_utf8_lossy(&message);
        assert!(output.status.success(), "{kernel}: {message}");
        assert!(message.contains(&format!("the last launch was {kernel}): ")), "{kernel}: {message}");
        assert!(message.contains("restart the process"), "{kernel}: {message}");
    }
    // This process has lost nothing.
    let stream = Stream::new(&Context::open(0).unwrap()).unwrap();
    assert_eq!(stream.download(&stream.upload(&[9_u8]).unwrap()).unwrap(), [9]);
}
