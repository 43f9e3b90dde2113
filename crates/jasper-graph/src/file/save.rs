//! Writing an index file.

use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use bytemuck::{NoUninit, Zeroable};
use jasper_core::{Cancelled, ElementKind, Key, Metric, ProgressFn, Slot, Stage, no_progress};
use jasper_data::{AtomicFile, CommitError};

use super::error::{FileError, FileFault};
use super::info::ParamsRecord;
use super::read::Meter;
use super::small_sections::{self, KeyRecord};
use super::table::{Entry, Section, file_bytes, header_page};
use super::{SECTION_ALIGN, append, padding, with_path};
use crate::parts::SlotSet;
use crate::vectors::Block;
use crate::{Codes, Graph};

/// Statistics of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SaveStats {
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Bytes written: fewer than that if the file had most sections already.
    pub written: u64,
}

impl Graph {
    /// Writes the graph to `path`, replacing any file there. Equal graphs give equal bytes.
    ///
    /// The new file is written under a temporary name, synced and renamed, so that a crash, a full disk or cancelling
    /// leaves the old file. A graph that was mapped from `path` may be saved there.
    ///
    /// If the file at `path` differs from the graph only in the quantizer, the codes and the tuned searches, these
    /// alone are appended to it, which is as safe: no section of the file is overwritten. Sections that they replace
    /// become [`unused`](Section::Unused). A save writes the whole file if they exceed a quarter of it, or if there is
    /// nothing to append and something to drop; and nothing if the file is equal. A file with several hard links is
    /// always replaced.
    ///
    /// Cost: one pass over the graph, and disk space for both files, or for the appended sections; no memory except
    /// buffers, and 16 bytes per further or deleted key. If the file at `path` has an equal section `params`, another
    /// pass for checksums.
    ///
    /// # Errors
    /// Returns [`FileError`]. The old file is unchanged, except after [`FileFault::NotSynced`].
    pub fn save(
        &self,
        path: impl AsRef<Path>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<SaveStats, FileError> {
        self.save_file(path.as_ref(), progress)
    }

    /// [`Self::save`], compiled once.
    fn save_file(&self, path: &Path, progress: &mut ProgressFn<'_>) -> Result<SaveStats, FileError> {
        if let Some(saved) = append::save_into(self, path, progress).map_err(write_error(path))? {
            return Ok(saved);
        }
        write_file(path, AtomicFile::create(path), |file| write(self, file, progress))
    }

    /// Writes the file that [`Self::save`] writes to `out`, which is empty.
    ///
    /// # Errors
    /// Returns the errors of `out`, and [`FileFault::Cancelled`].
    pub fn write_to(
        &self,
        out: &mut (impl Write + Seek),
        progress: &mut ProgressFn<'_>,
    ) -> Result<SaveStats, FileFault> {
        write(self, out, progress)
    }

    /// Returns a checksum of the file that [`Self::save`] writes. Cost: one pass over the graph.
    ///
    /// # Errors
    /// Returns [`Cancelled`].
    #[doc(hidden)]
    pub fn checksum(&self, progress: &mut ProgressFn<'_>) -> Result<u32, Cancelled> {
        let mut checksum = ChecksumWriter(0);
        match self.write_to(&mut checksum, progress) {
            Err(FileFault::Cancelled(cancelled)) => Err(cancelled),
            written => Ok(written.map(|_| checksum.0).expect("nothing else fails without a file")),
        }
    }

    /// Returns the bytes of the file that [`Self::save`] writes.
    #[doc(hidden)]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        self.write_to(&mut out, &mut no_progress).expect("writing to memory does not fail");
        out.into_inner()
    }
}

/// Runs `write` on `file`, the replacement of `path`, and commits it.
///
/// # Errors
/// Returns [`FileError`]. The old file stays on any error but [`FileFault::NotSynced`].
pub fn write_file<R>(
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
    write_and_commit().map_err(write_error(path))
}

/// The checksum of all that is written, in the order of the calls.
struct ChecksumWriter(u32);

impl Write for ChecksumWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = crc32c::crc32c_append(self.0, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for ChecksumWriter {
    /// Does nothing: a [`FileWriter`] seeks once, to write the header last.
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Ok(0)
    }
}

/// Adds a path to a fault of writing.
pub(super) fn write_error(path: &Path) -> impl FnOnce(FileFault) -> FileError {
    |fault| match fault {
        FileFault::Io(source) => with_path(path)(FileFault::Write(source)),
        fault => with_path(path)(fault),
    }
}

/// Writes the whole file.
pub(super) fn write(
    graph: &Graph,
    out: &mut (impl Write + Seek),
    progress: &mut ProgressFn<'_>,
) -> Result<SaveStats, FileFault> {
    let mut file = FileWriter::begin(out, graph.element(), meter(graph, Stage::Saving), progress)?;
    write_sections(graph, &mut file)?;
    let entries = file.into_entries();
    finish(out, &entries)
}

