//! The command: its reports, its errors, and the pages that show it.

mod attributes;
mod bad_input;
#[cfg(unix)]
mod checkpoint;
mod commands;
mod common;
mod demo;
mod merge;
#[cfg(unix)]
mod outputs;
mod pages;
mod quantize;
mod stream;
mod tune;
