//! The attributes of an index.

use std::sync::Arc;

use jasper_core::Key;

use crate::model::Model;
use crate::{
    AttributeError, Column, ColumnKind, DecodeError, Expression, ExpressionError, Frame, Predicate, Value,
};

/// Typed columns beside the keys of an index.
///
/// A clone shares memory and takes no time that grows with the rows; a change copies the few kilobytes that it is in. So a
/// snapshot is a clone, and taking a change back is putting back the clone from before.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    model: Arc<Model>,
}

impl Attributes {
    /// Whether there are no columns. Keys need not be added before there are.
    pub fn is_empty(&self) -> bool {
        self.model.columns.is_empty()
    }

    /// The columns, in the order in which they were added.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.model.columns.iter()
    }

    /// Number of live keys.
    pub fn len(&self) -> usize {
        self.model.rows.values().filter(|row| row.0).count()
    }

    /// Adds live keys whose values are all null. One that was removed starts anew; one that is live stays as it is.
    pub fn add_keys(&mut self, keys: impl IntoIterator<Item = Key>) {
        Arc::make_mut(&mut self.model).add_keys(keys);
    }

    /// Removes a live key: no expression selects it any more, and its id is free. Its values are kept until it is forgotten.
    pub fn remove(&mut self, key: Key) {
        Arc::make_mut(&mut self.model).remove(key);
    }

    /// Restores a removed key and its values.
    ///
    /// # Errors
    /// [`AttributeError::IdTaken`] if its id is that of another live key now, and [`AttributeError::UnknownKey`] if it was
    /// never added, or forgotten. Nothing is changed then.
    pub fn restore(&mut self, key: Key) -> Result<(), AttributeError> {
        Arc::make_mut(&mut self.model).restore(key)
    }

    /// Drops the values of a removed key.
    pub fn forget(&mut self, key: Key) {
        Arc::make_mut(&mut self.model).forget(key);
    }

    /// Checks.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, keys: &[Key], frame: &Frame, replacing: bool) -> Result<(), AttributeError> {
        self.model.check(keys, frame, replacing)
    }

    /// Sets.
    ///
    /// # Errors
    /// What does not fit.
    pub fn set(&mut self, keys: &[Key], frame: &Frame) -> Result<(), AttributeError> {
        Arc::make_mut(&mut self.model).set(keys, frame)
    }

    /// The values of a live key that are not null, in the order of the columns.
    pub fn get(&self, key: Key) -> Option<Vec<(&str, Value)>> {
        self.model.is_live(key).then(|| {
            let values =
                self.columns().map(|column| (column.name.as_str(), self.model.value(key, &column.name)));
            values.filter(|(_, value)| !value.is_null()).collect()
        })
    }

    /// A value of a live key; none without the key or the column.
    pub fn value(&self, key: Key, column: &str) -> Option<Value> {
        let is_known = self.columns().any(|other| other.name == column);
        (self.model.is_live(key) && is_known).then(|| self.model.value(key, column))
    }

    /// The values of keys; null for what is not live.
    pub fn rows(&self, keys: &[Key]) -> Frame {
        let columns = self.columns().map(|column| {
            let values = keys.iter().map(|&key| self.model.value(key, &column.name)).collect();
            (column.name.clone(), column.kind, values)
        });
        Frame::from_columns(keys.len(), columns)
    }

    /// The live key that has an id.
    pub fn key_of_id(&self, id: &str) -> Option<Key> {
        self.model.key_of_id(id)
    }

    /// The id of a live key.
    pub fn id_of(&self, key: Key) -> Option<String> {
        match self.value(key, self.id_column()?) {
            Some(Value::Keyword(id)) => Some(id),
            _ => None,
        }
    }

    /// The column of ids.
    pub fn id_column(&self) -> Option<&str> {
        self.columns().find(|column| column.kind == ColumnKind::Id).map(|column| column.name.as_str())
    }

    /// Binds.
    ///
    /// # Errors
    /// Unknown columns.
    pub fn bind<'a>(&'a self, expression: &'a Expression) -> Result<Predicate<'a>, ExpressionError> {
        Ok(Predicate { attributes: self, expression })
    }

    /// The attributes as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let keys: Vec<Key> = self.model.rows.keys().copied().filter(|&key| self.model.is_live(key)).collect();
        bytes.extend((keys.len() as u64).to_le_bytes());
        keys.iter().for_each(|key| bytes.extend(key.to_le_bytes()));
        bytes.extend(self.rows(&keys).encode());
        bytes
    }

    /// The attributes that were encoded.
    ///
    /// # Errors
    /// If these are not the bytes of attributes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = crate::bytes::Reader::new(bytes);
        let len = reader.len()?;
        let keys: Vec<Key> = (0..len).map(|_| reader.u64()).collect::<Result<_, _>>()?;
        let frame = Frame::decode(&bytes[8 + len * 8..])?;
        let mut attributes = Self::default();
        attributes.add_keys(keys.iter().copied());
        attributes.set(&keys, &frame).map_err(|_| reader.error("values do not fit"))?;
        Ok(attributes)
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        0
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }
}
