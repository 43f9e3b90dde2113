//! Values, and the kinds of columns that hold them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value as Json;

use crate::time;

/// What the values of a column are. Each may also be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ColumnKind {
    /// True or false.
    Bool,
    /// An i64 other than the least, which is reserved.
    Integer,
    /// An f64 other than NaN.
    Float,
    /// Microseconds since 1970, UTC.
    Timestamp,
    /// A string that many rows may share: a language, a tenant, a category. Strings have up to 65,535 bytes.
    Keyword,
    /// A list of up to 65,535 such strings: tags, groups that may read a document.
    Keywords,
    /// A string that no two live keys share: the user's own name of a row. An index has at most one such column.
    Id,
}

/// Bytes of the longest string, and strings of the longest list.
pub(crate) const MAX_LEN: usize = 65_535;

impl ColumnKind {
    /// All kinds; a file stores the index of one.
    pub(crate) const ALL: [Self; 7] =
        [Self::Bool, Self::Integer, Self::Float, Self::Timestamp, Self::Keyword, Self::Keywords, Self::Id];
}

impl fmt::Display for ColumnKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Bool => "bool",
            Self::Integer => "integer",
            Self::Float => "float",
            Self::Timestamp => "timestamp",
            Self::Keyword => "keyword",
            Self::Keywords => "keywords",
            Self::Id => "id",
        })
    }
}

/// The name and kind of a column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Column {
    /// The name, unique among columns.
    pub name: String,
    /// What its values are.
    pub kind: ColumnKind,
}

/// A value of a column, or null.
///
/// Two floats are equal if they are the same number; NaN equals itself, so that values can be hashed. Displayed, a value
/// is as in the text of an [`Expression`](crate::Expression).
///
/// ```
/// use jasper_attributes::Value;
///
/// assert_eq!(Value::from("de").to_string(), "'de'");
/// assert_eq!(Value::from(None::<i64>), Value::Null);
/// assert_eq!(Value::from(["a", "b"]).to_json(), serde_json::json!(["a", "b"]));
/// ```
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// No value.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// Microseconds since 1970, UTC.
    Timestamp(i64),
    /// A string, also that of an id.
    Keyword(String),
    /// A list of strings.
    Keywords(Vec<String>),
}

impl Value {
    /// Whether this is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The kind of column that holds such values, which is [`ColumnKind::Keyword`] for strings. Null is of every kind.
    pub fn kind(&self) -> Option<ColumnKind> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(_) => ColumnKind::Bool,
            Self::Integer(_) => ColumnKind::Integer,
            Self::Float(_) => ColumnKind::Float,
            Self::Timestamp(_) => ColumnKind::Timestamp,
            Self::Keyword(_) => ColumnKind::Keyword,
            Self::Keywords(_) => ColumnKind::Keywords,
        })
    }

    /// The value in JSON. A timestamp is a string such as `2024-03-01T12:00:00Z`; a float that is not finite is null.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::from(*value),
            Self::Integer(value) => Json::from(*value),
            Self::Float(value) => Json::from(*value),
            Self::Timestamp(value) => Json::from(time::format(*value)),
            Self::Keyword(value) => Json::from(value.as_str()),
            Self::Keywords(values) => Json::from(values.as_slice()),
        }
    }

    /// The value of a JSON null, boolean, number, string or array of strings; none for other arrays, for objects, and for
    /// whole numbers that are no i64.
    pub fn from_json(json: &Json) -> Option<Self> {
        Some(match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(value) => Self::Integer(value),
                None if number.is_u64() => return None,
                None => Self::Float(number.as_f64()?),
            },
            Json::String(value) => Self::Keyword(value.clone()),
            Json::Array(values) => {
                let strings = values.iter().map(|value| value.as_str().map(str::to_string));
                Self::Keywords(strings.collect::<Option<_>>()?)
            }
            Json::Object(_) => return None,
        })
    }

    /// The value as one of a column of this kind, if it can be without loss: an integer as a float and back, a string as a
    /// timestamp, one string as a list.
    pub(crate) fn cast(self, kind: ColumnKind) -> Result<Self, Self> {
        use ColumnKind as Kind;
        Ok(match (self, kind) {
            (value @ (Self::Integer(i64::MIN) | Self::Timestamp(i64::MIN)), _) => return Err(value),
            (Self::Float(value), _) if value.is_nan() => return Err(Self::Float(value)),
            (Self::Keyword(text), _) if text.len() > MAX_LEN => return Err(Self::Keyword(text)),
            (Self::Keywords(list), _)
                if list.len() > MAX_LEN || list.iter().any(|text| text.len() > MAX_LEN) =>
            {
                return Err(Self::Keywords(list));
            }
            (value @ Self::Null, _)
            | (value @ Self::Bool(_), Kind::Bool)
            | (value @ Self::Integer(_), Kind::Integer)
            | (value @ Self::Float(_), Kind::Float)
            | (value @ Self::Timestamp(_), Kind::Timestamp)
            | (value @ Self::Keyword(_), Kind::Keyword | Kind::Id)
            | (value @ Self::Keywords(_), Kind::Keywords) => value,
            (Self::Integer(value), Kind::Float) if value as f64 as i128 == i128::from(value) => {
                Self::Float(value as f64)
            }
            (Self::Float(value), Kind::Integer)
                if value.fract() == 0.0 && value.abs() < 9_223_372_036_854_775_808.0 =>
            {
                Self::Integer(value as i64)
            }
            (Self::Keyword(text), Kind::Timestamp) => match time::parse(&text) {
                Some(value) => Self::Timestamp(value),
                None => return Err(Self::Keyword(text)),
            },
            (Self::Keyword(text), Kind::Keywords) => Self::Keywords(vec![text]),
            (value, _) => return Err(value),
        })
    }
}