/// Writes the table of a file in which all sections are.
pub(super) fn finish(out: &mut (impl Write + Seek), entries: &[Entry]) -> Result<SaveStats, FileFault> {
    out.seek(SeekFrom::Start(0))?;
    out.write_all(&header_page(entries))?;
    out.flush()?;
    let bytes = file_bytes(entries);
    Ok(SaveStats { bytes, written: bytes })
}

/// A meter of the bytes of all sections.
pub(super) fn meter(graph: &Graph, stage: Stage) -> Meter {
    let Graph { vectors, adjacency, .. } = graph;
    let slots = graph.slots();
    let bytes = vectors.bytes() + vectors.code_bytes() + adjacency.bytes() + slots * size_of::<Key>();
    Meter::new(stage, slots, bytes as u64)
}

/// Writes the sections that the file does not have. Unused entries (past the degree, of free slots, keys of tombstones)
/// are written as zero, so that the bytes depend on the graph alone.
pub(super) fn write_sections(graph: &Graph, file: &mut FileWriter<'_, '_>) -> Result<(), FileFault> {
    let Graph { vectors, adjacency, keys, .. } = graph;
    let slots = graph.slots();
    file.items(Section::Params, &[ParamsRecord::new(graph)])?;
    if graph.has_vectors() {
        let zeros = vec![Block::zeroed(); vectors.table.width()];
        let row = |slot: Slot| if keys.is_free(slot) { &zeros } else { vectors.table.row(slot.index()) };
        file.rows(Section::Vectors, slots, size_of_val(&*zeros), &|slot, out| put(out, row(slot)))?;
    }
    if let Some(terms) = vectors.terms() {
        let term = |slot: Slot| if keys.is_free(slot) { 0.0 } else { terms.at(slot.index()) };
        file.rows(Section::Terms, slots, size_of::<f32>(), &|slot, out| put(out, &[term(slot)]))?;
    }
    if graph.metric() == Metric::InnerProduct {
        file.items(Section::Center, &small_sections::center_items(vectors))?;
    }
    let zeros = vec![0_u32; graph.params().max_degree()];
    file.rows(Section::Adjacency, slots, size_of_val(&*zeros), &|slot, out| {
        let neighbors = adjacency.neighbors(slot);
        put(out, neighbors);
        put(out, &zeros[neighbors.len()..]);
    })?;
    let degree = |slot: Slot| adjacency.degrees.at(slot.index());
    file.rows(Section::Degrees, slots, size_of::<u16>(), &|slot, out| put(out, &[degree(slot)]))?;
    let key = |slot: Slot| if keys.is_live(slot) { keys.first.at(slot.index()) } else { 0 };
    file.rows(Section::Keys, slots, size_of::<Key>(), &|slot, out| put(out, &[key(slot)]))?;
    file.items(Section::FurtherKeys, &keys.further.iter().map(KeyRecord::from).collect::<Vec<_>>())?;
    file.items(Section::DeletedKeys, &keys.deleted_slots().map(KeyRecord::from).collect::<Vec<_>>())?;
    file.items(Section::Tombstones, &words(&keys.tombstones, slots))?;
    file.items(Section::FreeSlots, &words(&keys.free, slots))?;
    file.items(Section::StartPoints, adjacency.start_points())?;
    if !graph.tuned.is_empty() {
        file.items(Section::TunedSearches, &graph.tuned)?;
    }
    if let Some(Codes { quantizer, table }) = &vectors.codes {
        file.items(Section::Quantizer, &quantizer.to_bytes())?;
        let zeros = vec![0_u32; table.width()];
        let row = |slot: Slot| if keys.is_free(slot) { &zeros } else { table.row(slot.index()) };
        file.rows(Section::Codes, slots, size_of_val(&*zeros), &|slot, out| put(out, row(slot)))?;
    }
    if !keys.attributes.is_empty() {
        file.items(Section::Attributes, &keys.attributes.encode())?;
    }
    Ok(())
}

/// Returns the checksum of the section `params` of the graph's file.
pub(crate) fn fingerprint(graph: &Graph) -> u32 {
    let mut bytes = bytemuck::bytes_of(&ParamsRecord::new(graph)).to_vec();
    bytes.resize(bytes.len() + padding(bytes.len() as u64) as usize, 0);
    crc32c::crc32c(&bytes)
}

/// Returns the words of a set of slots, one per 32 slots.
fn words(set: &SlotSet, slots: usize) -> Vec<u32> {
    (0..slots.div_ceil(32)).map(|index| set.word(index)).collect()
}

/// Adds the bytes of items.
pub(super) fn put<I: NoUninit>(out: &mut Vec<u8>, items: &[I]) {
    out.extend_from_slice(bytemuck::cast_slice(items));
}

/// Writes sections one after another.
pub(super) struct FileWriter<'a, 'p> {
    out: &'a mut dyn Write,
    element: ElementKind,
    entries: Vec<Entry>,
    /// Bytes of sections written.
    written: u64,
    meter: Meter,
    progress: &'a mut ProgressFn<'p>,
}

