//! Error messages and exit codes.

use std::error::Error;
use std::io::Write;

use jasper::ErrorKind;
use jasper_graph::{FileError, FileFault};
use jasper_vamana::SearchError;

use crate::interrupt;
use crate::terminal::output_error;

/// The command line is invalid, whatever the files contain.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Invalid input; nothing has changed.
const INVALID_INPUT: u8 = 1;
/// Invalid usage; clap uses the same code.
const INVALID_USAGE: u8 = 2;
/// The output files are complete, but printing failed, or they were not synced and a power cut could undo them.
const INCOMPLETE: u8 = 3;

/// Writes the error of a command to standard error, and returns the exit code.
pub fn report(result: anyhow::Result<()>) -> u8 {
    let (code, message) = match (result, output_error()) {
        (Err(error), _) => (exit_code(&error), describe(&error)),
        (Ok(()), Some(error)) => {
            (INCOMPLETE, format!("standard output cannot be written: {error}; output files are complete"))
        }
        (Ok(()), None) => return 0,
    };
    // Nothing can be done about standard error.
    let _ = writeln!(std::io::stderr(), "error: {message}");
    code
}

fn exit_code(error: &anyhow::Error) -> u8 {
    let is_written = |error: &(dyn Error + 'static)| {
        let file = match error.downcast_ref::<jasper::Error>() {
            Some(error) => error.downcast_ref(),
            None => error.downcast_ref(),
        };
        file.is_some_and(|error: &FileError| matches!(error.cause(), FileFault::NotSynced(_)))
    };
    if error.chain().any(is_written) {
        INCOMPLETE
    } else if interrupt::is_set() {
        interrupt::EXIT_CODE
    } else if error.chain().any(is_usage) {
        INVALID_USAGE
    } else {
        INVALID_INPUT
    }
}

/// The error and its causes on one line. A cause that is part of the message before it is omitted.
pub fn describe(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if message.is_empty() {
            message = cause;
        } else if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

fn is_usage(error: &(dyn Error + 'static)) -> bool {
    let kind = error.downcast_ref().map(jasper::Error::kind);
    error.is::<Usage>()
        || kind == Some(ErrorKind::InvalidParameter)
        || matches!(
            error.downcast_ref(),
            Some(SearchError::ZeroK | SearchError::ZeroBeamWidth | SearchError::BeamWidthLimit { .. })
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_shown_once() {
        let error =
            anyhow::anyhow!("disk full").context("a.jasper: cannot write: disk full").context("not saved");
        assert_eq!(describe(&error), "not saved: a.jasper: cannot write: disk full");
    }

    #[test]
    fn a_file_that_is_written_is_not_unchanged() {
        let fault = || FileFault::NotSynced(std::io::ErrorKind::Other.into());
        let error = anyhow::Error::from(FileError::new("x.jasper".as_ref(), fault())).context("saving");
        assert_eq!(exit_code(&error), INCOMPLETE);
        let error = jasper::Error::from(FileError::new("x.jasper".as_ref(), fault()));
        assert_eq!(exit_code(&error.into()), INCOMPLETE);
        assert_eq!(exit_code(&anyhow::anyhow!("no such file")), INVALID_INPUT);
    }

    #[test]
    fn impossible_parameters_are_invalid_usage() {
        let params = jasper::Error::from(jasper_core::BuildParams::builder().alpha(0.1).build().unwrap_err());
        assert!(anyhow::Error::from(params).chain().any(is_usage));
        let k = anyhow::Error::from(SearchError::ZeroK).context("searching");
        assert!(k.chain().any(is_usage));
        assert!(anyhow::Error::from(jasper::Error::from(SearchError::ZeroK)).chain().any(is_usage));
        assert!(!anyhow::anyhow!("no such file").chain().any(is_usage));
    }
}
