//! Codes of vectors, a few bits a coordinate, and distances estimated from them.

mod codes;
mod error;
mod factors;
mod layout;
mod mixed;
mod projection;
mod quantizer;
mod query;
mod rabitq;
mod rotation;
mod score;
mod section;
mod space;
mod wide;

pub use codes::Codes;
pub use error::{DecodeError, TrainError};
pub use layout::{Layout, Plane, SECTOR_BYTES};
pub use mixed::{MAX_SECTORS, Mixed, MixedParams};
pub use quantizer::{Quantizer, Scratch, open};
pub use query::{MAX_LIMBS, QueryCode, QueryTerms};
pub use rabitq::{BOUND_SIGMAS, Rabitq, RabitqParams};
pub use rotation::{Rotation, RotationKind};
