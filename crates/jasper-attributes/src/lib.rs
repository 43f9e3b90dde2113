//! Typed columns beside the keys of an index, and filter expressions over them.
//!
//! ```
//! use jasper_attributes::{Attributes, Expression, Frame};
//!
//! let mut attributes = Attributes::default();
//! attributes.add_keys(0..3);
//! let lines = r#"{"lang": "en", "year": 2021, "tags": ["new"]}
//! {"lang": "de", "year": 2019}
//! {"lang": "de", "year": 2023, "tags": ["new", "red"]}"#;
//! attributes.set(&[0, 1, 2], &Frame::from_json_lines(lines.as_bytes())?)?;
//!
//! let filter: Expression = "year >= 2020 and tags contains 'new'".parse()?;
//! let predicate = attributes.bind(&filter)?;
//! assert!(predicate.matches(0) && !predicate.matches(1));
//! assert_eq!(predicate.select(), [0, 2]);
//! assert_eq!(predicate.estimate().most, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Attributes`] are what an index has, and a [`Frame`] is what an insert or update is given. An [`Expression`] is built, or
//! parsed from text or JSON; bound to attributes it is a [`Predicate`], which tests keys and selects them.
//!
//! # How it works
//! A key has a *row*, a small number that is reused. A column stores a number per row: an i64 that is ordered as its values
//! are, or the code of a word in the dictionary of the column. So a test of a key takes a look at one cell per condition. What
//! selects and counts is beside it: the rows of each word, as lists or compressed bitmaps, and a B-tree of numbers. Only
//! live keys are in these, so that counts are exact.
//!
//! | kind | stored per row | found by |
//! | --- | --- | --- |
//! | bool, keyword | code of the word, 4 bytes | rows of each word |
//! | integer, float, timestamp | number, 8 bytes | B-tree of numbers and rows |
//! | keywords | codes of the words | rows of each word |
//! | id | the string | hash index of rows |
//!
//! All of it is in parts of a few kilobytes that clones share. A change copies the parts that it is in, unless no clone shares
//! them: a snapshot costs nothing until then, and an insert 10 to 20 such copies.

#![forbid(unsafe_code)]

mod attributes;
mod bytes;
mod columns;
mod cow;
mod error;
mod expression;
mod frame;
mod keys;
#[cfg(test)]
mod model;
mod predicate;
mod time;
mod value;

pub use attributes::Attributes;
pub use error::{AttributeError, DecodeError, ExpressionError};
pub use expression::{ColumnRef, Expression, column};
pub use frame::Frame;
pub use predicate::{ColumnTest, Estimate, Predicate};
pub use value::{Column, ColumnKind, Value};
