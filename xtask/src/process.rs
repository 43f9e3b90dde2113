//! Runs other programs, without a shell.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// A command that works in `folder`.
pub fn command(program: impl Into<OsString>, folder: &Path) -> Command {
    let mut command = Command::new(program.into());
    command.current_dir(folder);
    command
}

/// The cargo that runs this program, so that a chosen toolchain stays chosen.
pub fn cargo(folder: &Path) -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), folder)
}

/// Runs `command` to its end.
///
/// # Errors
/// When it cannot be started or does not end well.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{} does not start", line(command)))?;
    ensure!(status.success(), "{} ended with {status}", line(command));
    Ok(())
}

/// Runs `command` to its end and returns what it prints to standard output.
///
/// # Errors
/// When it cannot be started or does not end well.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{} does not start", line(command)))?;
    ensure!(output.status.success(), "{} ended with {}", line(command), output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Whether `program` can be started from the search path.
pub fn installed(program: &str) -> bool {
    let quiet = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

/// `command` as typed in a shell.
pub fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or(command.get_program());
    std::iter::once(program)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_name_the_command() {
        let here = Path::new(".");
        assert!(run(cargo(here).arg("--version").stdout(Stdio::null())).is_ok());
        let error = run(cargo(here).arg("no-such-command").stderr(Stdio::null())).unwrap_err();
        assert!(error.to_string().starts_with("cargo no-such-command ended with"), "{error}");
        let error = run(&mut command("no-such-program", here)).unwrap_err();
        assert_eq!(error.to_string(), "no-such-program does not start");
        assert!(!installed("no-such-program"));
    }
}
