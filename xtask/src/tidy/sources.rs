//! A header and a bounded length for every source file, unsafe code only where it is needed.

use anyhow::Result;

use super::Finding;
use crate::workspace::{Package, Workspace};

/// Lines at which a file holds more than one idea. The aim is near 200.
const MOST_LINES: usize = 600;
/// Files that may be longer, each with its reason.
const LONG_FILES: [&str; 0] = [];
/// Packages that may hold unsafe code: SIMD, memory maps, segments that are written by many threads, kernels, and calls
/// to the CUDA driver.
const UNSAFE_PACKAGES: [&str; 10] = [
    "gpu-kernels",
    "jasper-benches",
    "jasper-core",
    "jasper-cuda",
    "jasper-cuda-std",
    "jasper-cuda-std-kernels",
    "jasper-data",
    "jasper-driver",
    "jasper-graph",
    "jasper-quant",
];
const FORBID_UNSAFE: &str = "#![forbid(unsafe_code)]";

/// Checks every Rust file, and the first file of every package.
pub fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in workspace.files.iter().filter(|file| file.ends_with(".rs")) {
        let text = workspace.text(file)?.unwrap_or_default();
        findings.extend(check_file(file, &text));
        let owner = workspace.packages.iter().find(|package| package.crate_roots.contains(file));
        findings.extend(owner.and_then(|package| check_unsafe(package, file, &text)));
    }
    Ok(findings)
}

fn check_file(file: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.starts_with("//! ") {
        findings.push(Finding::at_line(file, 1, "the file does not open with `//!` and what it is for"));
    }
    let lines = text.lines().count();
    if lines > MOST_LINES && !LONG_FILES.contains(&file) {
        let what = format!("{lines} lines, more than {MOST_LINES}; give each idea a file of its own");
        findings.push(Finding::new(file, what));
    }
    findings
}

fn check_unsafe(package: &Package, crate_root: &str, text: &str) -> Option<Finding> {
    let allowed = UNSAFE_PACKAGES.contains(&package.name.as_str());
    (!allowed && !text.lines().any(|line| line == FORBID_UNSAFE)).then(|| {
        Finding::new(
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
        assert!(check_file("a.rs", &text(MOST_LINES)).is_empty());
        assert!(check_file("a.rs", &text(MOST_LINES + 1))[0].what.starts_with("601 lines"));
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
