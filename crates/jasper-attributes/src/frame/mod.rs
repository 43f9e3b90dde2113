//! Attributes of rows that are to be inserted or changed.

mod codec;
mod json;

use std::borrow::Cow;
use std::ops::Range;

use crate::{AttributeError, ColumnKind, Value};

pub(crate) use codec::{kind_code, kind_from};

/// Attributes of some rows, by column: what an insert or an update is given.
///
/// ```
/// use jasper_attributes::{ColumnKind, Frame, Value};
///
/// let frame = Frame::new(2)
///     .column("year", [Some(2020), None])?
///     .column("tags", [vec!["new", "red"], vec![]])?
///     .column_of("added", ColumnKind::Timestamp, ["2024-03-01", "2024-03-02T10:30:00Z"])?;
/// assert_eq!(frame.value(0, "year"), Value::Integer(2020));
/// assert_eq!(frame.value(1, "year"), Value::Null);
/// # Ok::<(), jasper_attributes::AttributeError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    rows: usize,
    columns: Vec<FrameColumn>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FrameColumn {
    pub(crate) name: String,
    /// None if all values are null and no kind was given: these fit a column of any kind.
    pub(crate) kind: Option<ColumnKind>,
    /// As many as there are rows, each null or of the kind.
    pub(crate) values: Vec<Value>,
}

impl FrameColumn {
    /// The values as those of a column of this kind.
    pub(crate) fn values_as(&self, kind: ColumnKind) -> Result<Cow<'_, [Value]>, AttributeError> {
        match (self.kind, kind) {
            (None, _) | (Some(ColumnKind::Keyword), ColumnKind::Id) => Ok(Cow::Borrowed(&self.values)),
            (Some(own), _) if own == kind => Ok(Cow::Borrowed(&self.values)),
            _ => Ok(Cow::Owned(cast(&self.name, kind, self.values.clone())?)),
        }
    }
}

