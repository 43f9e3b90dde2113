//! The section `params`, and what the other sections must look like for it.

use std::path::Path;

use bytemuck::{Pod, Zeroable};
use jasper_attributes::Column;
use jasper_core::{
    BuildParams, Effort, ElementKind, Key, MAX_DIMENSION, MAX_VECTORS, Metric, ROW_ALIGN_BYTES,
};
use jasper_data::ReadAt;
use jasper_quant::Quantization;

use super::small_sections::{self, KeyRecord};
use super::table::{CHECKSUM_AT, Section, Sections, header_page};
use super::{FileError, FileFault, open_index, tuned, with_path};
use crate::{Graph, needs_terms};

/// The contents of an index file, read without opening it: from the header, the section `params`, tuned searches,
/// the quantizer and the names of attributes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct IndexInfo {
    /// Element type.
    pub element: ElementKind,
    /// Metric.
    pub metric: Metric,
    /// Coordinates per vector.
    pub dimension: usize,
    /// Build parameters, which inserts use too.
    pub params: BuildParams,
    /// Slots: live, tombstones and free.
    pub slots: usize,
    /// Slots that are traversed and never returned.
    pub tombstones: usize,
    /// Number of free slots.
    pub free: usize,
    /// Number of live keys.
    pub keys: usize,
    /// Deleted keys that can be restored.
    pub deleted_keys: usize,
    /// Number of edges.
    pub edges: u64,
    /// Size of each section in bytes, without padding, in file order.
    pub sections: Vec<(Section, u64)>,
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// Bytes of the file that are unused: sections that others replaced, and what an interrupted save left.
    pub unused_bytes: u64,
    /// [`Graph::encoded_tuned_searches`].
    pub encoded_tuned_searches: Vec<u8>,
    /// Which code vectors have beside them, if any.
    pub quantization: Option<Quantization>,
    /// The columns of the attributes.
    pub columns: Vec<Column>,
    /// Whether the vectors are stored, or only their codes.
    pub has_vectors: bool,
    /// [`Graph::fingerprint`] of the graph. Searches with another one were tuned before the index changed.
    pub fingerprint: u32,
    pub(super) largest_squared_norm: f32,
    pub(super) next_key: Key,
}

/// The section `params`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct ParamsRecord {
    element: u32,
    metric: u32,
    dimension: u32,
    /// Elements of a padded row.
    row_stride: u32,
    max_degree: u32,
    build_beam_width: u32,
    alpha: f32,
    /// What alpha multiplies: always 0, for squared L2 distances.
    alpha_convention: u32,
    seed: u64,
    max_batch_share: f32,
    largest_squared_norm: f32,
    slots: u64,
    tombstones: u64,
    free: u64,
    edges: u64,
    /// [`Effort::code`]. Earlier versions counted here the vertices linked since reachability was last checked.
    effort: u64,
    /// The key after the largest that was ever in the index.
    next_key: u64,
}

