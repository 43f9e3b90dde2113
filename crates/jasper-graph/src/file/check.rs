//! Checking every checksum of a file without opening it.

use std::path::Path;

use jasper_core::{ProgressFn, Stage};
use jasper_data::ReadAt;

use super::read::SectionReader;
use super::rule::Rule;
use super::table::{Section, Sections};
use super::{FileError, FileFault, IndexInfo, open_index, with_path};

/// The result of [`check_file`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FileReport {
    /// All sections, in file order.
    pub sections: Vec<SectionReport>,
}

/// The result for one section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SectionReport {
    /// The section.
    #[cfg_attr(feature = "serde", serde(rename = "name"))]
    pub section: Section,
    /// Size in bytes, without padding.
    pub bytes: u64,
    /// Whether its checksum is right.
    pub intact: bool,
}

impl FileReport {
    /// Whether every checksum is right.
    pub fn is_intact(&self) -> bool {
        self.damaged().next().is_none()
    }

    /// Returns the sections with a wrong checksum.
    pub fn damaged(&self) -> impl Iterator<Item = Section> + '_ {
        self.sections.iter().filter(|report| !report.intact).map(|report| report.section)
    }
}

/// Verifies every checksum of an index file, including those of sections that this release does not know.
///
/// [`crate::Graph::open`] checks more. Use this for a file that will be mapped or does not fit in memory.
///
/// Cost: one pass over the file on all cores; memory for a few chunks.
///
/// # Errors
/// Returns [`FileError`] if the file cannot be read, or its header is damaged. Damage of other sections is reported in
/// the result.
pub fn check_file(path: impl AsRef<Path>, progress: &mut ProgressFn<'_>) -> Result<FileReport, FileError> {
    let path = path.as_ref();
    let mut check = || check_source(open_index(path)?, progress);
    check().map_err(with_path(path))
}

/// [`check_file`] of any source.
///
/// # Errors
/// Returns the errors of [`check_file`], without a path.
#[doc(hidden)]
pub fn check_source(source: impl ReadAt, progress: &mut ProgressFn<'_>) -> Result<FileReport, FileFault> {
    let sections = Sections::open(source)?;
    let info = IndexInfo::from_sections(&sections)?;
    let mut reader = SectionReader::default();
    sections.entries.iter().for_each(|entry| reader.add(entry, Rule::Any, Vec::new()));
    let read = reader.read(&sections.source, Stage::Checking, info.slots, progress)?;
    let sections = read.iter().map(|read| SectionReport {
        section: read.entry.section(),
        bytes: read.entry.length,
        intact: read.is_intact(),
    });
    Ok(FileReport { sections: sections.collect() })
}
