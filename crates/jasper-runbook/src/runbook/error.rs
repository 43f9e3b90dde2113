//! Errors of runbooks.

use jasper_core::MAX_VECTORS;

use super::Runbook;

/// Why the file of a runbook could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadCause {
    /// An I/O error.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file is not a valid runbook.
    #[error(transparent)]
    Runbook(#[from] RunbookError),
}

/// A runbook is invalid, or cannot be generated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunbookError {
    /// The text is not YAML, or does not have the structure of a runbook.
    #[error("line {line}: {problem}")]
    Yaml {
        /// The line, from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
    /// A key is neither a step number nor a known field.
    #[error("line {line}: `{key}` is no step; a runbook has steps with numbers from 1, max_pts and gt_url")]
    Key {
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
    },
    /// There are no steps.
    #[error("holds no steps; a runbook is `dataset:` and below it steps with numbers from 1")]
    Empty,
    /// The file holds several runbooks, and no data set was named.
    #[error("holds runbooks of {known}; name the data set")]
    Several {
        /// Data sets of the file.
        known: String,
    },
    /// The file holds no runbook of the named data set.
    #[error("holds no runbook of the data set {name}, but of {known}")]
    Dataset {
        /// The named data set.
        name: String,
        /// Data sets of the file.
        known: String,
    },
    /// A step number is missing.
    #[error("step {missing} is missing: line {line} is step {next}; steps are numbered from 1 without gaps")]
    Gap {
        /// The first missing number.
        missing: usize,
        /// The next number.
        next: usize,
        /// Line of that step.
        line: usize,
    },
    /// The number of rounds is out of bounds.
    #[error(
        "rounds ({rounds}) must be at least {least}, and at most {rows}, the number of rows, and {}; change rounds, or \
         give more rows",
        Runbook::MAX_ROUNDS
    )]
    Rounds {
        /// Number of rounds.
        rounds: u32,
        /// Least number of rounds.
        least: u32,
        /// Number of rows.
        rows: u32,
    },
    /// The share that a round replaces is out of bounds.
    #[error("share ({0}) must be above 0 and at most 1")]
    Share(f64),
    /// A round would replace nothing.
    #[error(
        "share ({share}) of the {points} vectors that the index would hold is less than one; raise the share, give more \
         rows, or lower rounds"
    )]
    NothingReplaced {
        /// The share that a round replaces.
        share: f64,
        /// Points in the index.
        points: u32,
    },
    /// A step is invalid.
    #[error("step {step}{}: {problem}", on(*line))]
    Step {
        /// The step, from 1.
        step: usize,
        /// Its line, from 1, if it was read from a file.
        line: Option<usize>,
        /// The problem with the step.
        problem: StepError,
    },
}

fn on(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(" (line {line})"))
}

/// Why a step is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The operation is unknown.
    #[error("operation `{0}` is not known; use insert, delete, replace or search")]
    Operation(String),
    /// A field is missing.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// The operation does not have the field.
    #[error("`{field}` is no field of {operation}")]
    Field {
        /// The field.
        field: String,
        /// The operation.
        operation: &'static str,
    },
    /// A field is not a row or tag.
    #[error("{field} ({value}) must be a whole number from 0 to {MAX_VECTORS}")]
    Number {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// A range is empty.
    #[error("the end ({end}) must be above the start ({start})")]
    Range {
        /// Start of the range.
        start: u32,
        /// End of the range, exclusive.
        end: u32,
    },
    /// The numbers of tags and of new vectors differ.
    #[error("replaces the vectors of {tags} tags by {ids} others; there must be one for each")]
    Lengths {
        /// Number of tags.
        tags: usize,
        /// Number of new vectors.
        ids: usize,
    },
    /// An inserted tag exists already.
    #[error("tag {0} is in the index already; delete it first, or replace it")]
    Live(u32),
    /// A deleted or replaced tag does not exist.
    #[error("tag {0} is not in the index; insert it first")]
    NotLive(u32),
    /// A search is on an empty index.
    #[error("the index is empty; insert before searching")]
    Nothing,
    /// The base lacks a row.
    #[error("needs row {row}, the base has {rows}; is this the base of the runbook?")]
    Row {
        /// The last row that the step needs.
        row: u32,
        /// Rows of the base.
        rows: usize,
    },
}
