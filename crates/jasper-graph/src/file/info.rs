//! The section `params`, and what the other sections must look like for it.

use std::fs::File;
use std::path::Path;

use bytemuck::{Pod, Zeroable};
use jasper_core::{
    BuildParams, Element, ElementKind, Key, MAX_DIMENSION, MAX_VECTORS, Metric, ROW_ALIGN_BYTES,
};
use jasper_data::ReadAt;
use jasper_quant::Quantization;

use super::rule::item;
use super::small::KeyAt;
use super::table::{Section, Table};
use super::{FileError, FileFault, codes, small};
use crate::{Graph, needs_norms};

/// What an index file holds, read from its first two pages, one more where searches were tuned, and what codes are
/// made by; the rest of the file is not touched.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct IndexInfo {
    /// Type of a coordinate: the `T` that [`Graph::open`] must be asked for.
    pub element: ElementKind,
    /// How near two vectors are.
    pub metric: Metric,
    /// Coordinates of a vector.
    pub dimension: usize,
    /// How the graph was built, and is built on.
    pub params: BuildParams,
    /// Slots: live, tombstones and free.
    pub slots: usize,
    /// Slots that are walked through and never returned.
    pub tombstones: usize,
    /// Slots without a vertex.
    pub free: usize,
    /// Live keys.
    pub keys: usize,
    /// Deleted keys that can be restored.
    pub deleted_keys: usize,
    /// Edges of all vertices.
    pub edges: u64,
    /// Bytes of each section, without padding, in file order.
    pub sections: Vec<(Section, u64)>,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// [`Graph::tuned_section`].
    pub tuned_section: Vec<u8>,
    /// Which code vectors have beside them, if any.
    pub quantization: Option<Quantization>,
    /// Whether there are vectors, or only codes.
    pub has_vectors: bool,
    /// What [`Graph::state`] gives for the graph: searches tuned at another were tuned before the index changed.
    pub state: u32,
    pub(super) largest_squared_norm: f32,
    pub(super) unchecked: usize,
    pub(super) next_key: Key,
}

/// The section as it is in the file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Record {
    element: u32,
    metric: u32,
    dimension: u32,
    /// Elements from row to row.
    row_stride: u32,
    max_degree: u32,
    build_beam_width: u32,
    alpha: f32,
    /// What alpha multiplies: 0 is squared L2 distances, and there is no other.
    alpha_convention: u32,
    seed: u64,
    max_batch_share: f32,
    largest_squared_norm: f32,
    slots: u64,
    tombstones: u64,
    free: u64,
    edges: u64,
    /// Vertices linked since every live one was last known to be reached.
    unchecked: u64,
    /// The key after the largest there ever was.
    next_key: u64,
}

/// Bytes of a record of the section `tuned searches`.
const TUNED_RECORD_BYTES: u64 = 128;

impl IndexInfo {
    /// Reads what `path` holds. Cost: two or three pages, and the quantizer, which takes as much as a few hundred to a few
    /// thousand rows.
    ///
    /// # Errors
    /// [`FileError`] if the file is no index, of another version, cut short, or damaged where it was read.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let read = || {
            let file = File::open(path)?;
            Self::from_table(&Table::read(&file)?, &file)
        };
        read().map_err(FileError::at(path))
    }

    /// Slots that a search can return.
    pub fn live(&self) -> usize {
        self.slots - self.tombstones - self.free
    }

    /// Mean out-degree of a vertex, live or tombstones.
    pub fn mean_degree(&self) -> f64 {
        self.edges as f64 / (self.slots - self.free).max(1) as f64
    }

    /// Reads the section, and checks the whole table against it.
    pub(super) fn from_table(table: &Table, source: &(impl ReadAt + ?Sized)) -> Result<Self, FileFault> {
        if table.find(Section::Checkpoint).is_some() {
            return Err(FileFault::Checkpoint);
        }
        let mut info = Self::read_params(table, source)?;
        info.check_lengths(table)?;
        let records =
            |section| table.find(section).map_or(0, |entry| entry.length as usize / size_of::<KeyAt>());
        info.keys = info.live() + records(Section::FurtherKeys);
        info.deleted_keys = records(Section::DeletedKeys);
        info.sections = table.entries().iter().map(|entry| (entry.section(), entry.length)).collect();
        info.file_bytes = table.file_bytes();
        if let Some(entry) = table.find(Section::TunedSearches) {
            info.tuned_section = small::read(source, entry)?;
        }
        info.has_vectors = table.find(Section::Vectors).is_some();
        info.quantization = codes::quantizer(source, table, &info)?.map(|quantizer| quantizer.quantization());
        Ok(info)
    }

    /// Reads the section alone.
    pub(super) fn read_params(table: &Table, source: &(impl ReadAt + ?Sized)) -> Result<Self, FileFault> {
        let entry = table.get(Section::Params)?;
        if entry.length != size_of::<Record>() as u64 {
            let problem = format!("it has {} bytes in place of {}", entry.length, size_of::<Record>());
            return Err(FileFault::invalid(Section::Params, problem));
        }
        let bytes = small::read(source, entry)?;
        let record: Record = bytemuck::pod_read_unaligned(&bytes);
        let mut info = record.validate().map_err(|problem| FileFault::invalid(Section::Params, problem))?;
        info.state = entry.checksum;
        Ok(info)
    }

    /// Elements from row to row.
    pub(super) fn row_stride(&self) -> usize {
        let chunk = ROW_ALIGN_BYTES / self.element.size();
        self.dimension.div_ceil(chunk) * chunk
    }

    pub(super) fn has_norms(&self) -> bool {
        needs_norms(self.metric, self.element.is_integer())
    }

    /// Every section is there, of the item it should be and as long as the slots ask for.
    fn check_lengths(&self, table: &Table) -> Result<(), FileFault> {
        for section in Section::ALL {
            let Some((item, bytes, exact)) = self.expected(section) else {
                match table.find(section) {
                    Some(_) => {
                        return Err(FileFault::invalid(section, format!("{} does not need it", self.metric)));
                    }
                    None => continue,
                }
            };
            let entry = match table.find(section) {
                None if section.is_optional() => continue,
                None if section == Section::Vectors && table.find(Section::Codes).is_some() => continue,
                _ => table.get(section)?,
            };
            if entry.item != item {
                let problem = format!("its items are of type {} in place of {item}", entry.item);
                return Err(FileFault::invalid(section, problem));
            }
            let fits = if exact { entry.length == bytes } else { entry.length.is_multiple_of(bytes) };
            if !fits {
                let problem = if exact { "in place of" } else { "which is no multiple of" };
                return Err(FileFault::invalid(
                    section,
                    format!("it has {} bytes {problem} {bytes}", entry.length),
                ));
            }
        }
        Ok(())
    }

    /// Item of a section, and its bytes: exactly these, or any multiple of them. Slots, stride and degree are bounded
    /// (2^31, 2^16, 2^10), so nothing wraps around.
    fn expected(&self, section: Section) -> Option<(u32, u64, bool)> {
        let slots = self.slots as u64;
        let row = (self.row_stride() * self.element.size()) as u64;
        Some(match section {
            Section::Params => (item::RECORD, size_of::<Record>() as u64, true),
            Section::Vectors => (self.element.code(), slots * row, true),
            Section::SquaredNorms if self.has_norms() => (ElementKind::F32.code(), slots * 4, true),
            Section::Adjacency => (item::U32, slots * self.params.max_degree() as u64 * 4, true),
            Section::Degrees => (item::U16, slots * 2, true),
            Section::Keys => (item::U64, slots * 8, true),
            Section::FurtherKeys | Section::DeletedKeys => (item::RECORD, size_of::<KeyAt>() as u64, false),
            Section::Tombstones | Section::FreeSlots => (item::U32, slots.div_ceil(32) * 4, true),
            Section::StartPoints => (item::U32, 4, false),
            Section::TunedSearches => (item::RECORD, TUNED_RECORD_BYTES, false),
            Section::Quantizer => (item::RECORD, 1, false),
            Section::Codes => (item::U32, ROW_ALIGN_BYTES as u64, false),
            Section::SquaredNorms | Section::Checkpoint | Section::Links | Section::Unknown(_) => {
                return None;
            }
        })
    }
}

