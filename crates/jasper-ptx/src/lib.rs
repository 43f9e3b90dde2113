//! An archive of PTX kernels: each compressed by itself and found by its entry name.
//!
//! A library embeds hundreds of kernels and launches a few of them. [`Archive::write`] cuts a PTX file at its entries;
//! [`Archive::kernel`] decompresses one entry and returns a PTX module that holds nothing else.
//!
//! ```
//! use jasper_ptx::Archive;
//!
//! let ptx = ".version 8.0\n.target sm_80\n.visible .entry one()\n{\n\tret;\n}\n.visible .entry two()\n{\n\tret;\n}\n";
//! let bytes = Archive::write(ptx);
//! let archive = Archive::read(&bytes)?;
//! assert_eq!(archive.entries().collect::<Vec<_>>(), ["one", "two"]);
//! assert_eq!(archive.kernel("two")?, ".version 8.0\n.target sm_80\n.visible .entry two()\n{\n\tret;\n}\n");
//! # Ok::<(), jasper_ptx::ArchiveError>(())
//! ```
//!
//! # Format
//!
//! ```text
//! jasper-ptx 2
//! OFFSET COMPRESSED LENGTH ENTRY      one line per kernel, in the order of the PTX file
//!                                     an empty line
//! ...                                 the PTX file up to its first entry
//! 0x00                                one zero byte
//! ...                                 the kernels, each an lzip stream
//! ```
//!
//! OFFSET counts from behind the zero byte; COMPRESSED and LENGTH are the bytes of the stream and of its text. The lzip
//! format is LZMA with a checksum of each kernel. Equal PTX gives equal bytes.

#![forbid(unsafe_code)]

mod specialize;

use std::io::{self, Read, Write};

use lzma_rust2::{LzipOptions, LzipReader, LzipWriter};

pub use specialize::{cap_blocks, specialize};

/// First line of an archive: its format and version.
const MAGIC: &str = "jasper-ptx 2\n";
/// Beginning of an entry in a PTX file; its name and a parenthesis follow.
const ENTRY: &str = ".visible .entry ";
/// How far back a repetition is found, in bytes: more than the longest kernel has. Decompressing allocates as much.
const DICTIONARY: u32 = 512 << 10;

/// Kernels, each decompressed when it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Archive<'a> {
    index: &'a str,
    head: &'a str,
    streams: &'a [u8],
}

/// Why an archive does not give a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The bytes are no archive of this version.
    #[error("not an archive of PTX kernels, version 2")]
    Format,
    /// No kernel has this name.
    #[error("no kernel is called {entry}")]
    NoSuchKernel {
        /// The name.
        entry: String,
    },
    /// The bytes of a kernel are not those that were written.
    #[error("the kernel {entry} is damaged")]
    Damaged {
        /// Its name.
        entry: String,
    },
}

/// A PTX file up to its first entry, and the name and text of each kernel.
pub fn split(ptx: &str) -> (&str, Vec<(&str, &str)>) {
    let is_line = |&at: &usize| at == 0 || ptx.as_bytes()[at - 1] == b'\n';
    let starts: Vec<usize> = ptx.match_indices(ENTRY).map(|(at, _)| at).filter(is_line).collect();
    let ends = starts.iter().skip(1).copied().chain([ptx.len()]);
    let kernel = |(&start, end): (&usize, usize)| {
        let text = &ptx[start..end];
        (text[ENTRY.len()..].split('(').next().unwrap_or_default(), text)
    };
    (&ptx[..starts.first().copied().unwrap_or(ptx.len())], starts.iter().zip(ends).map(kernel).collect())
}

/// One line of the index.
struct Row<'a> {
    entry: &'a str,
    offset: usize,
    compressed: usize,
    length: usize,
}

impl<'a> Archive<'a> {
    /// Compresses the kernels of a PTX file.
    pub fn write(ptx: &str) -> Vec<u8> {
        let (head, kernels) = split(ptx);
        let (mut index, mut streams) = (MAGIC.to_owned(), Vec::new());
        for (entry, text) in kernels {
            let stream = compress(text).expect("a vector takes every byte");
            index += &format!("{} {} {} {entry}\n", streams.len(), stream.len(), text.len());
            streams.extend(stream);
        }
        [format!("{index}\n{head}\0").into_bytes(), streams].concat()
    }

    /// Reads the index.
    ///
    /// # Errors
    /// Returns [`ArchiveError::Format`].
    pub fn read(bytes: &'a [u8]) -> Result<Self, ArchiveError> {
        let zero = bytes.iter().position(|&byte| byte == 0).ok_or(ArchiveError::Format)?;
        let text = str::from_utf8(&bytes[..zero]).map_err(|_| ArchiveError::Format)?;
        let body = text.strip_prefix(MAGIC).ok_or(ArchiveError::Format)?;
        let split =
            if body.starts_with('\n') { 0 } else { body.find("\n\n").ok_or(ArchiveError::Format)? + 1 };
        let archive = Self { index: &body[..split], head: &body[split + 1..], streams: &bytes[zero + 1..] };
        if archive.index.lines().any(|line| Row::parse(line).is_none()) {
            return Err(ArchiveError::Format);
        }
        Ok(archive)
    }

