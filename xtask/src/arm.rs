//! Tests of the code for Arm, on a CPU that QEMU emulates.

use std::path::Path;

use anyhow::{Result, bail};

use crate::process::{self, cargo, command, installed, output};
use crate::workspace::Workspace;

/// Programs for this target are linked by the linker of the Rust toolchain and need no libraries: neither a C compiler
/// nor a C library for Arm has to be installed.
const TARGET: &str = "aarch64-unknown-linux-musl";

/// A CPU without the dot products of bytes, and one with all that QEMU knows.
const CPUS: [&str; 2] = ["cortex-a72", "max"];

/// The packages with code for Arm, and the tests of what depends on it: all others take minutes under emulation.
const TESTS: [&str; 12] = [
    "--package",
    "jasper-core",
    "--package",
    "jasper-quant",
    "--lib",
    "--",
    "distance::",
    "estimate::",
    "projection::",
    "query::",
    "rotation::tests::the_rounds",
    "simd::",
];

/// Runs the tests.
///
/// # Errors
/// When a program is missing or a test fails.
pub fn run(workspace: &Workspace) -> Result<()> {
    check(workspace)?.map_or(Ok(()), |missing| bail!(missing))
}

/// What [`run`] does, or why it cannot be done.
///
/// # Errors
/// When a test fails.
pub fn check(workspace: &Workspace) -> Result<Option<String>> {
    if !installed("qemu-aarch64") {
        return Ok(Some("needs qemu-aarch64, such as Debian's package qemu-user".to_owned()));
    }
    let library = ["--print", "target-libdir", "--target", TARGET];
    let library = output(command("rustc", &workspace.root).args(library))?;
    if !Path::new(library.trim()).exists() {
        return Ok(Some(format!("needs the standard library; `rustup target add {TARGET}`")));
    }
    for cpu in CPUS {
        println!("{cpu}:");
        let mut tests = cargo(&workspace.root);
        tests
            .args(["test", "--quiet", "--target", TARGET])
            .args(TESTS)
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld")
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER", "qemu-aarch64")
            .env("QEMU_CPU", cpu);
        process::run(&mut tests)?;
    }
    Ok(None)
}
