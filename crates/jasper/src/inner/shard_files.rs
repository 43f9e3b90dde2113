//! The folder of a sharded index: an index file per shard, and a manifest that names them.
//!
//! ```text
//! jasper shards 2          the version of the manifest
//! shard-4-0.jasper 7a31..  the file of each shard, in order, and the checksum of its header, which has those of all
//! shard-4-1.jasper 09fe..  its sections
//! ```
//!
//! A save writes new files, then the manifest, and then removes the old files: whatever happens meanwhile, the manifest
//! names files that are whole. A file that is not the one that was saved, such as that of another build or of another
//! shard, has another checksum.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jasper_data::{AtomicFile, sync_folder};
use jasper_graph::{FileError, FileFault, SaveStats, header_checksum};

use crate::backend::MAX_SHARDS;

const MANIFEST: &str = "manifest.txt";
const FIRST_LINE: &str = "jasper shards 2";

/// Whether the path is the folder of an index of [several shards](crate::IndexBuilder::shards).
pub(crate) fn is_sharded(path: &Path) -> bool {
    path.join(MANIFEST).is_file()
}

/// The files that a manifest names, and the checksums of their headers.
struct Manifest(Vec<(String, u32)>);

impl Manifest {
    fn read(folder: &Path) -> Result<Self, FileError> {
        let path = folder.join(MANIFEST);
        let text = fs::read_to_string(&path).map_err(|error| FileError::new(&path, FileFault::Io(error)))?;
        let mut lines = text.lines();
        let refuse = |problem: String| Err(FileError::new(&path, FileFault::Shards(problem)));
        match lines.next() {
            Some(FIRST_LINE) => {}
            Some(line) if line.starts_with("jasper shards ") => {
                return refuse(format!(
                    "begins with `{line}`, and this release reads `{FIRST_LINE}`; open it with the release that saved \
                     it, or build the index again"
                ));
            }
            _ => return refuse(format!("is not the manifest of an index, which begins with `{FIRST_LINE}`")),
        }
        let file = |line: &str| {
            let (name, checksum) = line.split_once(' ')?;
            // A manifest from a stranger names nothing outside its folder.
            Path::new(name).file_name().filter(|&file| file == name)?;
            Some((name.to_owned(), u32::from_str_radix(checksum, 16).ok()?))
        };
        let files: Vec<_> = match lines.map(file).collect::<Option<Vec<_>>>() {
            Some(files) if (1..=MAX_SHARDS).contains(&files.len()) => files,
            _ => return refuse("is damaged; copy it again from its source".to_owned()),
        };
        for (shard, (name, _)) in files.iter().enumerate() {
            if let Some(first) = files[..shard].iter().position(|(other, _)| other == name) {
                return refuse(format!("names {name} twice, as shards {first} and {shard}"));
            }
        }
        Ok(Self(files))
    }

    fn write(&self, folder: &Path) -> Result<(), FileError> {
        let path = folder.join(MANIFEST);
        let write = || {
            let mut file = AtomicFile::create(&path)?;
            writeln!(file, "{FIRST_LINE}")?;
            self.0.iter().try_for_each(|(name, checksum)| writeln!(file, "{name} {checksum:08x}"))?;
            file.commit().map_err(io::Error::from)
        };
        write().map_err(|error| FileError::new(&path, FileFault::Write(error)))
    }

    /// The paths of the shards' files, after a check that each is the one that was saved.
    fn check(self, folder: &Path) -> Result<Vec<PathBuf>, FileError> {
        let mut paths = Vec::new();
        for (shard, (name, expected)) in self.0.iter().enumerate() {
            let path = folder.join(name);
            let refuse = |problem: String| Err(FileError::new(&path, FileFault::Shards(problem)));
            if !path.exists() {
                return refuse(format!(
                    "is missing: it has shard {shard} of {}; copy it from where the folder was saved",
                    self.0.len()
                ));
            }
            let found = header_checksum(&path)?;
            if found != *expected {
                return refuse(match self.0.iter().position(|(_, other)| *other == found) {
                    Some(other) => {
                        format!(
                            "is a copy of shard {other} where shard {shard} should be; copy the right file"
                        )
                    }
                    None => format!(
                        "is not the file of shard {shard} that was saved, but of another build or changed since; copy the \
                         folder again from its source"
                    ),
                });
            }
            paths.push(path);
        }
        Ok(paths)
    }
}

