//! Writing an index file.

use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::path::Path;

use bytemuck::NoUninit;
use jasper_core::{BitSet, Element, ElementKind, ProgressFn, Stage, VectorId, no_progress};
use jasper_data::{AtomicFile, CommitError};

use super::error::{FileError, FileFault};
use super::info::Record;
use super::parts::Meter;
use super::small::KeyAt;
use super::table::{Entry, Section, file_bytes, first_page};
use super::{SECTION_ALIGN, padding};
use crate::{Codes, Graph};

/// Statistics of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SaveStats {
    /// Size of the file in bytes.
    pub bytes: u64,
}

impl<T: Element> Graph<T> {
    /// Writes the graph to `path`, replacing any file there. Equal graphs give equal bytes.
    ///
    /// The new file is written under a temporary name, synced and renamed, so that a crash, a full disk or cancelling
    /// leaves the old file. A graph that was mapped from `path` may be saved there.
    ///
    /// Cost: one pass over the graph, and disk space for both files; no memory except a buffer.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn save(
        &self,
        path: impl AsRef<Path>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<SaveStats, FileError> {
        let path = path.as_ref();
        write_file(path, AtomicFile::create(path), |file| write(self, file, progress))
    }
}

/// Runs `write` on `file`, the replacement of `path`, and commits it. On an error the old file stays.
pub(crate) fn write_file<R>(
    path: &Path,
    file: io::Result<AtomicFile>,
    write: impl FnOnce(&mut AtomicFile) -> Result<R, FileFault>,
) -> Result<R, FileError> {
    let write_and_commit = || {
        let mut file = file?;
        let result = write(&mut file)?;
        file.commit().map_err(|error| match error {
            CommitError::Write(source) => FileFault::Write(source),
            CommitError::SyncFolder(source) => FileFault::NotSynced(source),
        })?;
        Ok(result)
    };
    write_and_commit().map_err(|fault| match fault {
        FileFault::Io(source) => FileError::new(path, FileFault::Write(source)),
        fault => FileError::new(path, fault),
    })
}

/// Writes the whole file. Unused entries (past the degree, of free slots, keys of tombstones) are written as zero, so
/// that the bytes depend on the graph alone.
pub(super) fn write<T: Element>(
    graph: &Graph<T>,
    out: &mut (impl Write + Seek),
    progress: &mut ProgressFn<'_>,
) -> Result<SaveStats, FileFault> {
    let Graph { vectors, adjacency, keys, .. } = graph;
    let slots = graph.slots();
    let bytes = vectors.bytes() + vectors.code_bytes() + adjacency.bytes() + slots * size_of::<u64>();
    let meter = Meter::new(Stage::Saving, slots, bytes as u64);
    let mut file = FileWriter::begin(out, T::KIND, meter, progress)?;

    file.items(Section::Params, &[Record::new(graph)])?;
    if graph.has_vectors() {
        let zeros = vec![T::default(); vectors.table.width()];
        let row = |slot| if keys.is_free(slot) { &zeros } else { vectors.padded(slot) };
        file.rows(Section::Vectors, slots, row)?;
    }
    if let Some(norms) = vectors.squared_norms() {
        let row = |slot: VectorId| if keys.is_free(slot) { &[0.0] } else { norms.row(slot.index()) };
        file.rows(Section::SquaredNorms, slots, row)?;
    }
    file.section(Section::Adjacency, |section| {
        let zeros = vec![0_u32; graph.params().max_degree()];
        (0..slots).map(VectorId::from_index).try_for_each(|slot| {
            let neighbors = adjacency.neighbors(slot);
            section.put(neighbors)?;
            section.put(&zeros[neighbors.len()..])
        })
    })?;
    file.rows(Section::Degrees, slots, |slot| adjacency.degrees.row(slot.index()))?;
    let row = |slot: VectorId| if keys.is_live(slot) { keys.first.row(slot.index()) } else { &[0] };
    file.rows(Section::Keys, slots, row)?;
    file.section(Section::FurtherKeys, |section| {
        keys.further().try_for_each(|pair| section.put(&[KeyAt::from(pair)]))
    })?;
    file.section(Section::DeletedKeys, |section| {
        keys.deleted_slots().try_for_each(|pair| section.put(&[KeyAt::from(pair)]))
    })?;
    file.items(Section::Tombstones, &words(&keys.tombstones, slots))?;
    file.items(Section::FreeSlots, &words(&keys.free, slots))?;
    file.items(Section::StartPoints, adjacency.start_points())?;
    if !graph.tuned.is_empty() {
        file.items(Section::TunedSearches, &graph.tuned)?;
    }
    if let Some(Codes { quantizer, table }) = &vectors.codes {
        file.items(Section::Quantizer, &quantizer.to_bytes())?;
        let zeros = vec![0_u32; table.width()];
        let row = |slot: VectorId| if keys.is_free(slot) { &zeros } else { table.row(slot.index()) };
        file.rows(Section::Codes, slots, row)?;
    }
    file.finish()
}

