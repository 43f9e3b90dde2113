//! The command `jasper`.
//!
//! | module | contents |
//! | --- | --- |
//! | `commands` | the commands, one file each |
//! | `args` | options that several commands share: device, graph, distances, quantization, vector storage |
//! | `update` | locking, opening, updating and saving an index |
//! | `files` | vector and ground-truth files that match an index |
//! | `outputs` | checks of output files before the work begins |
//! | `format` | file formats of `convert` |
//! | `curve` | measuring recall and queries per second |
//! | `profile` | the cost of queries, as a table |
//! | `tuned` | tuned searches, as a table |
//! | `plot` | plots of recall, speed, runbooks and the roofline |
//! | `terminal`, `units` | output as text or JSON; numbers and units for people |
//! | `interrupt` | Ctrl-C and SIGTERM |
//! | `process` | memory and CPU time of this process |
//! | `error` | error messages and exit codes |

#![forbid(unsafe_code)]

mod args;
mod commands;
mod curve;
mod error;
mod files;
mod format;
mod interrupt;
mod outputs;
mod plot;
mod process;
mod profile;
mod terminal;
mod tuned;
mod units;
mod update;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = commands::Cli::parse();
    interrupt::install();
    error::report(cli.run())
}
