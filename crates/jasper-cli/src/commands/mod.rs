//! What can be asked of the program: one file a command.

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

use crate::screen::Screen;

/// Vector indexes that are fast to search and can be changed: Vamana graphs.
///
/// Exit codes: 0 all is well, 1 bad input and nothing has changed, 2 bad usage. Errors go to standard error.
#[derive(Debug, Parser)]
#[command(name = "jasper", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    screen: Screen,
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
    /// Does what was asked.
    pub fn run(self) -> Result<()> {
        let screen = self.screen;
        match self.command {
            Command::Demo(args) => args.run(screen),
            Command::Build(args) => args.run(screen),
            Command::Search(args) => args.run(screen),
            Command::Insert(args) => args.run(screen),
            Command::Delete(args) => args.run(screen),
            Command::Consolidate(args) => args.run(screen),
            Command::Compact(args) => args.run(screen),
            Command::Quantize(args) => args.run(screen),
            Command::Check(args) => args.run(screen),
            Command::Info(args) => args.run(screen),
            Command::Groundtruth(args) => args.run(screen),
            Command::Eval(args) => args.run(screen),
            Command::Tune(args) => args.run(screen),
            Command::Stream(args) => args.run(screen),
            Command::Runbook(args) => args.run(screen),
            Command::Convert(args) => args.run(screen),
            Command::Devices(args) => args.run(screen),
        }
    }
}
