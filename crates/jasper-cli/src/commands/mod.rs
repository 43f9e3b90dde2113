//! What can be asked of the program: one file a command.

mod build;
mod eval;
mod info;

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
    Build(build::Args),
    Eval(eval::Args),
    Info(info::Args),
}

impl Cli {
    /// Does what was asked.
    pub fn run(self) -> Result<()> {
        let screen = self.screen;
        match self.command {
            Command::Build(args) => args.run(screen),
            Command::Eval(args) => args.run(screen),
            Command::Info(args) => args.run(screen),
        }
    }
}
