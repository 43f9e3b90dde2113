//! The command `jasper`, as a function: for its program, and for the Python package, which installs it too.
//!
//! | module | contents |
//! | --- | --- |
//! | `commands` | the commands, one file each |
//! | `args` | options that several commands share: attributes, device, graph, distances, quantization, vector storage |
//! | `update` | locking, opening, updating and saving an index |
//! | `files` | vector and ground-truth files that match an index |
//! | `command_files` | the files of a command, checked before its work begins |
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
mod command_files;
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

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write};
use std::{panic, thread};

use anyhow::anyhow;
use clap::Parser;

/// Returns the contents of a file by its name.
pub type ReadFile<'a> = &'a (dyn Fn(&str) -> io::Result<Cow<'static, [u8]>> + Sync);

/// Bytes of stack of a command, which runs on a thread of its own: that of the main thread may be limited to less than it
/// needs (`ulimit -s`).
const STACK_BYTES: usize = 8 << 20;

/// Runs the command with arguments, the first of which is its name. Returns its exit code: 0 for success, 1 for invalid
/// input, 2 for invalid usage, 3 if the output files are complete but the report is not. Writes to standard output and
/// standard error. An interrupt removes temporary files and ends the process with exit code 130.
///
/// `dictionary` reads the files of `jasper demo`, which `data/README.md` describes. No other command calls it.
///
/// ```
/// let none = |_: &str| Err(std::io::ErrorKind::NotFound.into());
/// assert_eq!(jasper_cli::run(["jasper", "--version"], &none), 0);
/// assert_eq!(jasper_cli::run(["jasper", "no-such-command"], &none), 2);
/// ```
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString>>, dictionary: ReadFile<'_>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    thread::scope(|scope| {
        let command = thread::Builder::new().name("jasper".to_owned()).stack_size(STACK_BYTES);
        match command.spawn_scoped(scope, || run_command(arguments, dictionary)) {
            Ok(command) => command.join().unwrap_or_else(|panic| panic::resume_unwind(panic)),
            Err(error) => {
                error::report(Err(anyhow!(error).context("a thread cannot be started; end other threads")))
            }
        }
    })
}

fn run_command(arguments: Vec<OsString>, dictionary: ReadFile<'_>) -> u8 {
    let code = match commands::Cli::try_parse_from(arguments) {
        Ok(cli) => {
            interrupt::install();
            error::report(cli.run(dictionary))
        }
        Err(usage) if usage.use_stderr() => {
            // Nobody reads it, if it cannot be written.
            let _ = usage.print();
            usage.exit_code() as u8
        }
        Err(help) => {
            terminal::note_output(help.print());
            error::report(Ok(()))
        }
    };
    // The process may be one of Python, which does not flush the output of Rust at its end.
    let _ = io::stdout().flush();
    code
}
