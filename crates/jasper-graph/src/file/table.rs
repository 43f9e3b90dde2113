//! The first page of a file: its header and the table of sections.

use std::fmt;

use bytemuck::{Pod, Zeroable};
use jasper_core::ElementKind;
use jasper_data::ReadAt;

use super::rule::item;
use super::{FileFault, SECTION_ALIGN, padding};

/// The format version this release writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Readable, and reveals a transfer that converted line ends.
const MAGIC: [u8; 8] = *b"JASPER\r\n";
const PAGE: usize = SECTION_ALIGN as usize;
/// The page ends with the checksum of everything before it.
pub(super) const CHECKSUM_AT: usize = PAGE - size_of::<u32>();
pub(super) const MAX_SECTIONS: usize = (CHECKSUM_AT - size_of::<Header>()) / size_of::<Entry>();
/// Flag of a section that a reader may skip.
const OPTIONAL: u32 = 1;

/// The kind of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Section {
    /// Metric, shape, counts and build parameters.
    Params,
    /// The vectors, padded.
    Vectors,
    /// What distances need of each vector beside its coordinates: see [`VectorTable::terms`](crate::VectorTable::terms).
    Terms,
    /// Under inner products, [the center](crate::VectorTable::center).
    Center,
    /// Out-edges, `(slots, max_degree)`.
    Adjacency,
    /// Number of out-edges of each slot.
    Degrees,
    /// First live key of each slot.
    Keys,
    /// Live keys of slots that have more than one.
    FurtherKeys,
    /// Deleted keys that can be restored.
    DeletedKeys,
    /// Slots with a vertex that is deleted or not inserted completely.
    Tombstones,
    /// Free slots.
    FreeSlots,
    /// Vertices at which searches start.
    StartPoints,
    /// Searches that were measured to reach a recall. Optional.
    TunedSearches,
    /// The quantizer of the codes. Optional, with them.
    Quantizer,
    /// The code of each vector. Optional.
    Codes,
    /// The attributes of keys. Optional.
    Attributes,
    /// What was replaced by later sections. Optional, and may be repeated.
    Unused,
    /// Progress of a bulk build. Only in checkpoints.
    Checkpoint,
    /// The out-edges of all slots without gaps. Only in checkpoints.
    Edges,
    /// A kind unknown to this release.
    Unknown(u32),
}

/// The code and name of every known kind. Those of an index come first, in the order of the file; the codes of
/// checkpoints are far from them, because later releases add kinds of an index.
const KINDS: [(Section, u32, &str); 19] = [
    (Section::Params, 1, "params"),
    (Section::Vectors, 2, "vectors"),
    (Section::Terms, 3, "terms"),
    (Section::Center, 16, "center"),
    (Section::Adjacency, 4, "adjacency"),
    (Section::Degrees, 5, "degrees"),
    (Section::Keys, 6, "keys"),
    (Section::FurtherKeys, 7, "further keys"),
    (Section::DeletedKeys, 8, "deleted keys"),
    (Section::Tombstones, 9, "tombstones"),
    (Section::FreeSlots, 10, "free slots"),
    (Section::StartPoints, 11, "start points"),
    (Section::TunedSearches, 12, "tuned searches"),
    (Section::Quantizer, 13, "quantizer"),
    (Section::Codes, 14, "codes"),
    (Section::Attributes, 17, "attributes"),
    (Section::Unused, 15, "unused"),
    (Section::Checkpoint, 1 << 16, "checkpoint"),
    (Section::Edges, (1 << 16) + 1, "edges"),
];

impl Section {
    /// The known kinds of an index, in the order of the file.
    pub(crate) fn of_index() -> impl Iterator<Item = Self> {
        KINDS.iter().filter(|kind| kind.1 < 1 << 16).map(|kind| kind.0)
    }

    /// The type of its items, in an index of this element type.
    pub(super) fn item(self, element: ElementKind) -> u32 {
        match self {
            Self::Vectors => element.code(),
            Self::Terms | Self::Center => ElementKind::F32.code(),
            Self::Degrees => item::U16,
            Self::Keys => item::U64,
            Self::Adjacency | Self::Tombstones | Self::FreeSlots => item::U32,
            Self::StartPoints | Self::Codes | Self::Edges => item::U32,
            _ => item::RECORD,
        }
    }

    /// Whether the section may be missing, and skipped by a reader.
    pub(super) fn is_optional(self) -> bool {
        matches!(self, Self::TunedSearches | Self::Quantizer | Self::Codes | Self::Attributes | Self::Unused)
    }

