//! Resolves names and values.

use super::{Leaf, Test};
use crate::columns::{Ids, Numbers, Stored, Tags, Values, Words, float_order};
use crate::expression::{Node, Operator};
use crate::{ColumnKind, Expression, ExpressionError, Value};

type Result<T> = std::result::Result<T, ExpressionError>;

/// The test that an expression is, or the opposite unless it is to hold.
pub(super) fn bind<'a>(columns: &'a [Stored], expression: &'a Expression, holds: bool) -> Result<Test<'a>> {
    let bound = |part: &'a Expression| bind(columns, part, holds);
    let leaf = match expression.node() {
        Node::All => Test::Constant(true),
        Node::Not(inner) => return bind(columns, inner, !holds),
        Node::And(parts) if holds => return and(parts.iter().map(bound)),
        Node::Or(parts) if !holds => return and(parts.iter().map(bound)),
        Node::And(parts) | Node::Or(parts) => {
            return Ok(Test::Or(parts.iter().map(bound).collect::<Result<_>>()?));
        }
        Node::Compare(name, Operator::Ne, value) => {
            let stored = find(columns, name)?;
            return Ok(one_of(stored, std::slice::from_ref(value))?.holding(!holds));
        }
        Node::Compare(name, Operator::Eq, value) => {
            one_of(find(columns, name)?, std::slice::from_ref(value))?
        }
        Node::Compare(name, operator, value) => compare(find(columns, name)?, *operator, value)?,
        Node::In(name, values) => one_of(find(columns, name)?, values)?,
        Node::ContainsAny(name, words) => {
            let tags = tags(find(columns, name)?, "contains any")?;
            any(tags, codes(words, |word| tags.dictionary.code(word)))
        }
        Node::ContainsAll(name, words) => {
            let stored = find(columns, name)?;
            let tags = tags(stored, "contains all")?;
            let known: Option<Vec<u32>> = words.iter().map(|word| tags.dictionary.code(word)).collect();
            match known.map(sorted) {
                None => Test::Constant(false),
                Some(codes) if codes.is_empty() => Test::Leaf(Leaf::Null(&stored.values), false),
                Some(codes) => Test::Leaf(Leaf::All(tags, codes), true),
            }
        }
        Node::IsNull(name) => Test::Leaf(Leaf::Null(&find(columns, name)?.values), true),
        Node::Keys(keys) => Test::Leaf(Leaf::Keys(keys), true),
    };
    Ok(leaf.holding(holds))
}

/// All of these tests. Ranges of one column become one, so that its keys can be counted.
fn and<'a>(tests: impl ExactSizeIterator<Item = Result<Test<'a>>>) -> Result<Test<'a>> {
    let mut merged = Vec::with_capacity(tests.len());
    for test in tests {
        match test? {
            Test::And(inner) => inner.into_iter().for_each(|test| add_to_and(&mut merged, test)),
            test => add_to_and(&mut merged, test),
        }
    }
    let is_empty =
        |test: &Test<'_>| matches!(test, Test::Leaf(Leaf::Range(_, least, most), true) if least > most);
    Ok(if merged.iter().any(is_empty) { Test::Constant(false) } else { Test::And(merged) })
}

fn add_to_and<'a>(tests: &mut Vec<Test<'a>>, test: Test<'a>) {
    if let Test::Leaf(Leaf::Range(numbers, least, most), true) = &test {
        for other in &mut *tests {
            if let Test::Leaf(Leaf::Range(of, from, to), true) = other
                && std::ptr::eq(*of, *numbers)
            {
                (*from, *to) = ((*from).max(*least), (*to).min(*most));
                return;
            }
        }
    }
    tests.push(test);
}

impl Test<'_> {
    /// This, or the opposite unless it is to hold.
    fn holding(self, holds: bool) -> Self {
        match self {
            test if holds => test,
            Self::Constant(value) => Self::Constant(!value),
            Self::Leaf(leaf, value) => Self::Leaf(leaf, !value),
            Self::And(tests) => Self::Or(tests.into_iter().map(|test| test.holding(false)).collect()),
            Self::Or(tests) => Self::And(tests.into_iter().map(|test| test.holding(false)).collect()),
        }
    }
}

fn find<'a>(columns: &'a [Stored], name: &str) -> Result<&'a Stored> {
    columns.iter().find(|stored| stored.column.name == name).ok_or_else(|| ExpressionError::UnknownColumn {
        column: name.into(),
        columns: columns.iter().map(|stored| stored.column.name.clone()).collect(),
    })
}

fn wrong_kind(stored: &Stored, value: &Value) -> ExpressionError {
    let (column, kind) = (stored.column.name.clone(), stored.column.kind);
    ExpressionError::Kind { column, kind, value: value.clone() }
}

fn wrong_operator(stored: &Stored, operator: &'static str) -> ExpressionError {
    ExpressionError::Operator { column: stored.column.name.clone(), kind: stored.column.kind, operator }
}

fn tags<'a>(stored: &'a Stored, operator: &'static str) -> Result<&'a Tags> {
    match &stored.values {
        Values::Tags(tags) => Ok(tags),
        _ => Err(wrong_operator(stored, operator)),
    }
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    items.dedup();
    items
}

fn codes<T>(words: &[T], code: impl Fn(&T) -> Option<u32>) -> Vec<u32> {
    sorted(words.iter().filter_map(code).collect())
}

/// A list with one of these.
fn any(tags: &Tags, codes: Vec<u32>) -> Test<'_> {
    if codes.is_empty() { Test::Constant(false) } else { Test::Leaf(Leaf::Any(tags, codes), true) }
}

