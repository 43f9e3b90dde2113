//! The published packages as a registry would have them.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use crate::process::{self, cargo, command};
use crate::workspace::Workspace;

/// Makes the tarball of every published package, unpacks them side by side, and checks that they compile with each
/// other, and the library without the features that the others ask for.
///
/// `cargo package` by itself builds each of them, and all that they depend on, once more. Here the dependencies are
/// those that the lints have checked, with the same profiles.
///
/// # Errors
/// When a package cannot be packed or lacks what it needs to compile.
pub fn check(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target.join("tarballs");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let names: Vec<&str> =
        workspace.packages.iter().filter(|package| package.published).map(|package| &*package.name).collect();
    let mut package = cargo(&workspace.root);
    package.args(["package", "--quiet", "--allow-dirty", "--no-verify", "--target-dir"]).arg(&folder);
    process::run(package.args(names.iter().flat_map(|name| ["--package", name])))?;

    let mut members = String::new();
    for name in names {
        let version = env!("CARGO_PKG_VERSION");
        // With the times in the tarball, which never change, cargo would not see that a file is another.
        let mut unpack = command("tar", &folder);
        process::run(unpack.arg("-xzmf").arg(format!("package/{name}-{version}.crate")))?;
        writeln!(members, "{name} = {{ path = \"{name}-{version}\" }}")?;
    }
    // Profiles are the last tables of the manifest.
    let manifest = fs::read_to_string(workspace.root.join("Cargo.toml"))?;
    let profiles = manifest.find("\n[profile.").map(|start| &manifest[start..]);
    let profiles = profiles.context("the manifest of the workspace has no profiles")?;
    let workspace_of_tarballs = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"*-*\"]\n\n[patch.crates-io]\n{members}\n{profiles}"
    );
    fs::write(folder.join("Cargo.toml"), workspace_of_tarballs)?;
    fs::copy(workspace.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let check = |packages: &[&str]| {
        process::run(cargo(&folder).arg("check").args(packages).arg("--target-dir").arg(&workspace.target))
    };
    check(&["--workspace"])?;
    check(&["--package", "jasper"])
}
