//! The index file: a graph in sections that can be mapped.
//!
//! ```
//! # use jasper_core::{BuildParams, ElementKind, Metric, no_progress};
//! # use jasper_graph::{Graph, IndexInfo};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("points.jasper");
//! # let mut graph = Graph::new(ElementKind::F32, Metric::L2, 2, BuildParams::default())?;
//! # let mut row = Vec::new();
//! # let squared_norm = graph.vectors().prepare(0, &[0.5_f32, 0.5], &mut row)?;
//! # let slot = graph.add_vector(&row, squared_norm)?;
//! # graph.keys_mut().assign(7, slot)?;
//! graph.save(&path, &mut no_progress)?;
//! let info = IndexInfo::read(&path)?; // reads a few pages
//! assert_eq!((info.element.name(), info.keys), ("f32", 1));
//! let same = Graph::open(&path, &mut no_progress)?; // read into memory and checked
//! assert!(same.keys().slot_of(7).is_some());
//! let lazy = Graph::map(&path)?; // pages are read when touched
//! assert_eq!(lazy.dimension(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The book's page `file-format.md` describes the bytes, for readers in other languages.
//!
//! | module | holds |
//! | --- | --- |
//! | `table` | the first page: magic, version and the table of sections |
//! | `info` | the section `params`, and the lengths of the others that follow from it |
//! | `save` | writing |
//! | `append` | writing only the sections that a file lacks |
//! | `checkpoint` | the edges of an unfinished bulk build |
//! | `tuned` | searches that were measured to reach a recall |
//! | `open`, `small_sections` | reading and mapping, and the sections that both read |
//! | `read`, `rule` | reading in parallel; conditions on the items of a section |
//! | `check` | verifying checksums |
//! | `error` | errors |

mod append;
mod check;
mod checkpoint;
mod error;
mod info;
mod open;
mod read;
mod rule;
mod save;
mod small_sections;
mod table;
#[cfg(test)]
mod tests;
mod tuned;

pub use check::{FileReport, SectionReport, check_file, check_source};
pub use checkpoint::{Checkpoint, CheckpointFile};
pub(crate) use error::with_path;
pub use error::{FileError, FileFault};
pub use info::{IndexInfo, header_checksum};
use open::open_index;
pub(crate) use save::fingerprint;
pub use save::{SaveStats, write_file};
pub use table::{FORMAT_VERSION, Section};
pub use tuned::TunedSearch;

/// Sections start on multiples of this many bytes, the smallest page size. Where pages are larger, a mapping begins
/// with the page in which its section does.
pub(crate) const SECTION_ALIGN: u64 = 4096;

/// Bytes of padding after `length` bytes of a section.
pub(crate) const fn padding(length: u64) -> u64 {
    length.wrapping_neg() % SECTION_ALIGN
}

const _: () = assert!(cfg!(target_endian = "little"), "the file is little-endian and mapped as it is");
