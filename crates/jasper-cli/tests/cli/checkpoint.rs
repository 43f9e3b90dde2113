//! Builds that are killed, interrupted and resumed by the same command.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::common::{Sandbox, interruptible};

const BUILD: [&str; 9] =
    ["build", "--base", "base.u8bin", "--metric", "l2", "--threads", "2", "--output", "vectors.jasper"];
const ROWS: usize = 6000;

/// The build by `program`, with a checkpoint after every batch.
fn start(sandbox: &Sandbox, mut program: Command) -> Child {
    program
        .current_dir(sandbox.folder())
        .args(BUILD)
        .arg("--checkpoint=0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// When the file was written, if it is there.
fn written(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

/// Starts the build, sends it a signal when it has written some more checkpoints, and waits for its end.
fn send(sandbox: &Sandbox, program: Command, signal: &str) -> Output {
    let checkpoint = sandbox.path("vectors.jasper.checkpoint");
    let mut last = written(&checkpoint);
    let child = start(sandbox, program);
    let begun = Instant::now();
    for _ in 0..5 {
        while written(&checkpoint) == last {
            assert!(begun.elapsed() < Duration::from_secs(60), "there is no checkpoint");
            std::thread::sleep(Duration::from_micros(200));
        }
        last = written(&checkpoint);
    }
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    child.wait_with_output().unwrap()
}

#[test]
fn a_build_goes_on_after_kills_and_interrupts_to_the_same_file() {
    let sandbox = Sandbox::new();
    sandbox.vectors::<u8>("base.u8bin", ROWS, 0);
    sandbox.ok(&BUILD);
    fs::rename(sandbox.path("vectors.jasper"), sandbox.path("whole.jasper")).unwrap();
    for signal in ["-KILL", "-KILL", "-INT", "-TERM"] {
        let output = send(&sandbox, interruptible(), signal);
        assert!(!sandbox.path("vectors.jasper").exists(), "it was stopped before it was done");
        if signal == "-KILL" {
            assert_eq!(output.status.signal(), Some(9));
            continue;
        }
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{message}");
        let way_on =
            "error: the same command resumes from vectors.jasper.checkpoint: cancelled while linking (";
        assert!(message.starts_with(way_on), "{message}");
    }
    let other = ["--base", "base.u8bin", "--metric", "cosine", "--output", "vectors.jasper", "--checkpoint"];
    let message = sandbox.fails(1, &[&["build"], &other[..]].concat());
    assert!(message.contains("whose metric is l2, not cosine"), "{message}");

    let report = sandbox.one(&[&BUILD[..], &["--checkpoint"]].concat());
    let resumed = report["resumed"].as_u64().unwrap();
    assert!(resumed > 0 && resumed < ROWS as u64, "{report}");
    assert!(sandbox.read("vectors.jasper") == sandbox.read("whole.jasper"), "the same index");
    let names: Vec<_> = sandbox.content().into_iter().map(|(path, _)| path).collect();
    assert_eq!(names, ["base.u8bin", "vectors.jasper", "whole.jasper"].map(|name| sandbox.path(name)));
}

#[test]
fn a_build_under_nohup_outlives_its_terminal() {
    let sandbox = Sandbox::new();
    sandbox.vectors::<u8>("base.u8bin", ROWS, 0);
    let mut program = Command::new("nohup");
    program.arg(env!("CARGO_BIN_EXE_jasper"));
    let output = send(&sandbox, program, "-HUP");
    assert!(output.status.success(), "{output:?}");
    assert!(sandbox.path("vectors.jasper").is_file());
}
