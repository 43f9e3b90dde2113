//! Temporary files, and locks of files that are read, changed and replaced.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use jasper_core::sync;
use tempfile::NamedTempFile;

/// What the names of temporary files begin and end with.
const PREFIX: &str = ".jasper-";
const SUFFIX: &str = ".tmp";

/// The temporary files and locks of this process; `None` after [`remove_temporary_files`].
static REGISTERED: Mutex<Option<BTreeSet<PathBuf>>> = Mutex::new(Some(BTreeSet::new()));

fn registered() -> MutexGuard<'static, Option<BTreeSet<PathBuf>>> {
    sync::lock(&REGISTERED)
}

/// Removes the temporary files and locks of this process, for a program that a signal is about to end. Later attempts
/// to write an [`AtomicFile`](crate::AtomicFile) or to take a [`FileLock`] fail; files that are complete stay.
///
/// A process that is killed cannot call this. What it leaves is removed when the next file is written to the same
/// folder.
pub fn remove_temporary_files() {
    for path in registered().take().into_iter().flatten() {
        // The file may have been removed already. Other errors are ignored, because the program ends.
        let _ = fs::remove_file(path);
    }
}

/// A path that [`remove_temporary_files`] removes, until this is dropped.
#[derive(Debug)]
pub(crate) struct Registration(PathBuf);

impl Registration {
    /// Registers the file that `create` makes at the path that it returns.
    fn new<R>(create: impl FnOnce() -> io::Result<(PathBuf, R)>) -> io::Result<(Self, R)> {
        let mut registered = registered();
        let Some(paths) = registered.as_mut() else {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the program was interrupted"));
        };
        let (path, created) = create()?;
        paths.insert(path.clone());
        Ok((Self(path), created))
    }

    /// Returns whether the path was registered still, and not removed by [`remove_temporary_files`].
    fn end(&self) -> bool {
        registered().as_mut().is_some_and(|paths| paths.remove(&self.0))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.end();
    }
}

/// Creates a temporary file in `folder`, after removing those that killed processes left there. The file is locked for
/// as long as it is open, which is how others know that it is in use.
pub(crate) fn create_temporary(folder: &Path) -> io::Result<(Registration, NamedTempFile)> {
    remove_stale(folder);
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    // Otherwise it would be readable by its owner alone, and errors would name it.
    let open = |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).open(path);
    loop {
        let create = || builder.make_in(folder, open).map(|file| (file.path().to_owned(), file));
        let (registration, file) = Registration::new(create)?;
        // Some file systems have no locks; files that cannot be locked are never stale.
        let _ = file.as_file().lock();
        // Another process may have taken it for stale before it was locked.
        if file.path().exists() {
            return Ok((registration, file));
        }
    }
}

/// Whether `path`, or the file that it links to, is named as temporary files are. A file with such a name is removed when
/// another is written beside it.
///
/// ```
/// assert!(jasper_data::is_temporary("sets/.jasper-Ab3x9Z.tmp"));
/// assert!(!jasper_data::is_temporary("sets/base.fbin"));
/// ```
pub fn is_temporary(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    [path, &follow_link(path)].into_iter().filter_map(Path::file_name).any(is_temporary_name)
}

fn is_temporary_name(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(PREFIX.as_bytes()) && name.ends_with(SUFFIX.as_bytes())
}

/// Removes the temporary files in `folder` that no process has locked. Errors are ignored: they do not concern the file
/// that is about to be written.
pub(crate) fn remove_stale(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_temporary =
            is_temporary_name(&entry.file_name()) && entry.file_type().is_ok_and(|kind| kind.is_file());
        // Removed while it is locked: between the two, its process could lock it and begin to use it.
        if is_temporary
            && let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// An exclusive lock on changing a file, among processes that use this type. It lasts until it is dropped or the
/// process ends.
///
/// [`AtomicFile`](crate::AtomicFile) replaces a file, so the lock is on a file of its own, `.NAME.lock` beside it, which
/// is empty and exists while the lock is held.
///
/// ```
/// use jasper_data::FileLock;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("numbers");
/// let lock = FileLock::try_acquire(&path)?.expect("no other process has it");
/// assert!(FileLock::try_acquire(&path)?.is_none());
/// drop(lock);
/// assert!(FileLock::try_acquire(&path)?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileLock {
    registration: Registration,
    /// Locked while it is open.
    _file: File,
}

