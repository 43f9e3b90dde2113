//! Tasks of this repository: `cargo xtask TASK`.
//!
//! | module | task |
//! | --- | --- |
//! | [`tidy`] | rules that no compiler checks; also a test of this package |
//! | [`validate`] | everything that CI runs |
//! | [`site`] | the book and the API reference as one website |
//! | [`ptx`] | the kernels' PTX: build, check, show, report |
//! | [`python`] | the Python package: wheel and tests |
//! | [`arm`] | tests of the code for Arm, under QEMU |
//! | [`fuzz`] | coverage-guided fuzzing of readers and operations; tests under AddressSanitizer |
//! | [`packages`] | the tarballs of the published packages: that they compile |
//! | [`bundle`] | tests, command and benchmarks in one archive, for a GPU machine without Rust |
//!
//! [`workspace`] reads the packages and files of the repository, [`process`] runs other programs.

#![forbid(unsafe_code)]

mod arm;
mod bundle;
mod fuzz;
mod packages;
mod process;
mod ptx;
mod python;
mod site;
mod tidy;
mod validate;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};
use python::PYTHON;
use workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask TASK

  tidy      check layering, manifests, file headers, file lengths, unsafe code, links and paths
  validate  everything that CI runs: format, lints, docs, book, dependencies, tidy, kernels, tests, Arm, packages,
            Python
  docs      build the book and the reference into target/site
  ptx build [--lines]
            compile the kernels to gpu-kernels/ptx; with lines for profilers and checkers, to target/ptx
  ptx check
            compare the committed PTX with its sources, with the table of registers, and with a new build if its
            compiler is installed
  ptx show ENTRY
            print the committed PTX of one kernel
  ptx report [ENTRY...]
            registers and shared memory of every kernel, by NVIDIA's assembler, beside the PTX: assembles those that have
            changed; with entries, prints those whose names begin with one of them
  wheel [--target ARCHITECTURE | --interpreter PYTHON]
            build the wheels of the Python package, for x86_64 or aarch64, and of its demonstration into target/wheels;
            for a free-threaded PYTHON, one for that version alone
  python [--interpreter PYTHON | --frameworks | --ray]
            build the Python package, install it into a new virtual environment, of python3 or PYTHON, and run its
            tests; with frameworks, also the tests with UMAP, Hugging Face data sets, LangChain and LlamaIndex, which
            are large packages; with ray, also those of clusters, which take minutes
  arm       test the code for Arm on a CPU that QEMU emulates
  fuzz [TARGET] [--seconds N] [--sanitizer address] [-- ARGUMENT...]
            fuzz one target, or each for N seconds, also under AddressSanitizer; needs a C++ compiler; arguments are
            those of libFuzzer, such as the file of an input that failed
  asan      the tests of code that runs on the host, under AddressSanitizer
  packages  make the tarballs of the published packages, and check that they compile
  bundle    pack tests, command and benchmarks into target/bundle.tar.xz, for a GPU machine without Rust";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<()> {
    let workspace = Workspace::load()?;
    match words {
        ["tidy"] => tidy::run(&workspace),
        ["validate"] => validate::run(&workspace),
        ["docs"] => site::run(&workspace),
        ["ptx", "build"] => ptx::build::run(&workspace),
        ["ptx", "build", "--lines"] => ptx::build::run_with_lines(&workspace),
        ["ptx", "check"] => ptx::check::run(&workspace),
        ["ptx", "show", entry] => ptx::show(&workspace, entry),
        ["ptx", "report", entries @ ..] => ptx::report::run(&workspace, entries),
        ["wheel"] => python::wheel(&workspace, PYTHON, None),
        ["wheel", "--target", architecture] => python::wheel(&workspace, PYTHON, Some(architecture)),
        ["wheel", "--interpreter", interpreter] => python::wheel(&workspace, interpreter, None),
        ["python"] => python::run(&workspace, PYTHON),
        ["python", "--interpreter", interpreter] => python::run(&workspace, interpreter),
        ["python", "--frameworks"] => python::run_with_frameworks(&workspace),
        ["python", "--ray"] => python::run_with_ray(&workspace),
        ["arm"] => arm::run(&workspace),
        ["fuzz", words @ ..] => fuzz::run(&workspace, words),
        ["asan"] => fuzz::test_with_sanitizer(&workspace),
        ["packages"] => packages::check(&workspace),
        ["bundle"] => bundle::run(&workspace),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!("no such task: `{}`\n\n{USAGE}", words.join(" ")),
    }
}
