//! The log, to read: once to its end, or again and again behind what a process writes.
//!
//! ```text
//! read on:
//!     loop
//!         read all whole entries of the segment
//!         stop, unless there is a later segment and it begins       a writer ends a segment before it begins another
//!         read the rest of this segment
//!         an entry that is not whole, and was on disk: damaged
//!         go on with the later segment
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use jasper_core::{Element, VectorSource};

use super::segment::{Beginning, HEADER_BYTES, Header, Kind, Segment, Segments, invalid};
use super::store::{SnapshotId, Writer};

/// What a reader has read of the log. It keeps its segment, and those with changes that it has not taken, from being
/// removed.
pub(super) struct Log {
    segments: Arc<dyn Segments>,
    segment: Option<Position>,
    /// The changes that have not failed.
    changes: BTreeMap<u64, Logged>,
    /// The vectors of the change that comes next.
    vectors: Vec<Chunk>,
    /// In the order in which they were named.
    snapshots: Vec<SnapshotId>,
    /// The number of the first segment.
    begin: Option<u64>,
    ended: u64,
    /// Changes below this number are not taken.
    first: u64,
}

/// How far a segment is read.
#[derive(Clone)]
struct Position {
    number: u64,
    segment: Arc<Segment>,
    beginning: Beginning,
    at: u64,
    /// How many bytes were on disk, as the entries say.
    synced: u64,
}

/// Where a change is.
struct Logged {
    segment: Arc<Segment>,
    /// The bytes of its kind and its argument.
    body: Range<u64>,
    vectors: Vec<Chunk>,
}

/// Where vectors of a change are.
struct Chunk {
    /// The number of the first vector.
    first: u64,
    bytes: Range<u64>,
}

impl Log {
    /// A log of which nothing is read yet.
    pub(super) fn new(segments: Arc<dyn Segments>) -> Self {
        let (changes, vectors, snapshots) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { segments, segment: None, changes, vectors, snapshots, begin: None, ended: 0, first: 0 }
    }

    /// Reads the log to its end. No process writes to it.
    pub(super) fn read(segments: Arc<dyn Segments>) -> io::Result<Self> {
        let mut log = Self::new(segments);
        log.read_on()?;
        if let Some(position) = &log.segment {
            Header::check_end(&*position.segment, position.at, position.segment.size()?)?;
        }
        for number in log.segments.list()? {
            // One that does not begin: its process ended while it wrote the first entries.
            if log.segment.as_ref().is_none_or(|position| position.number < number)
                && let Some(segment) = log.segments.open(number)?
            {
                Header::check_end(&*segment, 0, segment.size()?)?;
            }
        }
        Ok(log)
    }

    /// Reads what is new.
    ///
    /// # Errors
    /// One of the kind [`io::ErrorKind::NotFound`] if segments were removed that are not read.
    pub(super) fn read_on(&mut self) -> io::Result<()> {
        self.read_entries()?;
        while let Some(next) = self.next_segment()? {
            self.read_entries()?;
            if let (Some(Position { number, segment, at, .. }), Some((previous, synced))) =
                (&self.segment, next.beginning.previous)
            {
                match () {
                    () if previous > *number => return Err(removed(*number)),
                    () if previous == *number && synced > *at => {
                        return Err(invalid(format!("segment {number} is damaged at byte {at}")));
                    }
                    () => Header::check_end(&**segment, *at, segment.size()?)?,
                }
            }
            if let (None, Some((previous, _))) = (&self.segment, next.beginning.previous)
                && self.segments.list()?.contains(&previous)
            {
                return Err(invalid(format!("segment {previous} does not begin")));
            }
            // They are of a change that was not written to its end.
            self.vectors.clear();
            self.begin.get_or_insert(next.number);
            self.segment = Some(next);
            self.read_entries()?;
        }
        Ok(())
    }

    /// The first later segment that begins.
    fn next_segment(&self) -> io::Result<Option<Position>> {
        for number in self.segments.list()? {
            if self.segment.as_ref().is_some_and(|position| position.number >= number) {
                continue;
            }
            let Some(segment) = self.segments.open(number)? else { continue };
            if let Some(header) = Header::read(&*segment, 0, segment.size()?)?
                && header.kind == Kind::Segment
            {
                let beginning = Beginning::decode(&bytes(&*segment, body(0, &header))?)?;
                return Ok(Some(Position { number, segment, beginning, at: 0, synced: 0 }));
            }
        }
        Ok(None)
    }

    /// Reads all whole entries of the segment.
    fn read_entries(&mut self) -> io::Result<()> {
        let Some(mut position) = self.segment.clone() else { return Ok(()) };
        let segment = Arc::clone(&position.segment);
        let size = segment.size()?;
        while let Some(header) = Header::read(&*segment, position.at, size)? {
            let Header { kind, number, ended, synced, .. } = header;
            let mut body = body(position.at, &header);
            (position.at, position.synced) = (body.end, position.synced.max(synced));
            match kind {
                Kind::Segment | Kind::Ended => {}
                Kind::Snapshot => {
                    let checksum =
                        bytes(&*segment, body)?.first_chunk().map(|&bytes| u32::from_le_bytes(bytes));
                    self.snapshots.push(SnapshotId { number, checksum });
                }
                Kind::Vectors => {
                    let mut first = [0; 8];
                    segment.read_exact_at(&mut first, body.start)?;
                    body.start += first.len() as u64;
                    self.vectors.push(Chunk { first: u64::from_le_bytes(first), bytes: body });
                }
                Kind::Change => {
                    let vectors = std::mem::take(&mut self.vectors);
                    let segment = Arc::clone(&segment);
                    if number >= self.first {
                        self.changes.insert(number, Logged { segment, body, vectors });
                    }
                }
                Kind::Failed => drop(self.changes.remove(&number)),
            }
            self.ended = self.ended.max(ended);
        }
        self.segment = Some(position);
        Ok(())
    }

