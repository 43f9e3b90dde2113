//! Frames from JSON.

use std::io::BufRead;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value as Json};

use super::Frame;
use crate::error::hint;
use crate::{AttributeError, Value};

/// Columns of rows that come one after the other.
#[derive(Default)]
struct Rows {
    rows: usize,
    indices: FxHashMap<String, usize>,
    /// Shorter than the rows where the last ones are null.
    columns: Vec<(String, Vec<Value>)>,
}

impl Rows {
    /// Adds a row that was found at a place.
    fn push(&mut self, record: &Map<String, Json>, place: impl Fn() -> String) -> Result<(), AttributeError> {
        for (name, json) in record {
            let Some(value) = Value::from_json(json) else {
                let what = match json {
                    Json::Number(number) => format!("{number} is too large for an integer"),
                    Json::Array(_) => "an array may have strings only".into(),
                    _ => "an object is no value".into(),
                };
                return Err(AttributeError::Json { place: place(), column: Some(name.clone()), what });
            };
            let index = match self.indices.get(name) {
                Some(&index) => index,
                None => {
                    self.indices.insert(name.clone(), self.columns.len());
                    self.columns.push((name.clone(), Vec::new()));
                    self.columns.len() - 1
                }
            };
            let values = &mut self.columns[index].1;
            values.resize(self.rows, Value::Null);
            values.push(value);
        }
        self.rows += 1;
        Ok(())
    }

    /// The frame of the rows, each of which was found at a place.
    fn finish(self, place: impl Fn(usize) -> String) -> Result<Frame, AttributeError> {
        let rows = self.rows;
        let frame = self.columns.into_iter().try_fold(Frame::new(rows), |frame, (name, mut values)| {
            values.resize(rows, Value::Null);
            frame.column(name, values)
        });
        frame.map_err(|error| match error {
            AttributeError::Kind { column, kind, value, row } => {
                let what = format!("{value} is not of kind {kind}, as others are{}", hint(kind, &value));
                AttributeError::Json { place: place(row), column: Some(column), what }
            }
            error => error,
        })
    }
}

impl Frame {
    /// Reads one JSON object per line and row: names of columns and their values. What a row does not name is null. Kinds
    /// are inferred as in [`Self::column`], and empty lines skipped.
    ///
    /// # Errors
    /// If the reader fails, if a line is not an object of values, or if a column has values of several kinds.
    ///
    /// ```
    /// use jasper_attributes::{Frame, Value};
    ///
    /// let lines = "{\"year\": 2020, \"tags\": [\"new\"]}\n{\"lang\": \"de\"}\n";
    /// let frame = Frame::from_json_lines(lines.as_bytes())?;
    /// assert_eq!(frame.len(), 2);
    /// assert_eq!(frame.value(1, "lang"), Value::from("de"));
    /// # Ok::<(), jasper_attributes::AttributeError>(())
    /// ```
    pub fn from_json_lines(mut reader: impl BufRead) -> Result<Self, AttributeError> {
        let (mut rows, mut text) = (Rows::default(), String::new());
        // The line of each row.
        let mut lines = Vec::new();
        for line in 1.. {
            text.clear();
            if reader.read_line(&mut text).map_err(|source| AttributeError::Read { line, source })? == 0 {
                break;
            }
            if text.trim().is_empty() {
                continue;
            }
            let place = || format!("line {line}");
            let record: Map<String, Json> = serde_json::from_str(&text).map_err(|error| {
                AttributeError::Json { place: place(), column: None, what: error.to_string() }
            })?;
            rows.push(&record, place)?;
            lines.push(line);
        }
        rows.finish(|row| format!("line {}", lines[row]))
    }

    /// The frame of records, one per row, as [`Self::from_json_lines`] reads them.
    ///
    /// # Errors
    /// If a record holds what is no value, or if a column has values of several kinds.
    pub fn from_records<'a>(
        records: impl IntoIterator<Item = &'a Map<String, Json>>,
    ) -> Result<Self, AttributeError> {
        let (mut rows, place) = (Rows::default(), |row: usize| format!("record {row}"));
        for (row, record) in records.into_iter().enumerate() {
            rows.push(record, || place(row))?;
        }
        rows.finish(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ColumnKind;

    #[test]
    fn lines_become_columns() {
        let lines = "{\"a\": 1}\n\n{\"b\": [\"x\"], \"a\": 2.5}\n{\"c\": null}";
        let frame = Frame::from_json_lines(lines.as_bytes()).unwrap();
        let kinds: Vec<_> = frame.columns().collect();
        assert_eq!(kinds, [("a", Some(ColumnKind::Float)), ("b", Some(ColumnKind::Keywords)), ("c", None)]);
        assert_eq!((frame.len(), frame.value(0, "a"), frame.value(2, "b")), (3, 1.0.into(), Value::Null));
    }

    #[test]
    fn errors_name_line_and_column() {
        let error = |lines: &str| Frame::from_json_lines(lines.as_bytes()).unwrap_err().to_string();
        assert_eq!(error("{}\n{\"a\": {}}"), r#"line 2, column "a": an object is no value"#);
        assert_eq!(error("{\"a\": [1]}"), r#"line 1, column "a": an array may have strings only"#);
        assert_eq!(
            error("{\"a\": 18446744073709551615}"),
            r#"line 1, column "a": 18446744073709551615 is too large for an integer"#
        );
        assert!(error("{}\n[]").starts_with("line 2: invalid type: sequence, expected a map"));
        assert_eq!(
            error("{\"a\": 1}\n\n{\"a\": \"x\"}"),
            r#"line 3, column "a": 'x' is not of kind integer, as others are"#
        );
        let records = [Map::new(), Map::from_iter([("a".to_string(), Json::Object(Map::new()))])];
        assert_eq!(
            Frame::from_records(&records).unwrap_err().to_string(),
            r#"record 1, column "a": an object is no value"#
        );
    }
}
