//! How an index is stored in the file system.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::inner::{is_sharded, shard_files};
use crate::journal::{self, DurableInfo};

/// An index in the file system: a file, the folder of a [sharded index](crate::IndexBuilder::shards), or the folder of
/// a [durable index](crate::Index::save_durable).
///
/// ```
/// use jasper::{ElementKind, Index, IndexBuilder, IndexInfo, Metric, StoredIndex};
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path().join("vectors");
/// assert!(!StoredIndex::is_durable(&folder));
/// IndexBuilder::new(Metric::L2).empty(ElementKind::U8, 2)?.save_durable(&folder)?;
/// Index::open(&folder)?.insert(&[1_u8, 2], &[7])?;
///
/// assert!(StoredIndex::is_durable(&folder));
/// let stored = StoredIndex::read(&folder)?;
/// assert_eq!(stored.changes, Some(1));
/// assert_eq!(IndexInfo::read(&stored.files[0])?.keys, 0); // The insert is in the journal.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredIndex {
    /// The index file, or one file per shard, in their order. Of a durable index, those of its last snapshot.
    pub files: Vec<PathBuf>,
    /// Number of changes in the journal, which the files lack. `None` if the index is not durable.
    pub changes: Option<usize>,
}

impl StoredIndex {
    /// Finds the files of the index at `path`, and changes nothing there. Another process may be changing a durable
    /// index. A path that is no folder is the only file, and is not read: [`IndexInfo`](crate::IndexInfo) reads it.
    ///
    /// Reads the manifest of a sharded index, and the journal of a durable one once.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::InvalidFile`](crate::ErrorKind::InvalidFile) if a file is missing, or is not the one
    /// that was saved with the others.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (snapshot, changes) = if Self::is_durable(path) {
            let DurableInfo { snapshot, changes } = DurableInfo::read(path)?;
            (snapshot, Some(changes))
        } else {
            (path.to_owned(), None)
        };
        let files = if is_sharded(&snapshot) { shard_files(&snapshot)? } else { vec![snapshot] };
        Ok(Self { files, changes })
    }

    /// Whether the path is the folder of a [durable index](crate::Index::save_durable).
    pub fn is_durable(path: impl AsRef<Path>) -> bool {
        journal::is_durable(path.as_ref())
    }

    /// Whether the path is the folder of a [sharded index](crate::IndexBuilder::shards) that is not durable.
    pub fn is_sharded(path: impl AsRef<Path>) -> bool {
        is_sharded(path.as_ref())
    }

    /// Checks that [`Index::save_durable`](crate::Index::save_durable) can write to `folder`, as far as what is there
    /// decides it: the folder need not exist, and may be empty, or have what a process left that was killed while it
    /// wrote there. Hidden files do not count.
    ///
    /// ```
    /// use jasper::StoredIndex;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path();
    /// StoredIndex::check_new_durable(folder)?;
    /// std::fs::write(folder.join("notes"), "")?;
    /// assert!(StoredIndex::check_new_durable(folder).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails with [`ErrorKind::AlreadyExists`](crate::ErrorKind::AlreadyExists) if the folder has a durable index or
    /// other files.
    pub fn check_new_durable(folder: impl AsRef<Path>) -> Result<()> {
        Ok(journal::check_new_durable(folder.as_ref())?)
    }
}
