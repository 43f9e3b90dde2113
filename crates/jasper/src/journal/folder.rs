//! The files of a durable index, and how its folder is made.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jasper_data::{AtomicFile, FileLock, sync_folder};
use jasper_graph::{FileError, SaveStats, header_checksum};

use super::memory::Memory;
use super::store::Store;
use super::{JournalError, JournalFault};

pub(super) fn snapshot_name(number: u64) -> String {
    format!("index-{number}.jasper")
}

pub(super) fn snapshot_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(snapshot_name(number))
}

pub(super) fn store_path(folder: &Path) -> PathBuf {
    folder.join("journal.redb")
}

pub(super) fn acquire(folder: &Path) -> Result<FileLock, JournalFault> {
    FileLock::try_acquire(store_path(folder))?.ok_or(JournalFault::InUse)
}

/// Makes a durable index in `folder`, whose snapshot `save` writes. Removes what it made if it fails.
pub(crate) fn create(
    folder: &Path,
    save: impl FnOnce(&Path) -> Result<SaveStats, FileError>,
) -> Result<SaveStats, JournalError> {
    let create = || match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
        made => create_in(folder, save).inspect_err(|_| {
            if made.is_ok() {
                let _ = fs::remove_dir(folder);
            }
        }),
    };
    create().map_err(|fault| JournalError::new(folder, fault))
}

/// [`create`] in a folder that exists.
fn create_in(
    folder: &Path,
    save: impl FnOnce(&Path) -> Result<SaveStats, FileError>,
) -> Result<SaveStats, JournalFault> {
    let _lock = acquire(folder)?;
    find_obstacle(folder)?;
    let (log, snapshot) = (store_path(folder), snapshot_path(folder, 0));
    let create = || {
        File::create(&log)?;
        let saved = save(&snapshot)?;
        let mut file = AtomicFile::create(&log)?;
        file.write_all(&Store::create(header_checksum(&snapshot)?)?)?;
        file.commit().map_err(io::Error::from)?;
        // The name of the folder is an entry of its parent.
        sync_folder(fs::canonicalize(folder)?.parent().unwrap_or(folder))?;
        Ok(saved)
    };
    create().inspect_err(|_| {
        for path in [snapshot, log] {
            let _ = fs::remove_file(path);
        }
    })
}

/// Checks that a durable index can be made in `folder`, as far as what is there decides it: the folder need not exist,
/// and may be empty, or have what a process left that was killed while it made one. Hidden files do not count.
///
/// ```
/// use jasper::error::JournalFault;
/// use jasper::file::check_new_durable;
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// check_new_durable(folder)?;
/// std::fs::write(folder.join("notes"), "")?;
/// assert!(matches!(check_new_durable(folder).unwrap_err().cause(), JournalFault::NotEmpty));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`JournalError`].
pub fn check_new_durable(folder: impl AsRef<Path>) -> Result<(), JournalError> {
    let folder = folder.as_ref();
    find_obstacle(folder).map_err(|fault| JournalError::new(folder, fault))
}

fn find_obstacle(folder: &Path) -> Result<(), JournalFault> {
    if is_durable(folder) {
        return Err(JournalFault::Exists);
    }
    let log = store_path(folder);
    let unfinished = if log.is_file() { vec![snapshot_path(folder, 0), log] } else { Vec::new() };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(JournalFault::NotEmpty),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && !unfinished.contains(&entry.path()) {
            return Err(JournalFault::NotEmpty);
        }
    }
    Ok(())
}

/// Whether the path is the folder of a [durable index](crate::Index::save_durable).
///
/// ```
/// use jasper::file::is_durable;
/// use jasper::{ElementKind, IndexBuilder, Metric};
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path().join("vectors");
/// assert!(!is_durable(&folder));
/// IndexBuilder::new(Metric::L2).empty(ElementKind::U8, 2)?.save_durable(&folder)?;
/// assert!(is_durable(&folder));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn is_durable(path: impl AsRef<Path>) -> bool {
    // An empty one marks a folder that is not finished.
    fs::metadata(store_path(path.as_ref())).is_ok_and(|data| data.is_file() && data.len() > 0)
}

/// The contents of the folder of a [durable index](crate::Index::save_durable).
///
/// ```
/// use jasper::file::{DurableInfo, IndexInfo};
/// use jasper::{ElementKind, Index, IndexBuilder, Metric};
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path().join("vectors");
/// IndexBuilder::new(Metric::L2).empty(ElementKind::U8, 2)?.save_durable(&folder)?;
/// Index::open(&folder)?.insert(&[1_u8, 2], &[7])?;
///
/// let info = DurableInfo::read(&folder)?;
/// assert_eq!(info.changes, 1);
/// assert_eq!(IndexInfo::read(&info.snapshot)?.keys, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DurableInfo {
    /// The index file that the journal continues.
    pub snapshot: PathBuf,
    /// Number of changes in the journal.
    pub changes: usize,
}

impl DurableInfo {
    /// Reads the contents of `folder`, and changes nothing there. Cost: one pass over the journal, and memory for it.
    ///
    /// # Errors
    /// Returns [`JournalError`], also if the folder is in use.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self, JournalError> {
        let folder = check_durable(folder.as_ref())?;
        let read = || {
            let _lock = match acquire(folder) {
                Err(JournalFault::InUse) => return Err(JournalFault::InUse),
                // It may be where nothing can be written.
                lock => lock.ok(),
            };
            let store = Store::open_copy(Memory::read(&store_path(folder))?)?;
            let log = store.read()?;
            let number = log.snapshot.ok_or(JournalFault::NotDurable)?;
            Ok(Self { snapshot: snapshot_path(folder, number), changes: log.numbers()?.len() })
        };
        read().map_err(|fault| JournalError::new(folder, fault))
    }
}

/// The folder, if it may be that of a durable index.
pub(crate) fn check_durable(folder: &Path) -> Result<&Path, JournalError> {
    if is_durable(folder) { Ok(folder) } else { Err(JournalError::new(folder, JournalFault::NotDurable)) }
}

/// Removes the snapshots that a crash, or a failure, has left. They are only in the way, so errors are ignored.
pub(super) fn remove_other_snapshots(folder: &Path, number: u64) {
    let kept = snapshot_path(folder, number);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let number = name.strip_prefix("index-").and_then(|name| name.strip_suffix(".jasper"));
        if number.is_some_and(|number| number.parse::<u64>().is_ok()) && entry.path() != kept {
            let _ = fs::remove_file(entry.path());
        }
    }
}
