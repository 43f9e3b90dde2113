//! Coverage-guided fuzzing with libFuzzer, and tests under AddressSanitizer, on the stable compiler.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, cargo, command};
use crate::workspace::Workspace;

/// The package whose program has all targets.
const PACKAGE: &str = "jasper-fuzz";
/// A folder for each target, with the inputs that fuzzing begins with. Tests of the package call the targets on them.
const CORPUS: &str = "crates/jasper-fuzz/corpus";
/// Larger files that a target begins with as well.
const MORE_SEEDS: [(&str, &str); 1] = [("index", "crates/jasper-graph/tests/golden")];

/// Instruments the code for libFuzzer, as cargo-fuzz does.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares";
/// Checks every access to memory. An unstable flag, which needs `RUSTC_BOOTSTRAP`; its runtime comes with Rust.
const ADDRESS: &str = "-Zsanitizer=address";

/// A file may ask for as much memory as it is long: more than this is a finding. In megabytes.
const MEMORY: u32 = 2048;

/// Seconds for each target in `cargo xtask validate`.
pub const GATE_SECONDS: u32 = 20;

/// The suites that run under AddressSanitizer: all that hold unsafe code and need no GPU, and their users. Not those of
/// emulated kernels, whose coroutines change stacks in ways that it does not know.
const SUITES: [&str; 7] =
    ["jasper-core", "jasper-data", "jasper-quant", "jasper-graph", "jasper-vamana", "jasper", PACKAGE];

/// Tests that do not run under AddressSanitizer: those that compare the memory of the process with a plan, because the
/// sanitizer multiplies it.
const NOT_SANITIZED: &str = "takes_what_was_estimated";

/// What to fuzz, and how.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options<'a> {
    target: Option<&'a str>,
    seconds: Option<u32>,
    with_sanitizer: bool,
    /// Arguments of libFuzzer, in place of the default ones.
    arguments: Option<&'a [&'a str]>,
}

impl<'a> Options<'a> {
    fn parse(mut words: &'a [&'a str]) -> Result<Self> {
        let mut options = Self::default();
        while let Some((&word, rest)) = words.split_first() {
            words = rest;
            match (word, rest) {
                ("--", arguments) => {
                    options.arguments = Some(arguments);
                    break;
                }
                ("--seconds", [seconds, rest @ ..]) => {
                    let seconds = seconds.parse();
                    options.seconds = Some(seconds.context("--seconds needs a whole number")?);
                    words = rest;
                }
                ("--sanitizer", ["address", rest @ ..]) => {
                    options.with_sanitizer = true;
                    words = rest;
                }
                (target, _) if !target.starts_with('-') && options.target.is_none() => {
                    options.target = Some(target);
                }
                _ => bail!("`{word}` is no option of fuzz, or lacks its value"),
            }
        }
        Ok(options)
    }
}

/// Runs one target until it fails or is stopped, or for some seconds, or all of them for some seconds each.
///
/// # Errors
/// When there is no such target, it does not compile, or it fails; libFuzzer writes the input to `artifacts`.
pub fn run(workspace: &Workspace, words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let names = targets(workspace);
    let Some(target) = options.target else {
        let Some(seconds) = options.seconds else {
            bail!("all targets would run for ever; add --seconds N, or choose one of {}", names.join(", "))
        };
        return run_all(workspace, seconds, options.with_sanitizer);
    };
    ensure!(names.contains(&target), "no target `{target}`; choose one of {}", names.join(", "));
    let program = build(workspace, options.with_sanitizer)?;
    match options.arguments {
        Some(arguments) => process::run(call(&program, workspace, target).args(arguments)),
        None => process::run(&mut fuzz(&program, workspace, target, options.seconds.unwrap_or(0))?),
    }
}

/// Runs every target for some seconds, or says what is missing.
///
/// # Errors
/// When one does not compile or fails.
pub fn check(workspace: &Workspace) -> Result<Option<String>> {
    if !process::installed("c++") {
        return Ok(Some("c++ is not installed; the targets need a C++ compiler".to_owned()));
    }
    run_all(workspace, GATE_SECONDS, false)?;
    Ok(None)
}

/// Runs every target for `seconds`, as many at a time as there are CPUs.
///
/// # Errors
/// When one does not compile or fails.
fn run_all(workspace: &Workspace, seconds: u32, with_sanitizer: bool) -> Result<()> {
    let program = build(workspace, with_sanitizer)?;
    let targets = Mutex::new(targets(workspace).into_iter());
    let next = || targets.lock().expect("no panic while it is locked").next();
    let worker = || -> Result<()> {
        while let Some(target) = next() {
            report(target, &mut fuzz(&program, workspace, target, seconds)?)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..thread::available_parallelism().map_or(1, NonZero::get))
            .map(|_| scope.spawn(worker))
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("workers return their errors"))
    })
}

/// The names of all targets.
fn targets(workspace: &Workspace) -> Vec<&str> {
    let mut names: Vec<&str> = workspace.files.iter().filter_map(|file| target_of(file)).collect();
    names.dedup();
    names
}