    fn code(self) -> u32 {
        match self {
            Self::Unknown(code) => code,
            known => KINDS.iter().find(|kind| kind.0 == known).map_or(0, |kind| kind.1),
        }
    }

    fn from_code(code: u32) -> Self {
        KINDS.iter().find(|kind| kind.1 == code).map_or(Self::Unknown(code), |kind| kind.0)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Section {
    /// As its name.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match KINDS.iter().find(|kind| kind.0 == *self) {
            Some((.., name)) => f.write_str(name),
            None => write!(f, "of kind {}", self.code()),
        }
    }
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: u32,
    sections: u32,
    file_bytes: u64,
    reserved: u64,
}

/// An entry of the table of sections.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Entry {
    kind: u32,
    flags: u32,
    /// Item type: see [`super::rule::item`].
    pub(super) item: u32,
    /// CRC-32C of the section and its padding.
    pub(super) checksum: u32,
    /// Offset in the file.
    pub(super) offset: u64,
    /// Bytes without the padding.
    pub(super) length: u64,
}

impl Entry {
    pub(super) fn new(section: Section, item: u32, offset: u64, length: u64, checksum: u32) -> Self {
        let flags = if section.is_optional() { OPTIONAL } else { 0 };
        Self { kind: section.code(), flags, item, checksum, offset, length }
    }

    pub(super) fn section(&self) -> Section {
        Section::from_code(self.kind)
    }

    /// The section of the same bytes that later sections replaced.
    pub(super) fn into_unused(self) -> Self {
        Self::new(Section::Unused, item::RECORD, self.offset, self.extent(), self.checksum)
    }

    /// Adds the bytes of the next section.
    pub(super) fn extend(&mut self, next: &Self) {
        self.length = self.extent() + next.length;
        self.checksum = crc32c::crc32c_combine(self.checksum, next.checksum, next.extent() as usize);
    }

    /// Whether a section has the same contents, wherever it is.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.kind, self.item, self.length, self.checksum)
            == (other.kind, other.item, other.length, other.checksum)
    }

    /// Bytes with the padding.
    pub(super) fn extent(&self) -> u64 {
        self.length + padding(self.length)
    }
}

/// The sections of a file, contiguous from the second page to the end.
#[derive(Debug)]
pub(super) struct Sections<S> {
    /// The bytes of the file.
    pub(super) source: S,
    pub(super) entries: Vec<Entry>,
    /// Bytes of the file.
    pub(super) size: u64,
}

impl<S: ReadAt> Sections<S> {
    /// Reads the table, and checks that the sections cover the file without gaps. Bytes after them are what an append
    /// left that was not finished: see [`super::append`].
    pub(super) fn open(source: S) -> Result<Self, FileFault> {
        let read = || {
            let size = source.size()?;
            Ok::<_, FileFault>((size, current_header(&source, size)?))
        };
        // A file that another process appends to may change during the first attempt.
        let (size, (entries, end)) = read().or_else(|_| read())?;
        let sections = Self { source, entries, size };
        sections.validate(end)?;
        Ok(sections)
    }

    fn validate(&self, file_bytes: u64) -> Result<(), FileFault> {
        let mut end = SECTION_ALIGN;
        for (i, entry) in self.entries.iter().enumerate() {
            let section = entry.section();
            let is_repeated = self.entries[..i].iter().any(|other| other.kind == entry.kind);
            if is_repeated && section != Section::Unused {
                return Err(FileFault::Header(format!("section `{section}` is repeated")));
            }
            if matches!(section, Section::Unknown(_)) && entry.flags & OPTIONAL == 0 {
                return Err(FileFault::UnknownSection(section));
            }
            // Bound the length before adding its padding, so that nothing overflows.
            if entry.offset != end || entry.length > file_bytes || entry.extent() > file_bytes - end {
                return Err(FileFault::Header(format!(
                    "section `{section}` ({} bytes from {}) should begin at {end} and end within {file_bytes}",
                    entry.length, entry.offset
                )));
            }
            end += entry.extent();
        }
        if end != file_bytes {
            return Err(FileFault::Header(format!("{} bytes belong to no section", file_bytes - end)));
        }
        Ok(())
    }

    /// Bytes of replaced sections, and of an append that was not finished.
    pub(super) fn unused_bytes(&self) -> u64 {
        self.size - file_bytes(&self.entries) + unused_bytes(&self.entries)
    }

