//! The checkpoint of a bulk build: the links there are, in a file of its own. Vectors and keys can be had again from
//! where the build has them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use bytemuck::{Pod, Zeroable};
use jasper_core::{Element, Stage, VectorId, no_progress};
use jasper_data::{AtomicFile, ReadAt};

use super::info::params_bytes;
use super::parts::Meter;
use super::rule::{Rule, item};
use super::save::{FileWriter, write_file};
use super::small;
use super::table::{Section, Table};
use super::{FileError, FileFault, IndexInfo};
use crate::Graph;

/// How far a bulk build had come, and what it belongs to beside the parameters of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Checkpoint {
    /// Of all rows, as the build stores them.
    pub rows_checksum: u32,
    /// The release that builds, in ASCII, then zeros: another may link otherwise.
    pub release: [u8; 12],
    /// Vertices linked, in the order of the build.
    pub linked: u64,
    /// What linking them cost, as the build counts.
    pub cost: [u64; 3],
}

/// Bytes of links that are read at once.
const BLOCK: usize = 1 << 20;

impl<T: Element> Graph<T> {
    /// Writes the links, and how far the build has come, to `path`, in the place of what is there: all of it or nothing,
    /// whenever the process ends.
    ///
    /// Cost: a pass over the links, 4 bytes of disk each, and 2 a slot. What is there stays on the disk meanwhile.
    ///
    /// # Errors
    /// [`FileError`]; what was at the path is still there.
    pub fn save_checkpoint(&self, path: impl AsRef<Path>, checkpoint: &Checkpoint) -> Result<(), FileError> {
        let slots = || (0..self.slots()).map(VectorId::from_index);
        let path = path.as_ref();
        write_file(path, AtomicFile::create_with_fixed_name(path), |out| {
            let meter = Meter::new(Stage::Saving, self.slots(), self.adjacency.bytes() as u64);
            let progress = &mut no_progress;
            let mut file = FileWriter::begin(out, meter, progress)?;
            file.section(Section::Params, item::RECORD, |section| section.put(&params_bytes(self)))?;
            file.section(Section::Checkpoint, item::RECORD, |section| section.put(&[*checkpoint]))?;
            file.section(Section::Degrees, item::U16, |section| {
                slots().try_for_each(|slot| section.put(&[self.adjacency().neighbors(slot).len() as u16]))
            })?;
            file.section(Section::Links, item::U32, |section| {
                slots().try_for_each(|slot| section.put(self.adjacency().neighbors(slot)))
            })?;
            file.finish()
        })?;
        Ok(())
    }
}

/// A checkpoint on disk.
#[derive(Debug)]
pub struct CheckpointFile {
    path: PathBuf,
    file: File,
    table: Table,
    info: IndexInfo,
    checkpoint: Checkpoint,
}

impl CheckpointFile {
    /// Opens the checkpoint at `path`; none if there is no file. Reads all but degrees and links.
    ///
    /// # Errors
    /// [`FileError`], naming the section that is damaged or missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Option<Self>, FileError> {
        let path = path.as_ref();
        let open = || {
            let file = match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            let table = Table::read(&file)?;
            let record = small::read(&file, table.get(Section::Checkpoint)?)?;
            let checkpoint = bytemuck::try_pod_read_unaligned(&record).map_err(|_| {
                FileFault::invalid(Section::Checkpoint, format!("it has {} bytes", record.len()))
            })?;
            let info = IndexInfo::read_params(&table, &file)?;
            Ok(Some(Self { path: path.to_owned(), file, table, info, checkpoint }))
        };
        open().map_err(FileError::at(path))
    }

    /// How far the build had come.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The graph that was being built: its element, metric, dimension, parameters and slots.
    pub fn info(&self) -> &IndexInfo {
        &self.info
    }

    /// Writes the links into `graph`. Every one is checked to be a slot.
    ///
    /// # Errors
    /// [`FileError`]: the file cannot be read or is damaged; the graph has some of the links then.
    ///
    /// # Panics
    /// If the graph has not as many slots, or another degree.
    pub fn restore<T: Element>(&self, graph: &mut Graph<T>) -> Result<(), FileError> {
        let (slots, max_degree) = (self.info.slots, self.info.params.max_degree());
        assert_eq!(
            (slots, max_degree),
            (graph.slots(), graph.params().max_degree()),
            "another graph's links"
        );
        self.read_links(graph).map_err(FileError::at(&self.path))
    }

    fn read_links<T: Element>(&self, graph: &mut Graph<T>) -> Result<(), FileFault> {
        let slots = graph.slots();
        let entry = self.table.get(Section::Degrees)?;
        let degrees = small::read(&self.file, entry)?;
        let allowed = Rule::AtMost(graph.params().max_degree() as u16);
        let degrees: Vec<u16> = bytemuck::pod_collect_to_vec(&degrees);
        if degrees.len() != slots || !allowed.allows(bytemuck::cast_slice(&degrees)) {
            return Err(FileFault::invalid(Section::Degrees, allowed.broken()));
        }
        let entry = self.table.get(Section::Links)?;
        let edges: u64 = degrees.iter().map(|&degree| u64::from(degree)).sum();
        if entry.length != edges * size_of::<u32>() as u64 {
            return Err(FileFault::invalid(
                Section::Links,
                format!("it has {} bytes for {edges} edges", entry.length),
            ));
        }
        let (mut offset, mut checksum, mut next) = (entry.offset, 0, 0);
        let mut read = |bytes: &mut [u8]| {
            self.file.read_exact_at(bytes, offset)?;
            offset += bytes.len() as u64;
            checksum = crc32c::crc32c_append(checksum, bytes);
            Ok::<_, FileFault>(())
        };
        let (below, mut block) = (Rule::Below(slots as u32), Vec::<VectorId>::new());
        for degrees in degrees.chunks((BLOCK / size_of::<VectorId>() / graph.params().max_degree()).max(1)) {
            block.resize(degrees.iter().map(|&degree| usize::from(degree)).sum(), VectorId::zeroed());
            read(bytemuck::cast_slice_mut(&mut block))?;
            if !below.allows(bytemuck::cast_slice(&block)) {
                return Err(FileFault::invalid(Section::Links, below.broken()));
            }
            let mut links = &*block;
            for &degree in degrees {
                let (row, rest) = links.split_at(degree.into());
                graph.adjacency_mut().set_neighbors(VectorId::from_index(next), row);
                (links, next) = (rest, next + 1);
            }
        }
        read(&mut vec![0; (entry.extent() - entry.length) as usize])?;
        if checksum == entry.checksum { Ok(()) } else { Err(FileFault::Damaged(Section::Links)) }
    }

    /// Removes the checkpoint at `path`, if there is one, and what was left of one that was being written.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn remove(path: impl AsRef<Path>) -> io::Result<()> {
        AtomicFile::remove(path)
    }
}
