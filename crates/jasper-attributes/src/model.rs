//! Attributes as simple as can be: what [`crate::Attributes`] does, in a map of keys.

use std::collections::BTreeMap;

use jasper_core::Key;

use crate::expression::{Expression, Node, Operator};
use crate::{AttributeError, Column, ColumnKind, Frame, Value};

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) columns: Vec<Column>,
    /// Whether a key is live, and its values.
    pub(crate) rows: BTreeMap<Key, (bool, BTreeMap<String, Value>)>,
}

impl Model {
    pub(crate) fn is_live(&self, key: Key) -> bool {
        self.rows.get(&key).is_some_and(|row| row.0)
    }

    pub(crate) fn add_keys(&mut self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            if !self.is_live(key) {
                self.rows.insert(key, (true, BTreeMap::new()));
            }
        }
    }

    pub(crate) fn remove(&mut self, key: Key) {
        if let Some(row) = self.rows.get_mut(&key) {
            row.0 = false;
        }
    }

    pub(crate) fn restore(&mut self, key: Key) -> Result<(), AttributeError> {
        if !self.rows.contains_key(&key) {
            return Err(AttributeError::UnknownKey(key));
        }
        if let Some(column) = self.id_column()
            && let Value::Keyword(id) = self.stored(key, &column)
            && let Some(key) = self.key_of_id(&id).filter(|&holder| holder != key)
        {
            return Err(AttributeError::IdTaken { column, id, key });
        }
        self.rows.get_mut(&key).expect("checked above").0 = true;
        Ok(())
    }

    pub(crate) fn forget(&mut self, key: Key) {
        if !self.is_live(key) {
            self.rows.remove(&key);
        }
    }

    fn stored(&self, key: Key, column: &str) -> Value {
        self.rows.get(&key).and_then(|row| row.1.get(column)).cloned().unwrap_or_default()
    }

    pub(crate) fn value(&self, key: Key, column: &str) -> Value {
        if self.is_live(key) { self.stored(key, column) } else { Value::Null }
    }

    pub(crate) fn id_column(&self) -> Option<String> {
        self.columns.iter().find(|column| column.kind == ColumnKind::Id).map(|column| column.name.clone())
    }

    pub(crate) fn key_of_id(&self, id: &str) -> Option<Key> {
        let column = self.id_column()?;
        self.rows.keys().copied().find(|&key| self.value(key, &column) == Value::from(id))
    }

    pub(crate) fn check(&self, keys: &[Key], frame: &Frame, replacing: bool) -> Result<(), AttributeError> {
        if keys.len() != frame.len() {
            return Err(AttributeError::Rows { rows: frame.len(), keys: keys.len() });
        }
        for (index, key) in keys.iter().enumerate() {
            if keys[..index].contains(key) {
                return Err(AttributeError::DuplicateKey(*key));
            }
        }
        for given in frame.frame_columns() {
            let name = &given.name;
            let existing = self.columns.iter().find(|column| column.name == *name).map(|column| column.kind);
            let Some(kind) = existing.or(given.kind) else { continue };
            if existing.is_none() && kind == ColumnKind::Id {
                let ids = frame.frame_columns().iter().filter(|other| {
                    let is_known = self.columns.iter().any(|column| column.name == other.name);
                    other.kind == Some(ColumnKind::Id) && !is_known && other.name != *name
                });
                let other = self.id_column().or(ids.map(|column| column.name.clone()).next());
                if let Some(existing) = other {
                    return Err(AttributeError::SecondIdColumn { column: name.clone(), existing });
                }
            }
            for (row, value) in given.values.iter().enumerate() {
                if let Err(value) = value.clone().cast(kind) {
                    return Err(AttributeError::Kind { column: name.clone(), kind, value, row });
                }
                if kind != ColumnKind::Id || value.is_null() {
                    continue;
                }
                let Value::Keyword(id) = value else { unreachable!("cast above") };
                if let Some(first) = given.values[..row].iter().position(|other| other == value) {
                    let (column, id) = (name.clone(), id.clone());
                    return Err(AttributeError::DuplicateId { column, id, rows: [first, row] });
                }
                if let Some(key) = self.key_of_id(id).filter(|key| !replacing || !keys.contains(key)) {
                    return Err(AttributeError::IdTaken { column: name.clone(), id: id.clone(), key });
                }
            }
        }
        Ok(())
    }

    pub(crate) fn set(&mut self, keys: &[Key], frame: &Frame) -> Result<(), AttributeError> {
        self.check(keys, frame, true)?;
        if let Some(&key) = keys.iter().find(|&&key| !self.is_live(key)) {
            return Err(AttributeError::UnknownKey(key));
        }
        for given in frame.frame_columns() {
            let existing = self.columns.iter().find(|column| column.name == given.name);
            let Some(kind) = existing.map(|column| column.kind).or(given.kind) else { continue };
            if existing.is_none() {
                self.columns.push(Column { name: given.name.clone(), kind });
            }
            for (key, value) in keys.iter().zip(&given.values) {
                let values = &mut self.rows.get_mut(key).expect("live").1;
                values.insert(given.name.clone(), value.clone().cast(kind).expect("checked"));
            }
        }
        Ok(())
    }

    pub(crate) fn matches(&self, expression: &Expression, key: Key) -> bool {
        self.is_live(key) && self.holds(expression, key)
    }

    fn holds(&self, expression: &Expression, key: Key) -> bool {
        let kind =
            |name: &str| self.columns.iter().find(|column| column.name == name).map(|column| column.kind);
        let equals = |name: &str, value: &Value| match self.value(key, name) {
            Value::Keywords(list) => matches!(value, Value::Keyword(text) if list.contains(text)),
            Value::Null => value.is_null(),
            stored => compare(&stored, value, kind(name)).is_some_and(std::cmp::Ordering::is_eq),
        };
        match expression.node() {
            Node::All => true,
            Node::And(parts) => parts.iter().all(|part| self.holds(part, key)),
            Node::Or(parts) => parts.iter().any(|part| self.holds(part, key)),
            Node::Not(inner) => !self.holds(inner, key),
            Node::Compare(name, operator, value) => {
                let order = compare(&self.value(key, name), value, kind(name));
                match operator {
                    Operator::Eq => equals(name, value),
                    Operator::Ne => !equals(name, value),
                    Operator::Lt => order.is_some_and(std::cmp::Ordering::is_lt),
                    Operator::Le => order.is_some_and(std::cmp::Ordering::is_le),
                    Operator::Gt => order.is_some_and(std::cmp::Ordering::is_gt),
                    Operator::Ge => order.is_some_and(std::cmp::Ordering::is_ge),
                }
            }
            Node::In(name, values) => values.iter().any(|value| equals(name, value)),
            Node::ContainsAny(name, wanted) => match self.value(key, name) {
                Value::Keywords(list) => wanted.iter().any(|text| list.contains(text)),
                _ => false,
            },
            Node::ContainsAll(name, wanted) => match self.value(key, name) {
                Value::Keywords(list) => wanted.iter().all(|text| list.contains(text)),
                _ => false,
            },
            Node::IsNull(name) => self.value(key, name).is_null(),
            Node::Keys(keys) => keys.contains(key),
        }
    }
}

/// How a stored value compares with that of an expression.
fn compare(stored: &Value, value: &Value, kind: Option<ColumnKind>) -> Option<std::cmp::Ordering> {
    match (stored, value) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Integer(a), Value::Integer(b)) | (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        (Value::Timestamp(a), Value::Keyword(_)) => {
            let Ok(Value::Timestamp(b)) = value.clone().cast(kind?) else { return None };
            Some(a.cmp(&b))
        }
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Integer(a), Value::Float(b)) => compare_exactly(*a, *b),
        (Value::Float(a), Value::Integer(b)) => Some(compare_exactly(*b, *a)?.reverse()),
        (Value::Keyword(a), Value::Keyword(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn compare_exactly(integer: i64, float: f64) -> Option<std::cmp::Ordering> {
    if float.is_nan() {
        return None;
    }
    // Saturates far above and below every i64; a fraction decides among equal whole parts.
    let whole = float.floor() as i128;
    Some(i128::from(integer).cmp(&whole).then(if float.fract() == 0.0 || float.is_infinite() {
        std::cmp::Ordering::Equal
    } else {
        std::cmp::Ordering::Less
    }))
}
