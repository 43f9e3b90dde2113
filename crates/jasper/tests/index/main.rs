//! What the library promises, tried from outside: every test here goes through the public API alone.
//!
//! | module | what is promised |
//! | --- | --- |
//! | [`memory`] | a build takes what was estimated |
//! | [`model`] | any order of changes leaves an index that answers like a map of keys to vectors |
//! | [`degenerate`] | odd sets and bad input get right answers or typed errors |
//! | [`codes`] | searches by estimates find what exact ones do, and codes follow every change |
//! | [`checkpoint`] | a build that was stopped goes on to the same index |
//! | [`same_bytes`] | the same calls give the same file, on any number of threads |
//! | [`atomic`] | a call that fails or is stopped has done nothing |
//! | [`filter`] | only what matches, all of it where little does |
//! | [`on_device`] | an index answers the same wherever it is searched |
//! | [`shared`] | searches beside a change go on, and see one state or the other |
//! | [`submit`] | single searches of many callers, each with its own answer |
//! | [`tune`] | a search that was tuned finds what it was tuned for |
//! | [`recall`] | how many of the true neighbors are found, after a build and after changes |
//! | [`runbook`] | a runbook does its steps, and is measured against the truth of the moment |

#![forbid(unsafe_code)]

mod atomic;
mod checkpoint;
mod churn;
mod codes;
mod common;
mod degenerate;
mod filter;
#[cfg(target_os = "linux")]
mod memory;
mod model;
mod on_device;
mod recall;
mod runbook;
mod same_bytes;
mod shared;
mod submit;
mod tune;