/// The bits of a float such that equal numbers have equal ones.
fn float_bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Integer(a), Self::Integer(b)) | (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => float_bits(*a) == float_bits(*b),
            (Self::Keyword(a), Self::Keyword(b)) => a == b,
            (Self::Keywords(a), Self::Keywords(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Null => {}
            Self::Bool(value) => value.hash(state),
            Self::Integer(value) | Self::Timestamp(value) => value.hash(state),
            Self::Float(value) => float_bits(*value).hash(state),
            Self::Keyword(value) => value.hash(state),
            Self::Keywords(values) => values.hash(state),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            // Larger than any f64, so that it is read as infinity.
            Self::Float(value) if value.is_infinite() => {
                f.write_str(if *value > 0.0 { "1e999" } else { "-1e999" })
            }
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Timestamp(value) => write!(f, "timestamp '{}'", time::format(*value)),
            Self::Keyword(value) => f.write_str(&quoted(value)),
            Self::Keywords(values) => {
                let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
                write!(f, "({})", values.join(", "))
            }
        }
    }
}

macro_rules! from {
    ($($type:ty: $value:ident => $into:expr;)*) => {$(
        impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $into
            }
        }
    )*};
}

from! {
    bool: value => Self::Bool(value);
    i32: value => Self::Integer(value.into());
    i64: value => Self::Integer(value);
    u32: value => Self::Integer(value.into());
    f32: value => Self::Float(value.into());
    f64: value => Self::Float(value);
    &str: value => Self::Keyword(value.into());
    String: value => Self::Keyword(value);
    Vec<String>: values => Self::Keywords(values);
    Vec<&str>: values => Self::Keywords(values.into_iter().map(String::from).collect());
    &[&str]: values => Self::from(values.to_vec());
    SystemTime: time => Self::Timestamp(match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_micros() as i64,
        Err(before) => -(before.duration().as_micros() as i64),
    });
}

impl<const N: usize> From<[&str; N]> for Value {
    fn from(values: [&str; N]) -> Self {
        Self::from(values.to_vec())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cast_loses_nothing() {
        let cast = |value: Value, kind| value.cast(kind);
        assert_eq!(cast(3.into(), ColumnKind::Float), Ok(3.0.into()));
        assert_eq!(cast(3.0.into(), ColumnKind::Integer), Ok(3.into()));
        assert_eq!(cast("1970-01-02".into(), ColumnKind::Timestamp), Ok(Value::Timestamp(86_400_000_000)));
        assert_eq!(cast("a".into(), ColumnKind::Keywords), Ok(["a"].into()));
        assert_eq!(cast("a".into(), ColumnKind::Id), Ok("a".into()));
        assert_eq!(cast(Value::Null, ColumnKind::Bool), Ok(Value::Null));
        let largest = i64::MAX;
        for (value, kind) in [
            (Value::from(largest), ColumnKind::Float),
            (9_223_372_036_854_775_808.0.into(), ColumnKind::Integer),
            (0.5.into(), ColumnKind::Integer),
            (f64::INFINITY.into(), ColumnKind::Integer),
            (f64::NAN.into(), ColumnKind::Float),
            (i64::MIN.into(), ColumnKind::Integer),
            (i64::MIN.into(), ColumnKind::Float),
            (Value::Timestamp(i64::MIN), ColumnKind::Timestamp),
            ("noon".into(), ColumnKind::Timestamp),
            (["a"].into(), ColumnKind::Keyword),
            (1.into(), ColumnKind::Bool),
            (1.into(), ColumnKind::Timestamp),
        ] {
            assert_eq!(cast(value.clone(), kind), Err(value));
        }
    }

    #[test]
    fn json_round_trips() {
        for json in ["null", "true", "-3", "2.5", r#""a""#, r#"["a","b"]"#, "[]"] {
            let json: Json = serde_json::from_str(json).unwrap();
            assert_eq!(Value::from_json(&json).unwrap().to_json(), json);
        }
        for json in ["{}", "[1]", "[null]", "9223372036854775808"] {
            assert_eq!(Value::from_json(&serde_json::from_str(json).unwrap()), None);
        }
        assert_eq!(Value::Timestamp(1_500_000).to_json(), "1970-01-01T00:00:01.5Z");
    }
}
