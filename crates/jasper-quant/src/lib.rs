//! Codes of vectors, a few bits a coordinate, and distances estimated from them.
//!
//! ```
//! use jasper_core::{MatrixView, Metric, VectorId, synthetic::Clusters};
//! use jasper_quant::{Codes, Quantizer, Rabitq, RabitqParams, Scales};
//!
//! let set = Clusters::new(96, 1);
//! let (rows, query): (Vec<f32>, Vec<f32>) = (set.rows(1000, 0), set.rows(1, 1));
//! let rows = MatrixView::new(&rows, 96)?;
//!
//! // Four bits a coordinate: 80 bytes for 384, factors included.
//! let quantizer = Rabitq::train(rows, &RabitqParams::new(Metric::L2, 4))?;
//! let pool = rayon::ThreadPoolBuilder::new().build()?;
//! let codes = Codes::from_vectors(&quantizer, rows, &pool);
//! assert_eq!(codes.layout().bytes(), 80);
//!
//! // Distances to rows 7 and 3, without reading the rows.
//! let mut estimates = [0.0; 2];
//! quantizer.query(&query).estimate(&codes, &[VectorId::new(7), VectorId::new(3)], &mut estimates);
//! let exact: f32 = rows.row(7).iter().zip(&query).map(|(x, y)| (x - y).powi(2)).sum();
//! assert!((estimates[0] / exact - 1.0).abs() < 0.05);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Two kinds of codes, one shape. [`Rabitq`] rotates rows by a random rotation and gives every coordinate the same bits;
//! its estimates have no bias, and a bound. [`Mixed`] rotates them to their principal components and gives the leading
//! ones more; it needs fewer bytes where few components say most. Both end as a [`Layout`] of words and a [`QueryCode`]
//! of int8, and whatever reads codes, on a CPU or a GPU, knows these two and nothing else.
//!
//! Nothing here searches, and no file is opened: sections are bytes in and bytes out. Formulas, errors and costs are on
//! the book's page on quantization. Where to look:
//!
//! | module | holds |
//! | --- | --- |
//! | [`quantization`](Quantization) | which code, as users name it |
//! | [`quantizer`](Quantizer) | what every code offers; [`open`] reads any of them from bytes |
//! | [`rabitq`] | RaBitQ with 1 to 8 bits |
//! | [`mixed`] | principal components with 8, 4, 2, 1 or no bits |
//! | [`parts`] | a quantizer as data, for kernels |
//! | [`rotation`](Rotation) | fast Hadamard, and Haar from a QR decomposition |
//! | `projection` | rows times a matrix |
//! | [`layout`] | where each bit lies |
//! | `factors` | the f16 numbers beside a code |
//! | `space` | metrics: residuals, and the parts of a distance that need no code |
//! | [`codes`](Codes) | rows of codes, made in parallel |
//! | [`query`] | a query as int8, and its estimates |
//! | `score` | products of int8 with bits: AVX-512, AVX2, and the definition |
//! | `section` | the bytes of a trained quantizer |
//! | `wide` | loops compiled for each level of instructions |

mod codes;
mod error;
mod factors;
pub mod layout;
pub mod mixed;
pub mod parts;
mod projection;
mod quantization;
mod quantizer;
pub mod query;
pub mod rabitq;
mod rotation;
mod score;
mod section;
mod space;
mod wide;

pub use codes::Codes;
pub use error::{DecodeError, TrainError};
pub use layout::{Layout, Plane, SECTOR_BYTES};
pub use mixed::{MAX_SECTORS, Mixed, MixedParams};
pub use parts::Parts;
pub use projection::ENCODE_ROWS;
pub use quantization::{ParseQuantizationError, Quantization};
pub use quantizer::{Quantizer, Scratch, open};
pub use query::{MAX_LIMBS, QueryCode, QueryTerms};
pub use rabitq::{BOUND_SIGMAS, Rabitq, RabitqParams, Scales};
pub use rayon::{ThreadPool, ThreadPoolBuilder};
pub use rotation::{Rotation, RotationKind};
