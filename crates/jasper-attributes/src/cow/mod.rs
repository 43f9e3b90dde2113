//! Collections whose clones share memory: taking one costs nothing, and a change copies the few kilobytes that it is in.

mod bits;
mod cells;
mod hash_index;
mod lists;
mod ordered;
mod parts;
mod row_set;

pub(crate) use bits::Bits;
pub(crate) use cells::{Cell, Cells};
pub(crate) use hash_index::{HashIndex, hash_text, mix, unmix};
pub(crate) use lists::Lists;
pub(crate) use ordered::Ordered;
pub(crate) use parts::Parts;
pub(crate) use row_set::RowSet;
