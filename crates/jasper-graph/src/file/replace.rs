//! Writing a file so that a reader sees the old one or the new one, whatever happens between.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::error::{SaveError, WriteFault};

/// Puts what `write` writes in the place of `path`: into a temporary file beside it, synced, then renamed, and the
/// folder synced. On an error the temporary file is removed, and what was at `path` is still there.
pub(crate) fn replace<R>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<R, WriteFault>,
) -> Result<R, SaveError> {
    let (target, folder, result) = replace_unsynced(path, write).map_err(|fault| fault.at(path))?;
    match sync_folder(&folder) {
        Ok(()) => Ok(result),
        Err(source) => Err(SaveError::NotSynced { path: target, source }),
    }
}

fn replace_unsynced<R>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<R, WriteFault>,
) -> Result<(PathBuf, PathBuf, R), WriteFault> {
    // Through a link to the file it stands for: renaming would replace the link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".jasper-").suffix(".tmp");
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