/// Bytes per write.
const CHUNK: usize = 1 << 20;

impl<'a, 'p> FileWriter<'a, 'p> {
    /// Begins a file. The table is written last; until then its page is zero and the file is not an index.
    pub(super) fn begin(
        out: &'a mut dyn Write,
        element: ElementKind,
        meter: Meter,
        progress: &'a mut ProgressFn<'p>,
    ) -> Result<Self, FileFault> {
        out.write_all(&[0; SECTION_ALIGN as usize])?;
        Ok(Self::resume(out, element, Vec::new(), meter, progress))
    }

    /// Continues a file of these sections, whose end is the position of `out`. Those of the graph that are among them
    /// are not written again.
    pub(super) fn resume(
        out: &'a mut dyn Write,
        element: ElementKind,
        entries: Vec<Entry>,
        meter: Meter,
        progress: &'a mut ProgressFn<'p>,
    ) -> Self {
        Self { out, element, entries, written: 0, meter, progress }
    }

    /// The table of the sections.
    pub(super) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    /// Writes a section of these items, if the file does not have it.
    pub(super) fn items<I: NoUninit>(&mut self, section: Section, items: &[I]) -> Result<(), FileFault> {
        let bytes = bytemuck::cast_slice::<I, u8>(items);
        self.section_if_missing(section, &mut |file, checksum| {
            bytes.chunks(CHUNK).try_for_each(|chunk| file.write_chunk(chunk, crc32c::crc32c(chunk), checksum))
        })
    }

    /// Writes a section with a row for each slot, of `row_bytes` at most, if the file does not have it. Threads gather
    /// the rows in chunks and compute checksums, and this one writes the chunks.
    pub(super) fn rows(
        &mut self,
        section: Section,
        slots: usize,
        row_bytes: usize,
        row: &(dyn Fn(Slot, &mut Vec<u8>) + Sync),
    ) -> Result<(), FileFault> {
        let chunk_rows = (CHUNK / row_bytes.max(1)).max(1);
        let chunks = slots.div_ceil(chunk_rows);
        let gather = |chunk: usize| {
            let mut bytes = Vec::with_capacity(chunk_rows * row_bytes);
            let rows = chunk * chunk_rows..slots.min((chunk + 1) * chunk_rows);
            rows.for_each(|slot| row(Slot::from_index(slot), &mut bytes));
            let checksum = crc32c::crc32c(&bytes);
            (bytes, checksum)
        };
        let threads = thread::available_parallelism().map_or(1, usize::from).min(chunks);
        self.section_if_missing(section, &mut |file, checksum| {
            let mut write = |(bytes, part): (Vec<u8>, u32)| file.write_chunk(&bytes, part, checksum);
            if chunks < 2 {
                return (0..chunks).try_for_each(|chunk| write(gather(chunk)));
            }
            thread::scope(|scope| {
                let gather = &gather;
                // Thread i gathers chunks i, i + threads, and so on, and is at most two ahead.
                let queues = (0..threads).map(|first| {
                    let (sender, queue) = mpsc::sync_channel(1);
                    scope.spawn(move || {
                        // Sending fails after a failed write has dropped the queues.
                        (first..chunks).step_by(threads).try_for_each(|chunk| sender.send(gather(chunk)))
                    });
                    queue
                });
                let queues: Vec<_> = queues.collect();
                let gathered =
                    |chunk: usize| queues[chunk % threads].recv().expect("every chunk is gathered");
                (0..chunks).try_for_each(|chunk| write(gathered(chunk)))
            })
        })
    }

    /// Writes a section, whose chunks `fill` writes with [`Self::write_chunk`]; nothing if the file has it.
    fn section_if_missing(
        &mut self,
        section: Section,
        fill: &mut dyn FnMut(&mut Self, &mut u32) -> Result<(), FileFault>,
    ) -> Result<(), FileFault> {
        if self.entries.iter().any(|entry| entry.section() == section) {
            return Ok(());
        }
        let (offset, start) = (file_bytes(&self.entries), self.written);
        let mut checksum = 0;
        fill(self, &mut checksum)?;
        let length = self.written - start;
        let zeros = vec![0; padding(length) as usize];
        self.write_chunk(&zeros, crc32c::crc32c(&zeros), &mut checksum)?;
        let item = section.item(self.element);
        self.entries.push(Entry::new(section, item, offset, length, checksum));
        Ok(())
    }

    /// Writes bytes, whose checksum is `part`, and adds them to the checksum of the section.
    fn write_chunk(&mut self, bytes: &[u8], part: u32, checksum: &mut u32) -> Result<(), FileFault> {
        self.out.write_all(bytes)?;
        *checksum = crc32c::crc32c_combine(*checksum, part, bytes.len());
        self.written += bytes.len() as u64;
        Ok(self.meter.advance(bytes.len() as u64, self.progress)?)
    }
}
