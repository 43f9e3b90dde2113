//! Reading sections in parts on all cores, and verifying checksums while the bytes are in cache.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;

use jasper_core::{Cancelled, Progress, ProgressFn, Stage};
use jasper_data::ReadAt;

use super::rule::Rule;
use super::table::Entry;
use super::{FileFault, padding};

/// Bytes per read: they stay in the cache of a core for the checksum.
const BLOCK: usize = 1 << 18;
/// Bytes per thread, at least.
const THREAD_BYTES: u64 = 16 << 20;
/// Bytes per part of a section that is only checked.
const PART: u64 = 32 << 20;

/// A range of a section, read by one thread.
pub(super) struct Part<'a> {
    /// Index of the section among those read.
    section: usize,
    offset: u64,
    length: u64,
    /// Output of `length` bytes; without it the bytes are only checked.
    target: Option<&'a mut [u8]>,
    rule: Rule,
}

/// The result for a part.
#[derive(Clone, Copy)]
struct Seen {
    section: usize,
    length: u64,
    checksum: u32,
    obeys: bool,
}

/// The result for a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Whether the checksum equals that of the table.
    pub(super) intact: bool,
    /// Whether all items obey the rule of the section.
    pub(super) obeys: bool,
}

/// The sections to read, cut into parts.
#[derive(Default)]
pub(super) struct Parts<'a> {
    parts: Vec<Part<'a>>,
    checksums: Vec<u32>,
}

impl<'a> Parts<'a> {
    /// Adds a section that is read into `targets`, consecutive in the file, each of whole items.
    pub(super) fn load(&mut self, entry: &Entry, rule: Rule, targets: Vec<&'a mut [u8]>) {
        let section = self.checksums.len();
        let mut offset = entry.offset;
        for target in targets {
            let length = target.len() as u64;
            self.parts.push(Part { section, offset, length, target: Some(target), rule });
            offset += length;
        }
        debug_assert_eq!(offset, entry.offset + entry.length);
        let length = padding(entry.length);
        self.parts.push(Part { section, offset, length, target: None, rule: Rule::Any });
        self.checksums.push(entry.checksum);
    }

    /// Adds a section that is only checksummed.
    pub(super) fn check(&mut self, entry: &Entry) {
        let section = self.checksums.len();
        let end = entry.offset + entry.extent();
        let mut offset = entry.offset;
        while offset < end {
            let length = PART.min(end - offset);
            self.parts.push(Part { section, offset, length, target: None, rule: Rule::Any });
            offset += length;
        }
        self.checksums.push(entry.checksum);
    }

    /// Reads all parts and returns the result of each section. Progress is reported in `rows`, in proportion to the
    /// bytes.
    pub(super) fn read(
        self,
        source: &impl ReadAt,
        stage: Stage,
        rows: usize,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Vec<Verdict>, FileFault> {
        let bytes = self.parts.iter().map(|part| part.length).sum();
        let mut meter = Meter::new(stage, rows, bytes);
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.min(bytes.div_ceil(THREAD_BYTES) as usize).max(1);
        let mut seen: Vec<Option<Seen>> = vec![None; self.parts.len()];
        let queue = Mutex::new(self.parts.into_iter().enumerate());
        let stop = AtomicBool::new(false);
        let mut fault = None;
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            for _ in 0..threads {
                let sender = sender.clone();
                let (queue, stop) = (&queue, &stop);
                scope.spawn(move || {
                    let mut buffer = Vec::new();
                    let next = || queue.lock().expect("no reader panics").next();
                    while let Some((i, part)) = next().filter(|_| !stop.load(Ordering::Relaxed)) {
                        let sent = sender.send((i, part.read(source, &mut buffer)));
                        sent.expect("the receiver outlives the threads");
                    }
                });
            }
            drop(sender);
            for (i, result) in receiver {
                let noted = result.and_then(|part| {
                    meter.advance(part.length, progress)?;
                    Ok(part)
                });
                match noted {
                    Ok(part) => seen[i] = Some(part),
                    Err(error) => {
                        stop.store(true, Ordering::Relaxed);
                        fault.get_or_insert(error);
                    }
                }
            }
        });
        if let Some(fault) = fault {
            return Err(fault);
        }
        let mut verdicts: Vec<(u32, bool)> = vec![(0, true); self.checksums.len()];
        for part in seen.into_iter().flatten() {
            let (checksum, obeys) = &mut verdicts[part.section];
            *checksum = crc32c::crc32c_combine(*checksum, part.checksum, part.length as usize);
            *obeys &= part.obeys;
        }
        let pairs = verdicts.into_iter().zip(self.checksums);
        Ok(pairs.map(|((found, obeys), written)| Verdict { intact: found == written, obeys }).collect())
    }
}

impl Part<'_> {
    fn read(self, source: &impl ReadAt, buffer: &mut Vec<u8>) -> Result<Seen, FileFault> {
        let mut seen = Seen { section: self.section, length: self.length, checksum: 0, obeys: true };
        let mut look = |block: &mut [u8], done: u64| -> Result<(), FileFault> {
            source.read_exact_at(block, self.offset + done)?;
            seen.checksum = crc32c::crc32c_append(seen.checksum, block);
            seen.obeys &= self.rule.allows(block);
            Ok(())
        };
        match self.target {
            Some(target) => {
                let block_bytes = self.rule.whole_items(BLOCK);
                for (i, block) in target.chunks_mut(block_bytes).enumerate() {
                    look(block, (i * block_bytes) as u64)?;
                }
            }
            None => {
                buffer.resize(BLOCK, 0);
                let mut done = 0;
                while done < self.length {
                    let block = (BLOCK as u64).min(self.length - done);
                    look(&mut buffer[..block as usize], done)?;
                    done += block;
                }
            }
        }
        Ok(seen)
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
