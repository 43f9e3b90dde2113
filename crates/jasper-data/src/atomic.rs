//! Files that appear whole or not at all.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file being written under another name, beside the one it will have.
///
/// [`Self::commit`] syncs it and gives it its name; dropped before that, it goes, and what had the name stays.
/// A reader of the name, or a crash at any moment, meets the old content or the new, never a part.
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
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    writer: BufWriter<NamedTempFile>,
    path: PathBuf,
}

impl AtomicFile {
    /// Begins the file that will be `path`.
    ///
    /// # Errors
    /// What the operating system says: the folder must exist and be writable.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let mut builder = tempfile::Builder::new();
        builder.prefix(".jasper-").suffix(".tmp");
        // As any new file, within the user's mask; a temporary file would be private.
        #[cfg(unix)]
        builder.permissions(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666));
        let writer = BufWriter::with_capacity(1 << 18, builder.tempfile_in(folder(path))?);
        Ok(Self { writer, path: path.to_owned() })
    }

    /// Writes what is buffered to the disk, and gives the file its name.
    ///
    /// # Errors
    /// What the operating system says; the name then means what it meant before.
    pub fn commit(self) -> io::Result<()> {
        let file = self.writer.into_inner()?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        // The name is an entry of the folder, which is synced on its own. Windows cannot open a folder, and needs not.
        #[cfg(unix)]
        File::open(folder(&self.path))?.sync_all()?;
        Ok(())
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
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
    fn what_is_not_committed_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(&[0; 1 << 20]).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
        drop(file);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = AtomicFile::create(folder.path().join("none/file")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_name_that_is_taken_by_a_folder_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        std::fs::create_dir(&path).unwrap();
        AtomicFile::create(&path).unwrap().commit().unwrap_err();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn others_may_read_what_the_mask_allows() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| folder.path().join(name).metadata().unwrap().permissions().mode();
        AtomicFile::create(folder.path().join("ours")).unwrap().commit().unwrap();
        File::create(folder.path().join("plain")).unwrap();
        assert_eq!(mode("ours"), mode("plain"));
    }
}