/// A value that is one of these; null is null.
fn one_of<'a>(stored: &'a Stored, values: &'a [Value]) -> Result<Test<'a>> {
    let of_kind = |value: &Value| match (value.kind(), stored.column.kind) {
        (None, _) | (Some(ColumnKind::Keyword), ColumnKind::Keywords | ColumnKind::Id) => true,
        (Some(ColumnKind::Integer | ColumnKind::Float), ColumnKind::Integer | ColumnKind::Float) => true,
        (Some(ColumnKind::Keyword), ColumnKind::Timestamp) => true,
        (_, ColumnKind::Keywords) => false,
        (Some(kind), own) => kind == own,
    };
    if let Some(value) = values.iter().find(|value| !of_kind(value)) {
        return Err(wrong_kind(stored, value));
    }
    let test = match &stored.values {
        Values::Words(words) => of_words(words, values),
        Values::Numbers(numbers) => of_numbers(stored, numbers, values)?,
        Values::Tags(tags) => {
            let code = |value: &Value| match value {
                Value::Keyword(word) => tags.dictionary.code(word),
                _ => None,
            };
            any(tags, codes(values, code))
        }
        Values::Ids(ids) => of_ids(ids, values),
    };
    if values.iter().any(Value::is_null) {
        let null = Test::Leaf(Leaf::Null(&stored.values), true);
        return Ok(if values.len() == 1 { null } else { Test::Or(vec![test, null]) });
    }
    Ok(test)
}

fn of_words<'a>(words: &'a Words, values: &[Value]) -> Test<'a> {
    let codes = codes(values, |value| Some(words.code(value)).filter(|&code| code > 0));
    match codes[..] {
        [] => Test::Constant(false),
        [code] => Test::Leaf(Leaf::Word(words, code), true),
        _ => Test::Leaf(Leaf::Words(words, codes), true),
    }
}

fn of_ids<'a>(ids: &Ids, values: &[Value]) -> Test<'a> {
    let row = |value: &Value| match value {
        Value::Keyword(id) => ids.row(id),
        _ => None,
    };
    let rows = codes(values, row);
    if rows.is_empty() { Test::Constant(false) } else { Test::Leaf(Leaf::Ids(rows), true) }
}

fn of_numbers<'a>(stored: &Stored, numbers: &'a Numbers, values: &[Value]) -> Result<Test<'a>> {
    let mut wanted = Vec::new();
    for value in values.iter().filter(|value| !value.is_null()) {
        let (least, most) = bounds(stored, Operator::Eq, value)?;
        wanted.extend((least == most).then_some(least));
    }
    let wanted = sorted(wanted);
    Ok(match wanted[..] {
        [] => Test::Constant(false),
        [number] => Test::Leaf(Leaf::Range(numbers, number, number), true),
        _ => Test::Leaf(Leaf::Numbers(numbers, wanted), true),
    })
}

fn compare<'a>(stored: &'a Stored, operator: Operator, value: &Value) -> Result<Test<'a>> {
    let Values::Numbers(numbers) = &stored.values else {
        return Err(wrong_operator(stored, operator.as_str()));
    };
    let (least, most) = bounds(stored, operator, value)?;
    Ok(if least > most { Test::Constant(false) } else { Test::Leaf(Leaf::Range(numbers, least, most), true) })
}

/// The least and the most number of a column for which a comparison is true; the first is above the second if there is none.
fn bounds(stored: &Stored, operator: Operator, value: &Value) -> Result<(i64, i64)> {
    // The numbers that are not above the value, and those that are not below it, end and start here.
    let (floor, ceiling) = match (stored.column.kind, value) {
        (_, Value::Float(value)) if value.is_nan() => return Err(wrong_kind(stored, &Value::Float(*value))),
        (ColumnKind::Integer, Value::Integer(value)) => (i128::from(*value), i128::from(*value)),
        (ColumnKind::Integer, Value::Float(value)) => (value.floor() as i128, value.ceil() as i128),
        (ColumnKind::Float, Value::Float(value)) => {
            (i128::from(float_order(*value)), i128::from(float_order(*value)))
        }
        (ColumnKind::Float, Value::Integer(value)) => {
            let nearest = *value as f64;
            let order = i128::from(float_order(nearest));
            match i128::from(*value).cmp(&(nearest as i128)) {
                std::cmp::Ordering::Equal => (order, order),
                std::cmp::Ordering::Less => (order - 1, order),
                std::cmp::Ordering::Greater => (order, order + 1),
            }
        }
        (ColumnKind::Timestamp, Value::Timestamp(_) | Value::Keyword(_)) => {
            match value.clone().cast(ColumnKind::Timestamp) {
                Ok(Value::Timestamp(value)) => (i128::from(value), i128::from(value)),
                _ => return Err(wrong_kind(stored, value)),
            }
        }
        _ => return Err(wrong_kind(stored, value)),
    };
    let (least, most) = match operator {
        Operator::Lt => (i128::MIN, ceiling.saturating_sub(1)),
        Operator::Le => (i128::MIN, floor),
        Operator::Gt => (floor.saturating_add(1), i128::MAX),
        Operator::Ge => (ceiling, i128::MAX),
        Operator::Eq | Operator::Ne => (ceiling, floor),
    };
    // The least i64 is null.
    let first = i128::from(i64::MIN) + 1;
    if least > most || least > i128::from(i64::MAX) || most < first {
        return Ok((1, 0));
    }
    Ok((least.max(first) as i64, most.min(i128::from(i64::MAX)) as i64))
}
