//! The packages and files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};

/// Files and folders at the top level, without dot files.
pub const TOP_LEVEL: [&str; 12] = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "benches",
    "crates",
    "docs",
    "gpu-kernels",
    "xtask",
];

/// Packages and files, read once.
pub struct Workspace {
    /// Folder of the root manifest.
    pub root: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
    /// The oldest Rust that compiles every member: `1.95`.
    pub rust_version: String,
    /// The members.
    pub packages: Vec<Package>,
    /// Tracked files that exist, relative to the root, with `/` between folders.
    pub files: Vec<String>,
}

/// A member of the workspace.
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its manifest, relative to the root.
    pub manifest: String,
    /// Source files that the compiler starts from (libraries, programs, benches), relative to the root.
    pub crate_roots: Vec<String>,
    /// Whether it may go to a registry.
    pub published: bool,
    /// Its dependencies.
    pub dependencies: Vec<(String, DependencyKind)>,
}

impl Workspace {
    /// Reads the workspace that this program was compiled in.
    ///
    /// # Errors
    /// When `cargo metadata` fails or the folder cannot be read.
    pub fn load() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("Cargo.toml");
        // Without dependencies: needs no network and no lock.
        let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec()?;
        let root = metadata.workspace_root.as_std_path().to_path_buf();
        let relative = |path: &Path| slashed(path.strip_prefix(&root).unwrap_or(path));
        let packages = metadata
            .packages
            .iter()
            .map(|package| Package {
                name: package.name.to_string(),
                published: package.publish.as_ref().is_none_or(|registries| !registries.is_empty()),
                manifest: relative(package.manifest_path.as_std_path()),
                crate_roots: package
                    .targets
                    .iter()
                    .filter(|target| target.is_lib() || target.is_bin() || target.is_bench())
                    .map(|target| relative(target.src_path.as_std_path()))
                    .collect(),
                dependencies: package
                    .dependencies
                    .iter()
                    .map(|used| (used.name.clone(), used.kind))
                    .collect(),
            })
            .collect();
        let minimum = metadata.packages.iter().find_map(|package| package.rust_version.as_ref());
        let minimum = minimum.context("no package states a rust-version")?;
        let rust_version = format!("{}.{}", minimum.major, minimum.minor);
        Ok(Self {
            rust_version,
            files: files(&root)?,
            target: metadata.target_directory.into(),
            packages,
            root,
        })
    }

    /// The text of a file, or nothing if it is not text.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn text(&self, file: &str) -> Result<Option<String>> {
        let bytes = fs::read(self.root.join(file)).with_context(|| format!("{file} cannot be read"))?;
        Ok(String::from_utf8(bytes).ok())
    }
}

/// Tracked files; in a copy without git, all files in the folders of [`TOP_LEVEL`].
fn files(root: &Path) -> Result<Vec<String>> {
    let git = crate::process::command("git", root).args(["ls-files", "-z"]).output();
    let mut files: Vec<String> = match git {
        Ok(listed) if listed.status.success() => {
            String::from_utf8_lossy(&listed.stdout).split_terminator('\0').map(str::to_owned).collect()
        }
        _ => {
            let mut found = Vec::new();
            for name in TOP_LEVEL {
                walk(root, &root.join(name), &mut found)?;
            }
            found
        }
    };
    files.retain(|file| root.join(file).is_file());
    files.sort_unstable();
    Ok(files)
}

/// Adds the files under `path`, build folders left out.
fn walk(root: &Path, path: &Path, found: &mut Vec<String>) -> Result<()> {
    if path.is_file() {
        found.push(slashed(path.strip_prefix(root)?));
    } else if path.is_dir() && !path.ends_with("target") {
        for entry in fs::read_dir(path)? {
            walk(root, &entry?.path(), found)?;
        }
    }
    Ok(())
}

fn slashed(path: &Path) -> String {
    path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_read() {
        let workspace = Workspace::load().unwrap();
        let xtask = workspace.packages.iter().find(|package| package.name == "xtask").unwrap();
        assert_eq!(xtask.manifest, "xtask/Cargo.toml");
        assert_eq!(xtask.crate_roots, ["xtask/src/main.rs"]);
        assert!(!xtask.published && workspace.packages.iter().any(|package| package.published));
        assert!(xtask.dependencies.contains(&("tempfile".into(), DependencyKind::Normal)));
        assert!(workspace.text("Cargo.toml").unwrap().unwrap().contains("[workspace]"));
        assert!(workspace.text("no such file").is_err());
    }

    #[test]
    fn a_copy_without_git_is_walked() {
        let copy = tempfile::tempdir().unwrap();
        for file in ["Cargo.toml", "docs/src/a.md", "crates/one/target/left.out", "stray.txt"] {
            let file = copy.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        assert_eq!(files(copy.path()).unwrap(), ["Cargo.toml", "docs/src/a.md"]);
    }
}
