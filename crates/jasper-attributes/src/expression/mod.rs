//! Filter expressions: trees of conditions on columns.

mod display;
mod json;
mod text;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use jasper_core::Key;
use roaring::RoaringTreemap;

use crate::Value;

/// A condition on the attributes of a key. Cloning one shares it.
///
/// Made with [`column()`], from [text](#text) with `parse`, or [from JSON](Self::from_json).
///
/// ```
/// use jasper_attributes::{Expression, column};
///
/// let built = column("year").ge(2020).and(column("lang").is_in(["en", "de"]));
/// let parsed: Expression = "year >= 2020 and lang in ('en', 'de')".parse()?;
/// assert_eq!(built, parsed);
/// assert_eq!(parsed.to_string(), "year >= 2020 and lang in ('en', 'de')");
/// # Ok::<(), jasper_attributes::ExpressionError>(())
/// ```
///
/// # Nulls
/// An expression is true or false for a key, never unknown. A comparison with a null value is false, and `not` turns false
/// into true: `not (year = 2020)` and `year != 2020` are true for keys without a year. Add `and year is not null` to
/// leave these out. SQL would leave them out by itself; the filters of vector databases do not, and neither does
/// this.
///
/// # Text
/// | condition | text |
/// | --- | --- |
/// | comparison | `year = 2020`, `!=` or `<>`, `<`, `<=`, `>`, `>=`; `year between 2019 and 2021`, bounds included |
/// | one of several values | `lang in ('en', 'de')`, `lang not in ('en')` |
/// | lists | `tags contains 'new'`, `tags contains any ('new', 'red')`, `tags contains all ('new', 'red')` |
/// | null | `year is null`, `year is not null` |
/// | keys | `keys(3, 8)` |
/// | all keys, or none | `true`, `false` |
/// | combination | `and`, `or`, `not`, parentheses; `not` binds closest, then `and` |
///
/// Words are in any case. A column is named as it is if its name is of letters, digits, `_` and `.`, does not start with a
/// digit and is none of the words above, else in double quotes: `"publication year"`. A string is in single quotes, where two
/// stand for one. A time is a string, `'2024-03-01'` or `'2024-03-01T12:00:00Z'`, or `timestamp '2024-03-01'`.
///
/// # Columns of lists
/// `=` and `in` are true for a list that contains the value, or one of the values.
#[derive(Clone, Debug)]
pub struct Expression(Arc<Node>);

/// What an [`Expression`] is.
#[derive(Debug, PartialEq)]
pub(crate) enum Node {
    /// True.
    All,
    /// Two at least, none of them an `And`.
    And(Vec<Expression>),
    /// Two at least, none of them an `Or`.
    Or(Vec<Expression>),
    /// Of no `Not`.
    Not(Expression),
    Compare(String, Operator, Value),
    In(String, Vec<Value>),
    ContainsAny(String, Vec<String>),
    ContainsAll(String, Vec<String>),
    IsNull(String),
    Keys(RoaringTreemap),
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operator {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Operator {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Eq => "=",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }
}

/// How deep an expression may be nested that is read from text or JSON.
pub(crate) const MAX_DEPTH: usize = 100;

impl Expression {
    pub(crate) fn new(node: Node) -> Self {
        Self(Arc::new(node))
    }

    pub(crate) fn node(&self) -> &Node {
        &self.0
    }

    /// True for all keys.
    pub fn all() -> Self {
        Self::new(Node::All)
    }

    /// True for these keys.
    pub fn keys(keys: impl IntoIterator<Item = Key>) -> Self {
        Self::new(Node::Keys(keys.into_iter().collect()))
    }

    /// True where both are.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::conjunction([self, other])
    }

    /// True where one of both is.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::disjunction([self, other])
    }

    /// True for the keys for which this is false.
    #[expect(clippy::should_implement_trait, reason = "named as `and` and `or` are")]
    #[must_use]
    pub fn not(self) -> Self {
        match self.node() {
            Node::Not(inner) => inner.clone(),
            _ => Self::new(Node::Not(self)),
        }
    }

    /// True where all are.
    pub fn conjunction(expressions: impl IntoIterator<Item = Self>) -> Self {
        let parts = flatten(expressions, |node| if let Node::And(parts) = node { Some(parts) } else { None });
        match <[Self; 1]>::try_from(parts) {
            Ok([single]) => single,
            Err(parts) if parts.is_empty() => Self::all(),
            Err(parts) => Self::new(Node::And(parts)),
        }
    }

    /// True where one is.
    pub fn disjunction(expressions: impl IntoIterator<Item = Self>) -> Self {
        let parts = flatten(expressions, |node| if let Node::Or(parts) = node { Some(parts) } else { None });
        match <[Self; 1]>::try_from(parts) {
            Ok([single]) => single,
            Err(parts) if parts.is_empty() => Self::all().not(),
            Err(parts) => Self::new(Node::Or(parts)),
        }
    }
}

fn flatten(
    expressions: impl IntoIterator<Item = Expression>,
    parts: impl Fn(&Node) -> Option<&Vec<Expression>>,
) -> Vec<Expression> {
    let mut flat = Vec::new();
    for expression in expressions {
        match parts(expression.node()) {
            Some(parts) => flat.extend(parts.iter().cloned()),
            None => flat.push(expression),
        }
    }
    flat
}

/// Equality of the trees; clones are found equal at once.
impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for Expression {}

