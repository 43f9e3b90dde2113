//! Opening an index file: read into memory and checked, or mapped and trusted.

use std::fs::File;
use std::io;
use std::path::Path;

use bytemuck::Pod;
use jasper_core::{ProgressFn, Stage};
use jasper_data::{ReadAt, open_file};

use super::read::SectionReader;
use super::rule::Rule;
use super::table::{Section, Sections};
use super::{FileError, FileFault, IndexInfo, small_sections, with_path};
use crate::graph::Readers;
use crate::vectors::Block;
use crate::{Adjacency, Codes, Graph, KeyMap, Segments, VectorTable};

impl Graph {
    /// Reads an index file into memory with huge pages, and checks all of it: every checksum, every id and degree, and
    /// that values are finite. A file from an untrusted source is safe to search once opened.
    ///
    /// Cost: one pass over the file on all cores, and the memory of the graph. [`Self::map`] opens instantly instead.
    ///
    /// # Errors
    /// Returns [`FileError`], naming the file, the section and what is wrong with it.
    pub fn open(path: impl AsRef<Path>, progress: &mut ProgressFn<'_>) -> Result<Self, FileError> {
        Self::open_file(path.as_ref(), progress)
    }

    /// [`Self::open`], compiled once.
    fn open_file(path: &Path, progress: &mut ProgressFn<'_>) -> Result<Self, FileError> {
        let mut open = || Self::read_from(open_index(path)?, progress);
        open().map_err(with_path(path))
    }

    /// Maps an index file: reads and checks the small sections; pages of the others are read when touched. Changes stay
    /// in memory; the file is never written to.
    ///
    /// The large sections are trusted. If they may be damaged, call [`crate::check_file`] first: a damaged vector gives
    /// wrong results and a damaged edge may cause a panic, but neither leads outside the memory of the index. While the
    /// graph exists, no other program may shorten the file or write to it: touching a missing page kills the process.
    /// [`Self::save`] is safe: it replaces the file, or appends sections and overwrites the header page, and keeps
    /// every byte of the mapped sections.
    ///
    /// Cost: a few pages and the small sections, whatever the size of the file.
    ///
    /// # Errors
    /// Returns [`FileError`], naming the file, the section and what is wrong with it.
    pub fn map(path: impl AsRef<Path>) -> Result<Self, FileError> {
        Self::map_file(path.as_ref())
    }

    /// [`Self::map`], compiled once.
    fn map_file(path: &Path) -> Result<Self, FileError> {
        let map = || {
            let file = open_index(path)?;
            let (sections, info) = read_header(&file)?;
            let graph = Self::with_tables(Some(&file), &sections, info)?;
            small_sections::check_attributes(&graph.keys)?;
            Ok(graph)
        };
        map().map_err(with_path(path))
    }

    /// [`Self::open`] from any source.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`], without a path.
    #[doc(hidden)]
    pub fn read_from(source: impl ReadAt, progress: &mut ProgressFn<'_>) -> Result<Self, FileFault> {
        let (sections, info) = read_header(source)?;
        let claimed = info.edges;
        let mut graph = Self::with_tables(None, &sections, info)?;
        graph.fill(&sections, progress)?;
        small_sections::check_attributes(&graph.keys)?;
        match graph.adjacency.edges() {
            edges if edges == claimed => Ok(graph),
            edges => Err(FileFault::invalid(
                Section::Params,
                format!("it claims {claimed} edges, and there are {edges}"),
            )),
        }
    }

