//! The files of the log, *segments*, and how their entries are encoded.
//!
//! ```text
//! segment:  entry entry ..
//! entry:    magic  checksum of the header  kind  checksum of the body  number  length of the body  synced  ended  body
//! ```
//!
//! All integers are little-endian. `synced` is how many bytes of the segment were on disk before the entry was written:
//! an entry that cannot be read although a later one says that it was on disk is damaged, and otherwise it was not
//! written to its end. `ended` says that all changes below this number have ended.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use jasper_core::sync::lock;
use jasper_data::{AtomicFile, ReadAt};

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// The segment `number` begins. Body: [`Beginning`].
    Segment,
    /// A snapshot has all changes below `number`. Body: the checksum of the snapshot, if it is known.
    Snapshot,
    /// Vectors of the change `number`, which follows. Body: the number of the first, and the vectors.
    Vectors,
    /// The change `number`. It takes the place of an earlier one with this number. Body: the length of its kind, the
    /// kind and its argument.
    Change,
    /// The change `number` has failed: no earlier entry of it counts.
    Failed,
    /// Nothing but what every header says.
    Ended,
}

const KINDS: [Kind; 6] =
    [Kind::Segment, Kind::Snapshot, Kind::Vectors, Kind::Change, Kind::Failed, Kind::Ended];

/// The body of the first entry of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Beginning {
    /// The last segment before this one whose end is on disk, and how many of its bytes are.
    pub previous: Option<(u64, u64)>,
}

const VERSION: u64 = 1;

impl Beginning {
    pub(super) fn encode(self) -> Vec<u8> {
        let (segment, len) = self.previous.unwrap_or((u64::MAX, 0));
        [VERSION, segment, len].iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(super) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut words = body.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
        match [words.next(), words.next(), words.next()] {
            [Some(VERSION), Some(u64::MAX), Some(_)] => Ok(Self { previous: None }),
            [Some(VERSION), Some(segment), Some(len)] => Ok(Self { previous: Some((segment, len)) }),
            [Some(version), ..] => Err(invalid(format!(
                "a segment has version {version}, and this release reads version {VERSION}; open the folder with the \
                 release that wrote it"
            ))),
            _ => Err(invalid("the first entry of a segment is too short")),
        }
    }
}

/// An entry without its body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub kind: Kind,
    pub number: u64,
    pub body_len: u64,
    pub body_checksum: u32,
    pub synced: u64,
    pub ended: u64,
}

const MAGIC: [u8; 4] = *b"jlog";
pub(super) const HEADER_BYTES: usize = 48;

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.body_checksum.to_le_bytes());
        let words = [self.number, self.body_len, self.synced, self.ended];
        for (word, out) in words.iter().zip(bytes[16..].as_chunks_mut::<8>().0) {
            *out = word.to_le_bytes();
        }
        let checksum = crc32c::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header in these bytes, if there is one.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let half = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("in the header"));
        let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("in the header"));
        if bytes[..4] != MAGIC || half(4) != crc32c::crc32c(&bytes[8..]) {
            return None;
        }
        Some(Self {
            kind: *KINDS.get(half(8) as usize)?,
            body_checksum: half(12),
            number: word(16),
            body_len: word(24),
            synced: word(32),
            ended: word(40),
        })
    }

    /// Reads the entry at `at` of a segment of `size` bytes. `None` if there is none, or it is not whole.
    pub(super) fn read(segment: &Segment, at: u64, size: u64) -> io::Result<Option<Self>> {
        let mut bytes = [0; HEADER_BYTES];
        let Some(rest) = size.checked_sub(at + HEADER_BYTES as u64) else { return Ok(None) };
        segment.read_exact_at(&mut bytes, at)?;
        let Some(header) = Self::decode(&bytes).filter(|header| header.body_len <= rest) else {
            return Ok(None);
        };
        let (mut checksum, mut done, mut part) = (0, 0, Vec::new());
        while done < header.body_len {
            part.resize((header.body_len - done).min(1 << 20) as usize, 0);
            segment.read_exact_at(&mut part, at + HEADER_BYTES as u64 + done)?;
            checksum = crc32c::crc32c_append(checksum, &part);
            done += part.len() as u64;
        }
        Ok((checksum == header.body_checksum).then_some(header))
    }

    /// Checks that the segment ends at `at`, where there is no whole entry: no entry after it says that there was one.
    pub(super) fn check_end(segment: &Segment, at: u64, size: u64) -> io::Result<()> {
        let (mut from, mut bytes) = (at, Vec::new());
        while from + (HEADER_BYTES as u64) <= size {
            bytes.resize((size - from).min(1 << 20) as usize, 0);
            segment.read_exact_at(&mut bytes, from)?;
            let headers = bytes.windows(HEADER_BYTES).filter(|bytes| bytes.starts_with(&MAGIC));
            let mut headers =
                headers.filter_map(|bytes| Self::decode(bytes.try_into().expect("of this length")));
            if headers.any(|header| header.synced > at) {
                return Err(invalid(format!("the entry at byte {at} of a segment is damaged")));
            }
            // The next part begins with what may be the begin of a header.
            from += (bytes.len() - HEADER_BYTES + 1) as u64;
        }
        Ok(())
    }
}

