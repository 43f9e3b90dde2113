//! Plots of recall and speed as SVG.
//!
//! ```
//! use jasper_plot::{Axis, Chart, Series, svg};
//! let points = vec![(0.93, 42_000.0), (0.992, 11_000.0)];
//! let chart = Chart {
//!     title: "words".into(),
//!     x: Axis::recall("recall@10", points.iter().map(|point| point.0)),
//!     y: Axis::rate("queries per second", points.iter().map(|point| point.1)),
//!     series: vec![Series::line("jasper", points).labelled(["beam width 16", "64"])],
//! };
//! let drawn = svg("Recall and speed", "2,000 queries a batch", &[chart])?;
//! assert!(drawn.starts_with("<svg") && drawn.contains("beam width 16"));
//! # Ok::<(), jasper_plot::PlotError>(())
//! ```
//!
//! | item | for |
//! | --- | --- |
//! | [`Axis`] | an axis with round ticks, scaled for recall, rates, ratios or steps |
//! | [`Series`] | named points |
//! | [`Chart`] | series between two axes |
//! | [`svg`] | draws charts on one sheet |

#![forbid(unsafe_code)]

mod axis;
mod chart;
mod sheet;

pub use axis::Axis;
pub use chart::{Chart, Series};
pub use sheet::{PlotError, svg};
