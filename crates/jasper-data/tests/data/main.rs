//! Tests of readers, writers and exact neighbors through the public API.

mod allocation;
mod common;
mod damage;
mod exact;
mod fuzz;
mod round_trip;
