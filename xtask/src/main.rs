//! The chores of this repository, as `cargo xtask CHORE`.
//!
//! | module | chore |
//! | --- | --- |
//! | [`tidy`] | the rules of the house that no compiler checks; they also run as a test of this package |
//! | [`validate`] | everything that CI does, in one list |
//! | [`site`] | the book and the reference, as one folder of pages |
//!
//! [`workspace`] reads the repository for all of them, [`process`] starts the other programs.

#![forbid(unsafe_code)]

mod process;
mod site;
mod tidy;
mod validate;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask CHORE

  tidy      check layering, manifests, file headers, file lengths, unsafe code, links and paths
  validate  everything that CI does: format, lints, docs, book, dependencies, tidy, tests
  docs      build the book and the reference into target/site";

fn main() -> ExitCode {
    let chores: Vec<String> = std::env::args().skip(1).collect();
    let chore = match chores.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run,
        ["validate"] => validate::run,
        ["docs"] => site::run,
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match Workspace::load().and_then(|workspace| chore(&workspace)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
