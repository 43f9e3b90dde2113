//! Tests of graphs and their files, in one binary.

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
