//! Columns of numbers.

use rayon::slice::ParallelSliceMut;

use super::{is_bulk, live};
use crate::bytes::Reader;
use crate::cow::{Cell, Cells, Ordered};
use crate::keys::Keys;
use crate::{ColumnKind, DecodeError, Value};

/// Numbers as i64 of the same order; the least i64 is null.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    cells: Cells<i64>,
    /// The indexed rows that are not null.
    pub(crate) ordered: Ordered,
}

/// An i64 that is ordered as floats are, and neither the least nor one for zero with a sign.
pub(crate) fn float_order(value: f64) -> i64 {
    // What is no NaN and added to 0 is not -0.
    flip((value + 0.0).to_bits() as i64)
}

/// Negative floats ascend as their bits descend.
fn flip(bits: i64) -> i64 {
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

fn float(order: i64) -> f64 {
    f64::from_bits(flip(order) as u64)
}

/// Whether a number is that of a float.
pub(super) fn is_float(order: i64) -> bool {
    let value = float(order);
    !value.is_nan() && float_order(value) == order
}

/// The number of a value, which is one or null.
fn order(value: &Value) -> i64 {
    match value {
        Value::Integer(value) | Value::Timestamp(value) => *value,
        Value::Float(value) => float_order(*value),
        _ => i64::NONE,
    }
}

impl Numbers {
    #[inline]
    pub(crate) fn get(&self, row: u32) -> i64 {
        self.cells.get(row)
    }

    pub(super) fn value(&self, row: u32, kind: ColumnKind) -> Value {
        match (self.get(row), kind) {
            (i64::NONE, _) => Value::Null,
            (number, ColumnKind::Float) => Value::Float(float(number)),
            (number, ColumnKind::Timestamp) => Value::Timestamp(number),
            (number, _) => Value::Integer(number),
        }
    }

    pub(super) fn set(&mut self, rows: &[u32], values: &[Value], keys: &Keys) {
        let numbers = rows.iter().copied().zip(values.iter().map(order));
        if is_bulk(rows.len(), keys) {
            numbers.for_each(|(row, number)| self.cells.set(row, number));
            return self.index_all(keys);
        }
        for (row, number) in numbers {
            let old = self.cells.get(row);
            if old != number {
                self.unindex(row);
                self.cells.set(row, number);
                self.index(row);
            }
        }
    }

    pub(super) fn index_all(&mut self, keys: &Keys) {
        let pairs = live(keys).map(|row| (self.get(row), row)).filter(|pair| pair.0 != i64::NONE);
        let mut pairs: Vec<_> = pairs.collect();
        pairs.par_sort_unstable();
        self.ordered = Ordered::from_sorted(&pairs);
    }

    pub(super) fn index(&mut self, row: u32) {
        if !self.is_null(row) {
            self.ordered.insert((self.get(row), row));
        }
    }

    pub(super) fn unindex(&mut self, row: u32) {
        if !self.is_null(row) {
            self.ordered.remove((self.get(row), row));
        }
    }

    pub(super) fn clear(&mut self, row: u32) {
        if !self.is_null(row) {
            self.cells.set(row, i64::NONE);
        }
    }

    pub(super) fn is_null(&self, row: u32) -> bool {
        self.get(row) == i64::NONE
    }

    pub(super) fn present(&self) -> usize {
        self.ordered.len()
    }

    /// 8 bytes a row.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>, rows: usize) {
        self.cells.encode(bytes, rows);
    }

    pub(super) fn decode(
        reader: &mut Reader<'_>,
        keys: &Keys,
        is_valid: impl Fn(i64) -> bool,
    ) -> Result<Self, DecodeError> {
        let numbers = reader.items(keys.rows(), 8)?.chunks_exact(8);
        let numbers = numbers.map(|bytes| i64::from_le_bytes(bytes.try_into().expect("8 bytes")));
        if numbers.clone().any(|number| number != i64::NONE && !is_valid(number)) {
            return Err(reader.error("a number is not of the column's kind"));
        }
        let mut decoded = Self { cells: numbers.collect(), ordered: Ordered::default() };
        decoded.index_all(keys);
        Ok(decoded)
    }

    pub(super) fn memory(&self) -> usize {
        self.cells.memory() + self.ordered.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_keep_their_order() {
        let floats =
            [f64::NEG_INFINITY, f64::MIN, -1.0, -f64::MIN_POSITIVE / 4.0, 0.0, 5e-324, 1.0, f64::INFINITY];
        let orders = floats.map(float_order);
        assert!(orders.is_sorted() && orders.iter().all(|&order| is_float(order) && order != i64::NONE));
        assert_eq!(orders.map(float), floats);
        assert_eq!(float_order(-0.0), float_order(0.0));
        assert!(![i64::MIN, i64::MIN + 1, i64::MAX, -1].map(is_float).contains(&true));
    }

    /// As a bulk change that is given in chunks does.
    #[test]
    fn a_change_of_a_twentieth_does_not_order_the_others_anew() {
        let (mut keys, mut numbers) = (Keys::default(), Numbers::default());
        (0..20_000).for_each(|key| keys.add(key));
        let rows: Vec<u32> = (0..20_000).collect();
        let values = |rows: &[u32], round| -> Vec<Value> {
            rows.iter().map(|&row| Value::Integer(i64::from(row) * 2 + round)).collect()
        };
        numbers.set(&rows, &values(&rows, 0), &keys);
        let (before, chunk) = (numbers.clone(), &rows[5000..6000]);
        numbers.set(chunk, &values(chunk, 1), &keys);
        assert!(numbers.ordered.shared_blocks(&before.ordered) >= 48);
        assert_eq!(
            (numbers.ordered.count(10_001, 11_999), before.ordered.count(10_001, 11_999)),
            (1000, 999)
        );
    }
}
