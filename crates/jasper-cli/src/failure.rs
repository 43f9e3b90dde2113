//! How errors are told, and which exit code they get.

use std::error::Error;
use std::io;
use std::process::ExitCode;

use jasper::tune::TuneError;
use jasper::{BuildError, SearchError};

/// The command line asks for what cannot be, whatever the files hold.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}

/// Bad input; nothing has changed.
const BAD_INPUT: u8 = 1;
/// Bad usage: the code that clap gives as well.
const BAD_USAGE: u8 = 2;

/// Writes the error to standard error, and gives its exit code.
pub fn tell(error: &anyhow::Error) -> ExitCode {
    if is_closed_pipe(error) {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {}", describe(error));
    ExitCode::from(if error.chain().any(is_usage) { BAD_USAGE } else { BAD_INPUT })
}

/// The error and its causes on one line; a cause that the error above it has told already is left out.
pub fn describe(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if told.is_empty() {
            told = cause;
        } else if !told.contains(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    told
}

fn is_usage(error: &(dyn Error + 'static)) -> bool {
    let search = error.downcast_ref::<SearchError>();
    error.is::<Usage>()
        || matches!(error.downcast_ref(), Some(BuildError::Param(_)))
        || matches!(error.downcast_ref(), Some(TuneError::Recall(_)))
        || matches!(
            search,
            Some(SearchError::NoAnswers | SearchError::BeamWidth { .. } | SearchError::Widest { .. })
        )
}

/// Whoever read our output has seen enough: `jasper search ... | head`.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .root_cause()
        .downcast_ref()
        .is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once() {
        let error =
            anyhow::anyhow!("disk full").context("a.jasper: cannot write: disk full").context("not saved");
        assert_eq!(describe(&error), "not saved: a.jasper: cannot write: disk full");
    }

    #[test]
    fn impossible_parameters_are_bad_usage() {
        let params = BuildError::from(jasper::BuildParams::builder().alpha(0.1).build().unwrap_err());
        assert!(anyhow::Error::from(params).chain().any(is_usage));
        let k = anyhow::Error::from(SearchError::NoAnswers).context("searching");
        assert!(k.chain().any(is_usage));
        assert!(!anyhow::anyhow!("no such file").chain().any(is_usage));
    }
}
