//! Errors of playing a runbook.

use jasper::Error;

use super::TruthFileError;
use crate::RunbookError;

/// A runbook could not be played to its end. The index is as before the step that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// The base has too few vectors for the runbook.
    #[error(transparent)]
    Runbook(#[from] RunbookError),
    /// Base, queries and index differ in dimension.
    #[error("base, queries and index have dimensions {base}, {queries} and {index}; all must be equal")]
    Dimension {
        /// Dimension of the base.
        base: usize,
        /// Dimension of the queries.
        queries: usize,
        /// Dimension of the index.
        index: usize,
    },
    /// There are no queries.
    #[error("there are no queries; a runbook needs at least one")]
    NoQueries,
    /// The index is not empty.
    #[error("the index holds {0} keys; a runbook begins with an empty one")]
    NotEmpty(usize),
    /// The threads of the exact search could not be started.
    #[error("threads cannot be started: {0}")]
    Threads(Box<dyn std::error::Error + Send + Sync>),
    /// The index could not be rebuilt.
    #[error(transparent)]
    Build(#[from] Error),
    /// A step failed.
    #[error("step {step}: {cause}")]
    Step {
        /// The number of the step.
        step: usize,
        /// The cause.
        cause: StepCause,
    },
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepCause {
    /// A change or a search of the index.
    #[error(transparent)]
    Index(#[from] Error),
    /// The true neighbors could not be read or computed.
    #[error(transparent)]
    Truth(#[from] TruthFileError),
}
