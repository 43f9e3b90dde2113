//! Saving into a file that has most sections of the graph already.
//!
//! Nothing that a reader uses is overwritten, except the header page at the end:
//!
//! ```text
//! 1  the new sections and a copy of the new header page are written after the old sections, and synced
//! 2  the new header page is written over the old one, and synced
//! 3  the copy is cut off
//! ```
//!
//! Until step 2 the header page describes the old sections, and readers ignore what follows them. If a power cut
//! damages the page in step 2, readers use the copy, which is then the last page of the file. Mapped files keep their
//! sections throughout.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write, sink};
use std::path::Path;

use jasper_core::{ProgressFn, Stage};
use jasper_data::ReadAt;

use super::read::{Meter, SectionReader};
use super::rule::Rule;
use super::save::{FileWriter, SaveStats, fingerprint, meter, write_sections};
use super::table::{Entry, MAX_SECTIONS, Section, Sections, file_bytes, header_page, unused_bytes};
use super::{FileFault, SECTION_ALIGN};
use crate::Graph;

#[cfg(test)]
mod tests;

/// Of a file, at most one part in this number is unused.
const UNUSED_DIVISOR: u64 = 4;

/// A file, or what tests have in its place.
pub(super) trait Storage: ReadAt + Write + Seek {
    /// Waits until everything is on the disk.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file to a length.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;
}

impl Storage for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

/// Appends to the file at `path` the sections of the graph that it lacks. `None`, and the file is unchanged, if there
/// is no such file, or if it should be replaced by a new one.
pub(super) fn save_into(
    graph: &Graph,
    path: &Path,
    progress: &mut ProgressFn<'_>,
) -> Result<Option<SaveStats>, FileFault> {
    let Ok(mut file) = OpenOptions::new().read(true).write(true).open(path) else { return Ok(None) };
    // Locked for as long as it is open. Another process that appends to it writes in the same place. Some users, such as
    // root, may open a read-only file.
    let is_read_only = file.metadata()?.permissions().readonly();
    if file.try_lock().is_err() || is_shared(&file) || is_read_only {
        return Ok(None);
    }
    append(graph, &mut file, progress)
}

/// Whether the file has other names, under which it must not change.
#[cfg(unix)]
fn is_shared(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|data| data.nlink() > 1)
}

#[cfg(not(unix))]
fn is_shared(_: &File) -> bool {
    false
}

/// [`save_into`] an open file.
pub(super) fn append(
    graph: &Graph,
    file: &mut impl Storage,
    progress: &mut ProgressFn<'_>,
) -> Result<Option<SaveStats>, FileFault> {
    let Ok(sections) = Sections::open(&*file) else { return Ok(None) };
    let (old, size) = (sections.entries.to_vec(), sections.size);
    // Almost every change of the graph changes its counts, so that the checksums need not be computed.
    if sections.get(Section::Params).map_or(0, |entry| entry.checksum) != fingerprint(graph) {
        return Ok(None);
    }
    let wanted = expected_table(graph, progress)?;
    let Some(kept) = keep(&old, &wanted) else { return Ok(None) };
    // What was written once may be damaged by now.
    if !is_intact(file, &kept, graph.slots(), progress)? {
        return Ok(None);
    }
    let is_added = |entry: &&Entry| !kept.iter().any(|other| other.is_same(entry));
    let added: Vec<&Entry> = wanted.iter().filter(is_added).collect();
    let added_bytes: u64 = added.iter().map(|entry| entry.extent()).sum();
    let (end, unused) = (file_bytes(&old), unused_bytes(&kept));
    if added.is_empty() && unused == 0 && size == end {
        file.sync()?;
        return Ok(Some(SaveStats { bytes: end, written: 0 }));
    }
    let is_wasteful = unused > (end + added_bytes) / UNUSED_DIVISOR;
    if added.is_empty() || is_wasteful || kept.len() + added.len() > MAX_SECTIONS {
        return Ok(None);
    }

    if size > end {
        // What an earlier append left. The header page may be the copy at the end, so it is repaired first.
        write_header(file, &old)?;
        file.sync()?;
        file.truncate(end)?;
    }
    let meter = Meter::new(Stage::Saving, graph.slots(), added_bytes);
    let new = append_sections(graph, file, kept, meter, progress).inspect_err(|_| {
        // If this fails too, readers ignore the bytes after the last section.
        let _ = file.truncate(end);
    })?;
    // From here on, readers may see the new sections.
    write_header(file, &new).and_then(|()| file.sync()).map_err(FileFault::NotSynced)?;
    // Readers ignore the copy if it cannot be cut off.
    let bytes = file_bytes(&new);
    let _ = file.truncate(bytes);
    Ok(Some(SaveStats { bytes, written: bytes - end + 2 * SECTION_ALIGN }))
}

/// The table of the file that the graph would be saved to.
fn expected_table(graph: &Graph, progress: &mut ProgressFn<'_>) -> Result<Vec<Entry>, FileFault> {
    let out = &mut sink();
    let mut file = FileWriter::begin(out, graph.element(), meter(graph, Stage::Checking), progress)?;
    write_sections(graph, &mut file)?;
    Ok(file.into_entries())
}

/// Whether the sections of a file that will be used are as they were written. Reads them once.
fn is_intact(
    file: &impl ReadAt,
    kept: &[Entry],
    slots: usize,
    progress: &mut ProgressFn<'_>,
) -> Result<bool, FileFault> {
    let mut reader = SectionReader::default();
    let used = kept.iter().filter(|entry| entry.section() != Section::Unused);
    used.for_each(|entry| reader.add(entry, Rule::Any, Vec::new()));
    let read = reader.read(file, Stage::Checking, slots, progress)?;
    Ok(read.iter().all(|section| section.is_intact()))
}

/// The table of a file without the sections that the graph replaces, which are unused. `None` if it differs in a
/// section that every graph has.
fn keep(old: &[Entry], wanted: &[Entry]) -> Option<Vec<Entry>> {
    let mut kept: Vec<Entry> = Vec::with_capacity(old.len());
    for entry in old {
        let section = entry.section();
        if wanted.iter().any(|other| other.is_same(entry)) {
            kept.push(*entry);
        } else if section.is_optional() {
            let unused = entry.into_unused();
            match kept.last_mut().filter(|last| last.section() == Section::Unused) {
                Some(last) => last.extend(&unused),
                None => kept.push(unused),
            }
        } else {
            return None;
        }
    }
    let is_kept = |section| kept.iter().any(|entry| entry.section() == section);
    wanted.iter().all(|entry| entry.section().is_optional() || is_kept(entry.section())).then_some(kept)
}

/// Writes the sections that are not kept and a copy of the header page, and syncs them. Returns the new table.
fn append_sections(
    graph: &Graph,
    file: &mut impl Storage,
    kept: Vec<Entry>,
    meter: Meter,
    progress: &mut ProgressFn<'_>,
) -> Result<Vec<Entry>, FileFault> {
    file.seek(SeekFrom::Start(file_bytes(&kept)))?;
    let mut writer = FileWriter::resume(file, graph.element(), kept, meter, progress);
    write_sections(graph, &mut writer)?;
    let entries = writer.into_entries();
    file.write_all(&header_page(&entries))?;
    file.sync()?;
    Ok(entries)
}

fn write_header(file: &mut impl Storage, entries: &[Entry]) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&header_page(entries))
}
