//! The log, to write.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::Arc;

use super::copy_error;
use super::segment::{Beginning, Header, Kind, NewSegment, Segments};

/// Bytes of vectors per chunk.
pub(super) const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of entries that are appended at once.
const BUFFER_BYTES: usize = 1 << 20;

/// A change as the log stores it.
#[derive(Debug)]
pub(super) struct StoredChange {
    pub number: u64,
    pub kind: &'static str,
    pub argument: Vec<u8>,
    /// Chunks of vectors, each with the number of its first.
    pub vectors: Vec<(u64, Vec<u8>)>,
}

/// A snapshot that the log continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SnapshotId {
    /// The snapshot has all changes below this number.
    pub number: u64,
    /// Of its header.
    pub checksum: Option<u32>,
}

/// The log, to write. After an error it is unknown which entries are on disk. Nothing is appended to the segment then:
/// another one begins, and says first which changes have failed.
pub(super) struct Store {
    pub(super) segments: Arc<dyn Segments>,
    pub(super) snapshot: SnapshotId,
    /// `None` before the first entry, after an error, and after [`Self::end_segment`].
    segment: Option<Writer>,
    /// The number of the next segment.
    next: u64,
    /// The last segment whose end is on disk, and how many of its bytes are.
    previous: Option<(u64, u64)>,
    /// Numbers of changes that must not be in the log, and may be.
    failed: BTreeSet<u64>,
    /// All changes below this number have ended.
    ended: u64,
    /// Why the log accepts no change.
    closed: Option<io::Error>,
}

/// A segment that is written.
pub(super) struct Writer {
    number: u64,
    file: Box<dyn NewSegment>,
    /// Entries that are not appended yet.
    pub(super) buffer: Vec<u8>,
    /// Bytes that are appended, and that are on disk.
    appended: u64,
    synced: u64,
    /// What the next entry says.
    pub(super) ended: u64,
}

impl Writer {
    /// A segment in `file`, which is empty.
    pub(super) fn new(number: u64, file: Box<dyn NewSegment>) -> Self {
        Self { number, file, buffer: Vec::new(), appended: 0, synced: 0, ended: 0 }
    }

    /// Writes the first entries of the segment.
    pub(super) fn begin(&mut self, beginning: Beginning, snapshot: SnapshotId) -> io::Result<()> {
        self.push(Kind::Segment, self.number, &[&beginning.encode()])?;
        self.write_snapshot(snapshot)
    }

    fn write_snapshot(&mut self, SnapshotId { number, checksum }: SnapshotId) -> io::Result<()> {
        let checksum = checksum.map(u32::to_le_bytes);
        self.push(Kind::Snapshot, number, &[checksum.as_ref().map_or(&[][..], |checksum| checksum)])
    }

    /// Writes a change, in the place of one with this number that may be there.
    pub(super) fn write(&mut self, change: &StoredChange) -> io::Result<()> {
        for (first, chunk) in &change.vectors {
            self.write_vectors(change.number, *first, chunk)?;
        }
        self.write_argument(change.number, change.kind, &change.argument)
    }

    /// Writes vectors of the change that [`Self::write_argument`] is about to complete, from number `first` on.
    pub(super) fn write_vectors(&mut self, number: u64, first: u64, chunk: &[u8]) -> io::Result<()> {
        self.push(Kind::Vectors, number, &[&first.to_le_bytes(), chunk])
    }

    /// Writes a change, of which all vectors are written.
    pub(super) fn write_argument(&mut self, number: u64, kind: &str, argument: &[u8]) -> io::Result<()> {
        let len = u8::try_from(kind.len()).expect("kinds are short");
        self.push(Kind::Change, number, &[&[len], kind.as_bytes(), argument])
    }

    /// Writes an entry.
    pub(super) fn push(&mut self, kind: Kind, number: u64, body: &[&[u8]]) -> io::Result<()> {
        let header = Header {
            kind,
            number,
            body_len: body.iter().map(|part| part.len() as u64).sum(),
            body_checksum: body.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part)),
            synced: self.synced,
            ended: self.ended,
        };
        self.buffer.extend(header.encode());
        for part in body {
            if part.len() < BUFFER_BYTES {
                self.buffer.extend_from_slice(part);
            } else {
                // The keys of a large delete, for example, are not copied.
                self.flush()?;
                self.file.append(part)?;
                self.appended += part.len() as u64;
            }
        }
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.append(&self.buffer)?;
        self.appended += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Appends that all changes below `ended` have ended, and that what was synced is on disk.
    fn end(&mut self, ended: u64) -> io::Result<()> {
        self.ended = ended;
        self.push(Kind::Ended, ended, &[])?;
        self.flush()
    }

    /// Ends a segment that no change is appended to: what it has is on disk, and it says so.
    pub(super) fn finish(mut self, ended: u64) -> io::Result<()> {
        self.sync()?;
        self.end(ended)
    }

    /// Returns when all entries are on disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.sync()?;
        self.synced = self.appended;
        Ok(())
    }
}