    pub(super) fn find(&self, section: Section) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.section() == section)
    }

    pub(super) fn get(&self, section: Section) -> Result<&Entry, FileFault> {
        self.find(section).ok_or(FileFault::MissingSection(section))
    }

    /// Reads a section and verifies its checksum.
    pub(super) fn read(&self, section: Section) -> Result<Vec<u8>, FileFault> {
        let entry = self.get(section)?;
        // The table was checked against the size of the file, so this is at most the size of the file.
        let mut bytes = vec![0; entry.extent() as usize];
        self.source.read_exact_at(&mut bytes, entry.offset)?;
        if crc32c::crc32c(&bytes) != entry.checksum {
            return Err(FileFault::Damaged(section));
        }
        bytes.truncate(entry.length as usize);
        Ok(bytes)
    }

    /// [`Self::read`], as items.
    pub(super) fn items<I: Pod>(&self, section: Section) -> Result<Vec<I>, FileFault> {
        Ok(bytemuck::pod_collect_to_vec(&self.read(section)?))
    }
}

/// The entries of a header page, not validated, and the bytes of the header page and the sections.
type Table = (Vec<Entry>, u64);

/// Reads the first page or, if it was damaged while it was replaced, the copy of it that is then the last page.
fn current_header(source: &impl ReadAt, size: u64) -> Result<Table, FileFault> {
    read_header(source, size, 0).or_else(|fault| {
        let copy = size.saturating_sub(SECTION_ALIGN);
        let found = read_header(source, size, copy).ok();
        found.filter(|(_, end)| *end == copy).ok_or(fault)
    })
}

/// Reads the header page at `offset` of a file of `size` bytes.
fn read_header(source: &impl ReadAt, size: u64, offset: u64) -> Result<Table, FileFault> {
    let mut page = [0_u8; PAGE];
    source.read_exact_at(&mut page[..(size - offset).min(SECTION_ALIGN) as usize], offset)?;
    let (header, rest) = page.split_at(size_of::<Header>());
    let header: Header = bytemuck::pod_read_unaligned(header);
    if header.magic != MAGIC {
        return Err(FileFault::NotAnIndex);
    }
    if size < SECTION_ALIGN {
        return Err(FileFault::Length { claimed: SECTION_ALIGN, actual: size });
    }
    if header.version != FORMAT_VERSION {
        return Err(FileFault::Version(header.version));
    }
    if crc32c::crc32c(&page[..CHECKSUM_AT]).to_le_bytes() != page[CHECKSUM_AT..] {
        return Err(FileFault::Header("its checksum differs".into()));
    }
    if header.file_bytes > size {
        return Err(FileFault::Length { claimed: header.file_bytes, actual: size });
    }
    if header.file_bytes < SECTION_ALIGN {
        let problem = format!("a file of {} bytes, at least {SECTION_ALIGN} are needed", header.file_bytes);
        return Err(FileFault::Header(problem));
    }
    if header.sections as usize > MAX_SECTIONS {
        let problem = format!("{} sections, at most {MAX_SECTIONS} are allowed", header.sections);
        return Err(FileFault::Header(problem));
    }
    let table = &rest[..header.sections as usize * size_of::<Entry>()];
    Ok((bytemuck::pod_collect_to_vec(table), header.file_bytes))
}

/// Bytes of replaced sections.
pub(super) fn unused_bytes(entries: &[Entry]) -> u64 {
    entries.iter().filter(|entry| entry.section() == Section::Unused).map(Entry::extent).sum()
}

/// Size in bytes of a file of these sections.
pub(super) fn file_bytes(entries: &[Entry]) -> u64 {
    entries.last().map_or(SECTION_ALIGN, |last| last.offset + last.extent())
}

/// The header page of a file of these sections.
pub(super) fn header_page(entries: &[Entry]) -> [u8; PAGE] {
    debug_assert!(entries.len() <= MAX_SECTIONS);
    let mut page = [0; PAGE];
    let header = Header {
        magic: MAGIC,
        version: FORMAT_VERSION,
        sections: entries.len() as u32,
        file_bytes: file_bytes(entries),
        reserved: 0,
    };
    let (front, rest) = page.split_at_mut(size_of::<Header>());
    front.copy_from_slice(bytemuck::bytes_of(&header));
    let table: &[u8] = bytemuck::cast_slice(entries);
    rest[..table.len()].copy_from_slice(table);
    let checksum = crc32c::crc32c(&page[..CHECKSUM_AT]);
    page[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    page
}
