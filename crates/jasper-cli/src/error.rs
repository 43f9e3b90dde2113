//! Error messages and exit codes.

use std::error::Error;
use std::io;

use jasper::error::TuneError;
use jasper::{BuildError, SearchError};

/// The command line is invalid, whatever the files contain.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Invalid input; nothing has changed.
const INVALID_INPUT: u8 = 1;
/// Invalid usage; clap uses the same code.
const INVALID_USAGE: u8 = 2;

/// Writes the error to standard error and returns its exit code.
pub fn report(error: &anyhow::Error) -> u8 {
    if is_closed_pipe(error) {
        return 0;
    }
    eprintln!("error: {}", describe(error));
    if error.chain().any(is_usage) { INVALID_USAGE } else { INVALID_INPUT }
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
    let tune = error.downcast_ref::<TuneError>();
    let search = match tune {
        Some(TuneError::Search(search)) => Some(search),
        _ => error.downcast_ref::<SearchError>(),
    };
    error.is::<Usage>()
        || matches!(error.downcast_ref(), Some(BuildError::Param(_)))
        || matches!(tune, Some(TuneError::Recall(_)))
        || matches!(
            search,
            Some(SearchError::ZeroK | SearchError::BeamWidth { .. } | SearchError::BeamWidthLimit { .. })
        )
}

/// The reader of our output has closed it, as in `jasper search ... | head`.
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
    fn causes_are_shown_once() {
        let error =
            anyhow::anyhow!("disk full").context("a.jasper: cannot write: disk full").context("not saved");
        assert_eq!(describe(&error), "not saved: a.jasper: cannot write: disk full");
    }

    #[test]
    fn impossible_parameters_are_invalid_usage() {
        let params = BuildError::from(jasper::BuildParams::builder().alpha(0.1).build().unwrap_err());
        assert!(anyhow::Error::from(params).chain().any(is_usage));
        let k = anyhow::Error::from(SearchError::ZeroK).context("searching");
        assert!(k.chain().any(is_usage));
        assert!(anyhow::Error::from(TuneError::from(SearchError::ZeroK)).chain().any(is_usage));
        assert!(!anyhow::anyhow!("no such file").chain().any(is_usage));
    }
}
