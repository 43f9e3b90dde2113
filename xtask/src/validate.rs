//! Everything that CI runs, in order.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::process::{self, cargo, command, installed, line, output};
use crate::python::PYTHON;
use crate::workspace::Workspace;
use crate::{arm, fuzz, packages, ptx, python, site, tidy};

/// Checks of cargo-deny that need no advisory database.
const DENY_CHECKS: [&str; 4] = ["check", "bans", "licenses", "sources"];

/// The packages of users with a feature `cuda`, with that feature off.
const WITHOUT_CUDA: [&str; 7] =
    ["--package", "jasper", "--package", "jasper-cli", "--package", "jasper-python", "--no-default-features"];

/// The tests that may see whether CUDA is compiled in: those of devices and of quantization. The others have run with
/// CUDA, on the CPU where there is no GPU. Of all packages, because those that are named alone would have dependencies
/// with fewer features, which would all be compiled once more.
const DEVICE_TESTS: &str =
    "test --workspace --no-default-features --test index --test cli -- device cuda quantize stored";

/// Runs every step in order and stops at the first that fails. Steps whose program is not installed are skipped and
/// listed at the end.
///
/// # Errors
/// Of the first step that fails.
pub fn run(workspace: &Workspace) -> Result<()> {
    let root = &workspace.root;
    let mut list = List::default();
    list.step("format", cargo(root).args(["fmt", "--all", "--check"]))?;
    list.step("lints", cargo(root).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    list.step(
        "lints without CUDA",
        cargo(root).args(["clippy", "--all-targets"]).args(WITHOUT_CUDA).args(["--", "-D", "warnings"]),
    )?;
    list.step("reference", &mut site::reference(workspace))?;
    list.step(
        "reference without CUDA",
        site::deny_warnings(cargo(root).args([
            "doc",
            "--no-deps",
            "--package",
            "jasper",
            "--no-default-features",
        ])),
    )?;
    list.step_if_installed("book", &mut site::book(workspace), site::GET_MDBOOK)?;
    let mut deny = command("cargo-deny", root);
    list.step_if_installed(
        "dependencies",
        deny.args(DENY_CHECKS),
        "install it with `cargo install cargo-deny`",
    )?;
    list.section("tidy", "cargo xtask tidy");
    tidy::run(workspace)?;
    list.part("kernels", "cargo xtask ptx check", || ptx::check::check(workspace))?;
    let minimum = minimum_rust(workspace, &list)?;
    list.skip("minimum Rust", minimum);
    let readme = workspace.text("README.md")?.unwrap_or_default();
    let test = test_command(&readme).context("README.md shows no `cargo test` command in a fenced block")?;
    list.step("tests, as README.md says", cargo(root).args(test))?;
    list.step("tests of devices without CUDA", cargo(root).args(DEVICE_TESTS.split(' ')))?;
    list.part("fuzz", &format!("cargo xtask fuzz --seconds {}", fuzz::GATE_SECONDS), || {
        fuzz::check(workspace)
    })?;
    list.part("Arm", "cargo xtask arm", || arm::check(workspace))?;
    list.part("packages", "cargo xtask packages", || {
        packages::check(workspace)?;
        Ok(None)
    })?;
    list.part("Python", "cargo xtask python", || python::check(workspace, PYTHON))?;
    list.finish();
    Ok(())
}

/// Compiles everything with the oldest Rust that the manifests allow, or returns why not.
fn minimum_rust(workspace: &Workspace, list: &List) -> Result<Option<String>> {
    let version = &workspace.rust_version;
    let used = output(cargo(&workspace.root).arg("--version"))?;
    if used.starts_with(&format!("cargo {version}.")) {
        list.section("minimum Rust", &format!("{version} is the toolchain in use"));
        return Ok(None);
    }
    let toolchain = format!("+{version}");
    let mut check = command("cargo", &workspace.root);
    // The toolchain that runs this program would overrule the choice.
    check.args([&*toolchain, "check", "--workspace", "--all-targets"]).env_remove("RUSTUP_TOOLCHAIN");
    let installed = output(command("cargo", &workspace.root).args([&*toolchain, "--version"]));
    if !installed.is_ok_and(|line| line.starts_with(&format!("cargo {version}."))) {
        return Ok(Some(format!("Rust {version} is not installed; `rustup toolchain install {version}`")));
    }
    list.step("minimum Rust", &mut check)?;
    Ok(None)
}

/// Prints each step with its time, and the skipped steps at the end.
#[derive(Default)]
struct List {
    skipped: Vec<String>,
}

impl List {
    fn section(&self, name: &str, how: &str) {
        println!("\n== {name}: {how}");
    }

    fn step(&self, name: &str, command: &mut Command) -> Result<()> {
        self.section(name, &line(command));
        let start = Instant::now();
        process::run(command)?;
        print_time(name, "passed", start);
        Ok(())
    }

    /// A step that another command of this program has as well: it may say why it was skipped.
    fn part(&mut self, name: &str, how: &str, check: impl FnOnce() -> Result<Option<String>>) -> Result<()> {
        self.section(name, how);
        let start = Instant::now();
        let skipped = check()?;
        let verdict = if skipped.is_none() { "passed" } else { "skipped, or not all of it was run," };
        print_time(name, verdict, start);
        self.skip(name, skipped);
        Ok(())
    }

    fn step_if_installed(&mut self, name: &str, command: &mut Command, how_to_get: &str) -> Result<()> {
        let program = command.get_program().to_string_lossy().into_owned();
        if installed(&program) {
            return self.step(name, command);
        }
        self.section(name, "skipped");
        self.skip(name, Some(format!("{program} is not installed; {how_to_get}")));
        Ok(())
    }

    /// Records why a step, or a part of one, was skipped.
    fn skip(&mut self, name: &str, why: Option<String>) {
        self.skipped.extend(why.map(|why| format!("{name}: {why}")));
    }

    fn finish(self) {
        println!("\nall passed");
        for skipped in self.skipped {
            println!("skipped {skipped}");
        }
    }
}

fn print_time(name: &str, verdict: &str, start: Instant) {
    println!("== {name}: {verdict} in {:.0} s", start.elapsed().as_secs_f64());
}

/// The arguments of the first `cargo test` command in a fenced block of the README.
fn test_command(readme: &str) -> Option<Vec<&str>> {
    let mut fenced = false;
    readme.lines().map(str::trim).find_map(|line| {
        fenced ^= line.starts_with("```");
        let command = line.trim_start_matches("$ ").split('#').next()?;
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["cargo", "test", ..] if fenced => Some(words[1..].to_vec()),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_command_is_the_one_shown() {
        let readme = "Say `cargo test`.\n\ncargo test --prose\n```sh\ncargo run\n$ cargo test --workspace   # about a minute\n```\n";
        assert_eq!(test_command(readme).unwrap(), ["test", "--workspace"]);
        assert_eq!(test_command("cargo test --workspace\n"), None);
    }

    #[test]
    fn what_is_not_installed_is_named() {
        let mut list = List::default();
        let mut none = Command::new("no-such-program");
        list.step_if_installed("book", &mut none, "find it").unwrap();
        assert_eq!(list.skipped, ["book: no-such-program is not installed; find it"]);
    }
}
