//! Tests of the library through its public API alone.
//!
//! | module | what is tested |
//! | --- | --- |
//! | [`memory`] | a build takes no more memory than estimated |
//! | [`model`] | after any changes, an index has the results of a map from keys to vectors |
//! | [`degenerate`] | degenerate sets and invalid input give right results or typed errors |
//! | [`elements`] | vectors and queries of any element type are taken, or refused by name |
//! | [`codes`] | searches with estimated distances find what exact ones find; codes are updated with every change |
//! | [`checkpoint`] | an interrupted build resumes to the same index |
//! | [`same_bytes`] | the same calls give the same file, on any number of threads |
//! | [`atomic`] | a call that fails or is cancelled changes nothing |
//! | [`first_answer`] | an index on a GPU answers before the driver has compiled its kernels; skipped without a GPU |
//! | [`filter`] | only matching keys are returned, and all of them if they are few |
//! | [`attributes`] | filters by attributes find exactly what passes, whatever changes; attributes are saved and logged |
//! | [`targets`] | searches within a radius, singly and in batches, and page by page |
//! | [`merge`] | one index is merged into another |
//! | [`limits`] | no search asks for more than the limits of its index |
//! | [`on_device`] | results do not depend on the device |
//! | [`several_devices`] | replicas and shards on GPUs; skipped where there are fewer than two |
//! | [`shards`] | an index of several shards has the results of one graph, and its folder opens only if it is whole |
//! | [`shared`] | searches continue during a change, and see one state or the other |
//! | [`submit`] | submitted searches of many callers, each with its own result |
//! | [`tune`] | a tuned search reaches its goal |
//! | [`recall`] | recall after a build and after changes |
//! | [`runbook`] | a runbook plays its steps, and recall is measured against the true neighbors at each |

#![forbid(unsafe_code)]

mod atomic;
mod attributes;
mod checkpoint;
mod churn;
mod codes;
mod common;
mod degenerate;
mod elements;
mod filter;
mod first_answer;
mod limits;
#[cfg(target_os = "linux")]
mod memory;
mod merge;
mod model;
mod names;
mod on_device;
mod recall;
mod same_bytes;
mod several_devices;
mod shards;
mod shared;
mod submit;
mod targets;
mod tune;
