//! A folder of small files, and the program run on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Output};

use assert_cmd::Command;
use jasper::{Element, MatrixView};
use jasper_core::synthetic::Clusters;
use jasper_data::write_vectors;
use serde_json::Value;
use tempfile::TempDir;

/// Coordinates of the vectors.
pub const DIMENSION: usize = 16;

/// The command, which signals end as they do in a terminal. A shell without job control ignores interrupts of what it
/// runs in the background, and so do the tests there, and their children.
pub fn interruptible() -> process::Command {
    let program = env!("CARGO_BIN_EXE_jasper");
    if cfg!(not(target_os = "linux")) {
        return process::Command::new(program);
    }
    let mut command = process::Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", program]);
    command
}

/// A folder that goes when the test ends.
pub struct Sandbox(TempDir);

impl Sandbox {
    /// An empty folder.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with `base.fbin` (400 rows), `query.fbin` (20 rows), `gt.ibin` (k = 20) and `vectors.jasper`.
    pub fn with_index() -> Self {
        let sandbox = Self::new();
        sandbox.vectors::<f32>("base.fbin", 400, 0);
        sandbox.vectors::<f32>("query.fbin", 20, 1);
        sandbox.ok(&["build", "--base", "base.fbin", "--metric", "l2", "--output", "vectors.jasper"]);
        let truth = ["groundtruth", "--base", "base.fbin", "--queries", "query.fbin"];
        sandbox.ok(&[&truth[..], &["--metric", "l2", "-k", "20", "--output", "gt.ibin"]].concat());
        sandbox
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Writes seeded rows; other streams are other rows of the same set.
    pub fn vectors<T: Element>(&self, name: &str, rows: usize, stream: u64) {
        let rows: Vec<T> = Clusters::new(DIMENSION, 7).rows(rows, stream);
        write_vectors(self.path(name), MatrixView::new(&rows, DIMENSION).unwrap()).unwrap();
    }

    /// Every file of the folder and its folders, and what it holds.
    pub fn content(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let (mut files, mut folders) = (Vec::new(), vec![self.folder().to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.push((path.clone(), fs::read(path).unwrap()));
                }
            }
        }
        files.sort();
        files
    }

    /// Runs the program in the folder.
    pub fn jasper(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_jasper"))
            .current_dir(self.folder())
            .args(arguments)
            .output()
            .unwrap()
    }

    /// Runs it with `--json`; it must succeed and say nothing on standard error. Gives its objects.
    pub fn ok(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.jasper(&[arguments, &["--json"]].concat());
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && stderr.is_empty(), "{arguments:?}: {stderr}");
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// As [`Self::ok`], for commands that report one object.
    pub fn one(&self, arguments: &[&str]) -> Value {
        let mut objects = self.ok(arguments);
        assert_eq!(objects.len(), 1, "{arguments:?}");
        objects.remove(0)
    }

    /// Runs it; it must fail with `code`, print nothing on standard output, and leave every file as it was. Gives what
    /// it says.
    pub fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let before = self.content();
        let output = self.jasper(arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}: {}", text(&output.stdout));
        assert!(stderr.starts_with("error: "), "{arguments:?}: {stderr}");
        assert!(self.content() == before, "{arguments:?} changed a file");
        stderr
    }
}

/// Runs each line of arguments; its error must hold each of the texts.
pub fn all_fail(sandbox: &Sandbox, code: i32, cases: &[(&str, &[&str])]) {
    for (line, texts) in cases {
        let error = sandbox.fails(code, &line.split_whitespace().collect::<Vec<_>>());
        for text in *texts {
            assert!(error.contains(text), "`{line}` says: {error}");
        }
    }
}

/// Whether there is a CUDA device. If there is none, prints that `what` is skipped, or fails where a device is
/// required.
#[cfg(feature = "cuda")]
pub fn has_gpu(what: &str) -> bool {
    use std::io::Write;
    let Err(error) = jasper_cuda::DeviceProperties::get(0) else { return true };
    assert!(std::env::var_os("JASPER_REQUIRE_GPU").is_none(), "{error}");
    // Past the capture of the test runner.
    let _ = writeln!(std::io::stderr(), "skipped {what}: there is no device");
    false
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
