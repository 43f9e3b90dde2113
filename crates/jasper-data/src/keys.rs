//! Key files: the u64 key of each row of a vector file.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use jasper_core::Key;

use crate::atomic::AtomicFile;
use crate::error::{NpyError, ReadCause, ReadError};
use crate::npy;
use crate::read_at::{ReadAt, read_values};
use crate::write::WriteError;

/// Reads the key file `path`: text with one unsigned decimal per line, or a one-dimensional `npy` array of `<u8`.
///
/// # Errors
/// [`ReadError`] if a line is not a key, an array has another type or shape, or on an I/O error.
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
    read(&file, path)
}

/// Takes `bytes` for the content of a key file named `name`.
///
/// # Errors
/// As for [`read_keys`].
pub fn keys_from_bytes(name: impl AsRef<Path>, bytes: &[u8]) -> Result<Vec<Key>, ReadError> {
    read(&bytes, name.as_ref())
}

/// Writes the key file `path`: `npy` if that is its extension, else text.
///
/// # Errors
/// [`WriteError`] on an I/O error.
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
    let read = if is_npy(name) { read_npy(source) } else { read_text(source) };
    read.map_err(|cause| ReadError::new(name, cause))
}

fn read_npy(source: &impl ReadAt) -> Result<Vec<Key>, ReadCause> {
    let size = source.size()?;
    let npy::Header { descr, shape, first } = npy::Header::read(source, size)?;
    if descr != "<u8" {
        return Err(NpyError::Type { found: descr, known: "<u8 (numpy.uint64) for keys" }.into());
    }
    let &[claimed] = &shape[..] else {
        return Err(NpyError::Shape { found: shape.len(), wanted: "keys take one" }.into());
    };
    let (held, rest) = ((size - first) / 8, (size - first) % 8);
    if claimed != held || rest != 0 {
        return Err(ReadCause::Rows { claimed, held, rest });
    }
    read_values(source, first, held)
}

/// Bytes of text per read.
const CHUNK_BYTES: u64 = 1 << 16;

fn read_text(source: &impl ReadAt) -> Result<Vec<Key>, ReadCause> {
    let size = source.size()?;
    let mut text = Lines::default();
    let mut chunk = vec![0; size.min(CHUNK_BYTES) as usize];
    for offset in (0..size).step_by(CHUNK_BYTES as usize) {
        let bytes = &mut chunk[..(size - offset).min(CHUNK_BYTES) as usize];
        source.read_exact_at(bytes, offset)?;
        bytes.iter().try_for_each(|&byte| text.take(byte))?;
    }
    text.finish()
}

/// A parser of keys, byte by byte: memory does not depend on the length of a line.
#[derive(Default)]
struct Lines {
    keys: Vec<Key>,
    line: Line,
}

/// The state of the current line.
#[derive(Clone, Copy, Default)]
enum Line {
    /// Only blanks so far.
    #[default]
    Blank,
    /// Digits of a key.
    Digits(Key),
    /// A key followed by blanks.
    Done(Key),
}

impl Lines {
    fn take(&mut self, byte: u8) -> Result<(), ReadCause> {
        self.line = match (self.line, byte) {
            (Line::Blank, b'\n') => return Err(self.error("the line is empty")),
            (Line::Digits(key) | Line::Done(key), b'\n') => {
                self.keys.push(key);
                Line::Blank
            }
            (Line::Digits(key), byte) if byte.is_ascii_whitespace() => Line::Done(key),
            (line, byte) if byte.is_ascii_whitespace() => line,
            (Line::Done(_), _) => return Err(self.error("there is more than a key")),
            (Line::Blank, b'0'..=b'9') => Line::Digits(Key::from(byte - b'0')),
            (Line::Digits(key), b'0'..=b'9') => {
                let longer = key.checked_mul(10).and_then(|key| key.checked_add(Key::from(byte - b'0')));
                Line::Digits(longer.ok_or_else(|| self.error("the number is too large"))?)
            }
            _ => return Err(self.error("a byte is no digit")),
        };
        Ok(())
    }

    /// Ends the text. The last line may lack its line feed.
    fn finish(mut self) -> Result<Vec<Key>, ReadCause> {
        if let Line::Digits(key) | Line::Done(key) = self.line {
            self.keys.push(key);
        }
        Ok(self.keys)
    }

    fn error(&self, problem: &'static str) -> ReadCause {
        ReadCause::Key { line: self.keys.len() as u64 + 1, problem }
    }
}
