//! The commands of the README and of the book run as they stand there.

use std::path::Path;
use std::process::Command;

use crate::common::Sandbox;

/// Runs the shell blocks of a page as one script, but for what calls cargo, with `jasper` at hand.
fn run(page: &str, sandbox: &Sandbox) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let text = std::fs::read_to_string(root.join(page)).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines = blocks.flat_map(str::lines).filter(|line| !line.starts_with("cargo "));
    let script = lines.fold(String::from("set -e\n"), |script, line| script + line + "\n");
    assert!(script.contains("\njasper "), "{page} has no command");
    std::os::unix::fs::symlink(root.join("crates"), sandbox.path("crates")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_jasper")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &script])
        .env("PATH", path)
        .current_dir(sandbox.folder())
        .output()
        .unwrap();
    assert!(output.status.success(), "{page}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_readme_is_true() {
    run("README.md", &Sandbox::with_index());
}

#[test]
fn the_pages_on_tuning_and_on_a_gpu_are_true() {
    let sandbox = Sandbox::with_index();
    run("docs/src/gpu.md", &sandbox);
    std::fs::remove_file(sandbox.path("crates")).unwrap();
    run("docs/src/tuning.md", &sandbox);
}

#[test]
fn the_page_on_filters_is_true() {
    let sandbox = Sandbox::new();
    run("docs/src/filters.md", &sandbox);
    let found = String::from_utf8(sandbox.read("verbs.jsonl")).unwrap();
    assert!(found.lines().count() == 500 && !found.contains(r#""part":"n""#), "{found}");
}

#[test]
fn the_page_on_streams_is_true() {
    let sandbox = Sandbox::new();
    run("docs/src/updates.md", &sandbox);
    assert!(["stream.svg", "truth/step42.gt100"].iter().all(|name| sandbox.path(name).is_file()));
}

#[test]
fn the_quick_start_is_true() {
    let sandbox = Sandbox::new();
    run("docs/src/quick-start.md", &sandbox);
    let info = sandbox.one(&["info", "entries.jasper"]);
    assert_eq!([&info["vectors"], &info["deleted"], &info["free"]], [30_400, 0, 0]);
    assert!(
        ["recall.svg", "results.ibin", "truth.ibin", "base.npy"]
            .iter()
            .all(|name| sandbox.path(name).is_file())
    );
}
