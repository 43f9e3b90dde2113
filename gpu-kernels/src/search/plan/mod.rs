//! Which kernel, and its grid.

mod codes;
mod exact;
mod kind;

pub use codes::CodeSearch;
pub use exact::Search;
use kind::Kind;
