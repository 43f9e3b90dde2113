//! Which package may depend on which. The book's page on architecture has the reasons.

use cargo_metadata::DependencyKind;

use super::Violation;
use crate::workspace::Package;

/// Every package, lowest first, with the packages of this workspace that its code may use. Its tests may use any
/// package above it in this list, and itself with more features.
const LAYERS: [(&str, &[&str]); 23] = [
    ("jasper-core", &[]),
    ("jasper-data", &["jasper-core"]),
    ("jasper-plot", &[]),
    ("jasper-ptx", &[]),
    ("jasper-quant", &["jasper-core"]),
    ("jasper-attributes", &["jasper-core"]),
    ("jasper-graph", &["jasper-core", "jasper-data", "jasper-quant", "jasper-attributes"]),
    ("jasper-vamana", &["jasper-core", "jasper-data", "jasper-quant", "jasper-attributes", "jasper-graph"]),
    ("jasper-cuda-std-macros", &[]),
    ("jasper-cuda-std", &["jasper-cuda-std-macros"]),
    ("jasper-cuda-std-kernels", &["jasper-cuda-std"]),
    ("gpu-kernels", &["jasper-core", "jasper-quant", "jasper-graph", "jasper-vamana", "jasper-cuda-std"]),
    ("jasper-driver", &[]),
    (
        "jasper-cuda",
        &[
            "jasper-attributes",
            "jasper-core",
            "jasper-data",
            "jasper-quant",
            "jasper-graph",
            "jasper-vamana",
            "gpu-kernels",
            "jasper-ptx",
            "jasper-driver",
        ],
    ),
    (
        "jasper",
        &[
            "jasper-core",
            "jasper-data",
            "jasper-quant",
            "jasper-attributes",
            "jasper-graph",
            "jasper-vamana",
            "jasper-cuda",
        ],
    ),
    // Its tests search the graphs that it reads.
    ("jasper-interop", &["jasper-core", "jasper-data", "jasper-graph"]),
    ("jasper-runbook", &["jasper-core", "jasper-data", "jasper"]),
    // The bodies of its targets are files of tests, which use what those tests use.
    (
        "jasper-fuzz",
        &[
            "jasper-core",
            "jasper-data",
            "jasper-quant",
            "jasper-graph",
            "jasper-interop",
            "jasper-vamana",
            "jasper",
            "jasper-runbook",
        ],
    ),
    (
        "jasper-cli",
        &[
            "jasper-core",
            "jasper-data",
            "jasper-plot",
            "jasper-quant",
            "jasper-attributes",
            "jasper-graph",
            "jasper-interop",
            "jasper-vamana",
            "jasper-cuda",
            "jasper",
            "jasper-runbook",
        ],
    ),
    (
        "jasper-python",
        &[
            "jasper-core",
            "jasper-data",
            "jasper-graph",
            "jasper-interop",
            "jasper-vamana",
            "jasper-cuda",
            "jasper",
            "jasper-cli",
        ],
    ),
    (
        "jasper-benches",
        &[
            "jasper-core",
            "jasper-data",
            "jasper-quant",
            "jasper-graph",
            "jasper-vamana",
            "jasper",
            "jasper-runbook",
            "jasper-plot",
            "jasper-cuda-std",
            "gpu-kernels",
            "jasper-cuda",
        ],
    ),
    ("jasper-cuda-builder", &[]),
    ("xtask", &["jasper-ptx", "gpu-kernels", "jasper-cuda-builder"]),
];

/// External packages that only the listed packages may use outside of tests.
const RESTRICTED: [(&str, &[&str]); 11] = [
    // Untyped errors: programs only.
    ("anyhow", &["jasper-cli", "jasper-benches", "xtask"]),
    ("clap", &["jasper-cli", "jasper-benches"]),
    // Progress bars: the library reports progress to a closure.
    ("indicatif", &["jasper-cli"]),
    ("plotters", &["jasper-plot"]),
    // Python.
    ("numpy", &["jasper-python"]),
    ("pyo3", &["jasper-python"]),
    // Files.
    ("memmap2", &["jasper-data", "jasper-graph"]),
    // The journal of durable indexes.
    ("redb", &["jasper"]),
    // CUDA.
    ("cust", &["jasper-driver", "jasper-cuda"]),
    ("libloading", &["jasper-driver"]),
    // Threads.
    (
        "rayon",
        &[
            "jasper-data",
            "jasper-quant",
            "jasper-attributes",
            "jasper-vamana",
            "jasper",
            "jasper-cuda",
            "jasper-benches",
        ],
    ),
];

