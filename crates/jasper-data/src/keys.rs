//! Key files: the u64 key of each row of a vector file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use jasper_core::Key;

use crate::atomic::AtomicFile;
use crate::error::{NpyError, ReadCause, ReadError, WriteError};
use crate::npy;

/// Reads the key file `path`: text with one unsigned decimal per line, or a one-dimensional `npy` array of `<u8`, or of
/// `<i8` without negative values. Empty lines and a byte-order mark are ignored. The file may be a pipe or a device: it is
/// read in order, and no further than to the first line that is not a key.
///
/// # Errors
/// Returns [`ReadError`] if a line is not a key, an array has another type or shape, or on an I/O error.
///
/// ```
/// use jasper_data::{read_keys, write_keys};
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("keys.txt");
/// write_keys(&path, &[1, 18446744073709551615])?;
/// assert_eq!(std::fs::read_to_string(&path)?, "1\n18446744073709551615\n");
/// assert_eq!(read_keys(&path)?, [1, u64::MAX]);
/// std::fs::write(&path, "1\ntwo\n")?;
/// let error = read_keys(&path).unwrap_err().to_string();
/// assert!(error.ends_with("line 2: a byte is no digit; a key is one unsigned decimal below 2^64"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_keys(path: impl AsRef<Path>) -> Result<Vec<Key>, ReadError> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|error| ReadError::new(path, error))?;
    read(file, path)
}

/// Reads `bytes` as the content of a key file named `name`.
///
/// # Errors
/// Returns the errors of [`read_keys`].
pub fn keys_from_bytes(name: impl AsRef<Path>, bytes: &[u8]) -> Result<Vec<Key>, ReadError> {
    read(bytes, name.as_ref())
}

/// Writes the key file `path`: `npy` if that is its extension, else text.
///
/// # Errors
/// Returns [`WriteError`] on an I/O error.
pub fn write_keys(path: impl AsRef<Path>, keys: &[Key]) -> Result<(), WriteError> {
    let path = path.as_ref();
    let write = || {
        let mut file = AtomicFile::create(path)?;
        if is_npy(path) {
            file.write_all(&npy::Header::write("<u8", &[keys.len()]))?;
            file.write_all(bytemuck::cast_slice(keys))?;
        } else {
            keys.iter().try_for_each(|key| writeln!(file, "{key}"))?;
        }
        Ok(file.commit()?)
    };
    write().map_err(|error: io::Error| WriteError::new(path, error))
}

fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"))
}

fn read(mut source: impl Read, name: &Path) -> Result<Vec<Key>, ReadError> {
    let read = || {
        let mut start = Vec::new();
        source.by_ref().take(npy::MAX_HEADER_BYTES).read_to_end(&mut start)?;
        // The name of a pipe says nothing.
        if is_npy(name) || start.starts_with(npy::MAGIC) {
            let header = npy::Header::read(&&start[..], start.len() as u64)?;
            read_npy(&header, start[header.first as usize..].chain(source))
        } else {
            let text = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&start);
            read_text(text.chain(source))
        }
    };
    read().map_err(|cause| ReadError::new(name, cause))
}

/// Reads the values after the header.
fn read_npy(header: &npy::Header, source: impl Read) -> Result<Vec<Key>, ReadCause> {
    let npy::Header { descr, shape, .. } = header;
    let is_signed = descr == "<i8";
    if !is_signed && descr != "<u8" {
        return Err(NpyError::Type {
            found: descr.clone(),
            known: "<u8 or <i8 (numpy.uint64, numpy.int64) for keys",
        }
        .into());
    }
    let &[claimed] = &shape[..] else {
        return Err(NpyError::Shape { found: shape.len(), expected: "keys take one" }.into());
    };
    let (mut keys, mut rest) = (Vec::new(), 0);
    for_each_chunk(source, |chunk| {
        let (values, end) = chunk.as_chunks();
        reserve(&mut keys, values.len())?;
        keys.extend(values.iter().map(|&value| Key::from_le_bytes(value)));
        rest = end.len() as u64;
        Ok(())
    })?;
    let held = keys.len() as u64;
    if claimed != held || rest != 0 {
        return Err(ReadCause::Rows { claimed, held, rest });
    }
    match keys.iter().position(|&key| is_signed && key.cast_signed() < 0) {
        Some(row) => Err(ReadCause::NegativeKey { row, key: keys[row].cast_signed() }),
        None => Ok(keys),
    }
}

/// What some editors begin a text in UTF-8 with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads lines that hold at most one key each, between blanks.
fn read_text(source: impl Read) -> Result<Vec<Key>, ReadCause> {
    let (mut keys, mut line) = (Vec::new(), 1);
    // The digits of this line so far, and whether a blank ended them.
    let (mut key, mut is_ended) = (None::<Key>, false);
    for_each_chunk(source, |chunk| {
        // Of a digit and the end of its line each.
        reserve(&mut keys, chunk.len() / 2 + 1)?;
        for &byte in chunk {
            match byte {
                b'\n' => {
                    keys.extend(key.take());
                    (line, is_ended) = (line + 1, false);
                }
                _ if byte.is_ascii_whitespace() => is_ended = key.is_some(),
                _ if is_ended => return Err(ReadCause::Key { line, problem: "there is more than a key" }),
                b'0'..=b'9' => {
                    let longer = key.unwrap_or(0).checked_mul(10);
                    key = longer.and_then(|key| key.checked_add(Key::from(byte - b'0')));
                    if key.is_none() {
                        return Err(ReadCause::Key { line, problem: "the number is too large" });
                    }
                }
                _ => return Err(ReadCause::Key { line, problem: "a byte is no digit" }),
            }
        }
        Ok(())
    })?;
    keys.extend(key);
    Ok(keys)
}

/// Bytes read at a time: a multiple of those of a key.
const CHUNK_BYTES: usize = 1 << 16;

/// Calls `read` with all bytes of `source`, in chunks of [`CHUNK_BYTES`], of which only the last may have fewer.
fn for_each_chunk(
    mut source: impl Read,
    mut read: impl FnMut(&[u8]) -> Result<(), ReadCause>,
) -> Result<(), ReadCause> {
    let mut chunk = Vec::new();
    loop {
        chunk.clear();
        source.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk)?;
        if chunk.is_empty() {
            return Ok(());
        }
        read(&chunk)?;
    }
}

/// Makes room for `more` keys.
fn reserve(keys: &mut Vec<Key>, more: usize) -> Result<(), ReadCause> {
    let bytes = ((keys.len() + more) * size_of::<Key>()) as u64;
    keys.try_reserve(more).map_err(|_| ReadCause::Memory { bytes })
}