/// The target of which `file` is an input.
fn target_of(file: &str) -> Option<&str> {
    Some(file.strip_prefix(CORPUS)?.strip_prefix('/')?.split_once('/')?.0)
}

/// Compiles the program of all targets, and returns its path.
fn build(workspace: &Workspace, with_sanitizer: bool) -> Result<PathBuf> {
    let folder = workspace.target.join(if with_sanitizer { "fuzz-address" } else { "fuzz" });
    let mut build = cargo(&workspace.root);
    build.args(["build", "--profile", "fuzz", "--package", PACKAGE, "--target-dir"]).arg(&folder);
    instrument(&mut build, COVERAGE, with_sanitizer);
    process::run(&mut build).context("the targets need a C++ compiler")?;
    Ok(folder.join(host()?).join("fuzz").join(PACKAGE))
}

/// Compiles with these flags, and for the host as a target: then the flags are not for build scripts and macros.
fn instrument(cargo: &mut Command, flags: &str, with_sanitizer: bool) {
    cargo.args(["--target", "host-tuple"]);
    if with_sanitizer {
        cargo.env("RUSTFLAGS", format!("{flags} {ADDRESS}")).env("RUSTC_BOOTSTRAP", "1");
    } else {
        cargo.env("RUSTFLAGS", flags);
    }
}

/// The target triple of this machine.
fn host() -> Result<String> {
    Ok(process::output(command("rustc", Path::new(".")).args(["--print", "host-tuple"]))?.trim().to_owned())
}

/// Calls libFuzzer for a target.
fn call(program: &Path, workspace: &Workspace, target: &str) -> Command {
    let mut call = command(program, &workspace.root);
    call.env("JASPER_FUZZ_TARGET", target);
    call
}

/// Fuzzes a target. Inputs with new coverage are kept in a folder of the build, and failing ones in another.
fn fuzz(program: &Path, workspace: &Workspace, target: &str, seconds: u32) -> Result<Command> {
    let [found, artifacts] =
        ["corpus", "artifacts"].map(|kind| workspace.target.join("fuzz").join(kind).join(target));
    for folder in [&found, &artifacts] {
        fs::create_dir_all(folder)?;
    }
    let mut fuzz = call(program, workspace, target);
    // New inputs go to the first folder.
    fuzz.arg(&found).arg(Path::new(CORPUS).join(target));
    fuzz.args(MORE_SEEDS.iter().filter(|(name, _)| *name == target).map(|(_, folder)| folder));
    fuzz.arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args([format!("-max_total_time={seconds}"), format!("-rss_limit_mb={MEMORY}")])
        .arg("-print_final_stats=1");
    Ok(fuzz)
}

/// Runs a target quietly, and prints one line, or everything if it fails.
fn report(target: &str, fuzz: &mut Command) -> Result<()> {
    let output = fuzz.output().context("the target does not start")?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        eprintln!("{log}");
        bail!("target {target} ended with {}", output.status);
    }
    println!("{target}: {}", summary(&log).context("libFuzzer prints no summary")?);
    Ok(())
}

/// The last line that libFuzzer prints of coverage.
fn summary(log: &str) -> Option<&str> {
    log.lines().rfind(|line| line.starts_with('#') && line.contains(" cov: "))
}

/// Runs the host suites under AddressSanitizer, and every target on its corpus.
///
/// # Errors
/// When a test fails or the sanitizer finds a fault.
pub fn test_with_sanitizer(workspace: &Workspace) -> Result<()> {
    let mut test = cargo(&workspace.root);
    test.args(["test", "--lib", "--bins", "--tests", "--target-dir"]).arg(workspace.target.join("address"));
    test.args(SUITES.iter().flat_map(|package| ["--package", package]));
    instrument(&mut test, "", true);
    process::run(test.args(["--", "--skip", NOT_SANITIZED]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_folders_of_the_corpus() {
        assert_eq!(target_of("crates/jasper-fuzz/corpus/keys/1a2b"), Some("keys"));
        assert_eq!(target_of("crates/jasper-fuzz/src/main.rs"), None);
        assert!(targets(&Workspace::load().unwrap()).contains(&"operations"));
    }

    #[test]
    fn options_are_parsed() {
        let words = ["keys", "--seconds", "9", "--sanitizer", "address", "--", "-runs=1"];
        let options = Options::parse(&words).unwrap();
        let arguments = Some(&["-runs=1"][..]);
        assert_eq!(
            options,
            Options { target: Some("keys"), seconds: Some(9), with_sanitizer: true, arguments }
        );
        assert_eq!(Options::parse(&[]).unwrap(), Options::default());
        for bad in [&["--seconds"][..], &["--seconds", "x"], &["keys", "npy"], &["--sanitizer", "thread"]] {
            assert!(Options::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_last_coverage_is_the_summary() {
        let log = "#1 NEW cov: 1\nx\n#22\tDONE   cov: 7 ft: 9 corp: 3/9b\nDone 22 runs\n";
        assert_eq!(summary(log), Some("#22\tDONE   cov: 7 ft: 9 corp: 3/9b"));
        assert_eq!(summary("Done 22 runs"), None);
    }
}
