//! The index file of hnswlib. Its base layer is read as our graph, in whose rows the edges of upper layers are added; and
//! our graph is written as a base layer without upper ones, which hnswlib searches.
//!
//! | offset | type | |
//! | --- | --- | --- |
//! | 0 | u64 | 0; `offsetLevel0_` |
//! | 8 | u64 | room for elements, and at 16 their number |
//! | 24 | u64 | bytes of an element, at 32 the offset of its label, and at 40 that of its vector |
//! | 48 | i32 | highest layer, and at 52 as u32 the entry point |
//! | 56 | u64 | largest degree above the base layer, at 64 in it, and at 72 the parameter `M` |
//! | 80 | f64 | parameter of the random layers, and at 88 as u64 `ef_construction` |
//! | 96 | | for each element a u16 degree, a byte of flags (1: deleted), a byte, u32 neighbors, f32 coordinates, u64 label |
//! | | | for each element as u32 the bytes of its edges in upper layers, and these |
//!
//! Source: `saveIndex` and `loadIndex` in `hnswalg.h` of nmslib/hnswlib 0.8.0, on a machine of 64 bits, and files that it
//! wrote. All of its vectors are f32: other elements are converted, and byte vectors under cosine are scaled to unit
//! length. `benches/peers/check_graph_files.py` loads such a file in hnswlib and searches it.

use std::io::{Read, Seek, Write};
use std::path::Path;

use bytemuck::{Pod, Zeroable};
use jasper_core::{BuildParams, ElementKind, Key, Metric, ProgressFn, Slot};
use jasper_data::AtomicFile;

use crate::import::{BUFFER, Import, params_of, read_file};
use crate::rows::Rows;
use crate::source::{Source, expect};
use crate::{ExportError, ImportError, ImportFault};
use jasper_graph::{Graph, write_file};

/// The first fields of the file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Header {
    base_offset: u64,
    capacity: u64,
    count: u64,
    element_bytes: u64,
    label_offset: u64,
    vector_offset: u64,
    top_layer: i32,
    entry_point: u32,
    degree_above: u64,
    max_degree: u64,
    parameter_m: u64,
    layer_factor: f64,
    ef_construction: u64,
}

const HEADER_BYTES: usize = size_of::<Header>();

/// The flag of a deleted element, in the word that also has its degree.
const DELETED: u32 = 1 << 16;

impl Header {
    /// Compares the fields with each other, and with the `size` of the file.
    fn check(&self, size: u64) -> Result<(), ImportFault> {
        expect("offsetLevel0_", self.base_offset, 0_u32, "where the base layer begins")?;
        if self.count > self.capacity {
            let expected = format!("at most max_elements_ ({})", self.capacity);
            return Err(ImportFault::field("cur_element_count", self.count, expected));
        }
        let link_bytes = 4 + 4 * u128::from(self.max_degree);
        expect("offsetData_", self.vector_offset, link_bytes, "from maxM0_")?;
        let coordinates = u128::from(self.label_offset).saturating_sub(link_bytes) / 4;
        expect("label_offset_", self.label_offset, link_bytes + 4 * coordinates.max(1), "from offsetData_")?;
        let element_bytes = u128::from(self.label_offset) + 8;
        expect("size_data_per_element_", self.element_bytes, element_bytes, "from label_offset_")?;
        // Each element also has the number of its bytes in upper layers.
        let least = HEADER_BYTES as u128 + u128::from(self.count).saturating_mul(element_bytes + 4);
        if least > u128::from(size) {
            return Err(ImportFault::Length { claimed: least.try_into().unwrap_or(u64::MAX), actual: size });
        }
        Ok(())
    }
}

/// Whether a file of `size` bytes that begins with `start` is such an index: its header is consistent, and the elements
/// that it counts fit in the file.
pub fn is_graph(start: &[u8], size: u64) -> bool {
    let header =
        start.first_chunk::<HEADER_BYTES>().map(|bytes| bytemuck::pod_read_unaligned::<Header>(bytes));
    header.is_some_and(|header| header.check(size).is_ok())
}

/// Reads an index of f32 vectors that hnswlib wrote to `path`. The file does not record its space, so `metric` must be
/// that of the space. A file of `L2SpaceI`, whose vectors are bytes, looks the same and is not supported. `params` apply to
/// later inserts; if `None`, `max_degree` is that of the base layer, which is 2 `M`.
///
/// Keys are labels. Deleted elements become tombstones, whose keys can be restored. The edges of an element in upper
/// layers are added to those of the base layer, as far as its row has room. Searches start at the entry point:
/// `OpenOptions::import_graph` of the crate `jasper` adds other start points. Cost: one pass over the file; 24 bytes per
/// element.
///
/// # Errors
/// Returns [`ImportError`], naming the file and what is wrong with it.
pub fn read(
    path: impl AsRef<Path>,
    metric: Metric,
    params: Option<BuildParams>,
    progress: &mut ProgressFn<'_>,
) -> Result<Graph, ImportError> {
    read_file(path.as_ref(), |file, size| read_from(file, size, metric, params, progress))
}

