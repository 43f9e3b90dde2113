//! Key files: the u64 key of each row of a vector file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use jasper_core::Key;

use crate::atomic::AtomicFile;
use crate::error::{NpyError, ReadCause, ReadError, WriteError};
use crate::npy;
use crate::read_at::{ReadAt, read_values};

/// Reads the key file `path`: text with one unsigned decimal per line, or a one-dimensional `npy` array of `<u8`, or of
/// `<i8` without negative values. Empty lines and a byte-order mark are ignored. A pipe is read to its end.
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
    let failed = |error: io::Error| ReadError::new(path, error);
    let mut file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_file() {
        return read(&file, path);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    keys_from_bytes(path, &bytes)
}

/// Reads `bytes` as the content of a key file named `name`.
///
/// # Errors
/// Returns the errors of [`read_keys`].
pub fn keys_from_bytes(name: impl AsRef<Path>, bytes: &[u8]) -> Result<Vec<Key>, ReadError> {
    read(&bytes, name.as_ref())
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

fn read(source: &impl ReadAt, name: &Path) -> Result<Vec<Key>, ReadError> {
    // The name of a pipe says nothing.
    let mut start = [0; npy::MAGIC.len()];
    let is_npy = is_npy(name) || source.read_exact_at(&mut start, 0).is_ok() && start == *npy::MAGIC;
    let read = if is_npy { read_npy(source) } else { read_text(source) };
    read.map_err(|cause| ReadError::new(name, cause))
}

fn read_npy(source: &impl ReadAt) -> Result<Vec<Key>, ReadCause> {
    let size = source.size()?;
    let npy::Header { descr, shape, first } = npy::Header::read(source, size)?;
    let is_signed = descr == "<i8";
    if !is_signed && descr != "<u8" {
        return Err(NpyError::Type {
            found: descr,
            known: "<u8 or <i8 (numpy.uint64, numpy.int64) for keys",
        }
        .into());
    }
    let &[claimed] = &shape[..] else {
        return Err(NpyError::Shape { found: shape.len(), expected: "keys take one" }.into());
    };
    let (held, rest) = ((size - first) / 8, (size - first) % 8);
    if claimed != held || rest != 0 {
        return Err(ReadCause::Rows { claimed, held, rest });
    }
    let keys: Vec<Key> = read_values(source, first, held)?;
    match keys.iter().position(|&key| is_signed && key.cast_signed() < 0) {
        Some(row) => Err(ReadCause::NegativeKey { row, key: keys[row].cast_signed() }),
        None => Ok(keys),
    }
}

fn read_text(source: &impl ReadAt) -> Result<Vec<Key>, ReadCause> {
    let bytes: Vec<u8> = read_values(source, 0, source.size()?)?;
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    let lines = text.split(|&byte| byte == b'\n').zip(1..);
    let keys = lines
        .filter(|(line, _)| !line.trim_ascii().is_empty())
        .map(|(text, line)| parse_key(text).map_err(|problem| ReadCause::Key { line, problem }));
    keys.collect()
}

/// What some editors begin a text in UTF-8 with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Parses a line that holds one key between blanks.
fn parse_key(line: &[u8]) -> Result<Key, &'static str> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let word = words.next().ok_or("the line is empty")?;
    let mut key: Key = 0;
    for byte in word {
        if !byte.is_ascii_digit() {
            return Err("a byte is no digit");
        }
        let longer = key.checked_mul(10).and_then(|key| key.checked_add(Key::from(byte - b'0')));
        key = longer.ok_or("the number is too large")?;
    }
    if words.next().is_some() { Err("there is more than a key") } else { Ok(key) }
}
