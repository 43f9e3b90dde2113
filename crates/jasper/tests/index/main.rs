//! What the library promises, tried from outside: every test here goes through the public API alone.
//!
//! | module | what is promised |
//! | --- | --- |
//! | [`model`] | any order of changes leaves an index that answers like a map of keys to vectors |
//! | [`degenerate`] | odd sets and bad input get right answers or typed errors |

#![forbid(unsafe_code)]

mod common;
mod degenerate;
mod model;
