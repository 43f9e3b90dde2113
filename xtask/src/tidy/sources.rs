//! Module docs and a maximum length for every source file; unsafe code only in listed packages.

use anyhow::Result;

use super::Violation;
use crate::workspace::{Package, Workspace};

/// Maximum length of a file, in lines. Aim for 200.
const MAX_LINES: usize = 600;
/// Packages that may hold unsafe code: SIMD, memory maps, segments that are written by many threads, kernels, calls to
/// the CUDA driver, snapshots, libFuzzer's entry points, and arrays of other Python packages.
const UNSAFE_PACKAGES: [&str; 13] = [
    "gpu-kernels",
    "jasper-benches",
    "jasper-core",
    "jasper-cuda",
    "jasper-cuda-std",
    "jasper-cuda-std-kernels",
    "jasper-data",
    "jasper-driver",
    "jasper-fuzz",
    "jasper-graph",
    "jasper-python",
    "jasper-quant",
    "jasper-vamana",
];
const FORBID_UNSAFE: &str = "#![forbid(unsafe_code)]";

/// Checks every Rust file, and the first file of every package.
pub fn check(workspace: &Workspace) -> Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for file in workspace.files.iter().filter(|file| file.ends_with(".rs")) {
        let text = workspace.text(file)?.unwrap_or_default();
        violations.extend(check_file(file, &text));
        let owner = workspace.packages.iter().find(|package| package.crate_roots.contains(file));
        violations.extend(owner.and_then(|package| check_unsafe(package, file, &text)));
    }
    Ok(violations)
}

fn check_file(file: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    if !text.starts_with("//! ") {
        violations.push(Violation::at_line(file, 1, "the file does not begin with `//!` docs"));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        let what = format!("{lines} lines, more than {MAX_LINES}; split the file");
        violations.push(Violation::new(file, what));
    }
    violations
}

fn check_unsafe(package: &Package, crate_root: &str, text: &str) -> Option<Violation> {
    let allowed = UNSAFE_PACKAGES.contains(&package.name.as_str());
    (!allowed && !text.lines().any(|line| line == FORBID_UNSAFE)).then(|| {
        Violation::new(
            crate_root,
            format!("add `{FORBID_UNSAFE}`: {UNSAFE_PACKAGES:?} alone may hold unsafe code"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_open_with_their_purpose() {
        assert!(check_file("a.rs", "//! What it is for.\n").is_empty());
        for bad in ["", "use std::fmt;\n", "// A comment.\n", "//!\n"] {
            assert_eq!(check_file("a.rs", bad).len(), 1, "{bad:?}");
        }
    }

    #[test]
    fn long_files_are_found() {
        let text = |lines| "//! x\n".repeat(lines);
        assert!(check_file("a.rs", &text(MAX_LINES)).is_empty());
        assert!(check_file("a.rs", &text(MAX_LINES + 1))[0].what.starts_with("601 lines"));
    }

    #[test]
    fn unsafe_code_is_forbidden_outside_the_list() {
        let package = |name: &str| Package {
            name: name.into(),
            manifest: "Cargo.toml".into(),
            crate_roots: Vec::new(),
            published: false,
            dependencies: Vec::new(),
        };
        assert!(check_unsafe(&package("jasper-core"), "lib.rs", "//! x\n").is_none());
        assert!(check_unsafe(&package("jasper"), "lib.rs", "//! x\n#![forbid(unsafe_code)]\n").is_none());
        assert!(check_unsafe(&package("jasper"), "lib.rs", "//! x\n// #![forbid(unsafe_code)]\n").is_some());
    }
}
