//! Files that are replaced as a whole or not at all.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

use tempfile::TempPath;

use crate::temporary::{Registration, create_temporary, follow_link, remove_stale};

/// A buffered writer that replaces a file atomically.
///
/// Bytes go to a temporary file in the same folder. [`Self::commit`] syncs it and renames it over the target; dropping
/// it before that removes it and leaves the target untouched. A reader sees either the old or the new content, never a
/// part, even after a crash. The temporary file of a process that was killed is removed when the next file is written to
/// the folder; [`remove_temporary_files`](crate::remove_temporary_files) is for processes that end in another way.
///
/// A symbolic link is followed: the file it points to is replaced, the link stays. The new file has the permissions,
/// the group and, if the process may set it, the owner of the one it replaces; or those of any new file of the process.
/// A read-only file is not replaced, and nothing but files is.
///
/// ```
/// use std::io::Write;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("notes");
/// std::fs::write(&path, "old")?;
/// let mut file = jasper_data::AtomicFile::create(&path)?;
/// file.write_all(b"new")?;
/// assert_eq!(std::fs::read(&path)?, b"old");
/// file.commit()?;
/// assert_eq!(std::fs::read(&path)?, b"new");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    /// The path of the temporary file, which is removed with it.
    temporary: TempPath,
    writer: BufWriter<File>,
    /// Dropped after the file is removed.
    registration: Registration,
    target: PathBuf,
    /// Bytes written since the last call of the flusher.
    unsynced: usize,
    /// Starts with the first [`FLUSH_BYTES`].
    flusher: Option<Flusher>,
}

/// After this many bytes, writing to the disk begins, so that [`AtomicFile::commit`] need not wait for all of it.
const FLUSH_BYTES: usize = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// A thread that syncs a file while it is being written.
#[derive(Debug)]
struct Flusher {
    calls: SyncSender<()>,
    /// The result must be looked at: the system reports an error of the disk once, not at every later sync.
    thread: JoinHandle<io::Result<()>>,
}

impl Flusher {
    fn new(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        let (calls, queue) = mpsc::sync_channel(1);
        let sync = move || queue.into_iter().try_for_each(|()| file.sync_data());
        Ok(Self { calls, thread: thread::Builder::new().spawn(sync)? })
    }

    /// Waits for the last sync, and returns the first error.
    fn finish(self) -> io::Result<()> {
        drop(self.calls);
        self.thread.join().expect("the flusher does not panic")
    }
}

/// An [`AtomicFile`] was not committed, or may not survive a power cut.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The file could not be written or renamed. The old file is still there.
    #[error("cannot write the file; the old one is untouched")]
    Write(#[source] io::Error),
    /// The new file is in place, but the rename could not be synced to disk.
    #[error("the file is written, but a power cut could undo it: its folder cannot be synced")]
    SyncFolder(#[source] io::Error),
}

impl From<CommitError> for io::Error {
    /// The operating system's error.
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Write(source) | CommitError::SyncFolder(source) => source,
        }
    }
}

impl AtomicFile {
    /// Starts writing a replacement for `path`.
    ///
    /// # Errors
    /// Returns the operating system's error, or an error of its kinds: the folder must exist and be writable, and what
    /// is at `path` must be a file that may be written to.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let target = follow_link(path.as_ref());
        let old = match fs::metadata(&target) {
            Ok(data) => Some(replaceable(data, &target)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let (registration, file) = create_temporary(folder(&target))?;
        let (file, temporary) = file.into_parts();
        if let Some(old) = old {
            inherit(&old, &file)?;
        }
        let writer = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { temporary, writer, registration, target, unsynced: 0, flusher: None })
    }

    /// Flushes and syncs the file, renames it over the target, and syncs the folder.
    ///
    /// # Errors
    /// Returns [`CommitError`], which says whether the target was replaced.
    pub fn commit(self) -> Result<(), CommitError> {
        let Self { temporary, writer, registration, target, flusher, .. } = self;
        let rename = || {
            let file = writer.into_inner()?;
            flusher.map_or(Ok(()), Flusher::finish)?;
            file.sync_all()?;
            // While the file is open, and therefore locked.
            Ok(temporary.persist(&target)?)
        };
        rename().map_err(CommitError::Write)?;
        drop(registration);
        sync_folder(folder(&target)).map_err(CommitError::SyncFolder)
    }

