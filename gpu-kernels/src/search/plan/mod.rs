//! Which search kernel, and its launch.

mod exact;
mod kind;
mod quantized;

pub use exact::Search;
use kind::Kind;
pub use quantized::QuantizedSearch;