impl Store {
    /// A log that continues this one, of whose segments `previous` is the last with a known end. All changes below
    /// `ended` have ended.
    pub(super) fn new(
        segments: Arc<dyn Segments>,
        snapshot: SnapshotId,
        previous: Option<(u64, u64)>,
        ended: u64,
    ) -> io::Result<Self> {
        let next = segments.list()?.last().map_or(0, |last| last + 1);
        let (segment, failed) = (None, BTreeSet::new());
        Ok(Self { segments, snapshot, segment, next, previous, failed, ended, closed: None })
    }

    /// Refuses every change from now on, because of this error.
    pub(super) fn close(&mut self, reason: io::Error) {
        (self.segment, self.closed) = (None, Some(reason));
    }

    /// Writes entries, which are on disk when this returns. After an error they do not count; if that cannot be written,
    /// it is before anything else is, and until then a crash may bring the changes `numbers` back.
    pub(super) fn commit(
        &mut self,
        numbers: &[u64],
        write: impl FnOnce(&mut Writer) -> io::Result<()>,
    ) -> io::Result<()> {
        let committed = self.try_commit(write);
        if committed.is_err() {
            // The error that is returned is the first one.
            let _ = self.fail(numbers);
        }
        committed
    }

    /// Writes that changes have failed. After an error, this is written before anything else is.
    pub(super) fn fail(&mut self, numbers: &[u64]) -> io::Result<()> {
        self.failed.extend(numbers);
        self.try_commit(|_| Ok(()))
    }

    fn try_commit(&mut self, write: impl FnOnce(&mut Writer) -> io::Result<()>) -> io::Result<()> {
        if let Some(reason) = &self.closed {
            return Err(copy_error(reason));
        }
        let mut segment = match self.segment.take() {
            Some(segment) => segment,
            None => {
                self.next += 1;
                Writer::new(self.next - 1, self.segments.create(self.next - 1)?)
            }
        };
        self.write(&mut segment, write)?;
        self.failed.clear();
        self.previous = Some((segment.number, segment.synced));
        self.segment = Some(segment);
        Ok(())
    }

    fn write(
        &self,
        segment: &mut Writer,
        write: impl FnOnce(&mut Writer) -> io::Result<()>,
    ) -> io::Result<()> {
        let is_new = segment.synced == 0;
        if is_new {
            segment.begin(Beginning { previous: self.previous }, self.snapshot)?;
        }
        // A reader takes a change that has ended as made unless it has read that it has failed.
        self.failed.iter().try_for_each(|&number| segment.push(Kind::Failed, number, &[]))?;
        segment.ended = self.ended;
        if is_new {
            segment.push(Kind::Ended, self.ended, &[])?;
        }
        write(segment)?;
        segment.sync()
    }

    /// Records that a snapshot is complete.
    pub(super) fn set_snapshot(&mut self, snapshot: SnapshotId) -> io::Result<()> {
        self.commit(&[], |segment| segment.write_snapshot(snapshot))?;
        self.snapshot = snapshot;
        Ok(())
    }

    /// Appends that all changes below this number have ended. Nobody waits for the disk, and the next entry says it as
    /// well.
    pub(super) fn set_ended(&mut self, ended: u64) {
        self.ended = ended;
        if let Some(mut segment) = self.segment.take() {
            self.segment = segment.end(ended).is_ok().then_some(segment);
        }
    }

    /// Ends the segment: what is written from now on is in others. Returns the number of the first of these.
    pub(super) fn end_segment(&mut self) -> u64 {
        self.segment = None;
        self.next
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { snapshot, next, failed, ended, .. } = self;
        write!(f, "Store({snapshot:?}, next: {next}, failed: {failed:?}, ended: {ended})")
    }
}
