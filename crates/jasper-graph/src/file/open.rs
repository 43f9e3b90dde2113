//! Opening an index file: read into memory and checked, or mapped and trusted.

use std::fs::File;
use std::io;
use std::path::Path;

use bytemuck::Pod;
use jasper_core::{Element, Key, ProgressFn, Stage, VectorId};
use jasper_data::ReadAt;

use super::parts::Parts;
use super::rule::Rule;
use super::small::Small;
use super::table::{Section, Table};
use super::{FileError, FileFault, IndexInfo, codes};
use crate::vectors::codes::CodeTable;
use crate::{Adjacency, Graph, KeyMap, Segments, Vectors};

impl<T: Element> Graph<T> {
    /// Reads an index file into memory with huge pages, and checks all of it: every checksum, every id and degree, and that
    /// values are finite. A file from an untrusted source is safe to search once opened.
    ///
    /// Cost: one pass over the file on all cores, and the memory of the graph. [`Self::map`] opens instantly instead.
    ///
    /// # Errors
    /// [`FileError`], naming the file, the section and what is wrong with it.
    pub fn open(path: impl AsRef<Path>, progress: &mut ProgressFn<'_>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let mut open = || Self::read_from(&File::open(path)?, progress);
        open().map_err(FileError::at(path))
    }

    /// Maps an index file: reads and checks the small sections; pages of the others are read when touched. Changes stay in
    /// memory; the file is never written to.
    ///
    /// The large sections are trusted. If they may be damaged, call [`crate::check_file`] first: a damaged vector gives wrong
    /// results and a damaged edge may cause a panic, but neither leads outside the memory of the index. While the graph
    /// exists, the file must not be shortened or written to (replacing it, as [`Self::save`] does, is fine): touching a
    /// missing page kills the process.
    ///
    /// Cost: a few pages and the small sections, whatever the size of the file.
    ///
    /// # Errors
    /// [`FileError`], naming the file, the section and what is wrong with it.
    pub fn map(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let map = || Self::mapped(&File::open(path)?);
        map().map_err(FileError::at(path))
    }

    fn mapped(file: &File) -> Result<Self, FileFault> {
        let (table, info) = read_header::<T>(file)?;
        let small = Small::read(file, &table, &info)?;
        let at = |section| Ok::<u64, FileFault>(table.get(section)?.offset);
        let columns = Columns {
            vectors: match info.has_vectors {
                true => Segments::map(file, at(Section::Vectors)?, info.slots, info.row_stride())?,
                false => Segments::new(info.row_stride()),
            },
            squared_norms: match info.has_norms() {
                true => Some(Segments::map(file, at(Section::SquaredNorms)?, info.slots, 1)?),
                false => None,
            },
            adjacency: Segments::map(file, at(Section::Adjacency)?, info.slots, info.params.max_degree())?,
            degrees: Segments::map(file, at(Section::Degrees)?, info.slots, 1)?,
            keys: Segments::map(file, at(Section::Keys)?, info.slots, 1)?,
            codes: match &small.quantizer {
                Some(quantizer) => Some(CodeTable {
                    quantizer: quantizer.clone(),
                    table: Segments::map(file, at(Section::Codes)?, info.slots, quantizer.layout().words())?,
                }),
                None => None,
            },
        };
        Ok(columns.into_graph(info, small))
    }

    /// [`Self::open`] from any source.
    pub(crate) fn read_from(
        source: &(impl ReadAt + ?Sized),
        progress: &mut ProgressFn<'_>,
    ) -> Result<Self, FileFault> {
        let (table, info) = read_header::<T>(source)?;
        let small = Small::read(source, &table, &info)?;
        let mut columns = Columns::<T>::zeroed(&info, &small)?;
        columns.fill(source, &table, &info, progress)?;
        let claimed = info.edges;
        let graph = columns.into_graph(info, small);
        match graph.adjacency.edges() {
            edges if edges == claimed => Ok(graph),
            edges => Err(FileFault::invalid(
                Section::Params,
                format!("it claims {claimed} edges, and there are {edges}"),
            )),
        }
    }
}

