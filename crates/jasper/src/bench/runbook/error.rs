//! What can go wrong while a runbook is played.

use jasper_data::RunbookError;
use jasper_vamana::{SearchError, UpdateError};

use super::TruthFileError;
use crate::BuildError;

/// A runbook could not be played to its end. The steps before the error are done, that of the error is not.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// The base is not that of the runbook.
    #[error(transparent)]
    Runbook(#[from] RunbookError),
    /// Base, queries and index are not of one dimension.
    #[error("base, queries and index have dimensions {base}, {queries} and {index}; all must be equal")]
    Dimension {
        /// Dimension of the base.
        base: usize,
        /// Dimension of the queries.
        queries: usize,
        /// Dimension of the index.
        index: usize,
    },
    /// Nothing would be measured.
    #[error("there are no queries; a runbook needs at least one")]
    NoQueries,
    /// The index holds keys already, which the runbook knows nothing of.
    #[error("the index holds {0} keys; a runbook begins with an empty one")]
    NotEmpty(usize),
    /// The threads of exact searches could not be started.
    #[error("threads cannot be started: {0}")]
    Threads(Box<dyn std::error::Error + Send + Sync>),
    /// The index to compare with could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A step failed.
    #[error("step {step}: {cause}")]
    Step {
        /// Its number.
        step: usize,
        /// What failed.
        cause: StepCause,
    },
}

/// What failed in a step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepCause {
    /// An insert, replacement, delete or consolidation.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// A search.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// What is true at the step is not known.
    #[error(transparent)]
    Truth(#[from] TruthFileError),
}