    /// Removes the file `path`, and the temporary files that killed processes left beside it. It is not an error if
    /// there is no such file.
    ///
    /// # Errors
    /// Returns the operating system's error.
    pub fn remove(path: impl AsRef<Path>) -> io::Result<()> {
        remove_stale(folder(path.as_ref()));
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the metadata of what is at `target` if it may be replaced.
fn replaceable(old: Metadata, target: &Path) -> io::Result<Metadata> {
    let refused = |kind, reason| Err(io::Error::new(kind, reason));
    if old.is_dir() {
        return refused(io::ErrorKind::IsADirectory, "is a directory");
    }
    if !old.is_file() {
        return refused(io::ErrorKind::InvalidInput, "is a pipe or a device; write to a file");
    }
    // Some users, such as root, may open a read-only file.
    if old.permissions().readonly() {
        return refused(io::ErrorKind::PermissionDenied, "is read-only");
    }
    OpenOptions::new().write(true).open(target)?;
    Ok(old)
}

/// Gives a new file the owner, group and permissions of the old one. The owner, and a group that the user is not in,
/// stay as they are if the system does not allow setting them.
#[cfg(unix)]
fn inherit(old: &Metadata, new: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let data = new.metadata()?;
    if old.gid() != data.gid() {
        let _ = fchown(new, None, Some(old.gid()));
    }
    if old.uid() != data.uid() {
        let _ = fchown(new, Some(old.uid()), None);
    }
    // Last, because a change of the owner clears some permissions.
    new.set_permissions(old.permissions())
}

#[cfg(not(unix))]
fn inherit(_: &Metadata, _: &File) -> io::Result<()> {
    Ok(())
}

/// Makes new names in a folder durable: they are entries of the folder, which is synced on its own.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// std::fs::create_dir(folder.path().join("vectors"))?;
/// jasper_data::sync_folder(folder.path())?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Of the system.
#[cfg(unix)]
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Other systems cannot open a folder.
#[cfg(not(unix))]
pub fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.unsynced += written;
        if self.unsynced >= FLUSH_BYTES {
            self.unsynced = 0;
            let flusher = match self.flusher.take() {
                Some(flusher) => flusher,
                None => Flusher::new(self.writer.get_ref())?,
            };
            // If it is busy, or failed, which `commit` reports, another call would not help.
            let _ = self.flusher.insert(flusher).calls.try_send(());
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.writer.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_it_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(&[0; 1 << 20]).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        drop(file);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_large_file_is_synced_while_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let content: Vec<u8> = (0..5 * FLUSH_BYTES + 7).map(|i| (i % 251) as u8).collect();
        let mut file = AtomicFile::create(&path).unwrap();
        for (i, bytes) in content.chunks(FLUSH_BYTES / 2).enumerate() {
            file.write_all(bytes).unwrap();
            assert_eq!(file.flusher.is_some(), i > 0);
        }
        file.commit().unwrap();
        assert!(fs::read(&path).unwrap() == content);
    }

    /// A device that cannot be synced stands for a disk that fails.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_error_of_an_early_sync_is_returned() {
        let flusher = Flusher::new(&File::open("/dev/null").unwrap()).unwrap();
        flusher.calls.send(()).unwrap();
        flusher.finish().unwrap_err();
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = AtomicFile::create(folder.path().join("none/file")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_folder_at_the_target_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        let error = AtomicFile::create(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_keeps_its_owner_and_permissions() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        // Only some users, such as root, may give files away.
        let is_given = chown(&path, Some(12_345), Some(12_345)).is_ok();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        AtomicFile::create(&path).unwrap().commit().unwrap();
        let data = path.metadata().unwrap();
        assert_eq!(data.mode() & 0o7777, 0o640);
        assert!(!is_given || (data.uid(), data.gid()) == (12_345, 12_345));

        fs::set_permissions(&path, PermissionsExt::from_mode(0o440)).unwrap();
        let error = AtomicFile::create(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[cfg(unix)]
    #[test]
    fn new_files_have_the_permissions_of_the_mask() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| folder.path().join(name).metadata().unwrap().permissions().mode();
        AtomicFile::create(folder.path().join("ours")).unwrap().commit().unwrap();
        File::create(folder.path().join("plain")).unwrap();
        assert_eq!(mode("ours"), mode("plain"));
    }
}
