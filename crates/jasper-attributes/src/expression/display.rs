//! The text of an expression.

use std::fmt::{self, Display, Formatter};

use super::{Expression, Node};
use crate::Value;

/// Words that no column is named without quotes.
pub(super) const WORDS: [&str; 13] =
    ["and", "or", "not", "in", "is", "null", "between", "contains", "any", "all", "true", "false", "keys"];

/// Whether a character may be in a name without quotes.
pub(super) fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '.'
}

/// A column in the text of an expression.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = self.0;
        let starts = |first: char| is_name(first) && !first.is_numeric() && first != '.';
        let is_word = WORDS.iter().any(|word| word.eq_ignore_ascii_case(name));
        if name.starts_with(starts) && name.chars().all(is_name) && !is_word {
            f.write_str(name)
        } else {
            write!(f, "\"{}\"", name.replace('"', "\"\""))
        }
    }
}

fn list<T: Display>(f: &mut Formatter<'_>, items: impl IntoIterator<Item = T>) -> fmt::Result {
    f.write_str("(")?;
    for (index, item) in items.into_iter().enumerate() {
        f.write_str(if index > 0 { ", " } else { "" })?;
        write!(f, "{item}")?;
    }
    f.write_str(")")
}

fn joined(f: &mut Formatter<'_>, word: &str, parts: &[Expression], is_and: bool) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        f.write_str(if index > 0 { word } else { "" })?;
        match part.node() {
            Node::Or(_) if is_and => write!(f, "({part})")?,
            _ => write!(f, "{part}")?,
        }
    }
    Ok(())
}

impl Display for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.node() {
            Node::All => f.write_str("true"),
            Node::And(parts) => joined(f, " and ", parts, true),
            Node::Or(parts) => joined(f, " or ", parts, false),
            Node::Not(inner) => match inner.node() {
                Node::All => f.write_str("false"),
                Node::IsNull(name) => write!(f, "{} is not null", Name(name)),
                Node::In(name, values) => {
                    write!(f, "{} not in ", Name(name))?;
                    list(f, values)
                }
                _ => write!(f, "not ({inner})"),
            },
            Node::Compare(name, operator, value) => write!(f, "{} {} {value}", Name(name), operator.as_str()),
            Node::In(name, values) => {
                write!(f, "{} in ", Name(name))?;
                list(f, values)
            }
            Node::ContainsAny(name, values) => contains(f, name, "any", values),
            Node::ContainsAll(name, values) => contains(f, name, "all", values),
            Node::IsNull(name) => write!(f, "{} is null", Name(name)),
            Node::Keys(keys) => {
                f.write_str("keys")?;
                list(f, keys)
            }
        }
    }
}

fn contains(f: &mut Formatter<'_>, name: &str, which: &str, values: &[String]) -> fmt::Result {
    let mut values = values.iter().map(|value| Value::from(value.as_str()));
    match (values.len(), which) {
        (1, "any") => write!(f, "{} contains {}", Name(name), values.next().unwrap_or_default()),
        _ => {
            write!(f, "{} contains {which} ", Name(name))?;
            list(f, values)
        }
    }
}
