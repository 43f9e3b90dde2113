//! The files of a command, checked before its work begins.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use jasper::{ElementKind, StoredIndex};
use jasper_data::{
    AtomicFile, GroundTruth, VectorFileOptions, VectorFormat, follow_link, is_temporary, read_keys,
};
use jasper_interop::GraphFormat;
use jasper_runbook::Runbook;

use crate::format::Format;

/// The files that a command reads and writes.
#[derive(Default)]
pub struct Files {
    inputs: Vec<PathBuf>,
    /// Read if they exist, and written if they do not; all in one folder.
    cached: Vec<PathBuf>,
    /// What each replaces; `None` for a file that is changed, which is checked when it is opened.
    outputs: Vec<(PathBuf, Option<Content>)>,
}

/// What a command writes to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// What `convert` writes.
    Format(Format),
    /// The vectors of a graph of DiskANN, in a file of their own.
    DiskannVectors,
    /// A number per line, or a numpy array.
    Keys,
    /// A runbook.
    Runbook,
    /// A plot.
    Svg,
}

impl Content {
    /// An index file.
    pub const INDEX: Self = Self::Format(Format::Index);
    /// A file of true neighbors.
    pub const TRUTH: Self = Self::Format(Format::Truth);
}

impl Files {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds files that are read.
    pub fn read<'a>(mut self, paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        self.inputs.extend(paths.into_iter().cloned());
        self
    }

    /// Adds files of one folder, which are read if they exist, and else written.
    pub fn cache(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.cached.extend(paths);
        self
    }

    /// Adds files that are written.
    pub fn write<'a>(mut self, paths: impl IntoIterator<Item = &'a PathBuf>, content: Content) -> Self {
        self.outputs.extend(paths.into_iter().map(|path| (path.clone(), Some(content))));
        self
    }

    /// An index that is changed, or whose changed copy is written to `output`.
    pub fn update(index: &PathBuf, output: &Option<PathBuf>) -> Self {
        match output {
            Some(output) if !is_same_file(index, output) => {
                Self::new().read([index]).write([output], Content::INDEX)
            }
            output => {
                let changed = output.as_ref().unwrap_or(index);
                Self { outputs: vec![(changed.clone(), None)], ..Self::new() }
            }
        }
    }

    /// Checks that inputs exist, and that outputs can be written and replace nothing but older outputs of their kind.
    pub fn check(&self) -> Result<()> {
        let outputs = || self.outputs.iter().map(|(path, _)| path);
        for path in self.inputs.iter().chain(outputs()) {
            ensure!(
                !is_temporary(path),
                "{}: is named as the temporary files of this program, which removes them; use another name",
                path.display()
            );
        }
        let changed = self.outputs.iter().filter(|(_, content)| content.is_none()).map(|(path, _)| path);
        for path in self.inputs.iter().chain(changed) {
            fs::metadata(path).with_context(|| path.display().to_string())?;
        }
        for (i, (path, content)) in self.outputs.iter().enumerate() {
            let name = path.display();
            let mut read = self.inputs.iter().chain(&self.cached);
            if let Some(input) = read.find(|input| is_same_file(input, path)) {
                bail!("{name}: is also read by this command, as {}; write to another file", input.display());
            }
            if outputs().take(i).any(|other| is_same_file(other, path)) {
                bail!("{name}: is named for two outputs of this command; name two files");
            }
            // A durable index, whose changes are in its journal.
            if content.is_none() && path.is_dir() {
                continue;
            }
            check_writable(path)?;
            refuse_index_part(path)?;
            if let Some(content) = content {
                ensure!(
                    content.may_replace(path).with_context(|| name.to_string())?,
                    "{name}: exists and is not {content}; remove it first, or write to another file"
                );
            }
        }
        // One stands for all that are written to the folder.
        self.cached.iter().find(|path| !path.exists()).map_or(Ok(()), |path| check_writable(path))
    }
}

/// Checks that a file or folder can be made at `path`, before the work and not after it.
pub fn check_writable(path: &Path) -> Result<()> {
    let name = path.display();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    ensure!(folder.is_none_or(Path::is_dir), "{name}: the directory does not exist; create it first");
    // Nothing is left of a file that is not committed.
    AtomicFile::create(path).map(drop).map_err(|error| {
        let reason = anyhow!(error);
        reason.context(format!("{name}: cannot be written; what was there before is untouched"))
    })
}

/// Refuses a file among those of a durable or sharded index.
fn refuse_index_part(path: &Path) -> Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| location(path));
    let folder = target.parent().unwrap_or(Path::new("."));
    ensure!(
        !StoredIndex::is_durable(folder) && !StoredIndex::is_sharded(folder),
        "{}: is in the folder of an index, {}, whose files belong together; name the folder to change the index, or \
         write to another place",
        path.display(),
        folder.display()
    );
    Ok(())
}

impl Content {
    /// Whether the file at `path`, if there is one, is empty or of this kind. Its content decides; its name only tells
    /// vectors of one size, or true neighbors, from other arrays.
    fn may_replace(self, path: &Path) -> io::Result<bool> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            file => file?,
        };
        let (mut start, size) = (Vec::new(), file.metadata()?.len());
        file.take(4096).read_to_end(&mut start)?;
        // A text is read to its end, and others are known from their beginning.
        let is_text = !start.contains(&0);
        Ok(start.is_empty()
            || match self {
                Self::Format(Format::Index) => start.starts_with(b"JASPER\r\n"),
                Self::Format(Format::Vectors(format)) => holds_vectors(path, format),
                Self::Format(Format::Truth) => GroundTruth::read(path).is_ok(),
                // A file of ParlayANN, which is read only, is not recognized.
                Self::Format(Format::Graph(format)) => GraphFormat::of(&start, size) == Some(format),
                Self::DiskannVectors => [ElementKind::F32, ElementKind::U8]
                    .into_iter()
                    .any(|element| holds_vectors(path, VectorFormat::Bin(element))),
                Self::Keys => (is_text || start.starts_with(b"\x93NUMPY")) && read_keys(path).is_ok(),
                Self::Runbook => is_text && Runbook::read(path, None).is_ok(),
                Self::Svg => start.starts_with(b"<svg"),
            })
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(Format::Vectors(format)) => write!(f, "a file of {format} vectors"),
            Self::Format(Format::Truth) => f.write_str("a file of true neighbors"),
            Self::Format(Format::Index) => f.write_str("an index"),
            Self::Format(format) => write!(f, "a {format} graph"),
            Self::DiskannVectors => f.write_str("a file of vectors of DiskANN"),
            Self::Keys => f.write_str("a file of keys"),
            Self::Runbook => f.write_str("a runbook"),
            Self::Svg => f.write_str("a plot"),
        }
    }
}

fn holds_vectors(path: &Path, format: VectorFormat) -> bool {
    VectorFileOptions::new().format(format).open(path).is_ok()
}

/// Whether both paths lead to one file, through links or by two names, or would if it were there.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    match (identity(a), identity(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => location(a) == location(b),
        _ => false,
    }
}

/// What tells a file from all others, if it exists.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|data| (data.dev(), data.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// The absolute path of a file that need not exist, through links.
fn location(path: &Path) -> PathBuf {
    let path = follow_link(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    folder.join(path.file_name().unwrap_or_default())
}
