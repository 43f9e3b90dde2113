//! The checkpoint of a bulk build: the edges so far, in a file of its own. Vectors and keys are read again from the
//! input of the build.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use bytemuck::{Pod, Zeroable};
use jasper_core::{Slot, Stage, no_progress};
use jasper_data::{AtomicFile, ReadAt, open_file};

use super::info::ParamsRecord;
use super::read::Meter;
use super::rule::Rule;
use super::save::{FileWriter, finish, put, write_error, write_file};
use super::table::{Section, Sections};
use super::{FileError, FileFault, IndexInfo, with_path};
use crate::Graph;

/// The progress of a bulk build, and what must match for it to resume, besides the parameters of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Checkpoint {
    /// Checksum of all vectors, as the build stores them.
    pub rows_checksum: u32,
    /// The release, in ASCII padded with zeros: another release may build a different graph.
    pub release: [u8; 12],
    /// Vertices that the passes of the build have processed so far, each counted once per pass.
    pub done: u64,
    /// Cost of that, in the units of the build.
    pub cost: [u64; 3],
}

/// Bytes of edges per read.
const CHUNK: usize = 1 << 20;

impl Graph {
    /// Writes the edges and the progress of the build to `path`, atomically.
    ///
    /// Cost: one pass over the edges; disk space of 4 bytes per edge and 2 per slot, besides the old file.
    ///
    /// # Errors
    /// Returns [`FileError`]. The old file is unchanged, except after [`FileFault::NotSynced`].
    pub fn save_checkpoint(&self, path: impl AsRef<Path>, checkpoint: &Checkpoint) -> Result<(), FileError> {
        let (path, slots) = (path.as_ref(), self.slots());
        write_file(path, AtomicFile::create(path), |out| {
            let meter = Meter::new(Stage::Saving, slots, self.adjacency.bytes() as u64);
            let progress = &mut no_progress;
            let mut file = FileWriter::begin(out, self.element(), meter, progress)?;
            file.items(Section::Params, &[ParamsRecord::new(self)])?;
            file.items(Section::Checkpoint, &[*checkpoint])?;
            let degree = |slot: Slot| self.adjacency.degrees.row(slot.index());
            file.rows(Section::Degrees, slots, size_of::<u16>(), &|slot, out| put(out, degree(slot)))?;
            let row_bytes = self.params.max_degree() * size_of::<u32>();
            file.rows(Section::Edges, slots, row_bytes, &|slot, out| {
                put(out, self.adjacency.neighbors(slot))
            })?;
            let entries = file.into_entries();
            finish(out, &entries)
        })?;
        Ok(())
    }
}

/// A checkpoint on disk.
#[derive(Debug)]
pub struct CheckpointFile {
    path: PathBuf,
    sections: Sections<File>,
    info: IndexInfo,
    checkpoint: Checkpoint,
}

impl CheckpointFile {
    /// Opens the checkpoint at `path`; `None` if there is no file. Reads everything except the edges.
    ///
    /// # Errors
    /// Returns [`FileError`], naming the section that is damaged or missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Option<Self>, FileError> {
        let path = path.as_ref();
        let open = || {
            let file = match open_file(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            let sections = Sections::open(file)?;
            let record = sections.read(Section::Checkpoint)?;
            let checkpoint = bytemuck::try_pod_read_unaligned(&record).map_err(|_| {
                FileFault::invalid(Section::Checkpoint, format!("it has {} bytes", record.len()))
            })?;
            let info = IndexInfo::read_params(&sections)?;
            Ok(Some(Self { path: path.to_owned(), sections, info, checkpoint }))
        };
        open().map_err(with_path(path))
    }

    /// Checks that a checkpoint can be written to `path`, and writes nothing.
    ///
    /// # Errors
    /// Returns the [`FileError`] that [`Graph::save_checkpoint`] would.
    pub fn check_writable(path: impl AsRef<Path>) -> Result<(), FileError> {
        let path = path.as_ref();
        // A file that is not committed leaves nothing behind.
        AtomicFile::create(path).map(drop).map_err(|error| write_error(path)(error.into()))
    }

    /// Returns the progress of the build.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Returns the shape of the graph: element, metric, dimension, parameters and slots.
    pub fn info(&self) -> &IndexInfo {
        &self.info
    }

    /// Sets the edges of `graph`. Ids are checked to be in range.
    ///
    /// # Errors
    /// Returns [`FileError`] if the file cannot be read or is damaged; the graph then has some of the edges.
    ///
    /// # Panics
    /// Panics if the graph has another number of slots or another `max_degree`.
    pub fn restore(&self, graph: &mut Graph) -> Result<(), FileError> {
        let (slots, max_degree) = (self.info.slots, self.info.params.max_degree());
        assert_eq!(
            (slots, max_degree),
            (graph.slots(), graph.params().max_degree()),
            "the checkpoint is of another graph"
        );
        self.restore_edges(graph).map_err(with_path(&self.path))
    }

    fn restore_edges(&self, graph: &mut Graph) -> Result<(), FileFault> {
        let slots = graph.slots();
        let degrees: Vec<u16> = self.sections.items(Section::Degrees)?;
        let allowed = Rule::AtMost(graph.params().max_degree() as u16);
        if degrees.len() != slots || !allowed.holds(bytemuck::cast_slice(&degrees)) {
            return Err(FileFault::invalid(Section::Degrees, allowed.broken()));
        }
        let entry = self.sections.get(Section::Edges)?;
        let edge_count: u64 = degrees.iter().map(|&degree| u64::from(degree)).sum();
        if entry.length != edge_count * size_of::<u32>() as u64 {
            return Err(FileFault::invalid(
                Section::Edges,
                format!("it has {} bytes for {edge_count} edges", entry.length),
            ));
        }
        let (mut offset, mut checksum, mut next) = (entry.offset, 0, 0);
        let mut read = |bytes: &mut [u8]| {
            self.sections.source.read_exact_at(bytes, offset)?;
            offset += bytes.len() as u64;
            checksum = crc32c::crc32c_append(checksum, bytes);
            Ok::<_, FileFault>(())
        };
        let (below, mut chunk) = (Rule::Below(slots as u32), Vec::<Slot>::new());
        for degrees in degrees.chunks((CHUNK / size_of::<Slot>() / graph.params().max_degree()).max(1)) {
            chunk.resize(degrees.iter().map(|&degree| usize::from(degree)).sum(), Slot::zeroed());
            read(bytemuck::cast_slice_mut(&mut chunk))?;
            if !below.holds(bytemuck::cast_slice(&chunk)) {
                return Err(FileFault::invalid(Section::Edges, below.broken()));
            }
            let mut edges = &*chunk;
            for &degree in degrees {
                let (row, others) = edges.split_at(degree.into());
                graph.adjacency_mut().set_neighbors(Slot::from_index(next), row);
                (edges, next) = (others, next + 1);
            }
        }
        read(&mut vec![0; (entry.extent() - entry.length) as usize])?;
        if checksum == entry.checksum { Ok(()) } else { Err(FileFault::Damaged(Section::Edges)) }
    }

    /// Removes the checkpoint at `path`, if there is one, and the temporary files that killed processes left
    /// beside it.
    ///
    /// # Errors
    /// Returns an error if a file cannot be removed.
    pub fn remove(path: impl AsRef<Path>) -> io::Result<()> {
        AtomicFile::remove(path)
    }
}
