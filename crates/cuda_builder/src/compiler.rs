//! Finds a rustc that has its library sources: what building `core` for a GPU takes.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::BuildError;

/// The environment variable that names the one rustc to use.
pub const RUSTC_VARIABLE: &str = "CUDA_BUILDER_RUSTC";

/// How to install a compiler that will do.
pub const INSTALL_HINT: &str = "with rustup: `rustup component add rust-src`; \
    on Debian 12: `apt-get install --no-install-recommends rustc-web rust-web-src`; \
    or name a rustc that has its library sources in CUDA_BUILDER_RUSTC";

/// Where a sysroot keeps the sources of `core`, if it has them.
const CORE: &str = "lib/rustlib/src/rust/library/core/src/lib.rs";

/// A rustc that can compile for GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// The program.
    pub rustc: PathBuf,
    /// The line by which it names itself.
    pub version: String,
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.version, self.rustc.display())
    }
}

/// The compilers of this machine, best first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compilers {
    usable: Vec<Compiler>,
    /// The programs that will not do, and why.
    rejected: Vec<(PathBuf, String)>,
}

impl Compilers {
    /// Looks at the rustc that [`RUSTC_VARIABLE`] names, and at no other; without it, at each on the search path, then
    /// at rustup's toolchains, then where distributions keep theirs. Starts each of them once or twice.
    pub fn find() -> Self {
        Self::among(candidates(|name| std::env::var_os(name)), probe)
    }

    fn among(candidates: Vec<PathBuf>, probe: impl Fn(&Path) -> Result<Compiler, String>) -> Self {
        let mut compilers = Self::default();
        for rustc in candidates {
            match probe(&rustc) {
                Ok(found) if compilers.usable.contains(&found) => {}
                Ok(found) => compilers.usable.push(found),
                Err(why) => compilers.rejected.push((rustc, why)),
            }
        }
        compilers
    }

    /// The first that will do.
    ///
    /// # Errors
    /// When none will; says what was looked at and how to get one.
    pub fn first(&self) -> Result<&Compiler, BuildError> {
        self.usable.first().ok_or_else(|| BuildError::NoCompiler { rejected: self.rejected.clone() })
    }

    /// The one that names itself `version`, since other compilers write other bytes.
    ///
    /// # Errors
    /// When it is not among them.
    pub fn version(&self, version: &str) -> Result<&Compiler, BuildError> {
        self.first()?;
        let same = self.usable.iter().find(|compiler| compiler.version == version);
        same.ok_or_else(|| BuildError::OtherCompilers {
            wanted: version.to_owned(),
            found: self.usable.clone(),
        })
    }
}

/// Every rustc to look at, by the environment `variable`s and the folders that exist.
fn candidates(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    if let Some(chosen) = variable(RUSTC_VARIABLE) {
        return vec![chosen.into()];
    }
    let program = format!("rustc{}", std::env::consts::EXE_SUFFIX);
    let path = variable("PATH").unwrap_or_default();
    let home = variable("HOME").or_else(|| variable("USERPROFILE")).map(PathBuf::from);
    let rustup = variable("RUSTUP_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".rustup")));
    let toolchains = rustup.map(|rustup| folders(&rustup.join("toolchains"))).unwrap_or_default();
    let distribution = folders(Path::new("/usr/lib"))
        .into_iter()
        .filter(|folder| folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("rust-")));
    let mut found: Vec<PathBuf> = std::env::split_paths(&path).map(|folder| folder.join(&program)).collect();
    found.extend(toolchains.into_iter().chain(distribution).map(|folder| folder.join("bin").join(&program)));
    found.extend([Path::new("/usr/bin").join(&program)]);
    found.retain(|rustc| rustc.is_file());
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|rustc| seen.insert(rustc.clone()));
    found
}

/// The folders in `folder`, by name.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort_unstable();
    found
}

/// Asks `rustc` where its library sources are.
fn probe(rustc: &Path) -> Result<Compiler, String> {
    let sysroot = PathBuf::from(ask(rustc, &["--print", "sysroot"])?);
    if !sysroot.join(CORE).is_file() {
        return Err(format!("no {}", sysroot.join(CORE).display()));
    }
    // Past rustup's proxy, whose choice depends on the folder it is started in.
    let real = sysroot.join("bin").join(rustc.file_name().unwrap_or_default());
    let rustc = if real.is_file() { real } else { rustc.to_path_buf() };
    Ok(Compiler { version: ask(&rustc, &["--version"])?, rustc })
}