/// The index files of the shards of a folder, in order.
///
/// # Errors
/// Returns [`FileError`], naming a file that is missing, or not the one that was saved.
pub(crate) fn shard_files(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    Manifest::read(folder)?.check(folder)
}

/// The checksum of the manifest of a folder, which has those of all its files.
pub(crate) fn manifest_checksum(folder: &Path) -> Result<u32, FileError> {
    let path = folder.join(MANIFEST);
    let manifest = fs::read(&path).map_err(|error| FileError::new(&path, FileFault::Io(error)))?;
    Ok(crc32c::crc32c(&manifest))
}

/// Makes a folder none of an index, before its files are removed one by one. If it was none, nothing happens.
pub(crate) fn remove_manifest(folder: &Path) {
    let _ = fs::remove_file(folder.join(MANIFEST));
}

/// Writes the graphs of shards to a folder. `save` writes one of them, by its number.
pub(crate) fn save(
    folder: &Path,
    shards: usize,
    mut save: impl FnMut(usize, &Path) -> Result<SaveStats, FileError>,
) -> Result<SaveStats, FileError> {
    let write_error = |error| FileError::new(folder, FileFault::Write(error));
    if folder.exists() && !is_sharded(folder) && fs::read_dir(folder).map_err(write_error)?.next().is_some() {
        return Err(FileError::new(
            folder,
            FileFault::Shards("has other files; name a new folder, or that of a sharded index".to_owned()),
        ));
    }
    let is_new = !folder.exists();
    fs::create_dir_all(folder).map_err(write_error)?;
    let old = files_in(folder).map_err(write_error)?;
    let generation = old.iter().map(|(generation, _)| generation + 1).max().unwrap_or(0);
    let mut stats: Option<SaveStats> = None;
    let mut files = Vec::new();
    let written = (0..shards).try_for_each(|shard| {
        let name = format!("shard-{generation}-{shard}.jasper");
        let path = folder.join(&name);
        let saved = save(shard, &path)?;
        let sum = stats.get_or_insert(saved);
        if shard > 0 {
            sum.bytes += saved.bytes;
            sum.written += saved.written;
        }
        files.push((name, header_checksum(&path)?));
        Ok(())
    });
    if let Err(error) = written.and_then(|()| Manifest(files).write(folder)) {
        // The manifest names the old files, unless it was written and not synced.
        let named = Manifest::read(folder).map_or(Vec::new(), |manifest| manifest.0);
        for (_, path) in files_in(folder).unwrap_or_default() {
            if !named.iter().any(|(name, _)| folder.join(name) == path) {
                let _ = fs::remove_file(path);
            }
        }
        return Err(error);
    }
    if is_new {
        // The name of the folder is an entry of its parent.
        let folder = fs::canonicalize(folder).map_err(write_error)?;
        sync_folder(folder.parent().unwrap_or(&folder)).map_err(write_error)?;
    }
    for (_, path) in old {
        // What is left of it is removed by the next save.
        let _ = fs::remove_file(path);
    }
    Ok(stats.expect("there is a shard"))
}

/// The files of shards in a folder, and the number of the save that wrote each.
fn files_in(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let generation = |path: &Path| {
        let name = path.file_name()?.to_str()?.strip_prefix("shard-")?.strip_suffix(".jasper")?;
        name.split_once('-')?.0.parse().ok()
    };
    let paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    Ok(paths.into_iter().filter_map(|path| Some((generation(&path)?, path))).collect())
}