impl FileLock {
    /// Takes the lock on the file `path`, which need not exist; `None` if another process, or another lock of this one,
    /// has it. A symbolic link stands for the file that it points to.
    ///
    /// # Errors
    /// Returns the operating system's error. The folder must exist and be writable. On a file system without locks, such
    /// as Lustre by default, it is no error, and there is no protection. A file that has the name of the lock file and is not
    /// empty is an error: it would be removed with the lock.
    pub fn try_acquire(path: impl AsRef<Path>) -> io::Result<Option<Self>> {
        let path = lock_path(&follow_link(path.as_ref()));
        loop {
            let file = open_lock(&path)?;
            if file.metadata()?.len() > 0 {
                let reason = format!(
                    "its lock would be the file {}, which is not empty and would be removed; rename that file",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
            }
            if !is_acquired(file.try_lock())? {
                return Ok(None);
            }
            // Otherwise it was removed by the process that had it, after it was opened here.
            if is_at(&file, &path)? {
                let (registration, _file) = Registration::new(|| Ok((path, file)))?;
                return Ok(Some(Self { registration, _file }));
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // While it is locked, so that no file is removed that another process has locked. If it cannot be removed, it
        // stays, unlocked.
        if self.registration.end() {
            let _ = fs::remove_file(&self.registration.0);
        }
    }
}

/// Opens the lock file `path`, and creates it if it does not exist. That of another user need not be writable, and in a
/// shared folder, some systems refuse to open it as one that may be created.
fn open_lock(path: &Path) -> io::Result<File> {
    let created = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    created.or_else(|error| File::open(path).map_err(|_| error))
}

/// Whether a file was locked, or would have been if its file system had locks.
fn is_acquired(locked: Result<(), TryLockError>) -> io::Result<bool> {
    match locked {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether `path` leads to this open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let id = |data: fs::Metadata| (data.dev(), data.ino());
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => Ok(id(found?) == id(file.metadata()?)),
    }
}

/// Elsewhere, a file that is open cannot be removed.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// The file that `path` leads to through symbolic links, which need not exist: the one that an
/// [`AtomicFile`](crate::AtomicFile) of this path replaces or creates.
pub fn follow_link(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // Links to a file that does not exist yet are followed one by one, as often as Linux follows them.
    for _ in 0..40 {
        match fs::canonicalize(&path).or_else(|error| fs::read_link(&path).map_err(|_| error)) {
            Ok(found) if found.is_absolute() && found.exists() => return found,
            Ok(found) => path = path.parent().unwrap_or(Path::new("")).join(found),
            Err(_) => break,
        }
    }
    path
}

/// `.NAME.lock` beside `path`.
fn lock_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".lock");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::AtomicFile;

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_of_killed_processes_go_and_those_in_use_stay() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join(".jasper-killed.tmp"), "half").unwrap();
        fs::write(folder.join("mine.tmp"), "").unwrap();
        let mut first = AtomicFile::create(folder.join("first")).unwrap();
        assert_eq!(names(folder).len(), 2, "{:?}", names(folder));
        AtomicFile::create(folder.join("second")).unwrap().commit().unwrap();
        first.write_all(b"whole").unwrap();
        first.commit().unwrap();
        assert_eq!(names(folder), ["first", "mine.tmp", "second"]);
    }

    #[test]
    fn a_lock_is_held_by_one_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let counter = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let lock = loop {
                            match FileLock::try_acquire(&path).unwrap() {
                                Some(lock) => break lock,
                                None => std::thread::yield_now(),
                            }
                        };
                        // Fails if two threads are here.
                        *counter.try_lock().unwrap() += 1;
                        drop(lock);
                    }
                });
            }
        });
        assert_eq!(*counter.lock().unwrap(), 200);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_file_that_only_has_the_name_of_a_lock_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(lock_path(&path), "mine").unwrap();
        let error = FileLock::try_acquire(&path).unwrap_err();
        assert!(error.to_string().contains(".file.lock, which is not empty"), "{error}");
        assert_eq!(fs::read(lock_path(&path)).unwrap(), b"mine");
    }

    #[cfg(unix)]
    #[test]
    fn errors_do_not_name_the_temporary_file() {
        let error = AtomicFile::create("/proc/file").unwrap_err();
        assert!(error.raw_os_error().is_some() && !error.to_string().contains(PREFIX), "{error}");
    }

    #[test]
    fn a_temporary_file_in_use_is_not_removed_by_others() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for i in 0..8 {
                let path = folder.path().join(i.to_string());
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let (_registration, file) = create_temporary(path.parent().unwrap()).unwrap();
                        file.persist(&path).unwrap();
                    }
                });
            }
        });
    }

    #[test]
    fn file_systems_without_locks_do_not_hinder() {
        let result = |kind: io::ErrorKind| is_acquired(Err(TryLockError::Error(kind.into())));
        assert!(result(io::ErrorKind::Unsupported).unwrap());
        result(io::ErrorKind::PermissionDenied).unwrap_err();
        assert!(!is_acquired(Err(TryLockError::WouldBlock)).unwrap());
    }

    /// Root may open it anyway.
    #[cfg(unix)]
    #[test]
    fn a_lock_file_that_another_user_left_is_taken_over() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(lock_path(&path), "").unwrap();
        fs::set_permissions(lock_path(&path), PermissionsExt::from_mode(0o444)).unwrap();
        assert!(FileLock::try_acquire(&path).unwrap().is_some());
        assert!(names(folder.path()).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_to_files_that_do_not_exist() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::os::unix::fs::symlink("second", folder.join("first")).unwrap();
        std::os::unix::fs::symlink("file", folder.join("second")).unwrap();
        std::os::unix::fs::symlink("circle", folder.join("circle")).unwrap();
        AtomicFile::create(folder.join("first")).unwrap().commit().unwrap();
        assert!(folder.join("file").is_file() && folder.join("first").is_symlink());
        assert!(AtomicFile::create(folder.join("circle")).is_err());
    }
}
