//! Vector quantization: codes of a few bits per coordinate, and distances estimated from them.
//!
//! ```
//! use jasper_core::{MatrixView, Metric, Slot, synthetic::Clusters};
//! use jasper_quant::{CodeTable, Quantizer, Rabitq, RabitqParams};
//!
//! let set = Clusters::new(96, 1);
//! let (rows, query): (Vec<f32>, Vec<f32>) = (set.rows(1000, 0), set.rows(1, 1));
//! let rows = MatrixView::new(&rows, 96)?;
//!
//! // Four bits per coordinate: 80 bytes instead of 384, factors included.
//! let quantizer = Rabitq::train(rows, &RabitqParams::new(Metric::L2, 4))?;
//! let pool = rayon::ThreadPoolBuilder::new().build()?;
//! let codes = CodeTable::from_vectors(&quantizer, rows, &pool);
//! assert_eq!(codes.layout().bytes(), 80);
//!
//! // Estimated distances to vectors 7 and 3, without reading the vectors.
//! let mut estimates = [0.0; 2];
//! quantizer.query(&query).estimate(&codes, &[Slot::new(7), Slot::new(3)], &mut estimates);
//! let exact: f32 = rows.row(7).iter().zip(&query).map(|(x, y)| (x - y).powi(2)).sum();
//! assert!((estimates[0] / exact - 1.0).abs() < 0.05);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! There are two quantizers:
//!
//! - [`Rabitq`] rotates vectors at random and encodes every coordinate with the same number of bits. Its estimates are
//!   unbiased and come with an error bound.
//! - [`Mixed`] projects vectors onto their principal components and encodes the leading ones with more bits. It needs
//!   fewer bytes where few components hold most of the variance.
//!
//! Both produce code rows of a common [`Layout`] and queries of a common form, [`QueryCode`]. Estimates on a CPU or a
//! GPU depend on these two alone. The crate does not search and does no I/O. Formulas, errors and costs are on the
//! book's page on quantization.
//!
//! | module | contents |
//! | --- | --- |
//! | [`quantization`](Quantization) | the choice of a quantizer and its size, as users name it |
//! | [`quantizer`](Quantizer) | the interface of a quantizer; [`open`] reads one from bytes |
//! | [`rabitq`] | RaBitQ with 1 to 8 bits per coordinate |
//! | [`mixed`] | principal components with 8, 4, 2, 1 or 0 bits |
//! | [`parameters`] | a trained quantizer as data, for GPU kernels |
//! | [`rotation`](Rotation) | the fast random rotation of RaBitQ |
//! | `projection` | products of rows with a matrix |
//! | [`layout`] | the bits of a code row |
//! | `factors` | the f16 factors stored with a code |
//! | `space` | residuals, and the terms of a distance that need no code |
//! | [`codes`](CodeTable) | the codes of many vectors, encoded in parallel |
//! | [`query`] | an encoded query, and its estimates |
//! | `estimate` | products of an int8 query with code bits: scalar, AVX2, AVX-512, NEON |
//! | `section` | serialization of a trained quantizer |
//! | `simd` | loops compiled for each SIMD level |

mod codes;
mod error;
mod estimate;
mod factors;
pub mod layout;
pub mod mixed;
pub mod parameters;
mod projection;
mod quantization;
mod quantizer;
pub mod query;
pub mod rabitq;
mod rotation;
mod section;
mod simd;
mod space;

pub use codes::CodeTable;
pub use error::{DecodeError, TrainError};
pub use layout::{Layout, Plane, SECTOR_BYTES};
pub use mixed::{MAX_SECTORS, Mixed, MixedParams};
pub use parameters::Parameters;
pub use projection::ENCODE_ROWS;
pub use quantization::{ParseQuantizationError, Quantization};
pub use quantizer::{EncodeBuffers, Quantizer, open};
pub use query::{MAX_LEVEL_BYTES, QueryCode, QueryFactors};
pub use rabitq::{BOUND_SIGMAS, Rabitq, RabitqParams};
pub use rayon::{ThreadPool, ThreadPoolBuilder};
pub use rotation::{Rotation, rotated_dimension};
