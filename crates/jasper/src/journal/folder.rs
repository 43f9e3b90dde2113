//! The files of a durable index, and how its folder is made.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jasper_data::{FileLock, sync_folder};
use jasper_graph::{FileError, SaveStats, header_checksum};

use super::log::Log;
use super::segment::{Beginning, Folder, Segments, has_content, invalid, segment_path};
use super::store::{SnapshotId, Writer};
use super::{JournalError, JournalFault, legacy};
use crate::inner::{is_sharded, manifest_checksum, remove_manifest, shard_files};

pub(super) fn snapshot_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("index-{number}.jasper"))
}

/// The checksum of the header of a snapshot, or of the manifest of its shards.
pub(super) fn snapshot_checksum(path: &Path) -> Result<u32, FileError> {
    if is_sharded(path) { manifest_checksum(path) } else { header_checksum(path) }
}

pub(super) fn snapshot_bytes(path: &Path) -> Result<u64, JournalFault> {
    let files = if is_sharded(path) { shard_files(path)? } else { vec![path.to_owned()] };
    let bytes = files.iter().map(|file| Ok(fs::metadata(file)?.len())).sum::<io::Result<u64>>();
    Ok(bytes?)
}

/// The last snapshot that the log names and that is there. One that is gone was removed because it could not be named
/// for sure: the log has all changes since the one before it, or else a file is missing.
pub(super) fn find_snapshot(folder: &Path, log: &Log) -> io::Result<SnapshotId> {
    let is_there = |snapshot: &&SnapshotId| {
        let path = snapshot_path(folder, snapshot.number);
        path.is_file() || is_sharded(&path)
    };
    let named = log.snapshots();
    let found = named.iter().rfind(is_there).filter(|&&found| log.is_whole_since(found));
    found.or(named.last()).copied().ok_or_else(|| invalid("the log names no snapshot"))
}

/// The path of a snapshot, after a check that it is the one that the log continues.
pub(super) fn check_snapshot(folder: &Path, snapshot: SnapshotId) -> Result<PathBuf, JournalFault> {
    let path = snapshot_path(folder, snapshot.number);
    match snapshot.checksum {
        Some(checksum) if snapshot_checksum(&path)? != checksum => {
            let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
            Err(JournalFault::OtherSnapshot(name))
        }
        _ => Ok(path),
    }
}

fn legacy_path(folder: &Path) -> PathBuf {
    folder.join("journal.redb")
}

/// Whether there is a segment that is not empty.
fn has_segments(folder: &Path) -> bool {
    let segments = Folder(folder.to_owned()).list().unwrap_or_default();
    segments.iter().any(|&number| has_content(&segment_path(folder, number)))
}

/// The log of an earlier release, if the folder has no other.
pub(super) fn legacy_log(folder: &Path) -> Option<PathBuf> {
    Some(legacy_path(folder)).filter(|path| has_content(path) && !has_segments(folder))
}

/// Removes the log of an earlier release, which a segment has replaced. It is only in the way, so errors are ignored.
pub(super) fn remove_legacy_log(folder: &Path) {
    let _ = fs::remove_file(legacy_path(folder));
}

/// The lock of those who change the folder, and that of earlier releases if the log is theirs.
#[derive(Debug)]
pub(super) struct Locks {
    _lock: FileLock,
    _legacy: Option<FileLock>,
}

/// Locks the folder.
pub(super) fn acquire(folder: &Path) -> Result<Locks, JournalFault> {
    let acquire = |path: PathBuf| FileLock::try_acquire(path)?.ok_or(JournalFault::InUse);
    let lock = acquire(folder.join("journal"))?;
    let legacy = has_content(&legacy_path(folder)).then(|| acquire(legacy_path(folder))).transpose()?;
    Ok(Locks { _lock: lock, _legacy: legacy })
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
    let (log, snapshot) = (segment_path(folder, 0), snapshot_path(folder, 0));
    let create = || {
        File::create(&log)?;
        // That of a process that was killed.
        remove_snapshot(&snapshot);
        let saved = save(&snapshot)?;
        let checksum = Some(snapshot_checksum(&snapshot)?);
        let mut writer = Writer::new(0, Folder(folder.to_owned()).create(0)?);
        writer.begin(Beginning::default(), SnapshotId { number: 0, checksum })?;
        writer.finish(0)?;
        // The name of the folder is an entry of its parent.
        sync_folder(fs::canonicalize(folder)?.parent().unwrap_or(folder))?;
        Ok(saved)
    };
    create().inspect_err(|_| {
        // In this order, so that the log names no snapshot that is gone, and marks the folder until nothing else is there.
        if File::create(&log).and_then(|log| log.sync_all()).is_ok() {
            remove_snapshot(&snapshot);
            let _ = fs::remove_file(&log);
        }
    })
}

/// Checks that a durable index can be made in `folder`, as far as what is there decides it.
pub(crate) fn check_new_durable(folder: &Path) -> Result<(), JournalError> {
    find_obstacle(folder).map_err(|fault| JournalError::new(folder, fault))
}

fn find_obstacle(folder: &Path) -> Result<(), JournalFault> {
    if is_durable(folder) {
        return Err(JournalFault::Exists);
    }
    let mut unfinished = vec![segment_path(folder, 0), legacy_path(folder)];
    unfinished.retain(|log| log.is_file());
    if !unfinished.is_empty() {
        unfinished.push(snapshot_path(folder, 0));
    }
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
pub(crate) fn is_durable(path: &Path) -> bool {
    has_segments(path) || has_content(&legacy_path(path))
}

/// The contents of the folder of a durable index.
pub(crate) struct DurableInfo {
    /// The index file that the journal continues, or the folder of those of the shards.
    pub(crate) snapshot: PathBuf,
    /// Number of changes in the journal.
    pub(crate) changes: usize,
}

impl DurableInfo {
    /// Reads the contents of `folder`.
    pub(crate) fn read(folder: &Path) -> Result<Self, JournalError> {
        let folder = check_durable(folder)?;
        let read = || -> Result<Self, JournalFault> {
            let mut segments: Arc<dyn Segments> = Arc::new(Folder(folder.to_owned()));
            if let Some(path) = legacy_log(folder) {
                segments = Arc::new(legacy::read(&path)?);
            }
            // Another process may be writing to its end.
            let mut log = Log::new(segments);
            log.read_on()?;
            let number = find_snapshot(folder, &log)?.number;
            log.remove_below(number);
            Ok(Self { snapshot: snapshot_path(folder, number), changes: log.numbers().len() })
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
            remove_snapshot(&entry.path());
        }
    }
}

/// Removes a snapshot, if it is there.
pub(super) fn remove_snapshot(path: &Path) {
    remove_manifest(path);
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}
