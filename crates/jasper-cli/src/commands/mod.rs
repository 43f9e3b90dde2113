//! The commands, one file each.

mod build;
mod check;
mod compact;
mod consolidate;
mod convert;
mod delete;
mod demo;
mod devices;
mod eval;
mod groundtruth;
mod info;
mod insert;
mod merge;
mod quantize;
mod runbook;
mod search;
mod set_attributes;
mod stream;
mod tune;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::ReadFile;
use crate::terminal::Terminal;

/// Vector search on CPUs and GPUs, with updates
///
/// Exit codes: 0 success, 1 invalid input (nothing has changed), 2 invalid usage, 3 output files are complete but not the
/// report, 130 interrupted. Errors go to standard error.
#[derive(Debug, Parser)]
#[command(name = "jasper", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    terminal: Terminal,
}

/// The commands and their modules, besides the demonstration, which has data of its own.
macro_rules! commands {
    ($($Command:ident($module:ident),)*) => {
        #[derive(Debug, Subcommand)]
        enum Command {
            Demo(demo::Args),
            $($Command($module::Args),)*
        }

        impl Cli {
            /// Runs the command.
            pub fn run(self, dictionary: ReadFile<'_>) -> Result<()> {
                match self.command {
                    Command::Demo(args) => {
                        args.files().check()?;
                        args.run(dictionary, self.terminal)
                    }
                    $(Command::$Command(args) => {
                        args.files().check()?;
                        args.run(self.terminal)
                    })*
                }
            }
        }
    };
}

commands! {
    Build(build),
    Search(search),
    Insert(insert),
    Merge(merge),
    Delete(delete),
    SetAttributes(set_attributes),
    Consolidate(consolidate),
    Compact(compact),
    Quantize(quantize),
    Check(check),
    Info(info),
    Groundtruth(groundtruth),
    Eval(eval),
    Tune(tune),
    Stream(stream),
    Runbook(runbook),
    Convert(convert),
    Devices(devices),
}
