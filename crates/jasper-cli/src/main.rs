//! The program of the command `jasper`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    jasper_cli::run(std::env::args_os()).into()
}
