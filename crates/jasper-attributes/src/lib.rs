//! Typed columns beside the keys of an index, and filter expressions over them.

#![forbid(unsafe_code)]

mod attributes;
mod bytes;
mod error;
mod expression;
mod frame;
mod model;
mod predicate;
mod time;
mod value;

pub use attributes::Attributes;
pub use error::{AttributeError, DecodeError, ExpressionError};
pub use expression::{ColumnRef, Expression, column};
pub use frame::Frame;
pub use predicate::{Estimate, Predicate};
pub use value::{Column, ColumnKind, Value};
