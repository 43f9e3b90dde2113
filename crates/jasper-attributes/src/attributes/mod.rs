//! The attributes of an index.

mod check;
mod codec;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use jasper_core::Key;
use rayon::prelude::*;

use crate::columns::{Stored, Tags, Values, Words, is_bulk};
use crate::frame::FrameColumn;
use crate::keys::Keys;
use crate::predicate::Predicate;
use crate::{AttributeError, Column, Expression, ExpressionError, Frame, Value};

/// Typed columns beside the keys of an index.
///
/// A clone shares memory and takes no time that grows with the keys; a change copies the few kilobytes that it is in. So a
/// snapshot is a clone, and a change is taken back by putting back the clone from before.
///
/// ```
/// use jasper_attributes::{Attributes, Frame, column};
///
/// let mut attributes = Attributes::default();
/// attributes.add_keys([10, 11, 12]);
/// let frame = Frame::new(2).column("year", [2019, 2021])?.column("lang", [Some("en"), None])?;
/// attributes.set(&[10, 11], &frame)?;
///
/// let recent = column("year").ge(2020);
/// let predicate = attributes.bind(&recent)?;
/// assert!(predicate.matches(11) && !predicate.matches(10));
/// assert_eq!(predicate.select(), [11]);
///
/// let snapshot = attributes.clone();
/// attributes.remove(11);
/// assert!(attributes.bind(&recent)?.select().is_empty());
/// assert_eq!(snapshot.bind(&recent)?.select(), [11]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Attributes {
    keys: Keys,
    columns: Arc<Vec<Stored>>,
}

/// Rows of a change from which on columns are changed in parallel. Few in tests, which have few rows.
const PARALLEL_ROWS: usize = if cfg!(test) { 7 } else { 1024 };

