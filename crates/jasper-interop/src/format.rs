//! The formats of graph files, and how files of each are recognized.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use jasper_data::open_file;

use crate::{diskann, faiss, hnswlib};

/// The format of a graph file of another library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GraphFormat {
    /// The in-memory graph of DiskANN: see [`diskann`].
    Diskann,
    /// The index of hnswlib: see [`hnswlib`].
    Hnswlib,
    /// The HNSW index of faiss: see [`faiss`].
    Faiss,
    /// The graph of ParlayANN: see [`parlay`](crate::parlay).
    Parlayann,
}

/// First bytes of a file, from which [`GraphFormat::of`] recognizes it.
const START_BYTES: u64 = 128;

impl GraphFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Diskann, Self::Hnswlib, Self::Faiss, Self::Parlayann];

    /// Returns the name on command lines, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Diskann => "diskann",
            Self::Hnswlib => "hnswlib",
            Self::Faiss => "faiss",
            Self::Parlayann => "parlayann",
        }
    }

    /// Whether files of this format hold the vectors too.
    pub const fn has_vectors(self) -> bool {
        matches!(self, Self::Hnswlib | Self::Faiss)
    }

    /// Returns the format of a file, by its content; `None` if it is none of these, or of ParlayANN, whose files have no
    /// mark.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn of_file(path: impl AsRef<Path>) -> io::Result<Option<Self>> {
        let file = open_file(path.as_ref())?;
        let (size, mut start) = (file.metadata()?.len(), Vec::new());
        file.take(START_BYTES).read_to_end(&mut start)?;
        Ok(Self::of(&start, size))
    }

    /// Returns the format of a file of `size` bytes that begins with `start`, as [`Self::of_file`] does. 128 bytes are
    /// enough.
    pub fn of(start: &[u8], size: u64) -> Option<Self> {
        if diskann::is_graph(start, size) {
            Some(Self::Diskann)
        } else if hnswlib::is_graph(start, size) {
            Some(Self::Hnswlib)
        } else {
            faiss::is_graph(start).then_some(Self::Faiss)
        }
    }
}

impl fmt::Display for GraphFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No graph format has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown graph format `{0}`; use diskann, hnswlib, faiss or parlayann")]
pub struct ParseGraphFormatError(String);

impl FromStr for GraphFormat {
    type Err = ParseGraphFormatError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|format| format.name() == name);
        named.ok_or_else(|| ParseGraphFormatError(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for format in GraphFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert!("nmslib".parse::<GraphFormat>().unwrap_err().to_string().contains("use diskann, hnswlib"));
    }
}
