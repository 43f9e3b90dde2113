//! Coverage-guided fuzzing with libFuzzer, on the stable compiler.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, cargo};
use crate::workspace::Workspace;

/// Instruments the code for libFuzzer, as cargo-fuzz does, with the checks of debug builds.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions";

/// A file may ask for as much memory as it is long: more than this is a finding. In megabytes.
const MEMORY: u32 = 2048;

/// Runs one target, or each in turn, for `seconds`, or one target until it fails or is stopped.
///
/// # Errors
/// When there is no such target, it does not compile, or it fails; libFuzzer writes the input to `artifacts`.
pub fn run(workspace: &Workspace, target: Option<&str>, seconds: Option<&str>) -> Result<()> {
    let targets: Vec<(&str, &str)> = workspace
        .files
        .iter()
        .filter_map(|file| split(file))
        .filter(|(_, name)| target.is_none_or(|t| t == *name))
        .collect();
    let names =
        || workspace.files.iter().filter_map(|file| Some(split(file)?.1)).collect::<Vec<_>>().join(", ");
    ensure!(!targets.is_empty(), "no target `{}`; choose one of {}", target.unwrap_or_default(), names());
    let seconds: u32 = match seconds {
        Some(seconds) => {
            seconds.parse().with_context(|| format!("--seconds {seconds} is not a whole number"))?
        }
        None if target.is_some() => 0,
        None => bail!("all targets would run for ever; add --seconds N, or choose one of {}", names()),
    };
    for (folder, name) in targets {
        fuzz(&workspace.root.join(folder), &workspace.target, name, seconds)?;
    }
    Ok(())
}

/// The folder and the name of a target of which `file` is the source.
fn split(file: &str) -> Option<(&str, &str)> {
    let (folder, name) = file.strip_suffix(".rs")?.split_once("/fuzz_targets/")?;
    Some((folder, name))
}

/// Runs a target whose package is in `folder`. Inputs with new coverage are kept in its `corpus`.
fn fuzz(folder: &Path, target: &Path, name: &str, seconds: u32) -> Result<()> {
    let [corpus, artifacts] = ["corpus", "artifacts"].map(|kind| folder.join(kind).join(name));
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder)?;
    }
    let mut run = cargo(folder);
    run.args(["run", "--release", "--bin", name, "--target-dir"])
        .arg(target.join("fuzz"))
        // With a target, the flags are not for build scripts and macros.
        .args(["--target", "x86_64-unknown-linux-gnu", "--"])
        .arg(&corpus)
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args([format!("-max_total_time={seconds}"), format!("-rss_limit_mb={MEMORY}")])
        .arg("-print_final_stats=1")
        .env("RUSTFLAGS", FLAGS);
    process::run(&mut run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_sources_in_their_folder() {
        assert_eq!(split("crates/a/fuzz/fuzz_targets/b.rs"), Some(("crates/a/fuzz", "b")));
        assert_eq!(split("crates/a/fuzz/Cargo.toml"), None);
    }
}
