//! The types that all other crates of Jasper share: elements, metrics, slots and keys, matrix views, distances,
//! parameters.
//!
//! ```
//! use jasper_core::{Element, MatrixView, Metric, Neighbor, Slot};
//!
//! // A matrix of two rows, and the squared distance from a query to each.
//! let rows = [1.0_f32, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0];
//! let view = MatrixView::new(&rows, 4)?;
//! let squared_l2 = f32::distance_fns().squared_l2;
//! let mut found: Vec<Neighbor> = view
//!     .rows()
//!     .enumerate()
//!     .map(|(i, row)| Neighbor::new(squared_l2(&[0.0; 4], row), Slot::new(i as u32)))
//!     .collect();
//! found.sort_unstable();
//! assert_eq!(found[0].slot(), Slot::new(0));
//! assert_eq!(found[1].distance(), 4.0);
//! assert_eq!("cosine".parse::<Metric>()?, Metric::Cosine);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate has no I/O, no threads and no CUDA.
//!
//! | module | contents |
//! | --- | --- |
//! | [`element`](Element) | coordinate types: f32, f16, u8, i8 |
//! | [`metric`](Metric) | squared L2, inner product, cosine |
//! | [`id`](Slot) | internal slots and the user's keys |
//! | [`matrix`](MatrixView) | row-major views with a stride; [`VectorSource`], what a build reads |
//! | [`vectors`](Vectors) | vectors of whatever element type, converted to that of an index |
//! | [`vector_buffer`](VectorBuffer) | such vectors in memory |
//! | [`distance`] | dot products and squared distances, with SIMD chosen at run time |
//! | [`neighbor`](Neighbor) | (distance, slot) packed into one u64, with a total order |
//! | `nearest` | [`NearestList`], a sorted list of the nearest neighbors found |
//! | [`params`](BuildParams) | build parameters, their defaults and bounds, and launch parameters |
//! | [`progress`](Progress) | progress reports and cancellation |
//! | `bitset` | [`BitSet`] |
//! | `device_error` | [`DeviceError`] |
//! | [`recall`] | recall@k, counting ties |
//! | [`synthetic`] | seeded random data for tests, examples and benches |

mod bitset;
mod device_error;
pub mod distance;
mod element;
mod id;
mod matrix;
mod metric;
mod nearest;
mod neighbor;
mod params;
mod progress;
pub mod recall;
pub mod sync;
pub mod synthetic;
mod vector_buffer;
mod vectors;

pub use bitset::BitSet;
pub use device_error::DeviceError;
pub use element::{Element, ElementKind};
pub use id::{Key, MAX_VECTORS, NO_KEY, Slot};
pub use matrix::{MAX_DIMENSION, MatrixError, MatrixView, ROW_ALIGN_BYTES, VectorSource, padded_len};
pub use metric::{Metric, ParseMetricError};
pub use nearest::NearestList;
pub use neighbor::Neighbor;
pub use params::{BuildParams, BuildParamsBuilder, Effort, LaunchParams, ParamError, defaults};
pub use progress::{Cancelled, Progress, ProgressFn, Stage, no_progress};
pub use vector_buffer::{VectorBuffer, VectorView};
pub use vectors::{ConcurrentVectors, Vectors};

pub use half::f16;
