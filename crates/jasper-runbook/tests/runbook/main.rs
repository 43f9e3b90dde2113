//! Runbooks as files, and played on small sets.

mod format;
mod fuzz;
mod player;
