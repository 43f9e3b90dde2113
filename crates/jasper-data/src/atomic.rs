//! Files that are replaced as a whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

use tempfile::NamedTempFile;

/// A buffered writer that replaces a file atomically.
///
/// Bytes go to a temporary file in the same folder. [`Self::commit`] syncs it and renames it over the target; dropping
/// it before that removes it and leaves the target untouched. A reader sees either the old or the new content, never a
/// part, even after a crash.
///
/// A symbolic link is followed: the file it points to is replaced, the link stays. The new file has the permissions of
/// the one it replaces, or those of any new file of the process.
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
    writer: BufWriter<NamedTempFile>,
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
    /// Starts writing a replacement for `path`, under a temporary name of its own.
    ///
    /// # Errors
    /// Returns the operating system's error. The folder must exist and be writable.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".jasper-").suffix(".tmp");
        Self::new(follow_link(path.as_ref()), builder)
    }

    /// Starts writing as [`create`](Self::create) does, under the temporary name `.NAME.tmp`. A file that a killed
    /// process left there is overwritten, so a file that is written repeatedly leaves at most one temporary file. Only
    /// one process may write `path` at a time.
    ///
    /// # Errors
    /// Returns the errors of [`create`](Self::create).
    pub fn create_with_fixed_name(path: impl AsRef<Path>) -> io::Result<Self> {
        let target = follow_link(path.as_ref());
        let temporary = fixed_name(&target);
        // If it cannot be removed, creating it below fails and says why.
        let _ = fs::remove_file(&temporary);
        let mut builder = tempfile::Builder::new();
        builder.prefix(temporary.file_name().unwrap_or_default()).rand_bytes(0);
        Self::new(target, builder)
    }

    fn new(target: PathBuf, mut builder: tempfile::Builder<'_, '_>) -> io::Result<Self> {
        // By default a temporary file is readable by its owner alone.
        #[cfg(unix)]
        builder.permissions(permissions(&target));
        let writer = BufWriter::with_capacity(1 << 18, builder.tempfile_in(folder(&target))?);
        Ok(Self { writer, target, unsynced: 0, flusher: None })
    }

    /// Flushes and syncs the file, renames it over the target, and syncs the folder.
    ///
    /// # Errors
    /// Returns [`CommitError`], which says whether the target was replaced.
    pub fn commit(self) -> Result<(), CommitError> {
        let rename = || {
            let file = self.writer.into_inner()?;
            self.flusher.map_or(Ok(()), Flusher::finish)?;
            file.as_file().sync_all()?;
            file.persist(&self.target)?;
            Ok(())
        };
        rename().map_err(CommitError::Write)?;
        sync_folder(folder(&self.target)).map_err(CommitError::SyncFolder)
    }

    /// Removes `path`, and the temporary file that a killed process left from
    /// [`create_with_fixed_name`](Self::create_with_fixed_name). It is not an error if a file does not exist.
    ///
    /// # Errors
    /// Returns the operating system's error.
    pub fn remove(path: impl AsRef<Path>) -> io::Result<()> {
        for file in [path.as_ref().to_owned(), fixed_name(path.as_ref())] {
            match fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The file that `path` means: renaming over a link would replace the link.
fn follow_link(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// `.NAME.tmp` beside `path`.
fn fixed_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The permissions of the file that is replaced, or those of a new file under the process's mask.
#[cfg(unix)]
fn permissions(target: &Path) -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(target).map_or_else(|_| fs::Permissions::from_mode(0o666), |old| old.permissions())
}

/// Makes a rename durable: the name is an entry of the folder, which is synced on its own.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Other systems cannot open a folder.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
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
                None => Flusher::new(self.writer.get_ref().as_file())?,
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
        AtomicFile::create(&path).unwrap().commit().unwrap_err();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
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
