//! Launches within and beyond the limits of the device: each refusal has its type, and the device stays usable.

use crate::common::{Move, PROBE, SharedContext};
use gpu_kernels::{Buffer as _, LaunchConfig, Stream as _};
use jasper_cuda::{ErrorKind, LaunchLimit, Module, Result, Stream};

/// Reverses `values` through dynamic shared memory.
fn reverse(stream: &Stream, probe: &Module, launch: LaunchConfig, values: &[u32]) -> Result<Vec<u32>> {
    let from = stream.upload(values)?;
    let mut to = stream.allocate(values.len())?;
    let args = Move { from: from.input(), to: to.output(), len: values.len() as u64 };
    // SAFETY: `Move` is the kernel's parameter, and both arrays have `len` words.
    unsafe { stream.launch_from(probe, "reverse", launch, &args)? };
    stream.download(&to)
}

fn device() -> Option<(SharedContext, Stream, Module)> {
    let context = crate::common::context()?;
    let stream = Stream::new(&context).unwrap();
    let probe = Module::load(&context, PROBE).unwrap();
    Some((context, stream, probe))
}

#[test]
fn all_of_the_shared_memory_can_be_had() {
    let Some((context, stream, probe)) = device() else { return };
    for bytes in [1000, 48 << 10, context.device().shared_per_block] {
        let values: Vec<u32> = (0..bytes / 4).collect();
        let backwards: Vec<u32> = values.iter().rev().copied().collect();
        let launch = LaunchConfig::linear(1, 1024).with_shared(bytes);
        assert!(reverse(&stream, &probe, launch, &values).unwrap() == backwards, "{bytes}");
    }
}

#[test]
fn what_the_device_cannot_take_is_refused_before_it_runs() {
    let Some((context, stream, probe)) = device() else { return };
    let most = context.device().shared_per_block;
    let (x, y) = context.device().grid;
    let one = LaunchConfig::linear(1, 32);
    for (launch, limit) in [
        (LaunchConfig { block: 2048, ..one }, LaunchLimit::Threads(1024)),
        (LaunchConfig { block: 0, ..one }, LaunchLimit::Threads(1024)),
        (LaunchConfig { shared: most + 1, ..one }, LaunchLimit::Shared(most)),
        (LaunchConfig { grid: (1, y + 1), ..one }, LaunchLimit::GridY(y)),
        (LaunchConfig { grid: (x + 1, 1), ..one }, LaunchLimit::GridX(x)),
    ] {
        let error = reverse(&stream, &probe, launch, &[1, 2]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Launch { kernel: "reverse".into(), launch, limit });
    }
    let launch = one.with_shared(64);
    assert_eq!(reverse(&stream, &probe, launch, &[1, 2, 3]).unwrap(), [3, 2, 1]);
    assert_eq!(stream.download(&stream.upload(&[5_u8]).unwrap()).unwrap(), [5]);
}

#[test]
fn a_launch_of_nothing_does_nothing() {
    let Some((_, stream, probe)) = device() else { return };
    // SAFETY: no thread runs.
    unsafe { stream.launch_from(&probe, "poke", LaunchConfig::linear(0, 32), &0x10_u64).unwrap() };
    stream.synchronize().unwrap();
}

#[test]
fn an_unknown_kernel_is_named() {
    let Some((_, stream, probe)) = device() else { return };
    for entry in ["no_such_kernel", "a\0b"] {
        // SAFETY: there is no such kernel.
        let error =
            unsafe { stream.launch_from(&probe, entry, LaunchConfig::linear(1, 1), &0_u64) }.unwrap_err();
        assert_eq!(error.kind, ErrorKind::UnknownKernel { entry: entry.into() });
    }
}

#[test]
fn ptx_that_is_refused_says_why() {
    let Some((context, stream, probe)) = device() else { return };
    let refused = |ptx: &str| match Module::load(&context, ptx).unwrap_err() {
        error if matches!(error.kind, ErrorKind::Ptx { .. }) => error.to_string(),
        error => panic!("{error}"),
    };
    let newer = refused(&PROBE.replace(".version 7.4", ".version 9.9"));
    assert!(newer.contains("PTX 9.9 needs a driver for CUDA 13.9 or newer"), "{newer}");
    let target = refused(&PROBE.replace(".version 7.4", ".version 8.6").replace("sm_80", "sm_999"));
    assert!(target.contains("compute capability 99.9"), "{target}");
    let nonsense = refused(&PROBE.replace("trap;", "frobnicate %r1;"));
    assert!(nonsense.contains("its compiler says") && nonsense.contains("frobnicate"), "{nonsense}");
    // The process goes on.
    let launch = LaunchConfig::linear(1, 32).with_shared(64);
    assert_eq!(reverse(&stream, &probe, launch, &[1, 2]).unwrap(), [2, 1]);
}
