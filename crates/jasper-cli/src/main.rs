//! The command `jasper`. Each command is a file of its own.
//!
//! | module | holds |
//! | --- | --- |
//! | `commands` | what can be asked of the program, one file a command |
//! | `element` | from the element type that a file names to the type of the code that works on it |
//! | `change` | how commands open, change and save an index |
//! | `graph` | how commands that make a graph build it |
//! | `keep` | where vectors are kept |
//! | `place` | on which device commands search |
//! | `tuned` | searches that were tuned, in a table |
//! | `files` | vector and truth files that go with an index |
//! | `format` | what a file to be converted is |
//! | `curve` | recall against queries per second, measured |
//! | `profile` | what each query took, in a table |
//! | `plot` | recall, speed, streams and the roofline, drawn |
//! | `screen`, `human` | what goes to the terminal, as text or as JSON |
//! | `interrupt` | Ctrl-C, where a command ends its work in good order |
//! | `machine` | what the operating system knows of this process |
//! | `failure` | how errors are told, and which exit code they get |

#![forbid(unsafe_code)]

mod change;
mod commands;
mod curve;
mod distances;
mod element;
mod failure;
mod files;
mod format;
mod graph;
mod human;
mod interrupt;
mod keep;
mod machine;
mod place;
mod plot;
mod profile;
mod screen;
mod tuned;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = commands::Cli::parse();
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::tell(&error),
    }
}
