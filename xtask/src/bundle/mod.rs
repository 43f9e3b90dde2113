//! `target/bundle.tar.xz`: tests, the command, benchmarks and `run.sh`, for a GPU machine without Rust. The programs
//! share most of their code, which the archive stores once.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Artifact, Message};

use crate::process::{cargo, command, line, run as run_command};
use crate::workspace::Workspace;

/// Packages whose tests are included.
const TESTED: [&str; 2] = ["jasper-cuda", "jasper-driver"];
/// Programs of the package `jasper-benches` that measure.
const MEASURING: [&str; 3] = ["gpu_build", "gpu_kernels", "gpu_search"];
/// The package of the command.
const COMMAND: &str = "jasper-cli";
/// The script that runs everything, and its comparison of results.
const SCRIPTS: [(&str, &str); 2] =
    [("run.sh", include_str!("run.sh")), ("same_neighbors.py", include_str!("same_neighbors.py"))];
/// Maximum size: uploads to rented machines are slow.
const MAX_MIB: u64 = 60;
/// A dictionary that spans all programs.
const PACKER: &str = "xz --threads=1 --lzma2=preset=3,dict=256MiB";

/// Builds the programs, fills `target/bundle`, and packs it into `target/bundle.tar.xz`.
///
/// # Errors
/// When something does not build, or the folder grows too large.
pub fn run(workspace: &Workspace) -> Result<()> {
    let bundle = workspace.target.join("bundle");
    if bundle.exists() {
        fs::remove_dir_all(&bundle)?;
    }
    let measuring: Vec<&str> =
        std::iter::once("build").chain(MEASURING.into_iter().flat_map(|name| ["--bin", name])).collect();
    let programs: [(&[&str], &[&str]); 3] = [
        (&["test", "--no-run", "--tests"], &TESTED),
        (&measuring, &["jasper-benches"]),
        (&["build", "--bins"], &[COMMAND]),
    ];
    for (arguments, packages) in programs {
        for artifact in build(workspace, arguments, packages)? {
            copy(workspace, &artifact, &bundle)?;
        }
    }
    for (name, text) in SCRIPTS {
        fs::write(bundle.join(name), text)?;
    }
    let packed = pack(&bundle)?;
    let size = fs::metadata(&packed)?.len();
    println!(
        "{}: {} MiB; there, `tar -xJf bundle.tar.xz && sh bundle/run.sh`",
        packed.display(),
        size.div_ceil(1 << 20)
    );
    ensure!(
        size < MAX_MIB << 20,
        "the bundle takes {size} bytes, more than {MAX_MIB} MiB; leave something out"
    );
    Ok(())
}

