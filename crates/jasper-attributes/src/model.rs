//! What [`Attributes`] does, as simple as can be, and random operations on both.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use jasper_core::Key;
use proptest::prelude::*;

use crate::expression::{Expression, Node, Operator};
use crate::{AttributeError, Attributes, Column, ColumnKind, Frame, Value, column};

#[derive(Clone, Debug, Default)]
struct Model {
    columns: Vec<Column>,
    /// Whether a key is live, and its values.
    rows: BTreeMap<Key, (bool, BTreeMap<String, Value>)>,
}

impl Model {
    fn is_live(&self, key: Key) -> bool {
        self.rows.get(&key).is_some_and(|row| row.0)
    }

    fn add_keys(&mut self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            if !self.is_live(key) {
                self.rows.insert(key, (true, BTreeMap::new()));
            }
        }
    }

    fn remove(&mut self, key: Key) {
        if let Some(row) = self.rows.get_mut(&key) {
            row.0 = false;
        }
    }

    fn restore(&mut self, key: Key) -> Result<(), AttributeError> {
        if !self.rows.contains_key(&key) || self.is_live(key) {
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

    fn forget(&mut self, key: Key) {
        if !self.is_live(key) {
            self.rows.remove(&key);
        }
    }

    fn stored(&self, key: Key, column: &str) -> Value {
        self.rows.get(&key).and_then(|row| row.1.get(column)).cloned().unwrap_or_default()
    }

    fn value(&self, key: Key, column: &str) -> Value {
        if self.is_live(key) { self.stored(key, column) } else { Value::Null }
    }

    fn id_column(&self) -> Option<String> {
        self.columns.iter().find(|column| column.kind == ColumnKind::Id).map(|column| column.name.clone())
    }

    fn key_of_id(&self, id: &str) -> Option<Key> {
        let column = self.id_column()?;
        self.rows.keys().copied().find(|&key| self.value(key, &column) == Value::from(id))
    }

    fn check(&self, keys: &[Key], frame: &Frame, replacing: bool) -> Result<(), AttributeError> {
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

    fn set(&mut self, keys: &[Key], frame: &Frame) -> Result<(), AttributeError> {
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

    fn matches(&self, expression: &Expression, key: Key) -> bool {
        self.is_live(key) && self.holds(expression, key)
    }

    fn holds(&self, expression: &Expression, key: Key) -> bool {
        let kind =
            |name: &str| self.columns.iter().find(|column| column.name == name).map(|column| column.kind);
        let equals = |name: &str, value: &Value| match self.value(key, name) {
            Value::Keywords(list) => matches!(value, Value::Keyword(text) if list.contains(text)),
            Value::Null => value.is_null(),
            stored => compare(&stored, value, kind(name)).is_some_and(Ordering::is_eq),
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
                    Operator::Lt => order.is_some_and(Ordering::is_lt),
                    Operator::Le => order.is_some_and(Ordering::is_le),
                    Operator::Gt => order.is_some_and(Ordering::is_gt),
                    Operator::Ge => order.is_some_and(Ordering::is_ge),
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
fn compare(stored: &Value, value: &Value, kind: Option<ColumnKind>) -> Option<Ordering> {
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

fn compare_exactly(integer: i64, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    // Saturates far above and below every i64; a fraction decides among equal whole parts.
    let whole = float.floor() as i128;
    Some(i128::from(integer).cmp(&whole).then(if float.fract() == 0.0 || float.is_infinite() {
        Ordering::Equal
    } else {
        Ordering::Less
    }))
}

const COLUMNS: [(&str, ColumnKind); 7] = [
    ("bool", ColumnKind::Bool),
    ("integer", ColumnKind::Integer),
    ("float", ColumnKind::Float),
    ("time", ColumnKind::Timestamp),
    ("word", ColumnKind::Keyword),
    ("tags", ColumnKind::Keywords),
    ("id", ColumnKind::Id),
];

/// Some that are their own row, and some that are not.
fn any_key() -> impl Strategy<Value = Key> {
    prop_oneof![0..40_u64, (0..40_u64).prop_map(|key| key * 1_000_003 + 40)]
}

fn any_word() -> impl Strategy<Value = String> {
    (0..6).prop_map(|word| format!("w{word}"))
}

fn any_value(kind: ColumnKind) -> BoxedStrategy<Value> {
    let value = match kind {
        ColumnKind::Bool => any::<bool>().prop_map(Value::from).boxed(),
        ColumnKind::Integer => {
            prop_oneof![-3..4_i64, Just(i64::MAX), Just(i64::MIN + 1), Just((1 << 53) + 1)]
                .prop_map(Value::from)
                .boxed()
        }
        ColumnKind::Float => prop_oneof![
            (-6..7).prop_map(|half| f64::from(half) / 2.0),
            Just(-0.0),
            Just(f64::NEG_INFINITY),
            Just(9_223_372_036_854_775_807.0),
            Just(9_007_199_254_740_992.0),
        ]
        .prop_map(Value::from)
        .boxed(),
        ColumnKind::Timestamp => (-3..4_i64).prop_map(|day| Value::Timestamp(day * 86_400_000_000)).boxed(),
        ColumnKind::Keywords => prop::collection::vec(any_word(), 0..4).prop_map(Value::from).boxed(),
        ColumnKind::Id => (0..60).prop_map(|id| Value::from(format!("id {id}"))).boxed(),
        _ => any_word().prop_map(Value::from).boxed(),
    };
    prop_oneof![6 => value, 1 => Just(Value::Null)].boxed()
}

/// A leaf that fits a column, or mostly does.
fn any_leaf() -> impl Strategy<Value = Expression> {
    let on_column = (0..COLUMNS.len(), 0..10).prop_flat_map(|(index, what)| {
        let (name, kind) = COLUMNS[index];
        let is_number = matches!(kind, ColumnKind::Integer | ColumnKind::Float);
        // Integers are compared with floats, and times with strings.
        let value = match kind {
            ColumnKind::Keywords => any_value(ColumnKind::Keyword),
            ColumnKind::Timestamp => (1..5).prop_map(|day| Value::from(format!("1970-01-0{day}"))).boxed(),
            _ if is_number => {
                prop_oneof![any_value(ColumnKind::Integer), any_value(ColumnKind::Float)].boxed()
            }
            _ => any_value(kind),
        };
        let words = prop::collection::vec(any_word(), 0..3);
        (value.clone(), prop::collection::vec(value, 0..12), words).prop_map(move |(value, values, words)| {
            let is_ordered = (is_number || kind == ColumnKind::Timestamp) && !value.is_null();
            match what {
                0 if is_ordered => column(name).lt(value),
                1 if is_ordered => column(name).le(value),
                2 if is_ordered => column(name).gt(value),
                3 if is_ordered => column(name).ge(value),
                0 | 1 => column("tags").contains_any(words),
                2 | 3 => column("tags").contains_all(words),
                4 | 5 => column(name).eq(value),
                6 => column(name).ne(value),
                7 | 8 => column(name).is_in(values),
                _ => column(name).is_null(),
            }
        })
    });
    prop_oneof![
        9 => on_column,
        1 => prop::collection::vec(any_key(), 0..20).prop_map(Expression::keys),
        1 => Just(Expression::all()),
    ]
}

fn any_expression() -> impl Strategy<Value = Expression> {
    any_leaf().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Expression::conjunction),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Expression::disjunction),
            inner.prop_map(Expression::not),
        ]
    })
}

#[derive(Clone, Debug)]
enum Step {
    Add(Vec<Key>),
    Remove(Vec<Key>),
    Restore(Key),
    Forget(Vec<Key>),
    Set(Vec<Key>, Frame),
    Clone,
    Decode,
}

fn any_frame(rows: usize) -> impl Strategy<Value = Frame> {
    let columns = prop::sample::subsequence(COLUMNS.to_vec(), 0..=COLUMNS.len());
    columns.prop_flat_map(move |columns| {
        let values = |(name, kind)| (Just(name), Just(kind), prop::collection::vec(any_value(kind), rows));
        columns.into_iter().map(values).collect::<Vec<_>>().prop_map(move |columns| {
            columns.into_iter().fold(Frame::new(rows), |frame, (name, kind, values)| {
                frame.column_of(name, kind, values).expect("values are of the kind")
            })
        })
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let keys = || prop::collection::vec(any_key(), 1..20);
    let set = keys().prop_flat_map(|keys| {
        let rows = keys.len();
        (Just(keys), any_frame(rows))
    });
    prop_oneof![
        3 => keys().prop_map(Step::Add),
        2 => keys().prop_map(Step::Remove),
        2 => any_key().prop_map(Step::Restore),
        1 => keys().prop_map(Step::Forget),
        6 => set.prop_map(|(keys, frame)| Step::Set(keys, frame)),
        1 => Just(Step::Clone),
        1 => Just(Step::Decode),
    ]
}

/// Sets of live keys only, each once: random ones are mostly refused.
fn settable(model: &Model, keys: Vec<Key>, frame: &Frame) -> (Vec<Key>, Frame) {
    let live = |&row: &usize| model.is_live(keys[row]) && !keys[..row].contains(&keys[row]);
    let rows: Vec<usize> = (0..keys.len()).filter(live).collect();
    (rows.iter().map(|&row| keys[row]).collect(), frame.select(&rows))
}

fn assert_alike(ours: &Attributes, model: &Model, expressions: &[Expression]) {
    let keys: Vec<Key> = model.rows.keys().copied().collect();
    assert_eq!(ours.len(), keys.iter().filter(|&&key| model.is_live(key)).count());
    assert!(ours.columns().eq(&model.columns) && ours.is_empty() == model.columns.is_empty());
    assert_eq!(ours.id_column(), model.id_column().as_deref());
    let rows = ours.rows(&keys);
    for (row, &key) in keys.iter().enumerate() {
        assert_eq!(ours.get(key).is_some(), model.is_live(key));
        for Column { name, .. } in &model.columns {
            assert_eq!(rows.value(row, name), model.value(key, name));
            assert_eq!(ours.value(key, name), model.is_live(key).then(|| model.value(key, name)));
        }
        let id = model.id_column().map(|column| model.value(key, &column));
        assert_eq!(Value::from(ours.id_of(key)), id.unwrap_or_default());
    }
    for id in 0..60 {
        let id = format!("id {id}");
        assert_eq!(ours.key_of_id(&id), model.key_of_id(&id));
    }
    for expression in expressions {
        let predicate = match ours.bind(expression) {
            Ok(predicate) => predicate,
            Err(crate::ExpressionError::UnknownColumn { column, .. }) => {
                assert!(model.columns.iter().all(|other| other.name != column));
                continue;
            }
            Err(error) => panic!("{expression}: {error}"),
        };
        let expected: Vec<Key> = keys.iter().copied().filter(|&key| model.matches(expression, key)).collect();
        let matches: Vec<Key> = keys.iter().copied().filter(|&key| predicate.matches(key)).collect();
        assert_eq!(matches, expected, "{expression}");
        assert!(!predicate.matches(77) && !predicate.matches(Key::MAX), "{expression}");
        let mut selected = predicate.select();
        selected.sort_unstable();
        assert_eq!(selected, expected, "{expression}");
        let estimate = predicate.estimate();
        let bounds = estimate.least..=estimate.most;
        assert!(bounds.contains(&expected.len()) && bounds.contains(&estimate.likely), "{expression}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Clones, which are compared at the end, stay as they were.
    #[test]
    fn attributes_are_like_the_model(
        steps in prop::collection::vec(any_step(), 1..40),
        expressions in prop::collection::vec(any_expression(), 1..12),
    ) {
        let (mut ours, mut model, mut clones) = (Attributes::default(), Model::default(), Vec::new());
        for step in steps {
            match step {
                Step::Add(keys) => {
                    ours.add_keys(keys.iter().copied());
                    model.add_keys(keys);
                }
                Step::Remove(keys) => {
                    ours.remove_keys(keys.iter().copied());
                    keys.into_iter().for_each(|key| model.remove(key));
                }
                Step::Restore(key) => prop_assert_eq!(ours.restore(key).is_ok(), model.restore(key).is_ok()),
                Step::Forget(keys) => keys.into_iter().for_each(|key| {
                    ours.forget(key);
                    model.forget(key);
                }),
                Step::Set(keys, frame) => {
                    for replacing in [false, true] {
                        let (ours, model) = (ours.check(&keys, &frame, replacing), model.check(&keys, &frame, replacing));
                        prop_assert_eq!(ours.is_ok(), model.is_ok());
                    }
                    prop_assert_eq!(ours.set(&keys, &frame).is_ok(), model.set(&keys, &frame).is_ok());
                    let (keys, frame) = settable(&model, keys, &frame);
                    prop_assert_eq!(ours.set(&keys, &frame).is_ok(), model.set(&keys, &frame).is_ok());
                }
                Step::Clone => clones.push((ours.clone(), model.clone())),
                Step::Decode => {
                    let bytes = ours.encode();
                    ours = Attributes::decode(&bytes).unwrap();
                    prop_assert_eq!(ours.encode(), bytes);
                }
            }
        }
        clones.push((ours, model));
        for (ours, model) in &clones {
            assert_alike(ours, model, &expressions);
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_decoded(
        keys in prop::collection::btree_set(any_key(), 12),
        frame in any_frame(12),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..3),
        end in any::<prop::sample::Index>(),
    ) {
        let mut attributes = Attributes::default();
        let keys: Vec<Key> = keys.into_iter().collect();
        attributes.add_keys(keys.iter().copied());
        let _ = attributes.set(&keys, &frame);
        attributes.remove(keys[3]);
        let mut bytes = attributes.encode();
        prop_assert!(Attributes::decode(&bytes[..end.index(bytes.len())]).is_err());
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(mut decoded) = Attributes::decode(&bytes) {
            keys.iter().for_each(|&key| decoded.remove(key));
            decoded.add_keys(0..100);
            let _ = decoded.encode();
        }
    }
}
