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
mod quantize;
mod runbook;
mod search;
mod stream;
mod tune;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::terminal::Terminal;

/// Vector search on CPUs and GPUs, with updates
///
/// Exit codes: 0 success, 1 invalid input (nothing has changed), 2 invalid usage. Errors go to standard error.
#[derive(Debug, Parser)]
#[command(name = "jasper", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    terminal: Terminal,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Build(build::Args),
    Search(search::Args),
    Insert(insert::Args),
    Delete(delete::Args),
    Consolidate(consolidate::Args),
    Compact(compact::Args),
    Quantize(quantize::Args),
    Check(check::Args),
    Info(info::Args),
    Groundtruth(groundtruth::Args),
    Eval(eval::Args),
    Tune(tune::Args),
    Stream(stream::Args),
    Runbook(runbook::Args),
    Convert(convert::Args),
    Devices(devices::Args),
}

impl Cli {
    /// Runs the command.
    pub fn run(self) -> Result<()> {
        let terminal = self.terminal;
        match self.command {
            Command::Demo(args) => args.run(terminal),
            Command::Build(args) => args.run(terminal),
            Command::Search(args) => args.run(terminal),
            Command::Insert(args) => args.run(terminal),
            Command::Delete(args) => args.run(terminal),
            Command::Consolidate(args) => args.run(terminal),
            Command::Compact(args) => args.run(terminal),
            Command::Quantize(args) => args.run(terminal),
            Command::Check(args) => args.run(terminal),
            Command::Info(args) => args.run(terminal),
            Command::Groundtruth(args) => args.run(terminal),
            Command::Eval(args) => args.run(terminal),
            Command::Tune(args) => args.run(terminal),
            Command::Stream(args) => args.run(terminal),
            Command::Runbook(args) => args.run(terminal),
            Command::Convert(args) => args.run(terminal),
            Command::Devices(args) => args.run(terminal),
        }
    }
}