    /// The PTX file up to its first entry: comments and directives.
    pub fn head(&self) -> &'a str {
        self.head
    }

    /// The names of the kernels, in the order of the PTX file.
    pub fn entries(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.rows().map(|row| row.entry)
    }

    /// A PTX module that holds the kernel `entry` only, without the comments of the file's head.
    ///
    /// # Errors
    /// Returns [`ArchiveError::NoSuchKernel`], [`ArchiveError::Damaged`].
    pub fn kernel(&self, entry: &str) -> Result<String, ArchiveError> {
        let row = self.rows().find(|row| row.entry == entry);
        let row = row.ok_or_else(|| ArchiveError::NoSuchKernel { entry: entry.to_owned() })?;
        let directives = self.head.lines().filter(|line| !line.starts_with("//"));
        let mut module: String = directives.flat_map(|line| [line, "\n"]).collect();
        module += &self.decompress(&row)?;
        Ok(module)
    }

    /// The PTX file that the archive was written from.
    ///
    /// # Errors
    /// Returns [`ArchiveError::Damaged`].
    pub fn ptx(&self) -> Result<String, ArchiveError> {
        let mut ptx = self.head.to_owned();
        for row in self.rows() {
            ptx += &self.decompress(&row)?;
        }
        Ok(ptx)
    }

    fn rows(&self) -> impl Iterator<Item = Row<'a>> + use<'a> {
        self.index.lines().filter_map(Row::parse)
    }

    fn decompress(&self, row: &Row<'_>) -> Result<String, ArchiveError> {
        let end = row.offset.checked_add(row.compressed);
        let text = end
            .and_then(|end| self.streams.get(row.offset..end))
            .and_then(|stream| io::read_to_string(LzipReader::new(stream).take(row.length as u64 + 1)).ok())
            .filter(|text| text.len() == row.length);
        text.ok_or_else(|| ArchiveError::Damaged { entry: row.entry.to_owned() })
    }
}

fn compress(text: &str) -> io::Result<Vec<u8>> {
    let mut options = LzipOptions::with_preset(9);
    options.lzma_options.dict_size = DICTIONARY;
    let mut writer = LzipWriter::new(Vec::new(), options);
    writer.write_all(text.as_bytes())?;
    writer.finish()
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut number = || words.next()?.parse().ok();
        let (offset, compressed, length) = (number()?, number()?, number()?);
        Some(Self { offset, compressed, length, entry: words.next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "// source: 7 lib.rs\n.version 8.0\n\n";
    const SORT_10: &str = ".visible .entry sort_10()\n{\n\tten;\n}\n\n";
    const SORT_1: &str = ".visible .entry sort_1(\n)\n{\n\t// .visible .entry no()\n\tone;\n}\n";

    fn bytes() -> Vec<u8> {
        Archive::write(&[HEAD, SORT_10, SORT_1].concat())
    }

    #[test]
    fn a_file_is_read_back() {
        let bytes = bytes();
        let archive = Archive::read(&bytes).unwrap();
        assert_eq!(archive.head(), HEAD);
        assert_eq!(archive.entries().collect::<Vec<_>>(), ["sort_10", "sort_1"]);
        assert_eq!(archive.ptx().unwrap(), [HEAD, SORT_10, SORT_1].concat());
        assert_eq!(archive.kernel("sort_1").unwrap(), [".version 8.0\n\n", SORT_1].concat());
        assert_eq!(archive.kernel("sort"), Err(ArchiveError::NoSuchKernel { entry: "sort".into() }));
        assert_eq!(Archive::write(&archive.ptx().unwrap()), bytes);
    }

    #[test]
    fn a_file_without_kernels_is_an_archive_too() {
        for head in ["", "\n\n.version 8.0\n"] {
            let bytes = Archive::write(head);
            let archive = Archive::read(&bytes).unwrap();
            assert_eq!((archive.head(), archive.entries().count()), (head, 0));
        }
    }

    #[test]
    fn damage_is_an_error() {
        let whole = bytes();
        let start = whole.iter().position(|&byte| byte == 0).unwrap() + 1;
        for at in start..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            let archive = Archive::read(&bytes).unwrap();
            // Some bits of a stream mean nothing, such as those that fill up its end.
            let text = archive.ptx();
            assert!(text.is_err() || text == Archive::read(&whole).unwrap().ptx(), "byte {at}");
        }
        for length in 0..whole.len() {
            let read = Archive::read(&whole[..length]).and_then(|archive| archive.ptx());
            assert!(read.is_err(), "{length} bytes");
        }
        for bad in ["jasper-ptx 1\n\n\0", "jasper-ptx 2\n0 1 sort\n\n\0", "\0"] {
            assert_eq!(Archive::read(bad.as_bytes()).unwrap_err(), ArchiveError::Format, "{bad:?}");
        }
    }
}
