//! The command `jasper`, as a function: for its program, and for the Python package, which installs it too.
//!
//! | module | contents |
//! | --- | --- |
//! | `commands` | the commands, one file each |
//! | `args` | options that several commands share: device, graph, distances, quantization, vector storage |
//! | `update` | opening, updating and saving an index |
//! | `files` | vector and ground-truth files that match an index |
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
mod plot;
mod process;
mod profile;
mod terminal;
mod tuned;
mod units;
mod update;

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;

/// Runs the command with arguments, the first of which is its name. Returns its exit code: 0 for success, 1 for invalid
/// input, 2 for invalid usage. Writes to standard output and standard error. A second Ctrl-C during a command that
/// finishes something first ends the process.
///
/// ```
/// assert_eq!(jasper_cli::run(["jasper", "--version"]), 0);
/// assert_eq!(jasper_cli::run(["jasper", "no-such-command"]), 2);
/// ```
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    let code = match commands::Cli::try_parse_from(arguments) {
        Ok(cli) => cli.run().map_or_else(|error| error::report(&error), |()| 0),
        Err(usage) => {
            // Nobody reads it, if it cannot be written.
            let _ = usage.print();
            usage.exit_code() as u8
        }
    };
    // The process may be one of Python, which does not flush the output of Rust at its end.
    let _ = std::io::stdout().flush();
    code
}
