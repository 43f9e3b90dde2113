//! A small crate of kernels, compiled for real where a compiler is found.

use std::fs;
use std::path::Path;

use cuda_builder::{BuildError, BuildOutput, Compilers, CudaBuilder, Difference, Header, PtxViolation};

const MANIFEST: &str = "\
[package]
name = \"sample-kernels\"
version = \"0.1.0\"
edition = \"2024\"

[features]
kernels = []

[workspace]
";

/// Two kernels: one that needs launch bounds, and one by which barriers are checked.
const KERNELS: &str = r#"//! Kernels.
#![no_std]
#![cfg(feature = "kernels")]
#![feature(abi_ptx, asm_experimental_arch, link_llvm_intrinsics, stdarch_nvptx)]
#![allow(internal_features)]

mod scale;

use core::arch::nvptx::_thread_idx_x as thread_idx_x;

unsafe extern "C" {
    #[link_name = "llvm.nvvm.barrier0"]
    safe fn sync_threads();
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn canary(out: *mut u32, n: u32) {
    unsafe {
        let t = thread_idx_x() as u32;
        let writes = t < n;
        if writes {
            *out.add(t as usize) = 1;
        }
        sync_threads();
        if writes {
            *out.add(t as usize + 1) = 2;
        }
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe { core::arch::nvptx::trap() }
}
"#;

const SCALE: &str = r#"//! Rows, scaled.
use core::arch::global_asm;

global_asm!("//@kernel scale max_threads=128,min_blocks=8");
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn scale(rows: *mut f32, by: f32, n: u32) {
    unsafe {
        let t = super::thread_idx_x() as u32;
        if t < n {
            *rows.add(t as usize) *= by;
        }
    }
}
"#;

/// An array that is indexed by what is known at run time only: it lies in local memory.
const LOCAL: &str = r#"//! An array that cannot live in registers.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn local(input: *const u32, out: *mut u32, n: u32) {
    unsafe {
        let mut words = [0u32; 64];
        for (i, word) in words.iter_mut().enumerate() {
            *word = *input.add(i);
        }
        *out = words[n as usize & 63];
    }
}
"#;

fn write(folder: &Path, scale: &str) {
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("Cargo.toml"), MANIFEST).unwrap();
    fs::write(folder.join("src/lib.rs"), KERNELS).unwrap();
    fs::write(folder.join("src/scale.rs"), scale).unwrap();
}

#[test]
fn a_crate_becomes_ptx() {
    let compiler = match Compilers::find().first() {
        Ok(compiler) => compiler.clone(),
        Err(error) => return println!("skipped: {error}"),
    };
    println!("compiled by {compiler}");
    // In the folder that cargo keeps for tests, so that `core` is compiled once.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
    let builder = CudaBuilder::new(&folder).compiler(compiler.clone()).feature("kernels").canary("canary");
    write(&folder, SCALE);

    let BuildOutput { ptx: text, header, kernels } = builder.build().unwrap();
    assert_eq!(Header::read(&text).unwrap(), header);
    assert_eq!(header.compiler, compiler.version);
    let files: Vec<&str> = header.sources.iter().map(|source| &*source.file).collect();
    assert_eq!(files, ["src/lib.rs", "src/scale.rs"]);
    let mut names = kernels.clone();
    names.sort_unstable();
    assert_eq!(names, ["canary", "scale"]);
    assert!(text.contains("\n.version 8.0\n.target sm_80\n"), "{text}");
    let scale = text.split(".visible .entry ").find(|entry| entry.starts_with("scale(")).unwrap();
    assert!(scale.contains("\n.maxntid 128, 1, 1\n.minnctapersm 8\n{"), "{scale}");
    assert!(text.contains("$L__BB_") && !text.contains("//@kernel"));

    // Again, and in another folder: the same bytes.
    assert_eq!(builder.build().unwrap().ptx, text);
    assert_eq!(builder.differences(&text).unwrap(), []);
    assert_eq!(CudaBuilder::new(&folder).differences(&text).unwrap().len(), 1, "other flags");

    // A comment changes nothing, code does.
    write(&folder, &SCALE.replace("//! Rows", "//! All rows"));
    assert_eq!(builder.differences(&text).unwrap(), []);
    assert_eq!(builder.build().unwrap().ptx, text);
    write(&folder, &SCALE.replace("t < n", "t <= n"));
    assert_eq!(builder.differences(&text).unwrap(), [Difference::Changed("src/scale.rs".into())]);
    assert_ne!(builder.build().unwrap().ptx, text);

    write(&folder, LOCAL);
    match builder.build() {
        Err(BuildError::Refused { violations }) => {
            assert!(
                matches!(&violations[..], [PtxViolation::Local { kernel, .. }] if kernel == "local"),
                "{violations:?}"
            );
        }
        other => panic!("{other:?}"),
    }

    // What does not compile is an error that names the crate.
    write(&folder, "//! Nothing of the sort.\nfn broken(");
    assert!(matches!(builder.build(), Err(BuildError::Cargo { package, .. }) if package == folder));
}

#[test]
fn a_crate_that_is_not_there_is_an_error() {
    let nowhere = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nowhere");
    let header = "// compiler: rustc\n// flags: -O\n// source: 0 lib.rs\n";
    let error = CudaBuilder::new(&nowhere).differences(header).unwrap_err();
    assert!(matches!(error, BuildError::Start { .. }), "{error}");
    let error = CudaBuilder::new(&nowhere).differences("// by hand\n.version 8.0\n").unwrap_err();
    assert!(matches!(error, BuildError::NoHeader { .. }), "{error}");
}
