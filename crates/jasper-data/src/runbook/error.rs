//! What is wrong with a runbook.

use jasper_core::MAX_VECTORS;

/// A runbook cannot be played as it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunbookError {
    /// The text is no YAML, or of another shape than a runbook's.
    #[error("line {line}: {problem}")]
    Yaml {
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// A runbook holds something that is neither a step nor known beside steps.
    #[error("line {line}: `{key}` is no step; a runbook has steps with numbers from 1, max_pts and gt_url")]
    Key {
        /// The line, from 1.
        line: usize,
        /// What stands in the place of a number.
        key: String,
    },
    /// There is no runbook, or no step in it.
    #[error("holds no steps; a runbook is `dataset:` and below it steps with numbers from 1")]
    Empty,
    /// The file holds runbooks of several data sets, and none was named.
    #[error("holds runbooks of {known}; name the data set")]
    Several {
        /// Data sets of the file.
        known: String,
    },
    /// The file holds no runbook of the data set that was named.
    #[error("holds no runbook of the data set {asked}, but of {known}")]
    Dataset {
        /// Data set asked for.
        asked: String,
        /// Data sets of the file.
        known: String,
    },
    /// Steps are not numbered one after the other.
    #[error("step {missing} is missing: line {line} is step {next}; steps are numbered from 1 without gaps")]
    Gap {
        /// The first number that is not there.
        missing: usize,
        /// The number behind it that is.
        next: usize,
        /// Line of that step.
        line: usize,
    },
    /// A step cannot be done.
    #[error("step {step}{}: {problem}", on(*line))]
    Step {
        /// The step, from 1.
        step: usize,
        /// Its line, from 1, if it was read from a file.
        line: Option<usize>,
        /// What is wrong with it.
        problem: StepError,
    },
}

fn on(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(" (line {line})"))
}

/// What is wrong with one step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The operation is not known.
    #[error("operation `{0}` is not known; use insert, delete, replace or search")]
    Operation(String),
    /// A field is not there.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A field is there that the operation does not have.
    #[error("`{field}` is no field of {operation}")]
    Field {
        /// The field.
        field: String,
        /// The operation.
        operation: &'static str,
    },
    /// A field holds something else than a row or tag.
    #[error("{field} ({value}) must be a whole number from 0 to {MAX_VECTORS}")]
    Number {
        /// The field.
        field: &'static str,
        /// What it holds.
        value: String,
    },
    /// A range holds nothing.
    #[error("the end ({end}) must be above the start ({start})")]
    Range {
        /// First of the range.
        start: u32,
        /// Behind the last of it.
        end: u32,
    },
    /// There is not one new vector for each tag.
    #[error("replaces the vectors of {tags} tags by {ids} others; there must be one for each")]
    Lengths {
        /// Tags whose vectors go.
        tags: usize,
        /// Vectors that come.
        ids: usize,
    },
    /// A tag is inserted twice.
    #[error("tag {0} is in the index already; delete it first, or replace it")]
    Live(u32),
    /// A tag is deleted or replaced that is not there.
    #[error("tag {0} is not in the index; insert it first")]
    NotLive(u32),
    /// A search could find nothing.
    #[error("the index is empty; insert before searching")]
    Nothing,
    /// A row is not in the base.
    #[error("needs row {row}, the base has {rows}; is this the base of the runbook?")]
    Row {
        /// The last row needed.
        row: u32,
        /// Rows of the base.
        rows: usize,
    },
}
