//! Writing a file so that a reader sees the old one or the new one, whatever happens between.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::error::{SaveError, WriteFault};

/// What the file is called until it is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Temporary {
    /// As no other: several may be on their way to one place.
    Unique,
    /// Always the same: what a kill left is overwritten by the next.
    Same,
}

/// Puts what `write` writes in the place of `path`: into a temporary file beside it, synced, then renamed, and the
/// folder synced. On an error the temporary file is removed, and what was at `path` is still there.
pub(crate) fn replace<R>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<R, WriteFault>,
) -> Result<R, SaveError> {
    replace_by(path, Temporary::Unique, write)
}

/// [`replace`] by a temporary file of this kind.
pub(super) fn replace_by<R>(
    path: &Path,
    temporary: Temporary,
    write: impl FnOnce(&mut File) -> Result<R, WriteFault>,
) -> Result<R, SaveError> {
    let (target, folder, result) =
        replace_unsynced(path, temporary, write).map_err(|fault| fault.at(path))?;
    match sync_folder(&folder) {
        Ok(()) => Ok(result),
        Err(source) => Err(SaveError::NotSynced { path: target, source }),
    }
}

/// Removes `path`, and what a kill left of a [`Temporary::Same`] on its way there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    for file in [path.to_owned(), beside(path)] {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The name of the [`Temporary::Same`] of `path`.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

fn replace_unsynced<R>(
    path: &Path,
    temporary: Temporary,
    write: impl FnOnce(&mut File) -> Result<R, WriteFault>,
) -> Result<(PathBuf, PathBuf, R), WriteFault> {
    // Through a link to the file it stands for: renaming would replace the link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut builder = tempfile::Builder::new();
    let same = beside(&target);
    match (temporary, same.file_name()) {
        (Temporary::Same, Some(name)) => {
            // A name that is taken is refused below.
            let _ = fs::remove_file(&same);
            builder.prefix(name).rand_bytes(0)
        }
        _ => builder.prefix(".jasper-").suffix(".tmp"),
    };
    #[cfg(unix)]
    builder.permissions(permissions(&target));
    let mut file = builder.tempfile_in(&folder)?;
    let result = write(file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(&target).map_err(|error| error.error)?;
    Ok((target, folder, result))
}

/// Those of the file that is replaced, or what the process gives every new file.
#[cfg(unix)]
fn permissions(target: &Path) -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(target).map_or_else(|_| fs::Permissions::from_mode(0o666), |old| old.permissions())
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Elsewhere a folder cannot be opened, and the rename is as lasting as the system makes it.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