/// Returns the bytes of the file, for tests and fuzzers.
pub(crate) fn save_to_memory<T: Element>(graph: &Graph<T>) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    write(graph, &mut out, &mut no_progress).expect("writing to memory does not fail");
    out.into_inner()
}

/// Returns the checksum of the section `params` of the graph's file.
pub(crate) fn state<T: Element>(graph: &Graph<T>) -> u32 {
    let mut bytes = bytemuck::bytes_of(&Record::new(graph)).to_vec();
    bytes.resize(bytes.len() + padding(bytes.len() as u64) as usize, 0);
    crc32c::crc32c(&bytes)
}

/// Returns the words of a set of slots, one per 32 slots.
fn words(set: &BitSet, slots: usize) -> Vec<u32> {
    let mut words = set.words().to_vec();
    words.resize(slots.div_ceil(32), 0);
    words
}

/// Writes sections one after another.
pub(super) struct FileWriter<'a, 'p, W> {
    out: &'a mut W,
    element: ElementKind,
    entries: Vec<Entry>,
    /// Bytes, length and checksum of the section that is being written.
    buffer: Vec<u8>,
    length: u64,
    checksum: u32,
    meter: Meter,
    progress: &'a mut ProgressFn<'p>,
}

/// Bytes per write.
const BLOCK: usize = 1 << 20;

impl<'a, 'p, W: Write + Seek> FileWriter<'a, 'p, W> {
    /// Begins a file. The table is written last; until then its page is zero and the file is not an index.
    pub(super) fn begin(
        out: &'a mut W,
        element: ElementKind,
        meter: Meter,
        progress: &'a mut ProgressFn<'p>,
    ) -> Result<Self, FileFault> {
        out.write_all(&[0; SECTION_ALIGN as usize])?;
        let buffer = Vec::with_capacity(BLOCK);
        Ok(Self { out, element, entries: Vec::new(), buffer, length: 0, checksum: 0, meter, progress })
    }

    /// Writes the table.
    pub(super) fn finish(self) -> Result<SaveStats, FileFault> {
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&first_page(&self.entries))?;
        self.out.flush()?;
        Ok(SaveStats { bytes: file_bytes(&self.entries) })
    }

    /// Writes a section of these items.
    pub(super) fn items<I: NoUninit>(&mut self, section: Section, items: &[I]) -> Result<(), FileFault> {
        self.section(section, |file| file.put(items))
    }

    /// Writes a section with a row for each slot.
    pub(super) fn rows<'r, I: NoUninit>(
        &mut self,
        section: Section,
        slots: usize,
        row: impl Fn(VectorId) -> &'r [I],
    ) -> Result<(), FileFault> {
        self.section(section, |file| {
            (0..slots).map(VectorId::from_index).try_for_each(|slot| file.put(row(slot)))
        })
    }

    /// Writes a section whose items `fill` puts into the file.
    fn section(
        &mut self,
        section: Section,
        fill: impl FnOnce(&mut Self) -> Result<(), FileFault>,
    ) -> Result<(), FileFault> {
        (self.length, self.checksum) = (0, 0);
        fill(self)?;
        self.flush()?;
        let (offset, length) = (file_bytes(&self.entries), self.length);
        self.put(&vec![0_u8; padding(length) as usize])?;
        self.flush()?;
        let item = section.item(self.element);
        self.entries.push(Entry::new(section, item, offset, length, self.checksum));
        Ok(())
    }

    /// Adds items to the section.
    fn put<I: NoUninit>(&mut self, items: &[I]) -> Result<(), FileFault> {
        for bytes in bytemuck::cast_slice::<I, u8>(items).chunks(BLOCK) {
            if self.buffer.len() + bytes.len() > BLOCK {
                self.flush()?;
            }
            self.buffer.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), FileFault> {
        self.checksum = crc32c::crc32c_append(self.checksum, &self.buffer);
        self.out.write_all(&self.buffer)?;
        self.length += self.buffer.len() as u64;
        self.meter.advance(self.buffer.len() as u64, self.progress)?;
        self.buffer.clear();
        Ok(())
    }
}