pub(super) fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

/// A segment that is read.
pub(super) type Segment = dyn ReadAt + Send + Sync;

/// A segment that is written.
pub(super) trait NewSegment: Send {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Returns when all that was appended is on disk. The first call gives the segment its name, when the rest is there.
    fn sync(&mut self) -> io::Result<()>;
}

/// Where segments are; each has a number. Tests have segments in memory.
pub(super) trait Segments: fmt::Debug + Send + Sync {
    /// The numbers of the segments, ascending.
    fn list(&self) -> io::Result<Vec<u64>>;

    /// Opens a segment and keeps it from being [removed](Self::remove) while it is open. `None` if there is none.
    fn open(&self, number: u64) -> io::Result<Option<Arc<Segment>>>;

    /// Creates a segment, which others see from its first [sync](NewSegment::sync) on.
    fn create(&self, number: u64) -> io::Result<Box<dyn NewSegment>>;

    /// Removes a segment, unless another process, or another reader in this one, has it open. Returns whether there is
    /// none now.
    fn remove(&self, number: u64) -> io::Result<bool>;

    /// Removes the segments below `end`, until one is open elsewhere.
    fn remove_below(&self, end: u64) -> io::Result<()> {
        for number in self.list()?.into_iter().take_while(|&number| number < end) {
            if !self.remove(number)? {
                break;
            }
        }
        Ok(())
    }
}

/// The segments in a folder, `journal-K.log`.
#[derive(Debug)]
pub(super) struct Folder(pub(super) PathBuf);

/// The path of a segment.
pub(super) fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("journal-{number}.log"))
}

/// Whether the file is there and not empty. An empty log marks a folder that is not finished.
pub(super) fn has_content(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() > 0)
}

/// The number of the segment with this name.
pub(super) fn segment_number(name: &Path) -> Option<u64> {
    name.file_name()?.to_str()?.strip_prefix("journal-")?.strip_suffix(".log")?.parse().ok()
}

/// A segment of a folder that is written. After an error, it is not written any more.
struct NewFile {
    path: PathBuf,
    /// Before the first sync.
    unnamed: Option<AtomicFile>,
    /// After it.
    named: Option<File>,
}

impl NewSegment for NewFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match (&mut self.unnamed, &mut self.named) {
            (Some(file), _) => file.write_all(bytes),
            (None, named) => named.as_mut().expect("no call failed").write_all(bytes),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Some(file) = self.unnamed.take() {
            file.commit()?;
            self.named = Some(File::options().append(true).open(&self.path)?);
            return Ok(());
        }
        self.named.as_ref().expect("no call failed").sync_data()
    }
}

impl Segments for Folder {
    fn list(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            numbers.extend(segment_number(&entry?.path()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn open(&self, number: u64) -> io::Result<Option<Arc<Segment>>> {
        let path = segment_path(&self.0, number);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if cfg!(unix) {
            // On other systems a shared lock would keep the writer from appending. Without a lock, the segment may be removed
            // while it is read, and the reader finds that the next one is missing.
            let _ = file.lock_shared();
        }
        // It may have been removed before it was locked. No two segments have one name: the last one stays, and others are
        // numbered after it.
        Ok(path.exists().then(|| Arc::new(file) as Arc<Segment>))
    }

    fn create(&self, number: u64) -> io::Result<Box<dyn NewSegment>> {
        let path = segment_path(&self.0, number);
        if has_content(&path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let unnamed = Some(AtomicFile::create(&path)?);
        Ok(Box::new(NewFile { path, unnamed, named: None }))
    }

    fn remove(&self, number: u64) -> io::Result<bool> {
        let path = segment_path(&self.0, number);
        let remove = || {
            // Some network file systems lock only what may be written.
            let file = File::options().append(true).open(&path)?;
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                return Ok(false);
            }
            // While it is locked, so that no reader opens it meanwhile.
            fs::remove_file(&path).map(|()| true)
        };
        match remove() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            removed => removed,
        }
    }
}

/// A segment in memory; clones are the same segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    /// Takes all bytes out of the segment.
    pub(super) fn take(&self) -> Vec<u8> {
        mem::take(&mut lock(&self.0))
    }
}

impl NewSegment for Memory {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A log of one segment in memory, which is only read.
pub(super) struct OneSegment(Arc<Bytes>);

struct Bytes(Vec<u8>);

impl OneSegment {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Bytes(bytes)))
    }
}

impl ReadAt for Bytes {
    fn size(&self) -> io::Result<u64> {
        self.0[..].size()
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.0[..].read_exact_at(bytes, offset)
    }
}

impl Segments for OneSegment {
    fn list(&self) -> io::Result<Vec<u64>> {
        Ok(vec![0])
    }

    fn open(&self, number: u64) -> io::Result<Option<Arc<Segment>>> {
        Ok((number == 0).then(|| Arc::clone(&self.0) as Arc<Segment>))
    }

    fn create(&self, _: u64) -> io::Result<Box<dyn NewSegment>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, _: u64) -> io::Result<bool> {
        Ok(false)
    }
}

impl fmt::Debug for OneSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OneSegment({} bytes)", self.0.0.len())
    }
}