impl Hash for Expression {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self.node()).hash(state);
        match self.node() {
            Node::All => {}
            Node::And(parts) | Node::Or(parts) => parts.hash(state),
            Node::Not(inner) => inner.hash(state),
            Node::Compare(column, operator, value) => (column, operator, value).hash(state),
            Node::In(column, values) => (column, values).hash(state),
            Node::ContainsAny(column, values) | Node::ContainsAll(column, values) => {
                (column, values).hash(state);
            }
            Node::IsNull(column) => column.hash(state),
            Node::Keys(keys) => (keys.len(), keys.min(), keys.max()).hash(state),
        }
    }
}

/// Names a column, to make a condition on it.
///
/// ```
/// use jasper_attributes::column;
///
/// let rented = column("price").is_null().not().and(column("tags").contains_any(["new", "red"]));
/// assert_eq!(rented.to_string(), "price is not null and tags contains any ('new', 'red')");
/// ```
pub fn column(name: impl Into<String>) -> ColumnRef {
    ColumnRef(name.into())
}

/// The column of a condition; see [`column()`].
#[derive(Clone, Debug)]
pub struct ColumnRef(String);

impl ColumnRef {
    fn compare(self, operator: Operator, value: Value) -> Expression {
        // Nothing equals null; what is meant is the test for it.
        match (operator, value) {
            (Operator::Eq, Value::Null) => self.is_null(),
            (Operator::Ne, Value::Null) => self.is_null().not(),
            (_, value) => Expression::new(Node::Compare(self.0, operator, value)),
        }
    }

    /// True for values that equal this one. That of null is [`Self::is_null`].
    pub fn eq(self, value: impl Into<Value>) -> Expression {
        self.compare(Operator::Eq, value.into())
    }

    /// True for other values and for null.
    pub fn ne(self, value: impl Into<Value>) -> Expression {
        self.compare(Operator::Ne, value.into())
    }

    /// True for values below this one.
    pub fn lt(self, value: impl Into<Value>) -> Expression {
        self.compare(Operator::Lt, value.into())
    }

    /// True for values up to this one.
    pub fn le(self, value: impl Into<Value>) -> Expression {
        self.compare(Operator::Le, value.into())
    }

    /// True for values above this one.
    pub fn gt(self, value: impl Into<Value>) -> Expression {
        self.compare(Operator::Gt, value.into())
    }

    /// True for values from this one on.
    pub fn ge(self, value: impl Into<Value>) -> Expression {
        self.compare(Operator::Ge, value.into())
    }

    /// True for values that equal one of these.
    pub fn is_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Expression {
        Expression::new(Node::In(self.0, values.into_iter().map(Into::into).collect()))
    }

    /// True for lists that contain one of these strings.
    pub fn contains_any<S: Into<String>>(self, values: impl IntoIterator<Item = S>) -> Expression {
        Expression::new(Node::ContainsAny(self.0, values.into_iter().map(Into::into).collect()))
    }

    /// True for lists that contain all of these strings.
    pub fn contains_all<S: Into<String>>(self, values: impl IntoIterator<Item = S>) -> Expression {
        Expression::new(Node::ContainsAll(self.0, values.into_iter().map(Into::into).collect()))
    }

    /// True for null.
    pub fn is_null(self) -> Expression {
        Expression::new(Node::IsNull(self.0))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustc_hash::FxHashSet;

    /// Trees with values of all kinds.
    pub(crate) fn any_expression() -> impl Strategy<Value = Expression> {
        let name = prop_oneof!["[a-e]", "[a-zA-Z_ \"'é.0-9]{1,6}", Just("and".to_string())];
        let value = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("a number", |value| !value.is_nan()).prop_map(Value::from),
            Just(Value::from(f64::INFINITY)),
            (i64::MIN / 2..i64::MAX).prop_map(Value::Timestamp),
            "[a-z'\" ]{0,4}".prop_map(Value::from),
        ];
        let values = prop::collection::vec(value.clone(), 0..3);
        let strings = prop::collection::vec("[a-z']{0,3}", 0..3);
        let compare = (name.clone(), value, 0..6_usize).prop_map(|(name, value, operator)| {
            use Operator::*;
            column(name).compare([Eq, Ne, Lt, Le, Gt, Ge][operator], value)
        });
        let leaf = prop_oneof![
            4 => compare,
            1 => (name.clone(), values).prop_map(|(name, values)| column(name).is_in(values)),
            1 => (name.clone(), strings.clone()).prop_map(|(name, values)| column(name).contains_any(values)),
            1 => (name.clone(), strings).prop_map(|(name, values)| column(name).contains_all(values)),
            1 => name.prop_map(|name| column(name).is_null()),
            1 => prop::collection::vec(any::<Key>(), 0..3).prop_map(Expression::keys),
            1 => Just(Expression::all()),
        ];
        leaf.prop_recursive(4, 20, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Expression::conjunction),
                prop::collection::vec(inner.clone(), 0..4).prop_map(Expression::disjunction),
                inner.prop_map(Expression::not),
            ]
        })
    }

    #[test]
    fn equal_trees_are_one_in_a_set() {
        let year = || column("year").ge(2020).or(column("year").is_null());
        let set: FxHashSet<_> = [year(), year(), year().not(), year().not().not()].into_iter().collect();
        assert_eq!(set.len(), 2);
        assert_ne!(Expression::keys([1, 2, 4]), Expression::keys([1, 3, 4]));
        assert_eq!(column("a").eq(Value::Null), column("a").is_null());
    }
}