/// Compares the dependencies of `packages` with both tables.
pub fn check(packages: &[Package]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for package in packages {
        let Some(layer) = LAYERS.iter().position(|(name, _)| *name == package.name) else {
            violations.push(Violation::new(
                &package.manifest,
                "this package has no row in the table LAYERS of xtask; give it one",
            ));
            continue;
        };
        for (used, kind) in &package.dependencies {
            if let Some(wrong) = objection(layer, used, *kind) {
                violations.push(Violation::new(&package.manifest, wrong));
            }
        }
    }
    for (name, _) in LAYERS {
        if !packages.iter().any(|package| package.name == name) {
            violations.push(Violation::new(
                "xtask",
                format!("the table LAYERS names {name}, which does not exist; remove its row"),
            ));
        }
    }
    violations
}

/// Why the package in row `layer` may not use `used` in builds of this kind.
fn objection(layer: usize, used: &str, kind: DependencyKind) -> Option<String> {
    let (name, allowed) = LAYERS[layer];
    let in_tests = kind == DependencyKind::Development;
    if let Some(other) = LAYERS.iter().position(|(other, _)| *other == used) {
        return if in_tests {
            (other > layer).then(|| {
                format!("the tests of {name} use {used}, which is not above it in the table LAYERS of xtask")
            })
        } else {
            (!allowed.contains(&used))
                .then(|| format!("{name} may use {allowed:?} of this workspace, not {used}"))
        };
    }
    let (_, holders) = RESTRICTED.iter().find(|(package, _)| *package == used)?;
    (!in_tests && !holders.contains(&name))
        .then(|| format!("{name} may not use {used}; only {holders:?} may"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The violations of a package that uses `used`.
    fn objections(name: &str, used: &str, kind: DependencyKind) -> Vec<String> {
        let sample = |name: &str, dependencies| Package {
            name: name.into(),
            manifest: "Cargo.toml".into(),
            published: false,
            crate_roots: Vec::new(),
            dependencies,
        };
        let mut packages: Vec<Package> = LAYERS.iter().map(|(name, _)| sample(name, Vec::new())).collect();
        packages.retain(|package| package.name != name);
        packages.push(sample(name, vec![(used.into(), kind)]));
        check(&packages).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn code_uses_only_what_its_row_allows() {
        let code = |name, used| objections(name, used, DependencyKind::Normal);
        assert!(code("jasper-graph", "jasper-core").is_empty());
        assert_eq!(
            code("jasper-core", "jasper-graph"),
            ["Cargo.toml: jasper-core may use [] of this workspace, not jasper-graph"]
        );
        assert_eq!(code("jasper-cli", "gpu-kernels").len(), 1);
        assert_eq!(objections("jasper-core", "jasper-data", DependencyKind::Build).len(), 1);
    }

    #[test]
    fn tests_may_use_what_is_below_only() {
        let tests = |name, used| objections(name, used, DependencyKind::Development);
        assert!(tests("jasper-cli", "jasper-vamana").is_empty());
        assert_eq!(tests("jasper-data", "jasper-graph").len(), 1);
        assert!(tests("jasper-core", "anyhow").is_empty());
    }

    #[test]
    fn restricted_packages_are_found() {
        let violations = objections("jasper-core", "rayon", DependencyKind::Normal);
        assert!(violations[0].contains("jasper-core may not use rayon"), "{violations:?}");
        assert!(objections("jasper-vamana", "rayon", DependencyKind::Normal).is_empty());
    }

    #[test]
    fn the_table_and_the_packages_match() {
        let violations = objections("jasper-new", "half", DependencyKind::Normal);
        assert!(violations[0].contains("no row"), "{violations:?}");
        assert!(check(&[])[0].what.contains("names jasper-core, which does not exist"));
    }

    #[test]
    fn rows_name_only_rows_above_them() {
        for (row, (name, allowed)) in LAYERS.iter().enumerate() {
            for used in *allowed {
                assert!(LAYERS[..row].iter().any(|(above, _)| above == used), "{name} -> {used}");
            }
        }
    }
}