/// The sections with an entry per slot.
struct Columns<T> {
    vectors: Segments<T>,
    squared_norms: Option<Segments<f32>>,
    adjacency: Segments<VectorId>,
    degrees: Segments<u16>,
    keys: Segments<Key>,
    codes: Option<CodeTable>,
}

impl<T: Element> Columns<T> {
    fn zeroed(info: &IndexInfo, small: &Small) -> io::Result<Self> {
        let codes = small.quantizer.clone().map(|quantizer| CodeTable::new(quantizer, info.slots));
        Ok(Self {
            vectors: Segments::zeroed(if info.has_vectors { info.slots } else { 0 }, info.row_stride())?,
            squared_norms: info.has_norms().then(|| Segments::zeroed(info.slots, 1)).transpose()?,
            adjacency: Segments::zeroed(info.slots, info.params.max_degree())?,
            degrees: Segments::zeroed(info.slots, 1)?,
            keys: Segments::zeroed(info.slots, 1)?,
            codes: codes.transpose()?,
        })
    }

    /// Reads and checks every column.
    fn fill(
        &mut self,
        source: &(impl ReadAt + ?Sized),
        table: &Table,
        info: &IndexInfo,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(), FileFault> {
        let degrees = Rule::AtMost(info.params.max_degree() as u16);
        // Unused entries of the adjacency are zero in a file, so every entry is below the number of slots.
        let mut sections = vec![
            (Section::Adjacency, Rule::Below(info.slots as u32), bytes_of(&mut self.adjacency)),
            (Section::Degrees, degrees, bytes_of(&mut self.degrees)),
            (Section::Keys, Rule::Any, bytes_of(&mut self.keys)),
        ];
        if info.has_vectors {
            sections.push((Section::Vectors, Rule::for_element(info.element), bytes_of(&mut self.vectors)));
        }
        sections.extend(
            self.squared_norms.as_mut().map(|n| (Section::SquaredNorms, Rule::FiniteF32, bytes_of(n))),
        );
        sections.extend(
            self.codes
                .as_mut()
                .map(|codes| (Section::Codes, codes::rule(&*codes.quantizer), bytes_of(&mut codes.table))),
        );
        let mut parts = Parts::default();
        let mut rules = Vec::new();
        for (section, rule, targets) in sections {
            parts.load(table.get(section)?, rule, targets);
            rules.push((section, rule));
        }
        let verdicts = parts.read(source, Stage::Reading, info.slots, progress)?;
        for ((section, rule), verdict) in rules.into_iter().zip(verdicts) {
            if !verdict.intact {
                return Err(FileFault::Damaged(section));
            }
            if !verdict.obeys {
                return Err(FileFault::invalid(section, rule.broken()));
            }
        }
        Ok(())
    }

    fn into_graph(self, info: IndexInfo, small: Small) -> Graph<T> {
        let vectors = info.has_vectors.then_some(self.vectors);
        let largest_squared_norm = info.largest_squared_norm;
        let (metric, dimension) = (info.metric, info.dimension);
        Graph {
            params: info.params,
            vectors: Vectors::from_parts(
                metric,
                dimension,
                vectors,
                self.squared_norms,
                largest_squared_norm,
                self.codes,
            ),
            adjacency: Adjacency::from_parts(
                self.adjacency,
                self.degrees,
                small.start_points,
                info.unchecked,
            ),
            keys: KeyMap::from_parts(
                self.keys,
                small.further,
                small.deleted,
                small.tombstones,
                small.free,
                info.next_key,
            ),
            tuned: info.tuned_section,
        }
    }
}

/// Reads the table and params of a file, whose vectors must be of type `T`.
fn read_header<T: Element>(source: &(impl ReadAt + ?Sized)) -> Result<(Table, IndexInfo), FileFault> {
    let table = Table::read(source)?;
    let info = IndexInfo::from_table(&table, source)?;
    if info.element != T::KIND {
        return Err(FileFault::Element { found: info.element, expected: T::KIND });
    }
    Ok((table, info))
}

fn bytes_of<I: Pod>(rows: &mut Segments<I>) -> Vec<&mut [u8]> {
    rows.chunks_mut().map(bytemuck::cast_slice_mut).collect()
}