    /// Copies what was read of the last segment, and may not be on disk, to another one that continues `snapshot`; what the
    /// log says later is true of what is on disk then. A sync of the same file may do nothing: after one that failed,
    /// systems keep what was not written in memory, as if it were.
    pub(super) fn copy_unsynced(&mut self, snapshot: SnapshotId) -> io::Result<()> {
        let Some(Position { segment, at: end, synced, .. }) = &self.segment else { return Ok(()) };
        let (mut at, mut entries) = (*synced, Vec::new());
        while let Some(header) = Header::read(&**segment, at, *end)? {
            let body = body(at, &header);
            at = body.end;
            entries.push((header, body));
        }
        // Vectors after the last of these are of a change that is not complete.
        let is_needed = |kind| matches!(kind, Kind::Change | Kind::Failed | Kind::Snapshot);
        let Some(last) = entries.iter().rposition(|(header, _)| is_needed(header.kind)) else {
            return Ok(());
        };
        let next = self.segments.list()?.last().map_or(0, |last| last + 1);
        let mut copy = Writer::new(next, self.segments.create(next)?);
        copy.begin(Beginning { previous: self.end() }, snapshot)?;
        for (header, body) in &entries[..=last] {
            if matches!(header.kind, Kind::Vectors | Kind::Change | Kind::Failed) {
                copy.ended = header.ended;
                copy.push(header.kind, header.number, &[&bytes(&**segment, body.clone())?])?;
            }
        }
        copy.finish(self.ended)?;
        self.read_on()
    }

    /// The snapshots that the log names.
    pub(super) fn snapshots(&self) -> &[SnapshotId] {
        &self.snapshots
    }

    /// Whether all segments are there that have changes after this snapshot: the first one, or one from before it.
    pub(super) fn is_whole_since(&self, snapshot: SnapshotId) -> bool {
        self.begin == Some(0) || self.snapshots.iter().any(|earlier| earlier.number < snapshot.number)
    }

    /// All changes below this number have ended.
    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    /// The last segment of which the log says that a part is on disk, and how many bytes are.
    pub(super) fn end(&self) -> Option<(u64, u64)> {
        let Position { number, beginning, synced, .. } = self.segment.as_ref()?;
        if *synced > 0 { Some((*number, *synced)) } else { beginning.previous }
    }

    /// The numbers of the changes, ascending.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.changes.keys().copied().collect()
    }

    /// Forgets the changes below this number, also where the log repeats them.
    pub(super) fn remove_below(&mut self, number: u64) {
        self.first = number;
        self.changes = self.changes.split_off(&number);
    }

    /// The kind and the argument of a change.
    pub(super) fn change(&self, number: u64) -> io::Result<(String, Vec<u8>)> {
        let Logged { segment, body, .. } = self.changes.get(&number).ok_or_else(missing)?;
        let body = bytes(&**segment, body.clone())?;
        let (&len, rest) = body.split_first().ok_or_else(missing)?;
        let (kind, argument) = rest.split_at_checked(len.into()).ok_or_else(missing)?;
        Ok((String::from_utf8_lossy(kind).into_owned(), argument.to_vec()))
    }

    /// The chunks of vectors of a change, each with the number of its first.
    #[cfg(test)]
    pub(super) fn chunks(&self, number: u64) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let Logged { segment, vectors, .. } = self.changes.get(&number).ok_or_else(missing)?;
        vectors.iter().map(|chunk| Ok((chunk.first, bytes(&**segment, chunk.bytes.clone())?))).collect()
    }

    /// The vectors of a change.
    pub(super) fn vectors(&self, number: u64, len: usize, dimension: usize) -> LoggedVectors<'_> {
        LoggedVectors { change: self.changes.get(&number), len, dimension }
    }
}

/// Where the body of the entry at `at` is.
fn body(at: u64, header: &Header) -> Range<u64> {
    let start = at + HEADER_BYTES as u64;
    start..start + header.body_len
}

fn bytes(segment: &Segment, range: Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    segment.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

/// The vectors of a change in the log.
pub(super) struct LoggedVectors<'a> {
    change: Option<&'a Logged>,
    len: usize,
    dimension: usize,
}

impl<T: Element> VectorSource<T> for LoggedVectors<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
        let Logged { segment, vectors, .. } = self.change.ok_or_else(missing)?;
        let row_bytes = (self.dimension * size_of::<T>()) as u64;
        let mut out: &mut [u8] = bytemuck::cast_slice_mut(out);
        let mut at = range.start as u64;
        while !out.is_empty() {
            // The last chunk that does not begin after the vector.
            let chunk = vectors.partition_point(|chunk| chunk.first <= at).checked_sub(1);
            let Chunk { first, bytes } = &vectors[chunk.ok_or_else(missing)?];
            let start = bytes.start + (at - first) * row_bytes;
            let rest = bytes.end.checked_sub(start).filter(|&rest| rest > 0).ok_or_else(missing)?;
            let (filled, left) = out.split_at_mut(rest.min(out.len() as u64) as usize);
            segment.read_exact_at(filled, start)?;
            at += filled.len() as u64 / row_bytes;
            out = left;
        }
        Ok(())
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("end", &self.end())
            .field("changes", &self.changes.len())
            .finish_non_exhaustive()
    }
}

fn missing() -> io::Error {
    invalid("a part of a change is missing")
}

fn removed(segment: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("the segments after {segment} were removed before they were read"),
    )
}
