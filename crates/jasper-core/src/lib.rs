//! The vocabulary that every other crate of Jasper speaks.
//!
//! ```
//! use jasper_core::{Element, MatrixView, Metric, Neighbor, VectorId};
//!
//! // Two rows of four dimensions, and the squared distance of a query to each.
//! let rows = [1.0_f32, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0];
//! let view = MatrixView::new(&rows, 4)?;
//! let squared_l2 = f32::kernels().squared_l2;
//! let mut found: Vec<Neighbor> = view
//!     .rows()
//!     .enumerate()
//!     .map(|(i, row)| Neighbor::new(squared_l2(&[0.0; 4], row), VectorId::new(i as u32)))
//!     .collect();
//! found.sort_unstable();
//! assert_eq!(found[0].id(), VectorId::new(0));
//! assert_eq!(found[1].distance(), 4.0);
//! assert_eq!("cosine".parse::<Metric>()?, Metric::Cosine);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! No I/O, no threads, no CUDA. Where to look:
//!
//! | module | holds |
//! | --- | --- |
//! | [`element`](Element) | what a coordinate may be: f32, f16, u8, i8 |
//! | [`metric`](Metric) | squared L2, inner product, cosine |
//! | [`id`](VectorId) | the dense slot of a vertex and the user's key |
//! | [`matrix`](MatrixView) | row-major views, with rows of any stride |
//! | [`distance`] | dot products and squared distances, picked for this processor at run time |
//! | [`neighbor`](Neighbor) | the total order (distance, id) in one u64 |
//! | [`params`](BuildParams) | what can be set, the defaults, and the reason of each |
//! | [`recall`] | recall@k with ties |
//! | [`synthetic`] | seeded sets for tests, examples and benches |

mod bitset;
pub mod distance;
mod element;
mod id;
mod matrix;
mod metric;
mod neighbor;
mod params;
mod progress;
pub mod recall;
pub mod synthetic;

pub use bitset::BitSet;
pub use element::{Element, ElementKind};
pub use id::{Key, MAX_VECTORS, NO_KEY, VectorId};
pub use matrix::{MAX_DIMENSION, MatrixError, MatrixView, ROW_ALIGN_BYTES, VectorSource, padded_len};
pub use metric::{Metric, ParseMetricError};
pub use neighbor::Neighbor;
pub use params::{BuildParams, BuildParamsBuilder, ParamError, defaults};
pub use progress::{Cancelled, Progress, ProgressFn, Stage, no_progress};

pub use half::f16;