    /// A graph with the small sections of a file, and with the tables mapped from it or zeroed.
    fn with_tables(
        mapped: Option<&File>,
        sections: &Sections<impl ReadAt>,
        info: IndexInfo,
    ) -> Result<Self, FileFault> {
        let (slots, source) = (info.slots, TableSource { mapped, sections });
        let codes = small_sections::quantizer(sections, &info)?.map(|quantizer| {
            let table = source.segments(Section::Codes, slots, quantizer.layout().words())?;
            Ok::<_, FileFault>(Codes { quantizer, table })
        });
        let keys = small_sections::keys(sections, &info)?;
        let terms = || source.segments(Section::Terms, slots, 1);
        let rows = if info.has_vectors { slots } else { 0 };
        Ok(Self {
            params: info.params,
            vectors: VectorTable {
                table: source.segments(
                    Section::Vectors,
                    rows,
                    info.row_stride() * info.element.size() / size_of::<Block>(),
                )?,
                is_stored: info.has_vectors,
                terms: info.has_terms().then(terms).transpose()?,
                center: small_sections::center(sections, &info)?,
                codes: codes.transpose()?,
                ..VectorTable::zeroed(info.element, info.metric, info.dimension, 0)?
            },
            adjacency: Adjacency {
                table: source.segments(Section::Adjacency, slots, info.params.max_degree())?,
                degrees: source.segments(Section::Degrees, slots, 1)?,
                start_points: small_sections::start_points(sections, &info, &keys)?,
                ..Adjacency::new(info.params.max_degree())
            },
            keys: KeyMap { first: source.segments(Section::Keys, slots, 1)?, ..keys },
            tuned: info.encoded_tuned_searches,
            readers: Readers::default(),
            begun_with: None,
        })
    }

    /// Reads and checks every table.
    fn fill(&mut self, file: &Sections<impl ReadAt>, progress: &mut ProgressFn<'_>) -> Result<(), FileFault> {
        let slots = self.slots();
        let degrees = Rule::AtMost(self.params.max_degree() as u16);
        let Self { vectors, adjacency, keys, .. } = self;
        let mut reader = SectionReader::default();
        let mut add = |section, rule, targets| -> Result<(), FileFault> {
            reader.add(file.get(section)?, rule, targets);
            Ok(())
        };
        // Unused entries of the adjacency are zero in a file, so every entry is below the number of slots.
        add(Section::Adjacency, Rule::Below(slots as u32), bytes_of(&mut adjacency.table))?;
        add(Section::Degrees, degrees, bytes_of(&mut adjacency.degrees))?;
        add(Section::Keys, Rule::Any, bytes_of(&mut keys.first))?;
        if vectors.is_stored {
            add(Section::Vectors, Rule::for_element(vectors.element), bytes_of(&mut vectors.table))?;
        }
        if let Some(terms) = &mut vectors.terms {
            add(Section::Terms, Rule::FiniteF32, bytes_of(terms))?;
        }
        if let Some(codes) = &mut vectors.codes {
            let layout = codes.quantizer.layout();
            let rule = Rule::FiniteFactors { words: layout.words(), first: layout.factor_word() };
            add(Section::Codes, rule, bytes_of(&mut codes.table))?;
        }
        for read in reader.read(&file.source, Stage::Reading, slots, progress)? {
            if !read.is_intact() {
                return Err(FileFault::Damaged(read.entry.section()));
            }
            if !read.is_allowed {
                return Err(FileFault::invalid(read.entry.section(), read.rule.broken()));
            }
        }
        Ok(())
    }
}

/// What the tables of a graph are made from: a mapped file, or zeroed memory.
struct TableSource<'a, S> {
    mapped: Option<&'a File>,
    sections: &'a Sections<S>,
}

impl<S: ReadAt> TableSource<'_, S> {
    fn segments<I: Pod>(
        &self,
        section: Section,
        rows: usize,
        width: usize,
    ) -> Result<Segments<I>, FileFault> {
        Ok(match self.mapped {
            Some(file) if rows > 0 => Segments::map(file, self.sections.get(section)?.offset, rows, width)?,
            _ => Segments::zeroed(rows, width)?,
        })
    }
}

/// Opens an index file, to be read at any offset.
pub(super) fn open_index(path: &Path) -> Result<File, FileFault> {
    open_file(path).map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => FileFault::Folder,
        _ => error.into(),
    })
}

/// Reads the table and params of a file.
fn read_header<S: ReadAt>(source: S) -> Result<(Sections<S>, IndexInfo), FileFault> {
    let sections = Sections::open(source)?;
    let info = IndexInfo::from_sections(&sections)?;
    Ok((sections, info))
}

fn bytes_of<I: Pod>(rows: &mut Segments<I>) -> Vec<&mut [u8]> {
    rows.chunks_mut().map(bytemuck::cast_slice_mut).collect()
}