/// [`read`] from any source of `actual` bytes.
///
/// # Errors
/// Returns [`ImportFault`].
#[doc(hidden)]
pub fn read_from(
    source: impl Read + Seek,
    actual: u64,
    metric: Metric,
    params: Option<BuildParams>,
    progress: &mut ProgressFn<'_>,
) -> Result<Graph, ImportFault> {
    let mut source = Source::new(source, actual);
    let header: Header = source.value()?;
    header.check(actual)?;
    let params = params_of(params, header.max_degree, header.ef_construction)?;
    // All of these are less than the size of the file, unless there are no elements.
    let rows = header.count as usize;
    let [link_bytes, label_offset, element_bytes] =
        [header.vector_offset, header.label_offset, header.element_bytes].map(|bytes| bytes as usize);
    let dimension = (label_offset - link_bytes) / 4;
    let mut import = Import::without_vectors(ElementKind::F32, rows, dimension, metric, params, progress)?;
    let at_once = (BUFFER / element_bytes).clamp(1, rows.max(1));
    let mut elements = vec![0_u8; if rows == 0 { 0 } else { at_once * element_bytes }];
    let (mut keys, mut deleted) = (Vec::<Key>::with_capacity(rows), Vec::new());
    let (mut vector, mut prepared) = (vec![0.0_f32; if rows == 0 { 0 } else { dimension }], Vec::new());
    for start in (0..rows).step_by(at_once) {
        let elements = &mut elements[..at_once.min(rows - start) * element_bytes];
        source.fill(elements)?;
        for (row, element) in (start..).zip(elements.chunks_exact(element_bytes)) {
            let word = bytemuck::pod_read_unaligned::<u32>(&element[..4]);
            let degree = word & 0xFFFF;
            if u64::from(degree) > header.max_degree {
                let bound = header.max_degree as u32;
                return Err(ImportFault::HeaderDegree { vertex: row, degree, bound });
            }
            bytemuck::cast_slice_mut(&mut vector).copy_from_slice(&element[link_bytes..label_offset]);
            import.add_vector(&vector, &mut prepared)?;
            import.link(degree, &mut &element[4..link_bytes])?;
            keys.push(bytemuck::pod_read_unaligned(&element[label_offset..]));
            if word & DELETED != 0 {
                deleted.push(row);
            }
        }
    }
    let per_layer = header.degree_above.saturating_mul(4).saturating_add(4);
    for row in 0..rows {
        let bytes = u64::from(source.value::<u32>()?);
        if bytes % per_layer != 0 {
            let expected = format!("a multiple of {per_layer}, from maxM_");
            return Err(ImportFault::field("linkListSize", bytes, expected));
        }
        let layers: Vec<u32> = source.values(bytes / 4)?;
        // The edges of higher layers lead farther.
        for layer in layers.chunks(per_layer as usize / 4).rev() {
            let degree = layer[0] & 0xFFFF;
            if u64::from(degree) > header.degree_above {
                let bound = header.degree_above as u32;
                return Err(ImportFault::HeaderDegree { vertex: row, degree, bound });
            }
            import.add_edges(row, &layer[1..=degree as usize])?;
        }
    }
    source.finish()?;
    import.assign_keys(&keys, &deleted)?;
    import.finish(header.entry_point)
}

/// Writes the graph to `path`, for hnswlib's `load_index` with the space `l2`, `ip` or `cosine` of the metric and the
/// same dimension. The label of a vertex is its first key. Returns the slots in file order;
/// [`keys_of`](jasper_graph::KeyMap::keys_of) gives the further keys of each.
///
/// Cost: one pass over the graph; 8 bytes per slot.
///
/// # Errors
/// Returns [`ExportError`]. What was at `path` is unchanged, except after [`FileFault::NotSynced`](jasper_graph::FileFault).
pub fn write(graph: &Graph, path: impl AsRef<Path>) -> Result<Vec<Slot>, ExportError> {
    let rows = Rows::new(graph)?;
    let path = path.as_ref();
    write_file(path, AtomicFile::create(path), |file| Ok(write_to(graph, &rows, file)?))?;
    Ok(rows.into_slots())
}

fn write_to(graph: &Graph, rows: &Rows<'_>, out: &mut impl Write) -> std::io::Result<()> {
    let max_degree = graph.params().max_degree();
    let link_bytes = 4 + 4 * max_degree as u64;
    let label_offset = link_bytes + 4 * graph.dimension() as u64;
    let count = rows.len() as u64;
    // hnswlib allows half as many edges above the base layer as in it. There is only a base layer here.
    let links_above = (max_degree as u64 / 2).max(2);
    let header = Header {
        base_offset: 0,
        capacity: count,
        count,
        element_bytes: label_offset + 8,
        label_offset,
        vector_offset: link_bytes,
        top_layer: 0,
        entry_point: rows.start(),
        degree_above: links_above,
        max_degree: max_degree as u64,
        parameter_m: links_above,
        layer_factor: (links_above as f64).ln().recip(),
        ef_construction: graph.params().build_beam_width() as u64,
    };
    out.write_all(bytemuck::bytes_of(&header))?;
    let mut neighbors = Vec::new();
    for slot in rows.iter() {
        rows.neighbors(slot, &mut neighbors);
        // The low half of the word counts; the high half holds flags.
        out.write_all(&(neighbors.len() as u32).to_le_bytes())?;
        neighbors.resize(max_degree, 0);
        out.write_all(bytemuck::cast_slice(&neighbors))?;
        rows.write_f32(slot, out)?;
        out.write_all(&graph.keys().first_key(slot).to_le_bytes())?;
    }
    // Bytes of edges above the base layer, of each element.
    (0..count).try_for_each(|_| out.write_all(&0_u32.to_le_bytes()))?;
    out.flush()
}
