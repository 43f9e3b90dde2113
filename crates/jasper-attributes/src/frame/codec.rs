//! Frames as bytes, for journals.

use std::collections::HashSet;

use super::{Frame, FrameColumn};
use crate::bytes::{Reader, put_str};
use crate::{ColumnKind, DecodeError, Value};

/// First byte of an encoded frame, for later versions.
const VERSION: u8 = 1;
/// The kind of a column that has none.
const NO_KIND: u8 = u8::MAX;

impl Frame {
    /// The frame as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend((self.rows as u64).to_le_bytes());
        bytes.extend((self.columns.len() as u32).to_le_bytes());
        for column in &self.columns {
            put_str(&mut bytes, &column.name);
            bytes.push(column.kind.map_or(NO_KIND, kind_code));
            column.values.iter().for_each(|value| put_value(&mut bytes, value));
        }
        bytes
    }

    /// The frame that was encoded. Takes memory in proportion to the bytes.
    ///
    /// # Errors
    /// If these are not the bytes of a frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return Err(reader.error("attributes are of another version"));
        }
        let rows = reader.len()?;
        let (mut frame, mut names) = (Self::new(rows), HashSet::new());
        for _ in 0..reader.u32()? {
            let name = reader.str()?;
            let kind = match reader.u8()? {
                NO_KIND => None,
                code => Some(kind_from(code, &reader)?),
            };
            // A value takes a byte at least.
            let mut values = Vec::new();
            for _ in 0..rows {
                values.push(value(&mut reader, kind)?);
            }
            if name.is_empty() || !names.insert(name) {
                return Err(reader.error("a column has no name of its own"));
            }
            frame.columns.push(FrameColumn { name: name.to_string(), kind, values });
        }
        reader.end()?;
        Ok(frame)
    }
}

pub(crate) fn kind_code(kind: ColumnKind) -> u8 {
    ColumnKind::ALL.iter().position(|&other| other == kind).expect("all kinds are listed") as u8
}

pub(crate) fn kind_from(code: u8, reader: &Reader<'_>) -> Result<ColumnKind, DecodeError> {
    let kind = ColumnKind::ALL.get(usize::from(code));
    kind.copied().ok_or_else(|| reader.error("a column is of no known kind"))
}

/// A byte that is 0 for null, and the value.
fn put_value(bytes: &mut Vec<u8>, value: &Value) {
    bytes.push(u8::from(!value.is_null()));
    match value {
        Value::Null => {}
        Value::Bool(value) => bytes.push(u8::from(*value)),
        Value::Integer(value) | Value::Timestamp(value) => bytes.extend(value.to_le_bytes()),
        Value::Float(value) => bytes.extend(value.to_le_bytes()),
        Value::Keyword(text) => put_str(bytes, text),
        Value::Keywords(list) => {
            bytes.extend((list.len() as u32).to_le_bytes());
            list.iter().for_each(|text| put_str(bytes, text));
        }
    }
}

fn value(reader: &mut Reader<'_>, kind: Option<ColumnKind>) -> Result<Value, DecodeError> {
    let kind = match (reader.u8()?, kind) {
        (0, _) => return Ok(Value::Null),
        (1, Some(kind)) => kind,
        _ => return Err(reader.error("a value is neither null nor of its column's kind")),
    };
    let value = match kind {
        ColumnKind::Bool => match reader.u8()? {
            bit @ 0..=1 => Value::Bool(bit == 1),
            _ => return Err(reader.error("a bool is neither 0 nor 1")),
        },
        ColumnKind::Integer => Value::Integer(reader.u64()? as i64),
        ColumnKind::Timestamp => Value::Timestamp(reader.u64()? as i64),
        ColumnKind::Float => Value::Float(f64::from_bits(reader.u64()?)),
        ColumnKind::Keyword | ColumnKind::Id => Value::Keyword(reader.str()?.into()),
        ColumnKind::Keywords => {
            let len = reader.u32()?;
            Value::Keywords((0..len).map(|_| Ok(reader.str()?.into())).collect::<Result<_, _>>()?)
        }
    };
    value.cast(kind).map_err(|_| reader.error("a number is reserved"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Frame {
        Frame::new(2)
            .column("a", [Some(1), None])
            .and_then(|frame| frame.column("b", [Some(0.5), None]))
            .and_then(|frame| frame.column("c", [true, false]))
            .and_then(|frame| frame.column("d", [Some("x"), None]))
            .and_then(|frame| frame.column("e", [vec!["x", "y"], vec![]]))
            .and_then(|frame| frame.column_of("f", ColumnKind::Timestamp, ["2024-01-01", "1970-01-01"]))
            .and_then(|frame| frame.column_of("g", ColumnKind::Id, ["x", "y"]))
            .and_then(|frame| frame.column("h", [Value::Null, Value::Null]))
            .unwrap()
    }

    #[test]
    fn a_frame_is_decoded() {
        for frame in [sample(), Frame::new(0), Frame::new(usize::MAX)] {
            assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
        }
        let bytes = sample().encode();
        for end in 0..bytes.len() {
            assert!(Frame::decode(&bytes[..end]).is_err());
        }
    }

    proptest! {
        #[test]
        fn damaged_bytes_are_refused_or_decoded(at: prop::sample::Index, byte: u8) {
            let mut bytes = sample().encode();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(frame) = Frame::decode(&bytes) {
                prop_assert_eq!(frame.encode(), bytes);
            }
        }
    }
}