impl Attributes {
    /// Whether there are no columns. Keys need not be added before there are.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The columns, in the order in which they were added.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().map(|stored| &stored.column)
    }

    /// Number of live keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Adds live keys whose values are all null. One that was removed starts anew; one that is live stays as it is.
    pub fn add_keys(&mut self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            self.forget(key);
            if self.keys.find(key).is_none() {
                self.keys.add(key);
            }
        }
    }

    /// Removes a live key: no expression selects it any more, and its id is free. Its values are kept until the key is
    /// [restored](Self::restore), [forgotten](Self::forget) or [added](Self::add_keys). A key that is not live is left as it
    /// is.
    pub fn remove(&mut self, key: Key) {
        self.remove_keys([key]);
    }

    /// [Removes](Self::remove) live keys. From half of all keys on, this indexes the others anew, in tenths of
    /// microseconds per key.
    pub fn remove_keys(&mut self, keys: impl IntoIterator<Item = Key>) {
        let rows: Vec<u32> = keys.into_iter().filter_map(|key| self.keys.remove(key)).collect();
        if rows.is_empty() || self.columns.is_empty() {
            return;
        }
        let is_bulk = is_bulk(rows.len(), &self.keys);
        let remove = |stored: &mut Stored| match is_bulk {
            true => stored.index_all(&self.keys),
            false => rows.iter().for_each(|&row| stored.unindex(row)),
        };
        let columns = Arc::make_mut(&mut self.columns);
        if rows.len() < PARALLEL_ROWS {
            columns.iter_mut().for_each(remove);
        } else {
            columns.par_iter_mut().for_each(remove);
        }
    }

    /// The id that a removed key would have again if it were restored.
    pub fn removed_id(&self, key: Key) -> Option<String> {
        let row = self.keys.find_removed(key)?;
        let ids = self.columns.iter().find_map(|stored| match &stored.values {
            Values::Ids(ids) => Some(ids),
            _ => None,
        })?;
        ids.get(row).map(str::to_owned)
    }

    /// Restores a removed key and its values.
    ///
    /// # Errors
    /// [`AttributeError::IdTaken`] if its id is that of another live key now, and [`AttributeError::UnknownKey`] if the key is
    /// not a removed one. Nothing is changed then.
    pub fn restore(&mut self, key: Key) -> Result<(), AttributeError> {
        let row = self.keys.find_removed(key).ok_or(AttributeError::UnknownKey(key))?;
        for stored in self.columns.iter() {
            if let Values::Ids(ids) = &stored.values
                && let Some(id) = ids.get(row)
                && let Some(holder) = ids.row(id)
            {
                let (column, id) = (stored.column.name.clone(), id.to_string());
                return Err(AttributeError::IdTaken { column, id, key: self.keys.key(holder) });
            }
        }
        self.keys.restore(key, row);
        self.change_columns(|stored| stored.index(row));
        Ok(())
    }

    /// Drops the values of a removed key, which cannot be restored any more. Other keys are left as they are.
    pub fn forget(&mut self, key: Key) {
        if let Some(row) = self.keys.forget(key) {
            self.change_columns(|stored| stored.clear(row));
        }
    }

    fn change_columns(&mut self, change: impl FnMut(&mut Stored)) {
        if !self.columns.is_empty() {
            Arc::make_mut(&mut self.columns).iter_mut().for_each(change);
        }
    }

    /// Sets the values of live keys: row `i` of the frame has those of `keys[i]`. Columns that the frame does not have keep
    /// their values, and columns that are new are added, null for other keys.
    ///
    /// A frame of many rows is cheaper per row than many frames: from half of all keys on, the columns are
    /// indexed anew, in parallel.
    ///
    /// # Errors
    /// As [`Self::check`], and [`AttributeError::UnknownKey`] if a key is not live. Nothing is changed then.
    pub fn set(&mut self, keys: &[Key], frame: &Frame) -> Result<(), AttributeError> {
        self.check(keys, frame, true)?;
        let row = |&key: &Key| self.keys.find(key).ok_or(AttributeError::UnknownKey(key));
        let rows: Vec<u32> = keys.iter().map(row).collect::<Result<_, _>>()?;
        let columns = Arc::make_mut(&mut self.columns);
        let stored: HashSet<String> = columns.iter().map(|stored| stored.column.name.clone()).collect();
        let mut given = HashMap::new();
        for column in frame.frame_columns() {
            if let (false, Some(kind)) = (stored.contains(&column.name), column.kind) {
                columns.push(Stored::new(Column { name: column.name.clone(), kind }));
            }
            given.insert(&*column.name, column);
        }
        let pairs = columns.iter_mut().filter_map(|stored| Some((given.get(&*stored.column.name)?, stored)));
        let set = |(given, stored): (&&FrameColumn, &mut Stored)| {
            let values = given.values_as(stored.column.kind)?;
            stored.set(&rows, &values, &self.keys);
            Ok(())
        };
        if rows.len() < PARALLEL_ROWS {
            return pairs.into_iter().try_for_each(set);
        }
        pairs.collect::<Vec<_>>().into_par_iter().try_for_each(set)
    }

    /// The values of a live key that are not null, in the order of the columns.
    pub fn get(&self, key: Key) -> Option<Vec<(&str, Value)>> {
        let row = self.keys.find(key)?;
        let values = self.columns.iter().map(|stored| (stored.column.name.as_str(), stored.value(row)));
        Some(values.filter(|(_, value)| !value.is_null()).collect())
    }

    /// A value of a live key; none without the key or the column.
    pub fn value(&self, key: Key, column: &str) -> Option<Value> {
        let row = self.keys.find(key)?;
        Some(self.column(column)?.value(row))
    }

    fn column(&self, name: &str) -> Option<&Stored> {
        self.columns.iter().find(|stored| stored.column.name == name)
    }

    /// The values of keys, a row each, in all columns. What is not live has nulls.
    pub fn rows(&self, keys: &[Key]) -> Frame {
        let rows: Vec<Option<u32>> = keys.iter().map(|&key| self.keys.find(key)).collect();
        let columns = self.columns.iter().map(|stored| {
            let values = rows.iter().map(|row| row.map_or(Value::Null, |row| stored.value(row))).collect();
            (stored.column.name.clone(), stored.column.kind, values)
        });
        Frame::from_columns(keys.len(), columns)
    }

    /// The live key that has an id.
    pub fn key_of_id(&self, id: &str) -> Option<Key> {
        self.columns.iter().find_map(|stored| match &stored.values {
            Values::Ids(ids) => Some(self.keys.key(ids.row(id)?)),
            _ => None,
        })
    }

    /// The id of a live key.
    pub fn id_of(&self, key: Key) -> Option<String> {
        let row = self.keys.find(key)?;
        self.columns.iter().find_map(|stored| match &stored.values {
            Values::Ids(ids) => ids.get(row).map(String::from),
            _ => None,
        })
    }

    /// The column of ids.
    pub fn id_column(&self) -> Option<&str> {
        let is_ids = |stored: &&Stored| matches!(stored.values, Values::Ids(_));
        self.columns.iter().find(is_ids).map(|stored| stored.column.name.as_str())
    }

    /// Binds an expression to these attributes, to test keys with it or to select some. Takes microseconds, and about 100 ns
    /// for each string of the expression.
    ///
    /// # Errors
    /// If the expression names a column that does not exist, or compares one with a value of another kind.
    ///
    /// ```
    /// use jasper_attributes::{Attributes, Frame, column};
    ///
    /// let mut attributes = Attributes::default();
    /// attributes.add_keys([0]);
    /// attributes.set(&[0], &Frame::new(1).column("year", [2020])?)?;
    /// let error = attributes.bind(&column("year").eq("new")).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     r#"column "year" is of kind integer, with which 'new' cannot be compared"#
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bind<'a>(&'a self, expression: &'a Expression) -> Result<Predicate<'a>, ExpressionError> {
        Predicate::new(&self.keys, &self.columns, expression)
    }

    /// Whether these are the live keys, each once.
    pub fn has_keys(&self, keys: impl IntoIterator<Item = Key>) -> bool {
        let (mut is_found, mut found) = (vec![false; self.keys.rows()], 0);
        for key in keys {
            match self.keys.find(key) {
                Some(row) if !std::mem::replace(&mut is_found[row as usize], true) => found += 1,
                _ => return false,
            }
        }
        found == self.len()
    }

    /// The live keys, each with its row: a small number that [`Self::ordered`] has instead of it.
    pub fn keys_of_rows(&self) -> impl Iterator<Item = (u32, Key)> {
        self.keys.live()
    }

    /// The [rows](Self::keys_of_rows) of live keys with a value of a column, by value and in a fixed order where values are equal, each
    /// after a number that is ordered as values are: that of [`Predicate::clauses`]. A row is there once for each string of a
    /// list. None for a column of ids.
    pub fn ordered(&self, column: usize) -> Option<Box<dyn Iterator<Item = (i64, u32)> + '_>> {
        Some(match &self.columns.get(column)?.values {
            Values::Numbers(numbers) => {
                let rows = numbers.ordered.rows(i64::MIN, i64::MAX);
                Box::new(rows.map(|row| (numbers.get(row), row)))
            }
            Values::Words(Words { postings, .. }) | Values::Tags(Tags { postings, .. }) => Box::new(
                postings.iter().flat_map(|(code, rows)| rows.iter().map(move |row| (code.into(), row))),
            ),
            Values::Ids(_) => return None,
        })
    }

    /// The numbers that a live key has in a column, as [`Self::ordered`] has them.
    pub fn numbers_of(&self, column: usize, key: Key) -> impl Iterator<Item = i64> + '_ {
        let row = self.keys.find(key);
        let values = row.and_then(|row| Some((row, &self.columns.get(column)?.values)));
        let values = values.filter(|(row, values)| !values.is_null(*row));
        let (one, list): (_, &[u32]) = match values {
            Some((row, Values::Numbers(numbers))) => (Some(numbers.get(row)), &[]),
            Some((row, Values::Words(words))) => (Some(words.get(row).into()), &[]),
            Some((row, Values::Tags(tags))) => (None, tags.get(row).unwrap_or_default()),
            _ => (None, &[]),
        };
        one.into_iter().chain(list.iter().map(|&code| code.into()))
    }

    /// Whether this is a clone of `other` or of what it was cloned from, and no column of either has changed since.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.columns, &other.columns)
    }

    /// Bytes of memory, without allowance for what clones share.
    pub fn memory(&self) -> usize {
        self.keys.memory() + self.columns.iter().map(Stored::memory).sum::<usize>()
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&Column> = self.columns().collect();
        f.debug_struct("Attributes").field("keys", &self.len()).field("columns", &columns).finish()
    }
}
