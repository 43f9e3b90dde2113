//! Errors.

use jasper_core::Key;

use crate::value::MAX_LEN;
use crate::{ColumnKind, Value};

/// Why attributes are refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttributeError {
    /// A column needs a name.
    #[error("a column has an empty name")]
    EmptyName,
    /// Two columns of a frame have the same name.
    #[error("column {column:?} is given twice")]
    DuplicateColumn {
        /// The name.
        column: String,
    },
    /// A column has not a value for each row.
    #[error("column {column:?} has {values} values for {rows} rows; give null where there is none")]
    Length {
        /// The column.
        column: String,
        /// Its values.
        values: usize,
        /// Rows of the frame.
        rows: usize,
    },
    /// A frame has not a row for each key.
    #[error("there are attributes of {rows} rows for {keys} keys")]
    Rows {
        /// Rows of the frame.
        rows: usize,
        /// Keys given.
        keys: usize,
    },
    /// A value is not of the kind of its column.
    #[error("column {column:?} is of kind {kind}, and {value} in row {row} is not{}", hint(*kind, value))]
    Kind {
        /// The column.
        column: String,
        /// What its values are.
        kind: ColumnKind,
        /// The value that is not.
        value: Value,
        /// Its row in the frame.
        row: usize,
    },
    /// An index has one column of ids.
    #[error("column {column:?} cannot be of ids: column {existing:?} is already")]
    SecondIdColumn {
        /// The column that would be the second.
        column: String,
        /// The first.
        existing: String,
    },
    /// Two rows of a frame have the same id.
    #[error("id {id:?} in column {column:?} is given twice, in rows {rows:?}")]
    DuplicateId {
        /// The column.
        column: String,
        /// The id.
        id: String,
        /// The first two rows that have it.
        rows: [usize; 2],
    },
    /// Another live key has the id.
    #[error("id {id:?} in column {column:?} is that of key {key} already")]
    IdTaken {
        /// The column.
        column: String,
        /// The id.
        id: String,
        /// The key that has it.
        key: Key,
    },
    /// A key is given twice.
    #[error("key {0} is given twice")]
    DuplicateKey(Key),
    /// The key is not live, or cannot be restored.
    #[error("key {0} has no attributes")]
    UnknownKey(Key),
    /// A line or record is not an object of values, or a value is not of the kind of its column.
    #[error("{place}{}: {what}", column.as_ref().map(|name| format!(", column {name:?}")).unwrap_or_default())]
    Json {
        /// Such as `line 3`, or `record 2`, which are counted from 1 and from 0.
        place: String,
        /// The column, if it is about a value.
        column: Option<String>,
        /// What is wrong.
        what: String,
    },
    /// The lines cannot be read.
    #[error("cannot read line {line}")]
    Read {
        /// The line, counted from 1.
        line: usize,
        /// Why.
        source: std::io::Error,
    },
}

/// What to do about a value of the wrong kind.
pub(crate) fn hint(kind: ColumnKind, value: &Value) -> &'static str {
    match (kind, value) {
        (_, Value::Integer(i64::MIN) | Value::Timestamp(i64::MIN)) => {
            ", because the least number is reserved"
        }
        (_, Value::Float(number)) if number.is_nan() => "; give null instead of NaN",
        (_, Value::Keyword(text)) if text.len() > MAX_LEN => ", because it is longer than 65,535 bytes",
        (ColumnKind::Keywords, Value::Keywords(list)) if list.len() > MAX_LEN => {
            ", because it is longer than 65,535 strings"
        }
        (ColumnKind::Keywords, Value::Keywords(_)) => ", because a string is longer than 65,535 bytes",
        (ColumnKind::Integer, Value::Float(_)) => "; make it a column of floats",
        (ColumnKind::Float, Value::Integer(_)) => ", because no float is exactly that",
        (ColumnKind::Timestamp, Value::Keyword(_)) => {
            "; a time is like '2024-03-01' or '2024-03-01T12:00:00Z'"
        }
        (ColumnKind::Timestamp, Value::Integer(_)) => "; give a time, not a number",
        _ => "",
    }
}

/// Bytes that are not those of attributes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("attributes are damaged at byte {position}: {what}")]
#[non_exhaustive]
pub struct DecodeError {
    /// Where, in bytes from the start.
    pub position: usize,
    /// What is wrong.
    pub what: &'static str,
}

/// Why an expression cannot be read, or does not fit the columns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// The text is no expression.
    #[error("expected {expected} at character {}, found {found}", position + 1)]
    Syntax {
        /// Where, in characters from the start.
        position: usize,
        /// What could be there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The JSON is no expression.
    #[error("{path}: {what}")]
    Json {
        /// Where, such as `$.$and.1.year.$gte`.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// The expression is nested too deeply.
    #[error("an expression may be nested {0} deep")]
    Depth(usize),
    /// There is no such column.
    #[error("there is no column {column:?}; there are {}", list(columns))]
    UnknownColumn {
        /// The name.
        column: String,
        /// The columns that exist.
        columns: Vec<String>,
    },
    /// A value is not comparable with the column.
    #[error("column {column:?} is of kind {kind}, with which {value} cannot be compared")]
    Kind {
        /// The column.
        column: String,
        /// What its values are.
        kind: ColumnKind,
        /// The value of the expression.
        value: Value,
    },
    /// The operator is not for columns of this kind.
    #[error(
        "{operator} is not for column {column:?}, which is of kind {kind}; it is for {}",
        suited(operator)
    )]
    Operator {
        /// The column.
        column: String,
        /// What its values are.
        kind: ColumnKind,
        /// The operator.
        operator: &'static str,
    },
}

fn list(columns: &[String]) -> String {
    if columns.is_empty() {
        return "none".into();
    }
    columns.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

fn suited(operator: &str) -> &'static str {
    if operator.starts_with("contains") { "keywords" } else { "integers, floats and timestamps" }
}