impl Record {
    fn validate(&self) -> Result<IndexInfo, String> {
        let element =
            ElementKind::from_code(self.element).ok_or_else(|| format!("element {}", self.element))?;
        let metric = Metric::from_code(self.metric).ok_or_else(|| format!("metric {}", self.metric))?;
        let dimension = self.dimension as usize;
        if dimension == 0 || dimension > MAX_DIMENSION {
            return Err(format!("dimension {dimension} is not between 1 and {MAX_DIMENSION}"));
        }
        if self.alpha_convention != 0 {
            return Err(format!("alpha is of convention {}, which is not known", self.alpha_convention));
        }
        let params = BuildParams::builder()
            .max_degree(self.max_degree as usize)
            .build_beam_width(self.build_beam_width as usize)
            .alpha(self.alpha)
            .seed(self.seed)
            .max_batch_share(self.max_batch_share)
            .build()
            .map_err(|error| error.to_string())?;
        if self.slots > MAX_VECTORS as u64 {
            return Err(format!("{} slots, of {MAX_VECTORS} at most", self.slots));
        }
        if self.tombstones > self.slots || self.free > self.slots - self.tombstones {
            return Err(format!(
                "{} tombstones and {} free slots of {}",
                self.tombstones, self.free, self.slots
            ));
        }
        if !(self.largest_squared_norm >= 0.0 && self.largest_squared_norm.is_finite()) {
            return Err(format!("largest squared norm {}", self.largest_squared_norm));
        }
        let info = IndexInfo {
            element,
            metric,
            dimension,
            params,
            slots: self.slots as usize,
            tombstones: self.tombstones as usize,
            free: self.free as usize,
            keys: 0,
            deleted_keys: 0,
            edges: self.edges,
            sections: Vec::new(),
            file_bytes: 0,
            tuned_section: Vec::new(),
            quantization: None,
            has_vectors: false,
            state: 0,
            largest_squared_norm: self.largest_squared_norm,
            unchecked: self.unchecked.min(self.slots) as usize,
            next_key: self.next_key,
        };
        if self.row_stride as usize != info.row_stride() {
            return Err(format!("row stride {} in place of {}", self.row_stride, info.row_stride()));
        }
        Ok(info)
    }
}

/// The section `params` of a graph.
pub(super) fn params_bytes<T: Element>(graph: &Graph<T>) -> Vec<u8> {
    let params = graph.params();
    let record = Record {
        element: T::KIND.code(),
        metric: graph.metric().code(),
        dimension: graph.dimension() as u32,
        row_stride: graph.vectors.table.width() as u32,
        max_degree: params.max_degree() as u32,
        build_beam_width: params.build_beam_width() as u32,
        alpha: params.alpha(),
        alpha_convention: 0,
        seed: params.seed(),
        max_batch_share: params.max_batch_share(),
        largest_squared_norm: graph.vectors.largest_squared_norm(),
        slots: graph.slots() as u64,
        tombstones: graph.keys.tombstones() as u64,
        free: graph.keys.free() as u64,
        edges: graph.adjacency.edges(),
        unchecked: graph.adjacency.unchecked() as u64,
        next_key: graph.keys.next_key(),
    };
    bytemuck::bytes_of(&record).to_vec()
}
