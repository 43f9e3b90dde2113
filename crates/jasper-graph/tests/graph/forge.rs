//! Correcting the checksums of a modified file, so that tests and fuzzers get past them.
//!
//! Uses the byte offsets of the book's page on the file format rather than the structures of the reader, as a
//! cross-check.

const PAGE: usize = 4096;

/// Corrects every checksum of `bytes` that the table describes.
pub fn seal(bytes: &mut [u8]) {
    if bytes.len() < PAGE {
        return;
    }
    let word =
        |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let long =
        |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let sections = word(bytes, 12).min(126) as usize;
    for entry in (0..sections).map(|i| 32 + 32 * i) {
        let (offset, length) = (long(bytes, entry + 16), long(bytes, entry + 24));
        let end = offset.checked_add(length).and_then(|end| end.checked_next_multiple_of(PAGE as u64));
        let Some(section) = end.and_then(|end| bytes.get(offset as usize..end as usize)) else { continue };
        let checksum = crc32c::crc32c(section);
        bytes[entry + 12..entry + 16].copy_from_slice(&checksum.to_le_bytes());
    }
    let checksum = crc32c::crc32c(&bytes[..PAGE - 4]);
    bytes[PAGE - 4..PAGE].copy_from_slice(&checksum.to_le_bytes());
}
