//! Checks attributes before they are set.

use std::collections::HashMap;

use jasper_core::Key;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::Attributes;
use crate::columns::{Ids, Stored, Values};
use crate::{AttributeError, ColumnKind, Frame, Value};

impl Attributes {
    /// Checks that the rows of a frame can be those of keys, which need not exist yet: that values are of the kinds of the
    /// columns, or can be converted without loss, and that ids are unique, within the frame and among live keys.
    ///
    /// If the frame is `replacing` what these keys have, an id may also be that of one of them now.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, keys: &[Key], frame: &Frame, replacing: bool) -> Result<(), AttributeError> {
        if keys.len() != frame.len() {
            return Err(AttributeError::Rows { rows: frame.len(), keys: keys.len() });
        }
        if let Some(key) = duplicate(keys) {
            return Err(AttributeError::DuplicateKey(key));
        }
        let mut id_column = self.id_column();
        // A damaged journal may name a million.
        let columns: HashMap<&str, &Stored> =
            self.columns.iter().map(|stored| (&*stored.column.name, stored)).collect();
        for given in frame.frame_columns() {
            let stored = columns.get(&*given.name).copied();
            let Some(kind) = stored.map(|stored| stored.column.kind).or(given.kind) else { continue };
            let values = given.values_as(kind)?;
            if kind != ColumnKind::Id {
                continue;
            }
            if stored.is_none()
                && let Some(existing) = id_column.replace(&given.name)
            {
                let (column, existing) = (given.name.clone(), existing.to_string());
                return Err(AttributeError::SecondIdColumn { column, existing });
            }
            check_distinct(&given.name, &values)?;
            if let Some(Values::Ids(ids)) = stored.map(|stored| &stored.values) {
                self.check_free(&given.name, ids, &values, if replacing { keys } else { &[] })?;
            }
        }
        Ok(())
    }

    /// Checks that ids are of no live key other than these.
    fn check_free(
        &self,
        column: &str,
        ids: &Ids,
        values: &[Value],
        except: &[Key],
    ) -> Result<(), AttributeError> {
        let mut excepted = None;
        for value in values {
            let Value::Keyword(id) = value else { continue };
            let Some(key) = ids.row(id).map(|row| self.keys.key(row)) else { continue };
            let excepted = excepted.get_or_insert_with(|| except.iter().copied().collect::<FxHashSet<Key>>());
            if !excepted.contains(&key) {
                return Err(AttributeError::IdTaken { column: column.into(), id: id.clone(), key });
            }
        }
        Ok(())
    }
}

fn duplicate(keys: &[Key]) -> Option<Key> {
    if keys.is_sorted_by(|a, b| a < b) {
        return None;
    }
    let mut seen = FxHashSet::default();
    keys.iter().copied().find(|&key| !seen.insert(key))
}

fn check_distinct(column: &str, values: &[Value]) -> Result<(), AttributeError> {
    let mut rows = FxHashMap::with_capacity_and_hasher(values.len(), FxBuildHasher);
    for (row, value) in values.iter().enumerate() {
        if let Value::Keyword(id) = value
            && let Some(first) = rows.insert(id.as_str(), row)
        {
            return Err(AttributeError::DuplicateId {
                column: column.into(),
                id: id.clone(),
                rows: [first, row],
            });
        }
    }
    Ok(())
}