impl Frame {
    /// Creates a frame with this number of rows and no columns.
    pub fn new(rows: usize) -> Self {
        Self { rows, columns: Vec::new() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds a column whose kind is that of its values; integers among floats become floats, and strings among lists become
    /// lists of one. If all are null, the column has no kind: it sets a column of the index to null, and adds none.
    ///
    /// # Errors
    /// If the name is empty or given before, if there are not as many values as rows, or if values are of several kinds.
    pub fn column<V: Into<Value>>(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self, AttributeError> {
        let values: Vec<Value> = values.into_iter().map(Into::into).collect();
        let kind = values.iter().filter_map(Value::kind).reduce(join);
        self.add(name.into(), kind, values)
    }

    /// Adds a column of a kind. Values are converted where nothing is lost: integers to floats and back, strings to
    /// timestamps, a string to a list of one.
    ///
    /// # Errors
    /// If the name is empty or given before, if there are not as many values as rows, or if a value is not of the kind:
    /// NaN and the least i64 are of none.
    pub fn column_of<V: Into<Value>>(
        self,
        name: impl Into<String>,
        kind: ColumnKind,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self, AttributeError> {
        self.add(name.into(), Some(kind), values.into_iter().map(Into::into).collect())
    }

    /// Converts a column to another kind, as [`Self::column_of`] does: strings read from JSON to ids or timestamps. Without
    /// such a column, nothing changes.
    ///
    /// # Errors
    /// If a value is not of the kind.
    ///
    /// ```
    /// use jasper_attributes::{ColumnKind, Frame, Value};
    ///
    /// let lines = r#"{"name": "a", "at": "2024-03-01"}"#;
    /// let frame = Frame::from_json_lines(lines.as_bytes())?
    ///     .convert("name", ColumnKind::Id)?
    ///     .convert("at", ColumnKind::Timestamp)?;
    /// assert_eq!(frame.value(0, "at").to_json(), "2024-03-01T00:00:00Z");
    /// # Ok::<(), jasper_attributes::AttributeError>(())
    /// ```
    pub fn convert(mut self, name: &str, kind: ColumnKind) -> Result<Self, AttributeError> {
        if let Some(column) = self.columns.iter_mut().find(|column| column.name == name) {
            column.values = cast(name, kind, std::mem::take(&mut column.values))?;
            column.kind = Some(kind);
        }
        Ok(self)
    }

    fn add(
        mut self,
        name: String,
        kind: Option<ColumnKind>,
        values: Vec<Value>,
    ) -> Result<Self, AttributeError> {
        if name.is_empty() {
            return Err(AttributeError::EmptyName);
        }
        if self.columns.iter().any(|column| column.name == name) {
            return Err(AttributeError::DuplicateColumn { column: name });
        }
        if values.len() != self.rows {
            return Err(AttributeError::Length { column: name, values: values.len(), rows: self.rows });
        }
        let values = match kind {
            Some(kind) => cast(&name, kind, values)?,
            None => values,
        };
        self.columns.push(FrameColumn { name, kind, values });
        Ok(self)
    }

    /// Names and kinds of the columns, in the order they were added. A column of nulls may have no kind.
    pub fn columns(&self) -> impl Iterator<Item = (&str, Option<ColumnKind>)> {
        self.columns.iter().map(|column| (column.name.as_str(), column.kind))
    }

    pub(crate) fn frame_columns(&self) -> &[FrameColumn] {
        &self.columns
    }

    /// The value of a row in a column; null if there is no such column.
    ///
    /// # Panics
    /// If there is the column and not the row.
    pub fn value(&self, row: usize, name: &str) -> Value {
        let column = self.columns.iter().find(|column| column.name == name);
        column.map_or(Value::Null, |column| column.values[row].clone())
    }

    /// A copy of consecutive rows.
    ///
    /// # Panics
    /// If they are not all rows of this frame.
    pub fn slice(&self, rows: Range<usize>) -> Self {
        assert!(rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        self.map(rows.len(), |values| values[rows.clone()].to_vec())
    }

    /// A copy of these rows, in their order; a row may be in it several times.
    ///
    /// # Panics
    /// If one is not a row of this frame.
    pub fn select(&self, rows: &[usize]) -> Self {
        self.map(rows.len(), |values| rows.iter().map(|&row| values[row].clone()).collect())
    }

    fn map(&self, rows: usize, values: impl Fn(&[Value]) -> Vec<Value>) -> Self {
        let columns = self.columns.iter().map(|column| FrameColumn {
            name: column.name.clone(),
            kind: column.kind,
            values: values(&column.values),
        });
        Self { rows, columns: columns.collect() }
    }

    /// A frame of such columns, all of the same length.
    pub(crate) fn from_columns(
        rows: usize,
        columns: impl IntoIterator<Item = (String, ColumnKind, Vec<Value>)>,
    ) -> Self {
        let columns = columns.into_iter().map(|(name, kind, values)| {
            debug_assert_eq!(values.len(), rows);
            FrameColumn { name, kind: Some(kind), values }
        });
        Self { rows, columns: columns.collect() }
    }
}

/// The kind that values of both kinds can be cast to, or the first one.
fn join(first: ColumnKind, other: ColumnKind) -> ColumnKind {
    match (first, other) {
        (ColumnKind::Integer, ColumnKind::Float) => ColumnKind::Float,
        (ColumnKind::Keyword, ColumnKind::Keywords) => ColumnKind::Keywords,
        _ => first,
    }
}

fn cast(name: &str, kind: ColumnKind, values: Vec<Value>) -> Result<Vec<Value>, AttributeError> {
    let cast = |(row, value): (usize, Value)| {
        value.cast(kind).map_err(|value| AttributeError::Kind { column: name.into(), kind, value, row })
    };
    values.into_iter().enumerate().map(cast).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(frame: Result<Frame, AttributeError>) -> String {
        frame.unwrap_err().to_string()
    }

    #[test]
    fn kinds_are_inferred() {
        let frame = Frame::new(3)
            .column("a", [Value::Null, 1.into(), 2.5.into()])
            .unwrap()
            .column("b", [None::<bool>; 3])
            .unwrap()
            .column("c", [Some("x"), None, Some("y")])
            .unwrap();
        let kinds: Vec<_> = frame.columns().collect();
        assert_eq!(kinds, [("a", Some(ColumnKind::Float)), ("b", None), ("c", Some(ColumnKind::Keyword))]);
        assert_eq!(frame.value(1, "a"), 1.0.into());
        assert_eq!((frame.value(0, "b"), frame.value(7, "z")), (Value::Null, Value::Null));
        assert_eq!(frame.select(&[2, 2]).value(1, "c"), "y".into());
        assert_eq!(frame.slice(1..3), frame.select(&[1, 2]));
    }

    #[test]
    fn columns_that_do_not_fit_are_refused() {
        let frame = || Frame::new(2);
        assert_eq!(error(frame().column("", [1, 2])), "a column has an empty name");
        assert_eq!(
            error(frame().column("a", [1, 2]).unwrap().column("a", [1, 2])),
            r#"column "a" is given twice"#
        );
        assert_eq!(
            error(frame().column("a", [1])),
            r#"column "a" has 1 values for 2 rows; give null where there is none"#
        );
        assert_eq!(
            error(frame().column("a", [Value::from("x"), 1.into()])),
            r#"column "a" is of kind keyword, and 1 in row 1 is not"#
        );
        assert_eq!(
            error(frame().column("a", [1.0, f64::NAN])),
            r#"column "a" is of kind float, and NaN in row 1 is not; give null instead of NaN"#
        );
        assert_eq!(
            error(frame().column_of("a", ColumnKind::Timestamp, ["2024-01-01", "now"])),
            "column \"a\" is of kind timestamp, and 'now' in row 1 is not; a time is like '2024-03-01' or \
             '2024-03-01T12:00:00Z'"
        );
    }
}
