//! Tests of graphs and their files, in one binary.

mod codes;
mod common;
mod damage;
mod file;
mod golden;
mod interop;
mod operations;