impl IndexInfo {
    /// Reads the contents of `path`. Cost: a few pages, and the quantizer, as large as a few hundred to a few thousand
    /// vectors.
    ///
    /// # Errors
    /// Returns [`FileError`] if the file is not an index, of another version, cut short, or damaged where it was read.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let read = || Self::from_sections(&Sections::open(open_index(path)?)?);
        read().map_err(with_path(path))
    }

    /// Reads the contents of the bytes of a file.
    ///
    /// # Errors
    /// Returns the errors of [`Self::read`], without a path.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FileFault> {
        Self::from_sections(&Sections::open(bytes)?)
    }

    /// Returns the number of live slots.
    pub fn live(&self) -> usize {
        self.slots - self.tombstones - self.free
    }

    /// Returns the mean out-degree of the vertices, live or tombstones.
    pub fn mean_degree(&self) -> f64 {
        self.edges as f64 / (self.slots - self.free).max(1) as f64
    }

    /// Reads the sections, and checks the table against `params`.
    pub(super) fn from_sections(sections: &Sections<impl ReadAt>) -> Result<Self, FileFault> {
        if sections.find(Section::Checkpoint).is_some() {
            return Err(FileFault::Checkpoint);
        }
        let mut info = Self::read_params(sections)?;
        info.check_lengths(sections)?;
        info.quantization =
            small_sections::quantizer(sections, &info)?.map(|quantizer| quantizer.quantization());
        info.columns = small_sections::columns(sections)?;
        Ok(info)
    }

    /// Reads the section `params`, and what the table tells about the others, without checking it.
    pub(super) fn read_params(sections: &Sections<impl ReadAt>) -> Result<Self, FileFault> {
        let invalid = |problem| FileFault::invalid(Section::Params, problem);
        let entry = sections.get(Section::Params)?;
        if entry.length != size_of::<ParamsRecord>() as u64 {
            let problem = format!("it has {} bytes, expected {}", entry.length, size_of::<ParamsRecord>());
            return Err(invalid(problem));
        }
        let record: ParamsRecord = bytemuck::pod_read_unaligned(&sections.read(Section::Params)?);
        let (element, metric, params) = record.validate().map_err(invalid)?;
        let records = |section| {
            sections.find(section).map_or(0, |entry| entry.length as usize / size_of::<KeyRecord>())
        };
        let live = (record.slots - record.tombstones - record.free) as usize;
        let info = Self {
            element,
            metric,
            dimension: record.dimension as usize,
            params,
            slots: record.slots as usize,
            tombstones: record.tombstones as usize,
            free: record.free as usize,
            keys: live + records(Section::FurtherKeys),
            deleted_keys: records(Section::DeletedKeys),
            edges: record.edges,
            sections: sections.entries.iter().map(|entry| (entry.section(), entry.length)).collect(),
            file_bytes: sections.size,
            unused_bytes: sections.unused_bytes(),
            encoded_tuned_searches: match sections.find(Section::TunedSearches) {
                Some(_) => sections.read(Section::TunedSearches)?,
                None => Vec::new(),
            },
            quantization: None,
            columns: Vec::new(),
            has_vectors: sections.find(Section::Vectors).is_some(),
            fingerprint: entry.checksum,
            largest_squared_norm: record.largest_squared_norm,
            next_key: record.next_key,
        };
        if record.row_stride as usize != info.row_stride() {
            return Err(invalid(format!("row stride {}, expected {}", record.row_stride, info.row_stride())));
        }
        Ok(info)
    }

    /// Elements of a padded row.
    pub(super) fn row_stride(&self) -> usize {
        let chunk = ROW_ALIGN_BYTES / self.element.size();
        self.dimension.div_ceil(chunk) * chunk
    }

    pub(super) fn has_terms(&self) -> bool {
        needs_terms(self.metric, self.element.is_integer())
    }

    /// Checks that every section is present, with the right item type and length.
    fn check_lengths(&self, sections: &Sections<impl ReadAt>) -> Result<(), FileFault> {
        for section in Section::of_index() {
            let found = sections.find(section);
            let Some((bytes, exact)) = self.expected(section) else {
                if found.is_some() {
                    return Err(FileFault::invalid(section, format!("{} does not need it", self.metric)));
                }
                continue;
            };
            let entry = match found {
                None if section.is_optional() => continue,
                None if section == Section::Vectors && sections.find(Section::Codes).is_some() => continue,
                _ => sections.get(section)?,
            };
            let item = section.item(self.element);
            if entry.item != item {
                let problem = format!("its items are of type {}, expected {item}", entry.item);
                return Err(FileFault::invalid(section, problem));
            }
            let (fits, problem) = if exact {
                (entry.length == bytes, "bytes, expected")
            } else {
                (entry.length.is_multiple_of(bytes), "bytes, not a multiple of")
            };
            if !fits {
                return Err(FileFault::invalid(
                    section,
                    format!("it has {} {problem} {bytes}", entry.length),
                ));
            }
        }
        Ok(())
    }

    /// Size of a section in bytes, exact or a divisor; `None` if the index has no such section. Slots, stride and
    /// degree are bounded (2^31, 2^16, 2^10), so nothing overflows.
    fn expected(&self, section: Section) -> Option<(u64, bool)> {
        let slots = self.slots as u64;
        let row = (self.row_stride() * self.element.size()) as u64;
        Some(match section {
            Section::Params => (size_of::<ParamsRecord>() as u64, true),
            Section::Vectors => (slots * row, true),
            Section::Terms if self.has_terms() => (slots * 4, true),
            Section::Center if self.metric == Metric::InnerProduct => {
                ((small_sections::CENTER_HEADER + self.dimension) as u64 * 4, true)
            }
            Section::Adjacency => (slots * self.params.max_degree() as u64 * 4, true),
            Section::Degrees => (slots * 2, true),
            Section::Keys => (slots * 8, true),
            Section::FurtherKeys | Section::DeletedKeys => (size_of::<KeyRecord>() as u64, false),
            Section::Tombstones | Section::FreeSlots => (slots.div_ceil(32) * 4, true),
            Section::StartPoints => (4, false),
            Section::TunedSearches => (tuned::RECORD_BYTES as u64, false),
            Section::Quantizer => (1, false),
            Section::Codes => (ROW_ALIGN_BYTES as u64, false),
            Section::Attributes | Section::Unused => (1, false),
            _ => return None,
        })
    }
}

impl ParamsRecord {
    /// The section `params` of a graph.
    pub(super) fn new(graph: &Graph) -> Self {
        let params = graph.params();
        Self {
            element: graph.element().code(),
            metric: graph.metric().code(),
            dimension: graph.dimension() as u32,
            row_stride: graph.vectors.padded_dimension() as u32,
            max_degree: params.max_degree() as u32,
            build_beam_width: params.build_beam_width() as u32,
            alpha: params.alpha(),
            alpha_convention: 0,
            seed: params.seed(),
            max_batch_share: params.max_batch_share(),
            largest_squared_norm: graph.vectors.center.largest_squared_norms[0],
            slots: graph.slots() as u64,
            tombstones: graph.keys.tombstones() as u64,
            free: graph.keys.free() as u64,
            edges: graph.adjacency.edges(),
            effort: params.effort().code(),
            next_key: graph.keys.next_key(),
        }
    }

    /// Checks the numbers; returns those that are codes, and the build parameters.
    fn validate(&self) -> Result<(ElementKind, Metric, BuildParams), String> {
        let element =
            ElementKind::from_code(self.element).ok_or_else(|| format!("element {}", self.element))?;
        let metric = Metric::from_code(self.metric).ok_or_else(|| format!("metric {}", self.metric))?;
        if self.dimension == 0 || self.dimension as usize > MAX_DIMENSION {
            return Err(format!("dimension {} is not between 1 and {MAX_DIMENSION}", self.dimension));
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
            .effort(Effort::from_code(self.effort))
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
        Ok((element, metric, params))
    }
}

/// Returns the checksum of the header of the file at `path`. The header has the checksums of all sections.
///
/// # Errors
/// Returns [`FileError`] if the file is not an index, or its header is damaged.
#[doc(hidden)]
pub fn header_checksum(path: impl AsRef<Path>) -> Result<u32, FileError> {
    let path = path.as_ref();
    let read = || {
        let sections = Sections::open(open_index(path)?)?;
        Ok(crc32c::crc32c(&header_page(&sections.entries)[..CHECKSUM_AT]))
    };
    read().map_err(with_path(path))
}
