//! Runbooks: streams of inserts, deletes, replacements and searches, to measure recall and speed while an index changes.
//!
//! ```
//! use jasper::{ElementKind, IndexBuilder, MatrixView, Metric};
//! use jasper_core::no_progress;
//! use jasper_core::synthetic::Clusters;
//! use jasper_runbook::{Event, Player, Runbook};
//!
//! let set = Clusters::new(16, 7);
//! let (rows, queries): (Vec<f32>, Vec<f32>) = (set.rows(1000, 0), set.rows(20, 1));
//! let (base, queries) = (MatrixView::new(&rows, 16)?, MatrixView::new(&queries, 16)?);
//!
//! let runbook = Runbook::sliding_window("clusters", 1000, 10)?;
//! let index = IndexBuilder::new(Metric::L2).empty(ElementKind::F32, 16)?;
//! let player = Player::new(&runbook, base, queries);
//! player.play(&index, &mut no_progress, &mut |report| {
//!     if let Event::Search { recall, .. } = report.event {
//!         println!("step {}: {recall:.4} of {} vectors", report.step, report.stats.keys);
//!         assert!(recall > 0.9);
//!     }
//! })?;
//! assert_eq!(index.len(), 500);
//! let rebuild = player.rebuild(IndexBuilder::new(Metric::L2), &mut no_progress)?;
//! assert_eq!(rebuild.search.stats.keys, 500);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | `runbook` | [`Runbook`]: its steps, read from and written to YAML, and generated |
//! | `player` | [`Player`]: plays a runbook on an index, and measures every step |

#![forbid(unsafe_code)]

mod player;
mod runbook;

pub use player::{Event, PlayError, Player, Rebuild, StepCause, StepReport, TruthFileError, truth_path};
pub use runbook::{Operation, ReadCause, ReadError, Runbook, RunbookError, Step, StepError};