/// What `rustc` prints, without the line's end.
fn ask(rustc: &Path, question: &[&str]) -> Result<String, String> {
    let mut command = Command::new(rustc);
    // Cargo sets it for what it runs, and it would overrule a choice by folder.
    command.args(question).env_remove("RUSTUP_TOOLCHAIN");
    let output = command.output().map_err(|error| format!("does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn compiler(rustc: &str, version: &str) -> Compiler {
        Compiler { rustc: rustc.into(), version: version.into() }
    }

    fn among(known: &[(&str, Result<&str, &str>)]) -> Compilers {
        let rustcs = known.iter().map(|(rustc, _)| PathBuf::from(rustc)).collect();
        Compilers::among(rustcs, |asked| {
            let (rustc, answer) = known.iter().find(|(rustc, _)| Path::new(rustc) == asked).unwrap();
            answer.map(|version| compiler(rustc, version)).map_err(str::to_owned)
        })
    }

    #[test]
    fn the_first_that_will_do_is_taken() {
        let compilers = among(&[("a", Err("no sources")), ("b", Ok("rustc 2")), ("c", Ok("rustc 3"))]);
        assert_eq!(compilers.first().unwrap(), &compiler("b", "rustc 2"));
        assert_eq!(compilers.version("rustc 3").unwrap(), &compiler("c", "rustc 3"));
        let error = compilers.version("rustc 1").unwrap_err().to_string();
        assert_eq!(
            error,
            "`rustc 1` is not installed with its library sources; there is `rustc 2`, `rustc 3`"
        );
    }

    #[test]
    fn without_any_the_way_to_one_is_told() {
        let compilers = among(&[("a", Err("no sources")), ("b", Err("ended with 1"))]);
        assert_eq!(
            compilers.version("rustc 1").unwrap_err().to_string(),
            compilers.first().unwrap_err().to_string()
        );
        let error = compilers.first().unwrap_err().to_string();
        for part in ["a: no sources; b: ended with 1; ", "rustup component add rust-src", "rust-web-src"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(INSTALL_HINT.contains(RUSTC_VARIABLE));
    }

    #[test]
    fn the_variable_alone_counts_when_it_is_set() {
        let chosen = candidates(|name| (name == RUSTC_VARIABLE).then(|| "my/rustc".into()));
        assert_eq!(chosen, [Path::new("my/rustc")]);
    }

    #[test]
    fn the_search_path_comes_before_the_toolchains_of_rustup() {
        let folder = tempfile::tempdir().unwrap();
        let program = format!("rustc{}", std::env::consts::EXE_SUFFIX);
        let places = ["path", "home/toolchains/a/bin", "home/toolchains/b/bin"];
        let rustcs = places.map(|place| folder.path().join(place).join(&program));
        for rustc in &rustcs {
            fs::create_dir_all(rustc.parent().unwrap()).unwrap();
            fs::write(rustc, "").unwrap();
        }
        let found = candidates(|name| match name {
            "PATH" => std::env::join_paths([folder.path().join("none"), folder.path().join("path")]).ok(),
            "RUSTUP_HOME" => Some(folder.path().join("home").into()),
            _ => None,
        });
        assert_eq!(found[..3], rustcs);
    }

    #[cfg(unix)]
    #[test]
    fn a_rustc_is_judged_by_its_sysroot() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let rustc = folder.path().join("rustc");
        let says = |script: &str| {
            fs::write(&rustc, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&rustc, fs::Permissions::from_mode(0o755)).unwrap();
            probe(&rustc)
        };
        let answers =
            format!("case $1 in --print) echo {};; *) echo 'rustc 9.9.9';; esac", folder.path().display());
        assert!(says(&answers).unwrap_err().starts_with("no "));
        assert!(says("exit 3").unwrap_err().starts_with("ended with "));
        let core = folder.path().join(CORE);
        fs::create_dir_all(core.parent().unwrap()).unwrap();
        fs::write(core, "").unwrap();
        assert_eq!(says(&answers), Ok(Compiler { rustc: rustc.clone(), version: "rustc 9.9.9".into() }));
        assert!(probe(&folder.path().join("none")).unwrap_err().starts_with("does not start"));
    }
}
