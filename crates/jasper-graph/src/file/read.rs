//! Reading sections on all cores, and verifying checksums while the bytes are in cache.

use std::sync::{Mutex, mpsc};
use std::thread;

use jasper_core::{Cancelled, Progress, ProgressFn, Stage};
use jasper_data::ReadAt;

use super::FileFault;
use super::rule::Rule;
use super::table::Entry;

/// Bytes per read: they stay in the cache of a core for the checksum.
const READ_BYTES: usize = 1 << 18;
/// Bytes per thread, at least.
const THREAD_BYTES: u64 = 16 << 20;
/// Bytes per chunk of a section that is only checked.
const CHECKED_CHUNK_BYTES: u64 = 32 << 20;

/// A range of a section, read by one thread.
struct Chunk<'a> {
    /// Index of the section among those read.
    section: usize,
    offset: u64,
    length: usize,
    /// Output of `length` bytes; without it the bytes are only checked.
    target: Option<&'a mut [u8]>,
    rule: Rule,
    /// Checksum of what was read.
    checksum: u32,
    /// Whether the rule allows what was read.
    is_allowed: bool,
}

/// A section that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadSection {
    pub(super) entry: Entry,
    pub(super) rule: Rule,
    /// Checksum of what was read, with the padding.
    checksum: u32,
    /// Whether the rule allows all items.
    pub(super) is_allowed: bool,
}

impl ReadSection {
    /// Whether the checksum equals that of the table.
    pub(super) fn is_intact(&self) -> bool {
        self.checksum == self.entry.checksum
    }
}

/// Reads sections in chunks.
#[derive(Default)]
pub(super) struct SectionReader<'a> {
    chunks: Vec<Chunk<'a>>,
    sections: Vec<ReadSection>,
}

impl<'a> SectionReader<'a> {
    /// Adds a section. Its first bytes are read into `targets`, one after the other; the rest is checked, but not kept.
    /// The length of each target is a multiple of the size of an item.
    pub(super) fn add(&mut self, entry: &Entry, rule: Rule, targets: Vec<&'a mut [u8]>) {
        let (section, end) = (self.sections.len(), entry.offset + entry.extent());
        let chunk = |offset, length, target, rule| Chunk {
            section,
            offset,
            length,
            target,
            rule,
            checksum: 0,
            is_allowed: true,
        };
        let mut offset = entry.offset;
        for target in targets {
            let length = target.len();
            self.chunks.push(chunk(offset, length, Some(target), rule));
            offset += length as u64;
        }
        while offset < end {
            let length = CHECKED_CHUNK_BYTES.min(end - offset) as usize;
            self.chunks.push(chunk(offset, length, None, Rule::Any));
            offset += length as u64;
        }
        self.sections.push(ReadSection { entry: *entry, rule, checksum: 0, is_allowed: true });
    }

    /// Reads all sections, and returns them in the order in which they were added. Progress is reported in `rows`, in
    /// proportion to the bytes.
    pub(super) fn read(
        mut self,
        source: &impl ReadAt,
        stage: Stage,
        rows: usize,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Vec<ReadSection>, FileFault> {
        let bytes = self.chunks.iter().map(|chunk| chunk.length as u64).sum();
        let mut meter = Meter::new(stage, rows, bytes);
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.min(bytes.div_ceil(THREAD_BYTES) as usize).max(1);
        let queue = Mutex::new(self.chunks.iter_mut());
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            for _ in 0..threads {
                let (sender, queue) = (sender.clone(), &queue);
                scope.spawn(move || {
                    let mut buffer = Vec::new();
                    let next = || queue.lock().expect("no reader panics").next();
                    while let Some(chunk) = next() {
                        // The receiver is gone after the first error.
                        if sender.send(chunk.read(source, &mut buffer)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            receiver.into_iter().try_for_each(|read| Ok::<_, FileFault>(meter.advance(read?, progress)?))
        })?;
        for chunk in &self.chunks {
            let section = &mut self.sections[chunk.section];
            section.checksum = crc32c::crc32c_combine(section.checksum, chunk.checksum, chunk.length);
            section.is_allowed &= chunk.is_allowed;
        }
        Ok(self.sections)
    }
}

impl Chunk<'_> {
    /// Reads the chunk, and returns its length.
    fn read(&mut self, source: &impl ReadAt, buffer: &mut Vec<u8>) -> Result<u64, FileFault> {
        let bytes_per_read = self.rule.whole_items(READ_BYTES);
        for done in (0..self.length).step_by(bytes_per_read) {
            let length = bytes_per_read.min(self.length - done);
            let bytes = match &mut self.target {
                Some(target) => &mut target[done..][..length],
                None => {
                    buffer.resize(READ_BYTES, 0);
                    &mut buffer[..length]
                }
            };
            source.read_exact_at(bytes, self.offset + done as u64)?;
            self.checksum = crc32c::crc32c_append(self.checksum, bytes);
            self.is_allowed &= self.rule.holds(bytes);
        }
        Ok(self.length as u64)
    }
}

/// Converts progress in bytes to progress in rows, whose number users know.
pub(super) struct Meter {
    stage: Stage,
    rows: usize,
    bytes: u64,
    done: u64,
}

impl Meter {
    pub(super) fn new(stage: Stage, rows: usize, bytes: u64) -> Self {
        Self { stage, rows, bytes: bytes.max(1), done: 0 }
    }

    pub(super) fn advance(&mut self, bytes: u64, progress: &mut ProgressFn<'_>) -> Result<(), Cancelled> {
        self.done += bytes;
        let done =
            (self.rows as u128 * u128::from(self.done.min(self.bytes)) / u128::from(self.bytes)) as usize;
        Progress { stage: self.stage, done, total: self.rows }.report(progress)
    }
}