/// Builds `packages` by the profile `dist` and returns the programs that came out.
fn build(workspace: &Workspace, arguments: &[&str], packages: &[&str]) -> Result<Vec<Artifact>> {
    let mut build = cargo(&workspace.root);
    build.args(arguments).args(["--profile", "dist", "--message-format=json-render-diagnostics"]);
    build.args(packages.iter().flat_map(|package| ["--package", package]));
    let mut child =
        build.stdout(Stdio::piped()).spawn().with_context(|| format!("{} does not start", line(&build)))?;
    let messages = BufReader::new(child.stdout.take().context("cargo has no output")?);
    let mut programs = Vec::new();
    for message in Message::parse_stream(messages) {
        match message? {
            Message::CompilerArtifact(artifact) if artifact.executable.is_some() => programs.push(artifact),
            _ => {}
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "{} ended with {status}", line(&build));
    Ok(programs)
}

/// Copies a program to its place, without its symbols.
fn copy(workspace: &Workspace, artifact: &Artifact, bundle: &Path) -> Result<()> {
    let Some(from) = &artifact.executable else { return Ok(()) };
    let to = bundle.join(place(artifact));
    fs::create_dir_all(to.parent().unwrap_or(bundle))?;
    fs::copy(from, &to).with_context(|| format!("{from} cannot be copied to {}", to.display()))?;
    run_command(command("strip", &workspace.root).arg(&to))
}

/// Where a program goes: `tests/PACKAGE.TEST`, `measure/PROGRAM`, `bin/COMMAND`.
fn place(artifact: &Artifact) -> PathBuf {
    let name = &artifact.target.name;
    if package(artifact) == "benches" {
        Path::new("measure").join(name)
    } else if artifact.profile.test {
        Path::new("tests").join(format!("{}.{name}", package(artifact)))
    } else {
        Path::new("bin").join(name)
    }
}

/// The folder of its package, which has its name.
fn package(artifact: &Artifact) -> &str {
    artifact.manifest_path.parent().and_then(|folder| folder.file_name()).unwrap_or_default()
}

/// Packs a folder into a file beside it.
fn pack(folder: &Path) -> Result<PathBuf> {
    let packed = folder.with_extension("tar.xz");
    let parent = folder.parent().unwrap_or(Path::new("."));
    let name = folder.file_name().context("a bundle has a name")?;
    let mut tar = command("tar", parent);
    run_command(tar.args(["--use-compress-program", PACKER, "-cf"]).arg(&packed).arg(name))?;
    Ok(packed)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process::installed;

    /// A folder with the scripts.
    fn bundle() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in SCRIPTS {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[cfg(unix)]
    #[test]
    fn every_program_runs_and_a_failure_is_reported() {
        use std::os::unix::fs::PermissionsExt;

        let folder = bundle();
        fs::create_dir(folder.path().join("tests")).unwrap();
        let run = |programs: &[(&str, &str)], step: &str| {
            for (name, text) in programs {
                let program = folder.path().join("tests").join(name);
                fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
                fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
            }
            let out = folder.path().join("out");
            fs::create_dir_all(&out).unwrap();
            let mut script = Command::new("sh");
            let output =
                script.arg(folder.path().join("run.sh")).arg(step).env("OUT", &out).output().unwrap();
            (
                output.status.code(),
                String::from_utf8(output.stdout).unwrap(),
                out.join("results.tar.gz").is_file(),
            )
        };
        let (status, said, _) = run(&[], "sing");
        assert_eq!((status, &*said), (Some(2), ""));
        let (status, said, packed) = run(&[("good", "test \"$JASPER_REQUIRE_GPU\" = 1")], "tests");
        assert_eq!((status, packed), (Some(0), true), "{said}");
        let (status, said, _) = run(&[("bad", "echo broken; exit 3")], "tests");
        assert_eq!(status, Some(1));
        let lines: Vec<&str> = said.lines().collect();
        assert!(
            matches!(lines[..], [bad, "    broken", good] if bad.starts_with("FAILED  tests/bad  status 3")
            && good.starts_with("passed  tests/good")),
            "{said}"
        );
    }

    #[test]
    fn what_programs_share_is_packed_once() {
        if !installed("xz") {
            return println!("skipped: xz is not installed");
        }
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("bundle");
        fs::create_dir(&folder).unwrap();
        // Digits of a generator that has no pattern.
        let mut state = 1_u32;
        let mut digit = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let shared: Vec<u8> = (0..1 << 16).map(|_| digit()).collect();
        for program in ["one", "two", "three"] {
            fs::write(folder.join(program), &shared).unwrap();
        }
        let packed = pack(&folder).unwrap();
        assert_eq!(packed, parent.path().join("bundle.tar.xz"));
        let size = fs::metadata(packed).unwrap().len();
        assert!((1 << 16..3 << 15).contains(&size), "{size} bytes");
    }

    #[test]
    fn neighbors_are_the_same_but_for_ties() {
        if !installed("python3") {
            return println!("skipped: python3 is not installed");
        }
        let folder = bundle();
        let write = |name: &str, ids: &[u32], distances: &[f32]| {
            let words = [1, ids.len() as u32].into_iter().chain(ids.iter().copied());
            let words = words.chain(distances.iter().map(|distance| distance.to_bits()));
            fs::write(folder.path().join(name), words.flat_map(u32::to_le_bytes).collect::<Vec<u8>>())
                .unwrap();
        };
        write("truth", &[1, 2, 3, 4], &[0.0, 1.0, 1.0, 2.0]);
        let same = |ids: &[u32]| {
            write("found", ids, &[]);
            let mut python = Command::new("python3");
            python.current_dir(&folder).args(["same_neighbors.py", "truth", "found"]);
            let output = python.output().unwrap();
            assert!(!output.stdout.is_empty(), "{output:?}");
            output.status.success()
        };
        assert!(same(&[1, 2]));
        assert!(same(&[1, 3]), "a tie");
        for wrong in [[1, 4], [1, 1], [2, 1], [1, 9]] {
            assert!(!same(&wrong), "{wrong:?}");
        }
    }
}
