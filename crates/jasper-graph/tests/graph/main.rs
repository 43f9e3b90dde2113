//! Tests of graphs and their files, in one binary.

#[path = "../../../jasper-data/tests/data/allocation.rs"]
mod allocation;
mod append;
mod codes;
mod common;
mod damage;
mod damaged;
mod file;
mod fuzz;
mod golden;
mod operations;
