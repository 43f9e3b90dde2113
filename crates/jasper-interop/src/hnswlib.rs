//! The index file of hnswlib, with a base layer only, so that hnswlib searches our graph.
//!
//! Source: `saveIndex` and `loadIndex` in `hnswalg.h` of nmslib/hnswlib 0.8.0, on a machine of 64 bits. All of its
//! vectors are f32: other elements are converted, and byte vectors under cosine are scaled to unit length.
//! `benches/peers/check_graph_files.py` loads such a file in hnswlib and searches it.

use std::io::Write;
use std::path::Path;

use jasper_core::{Element, Slot};
use jasper_data::AtomicFile;

use crate::ExportError;
use crate::rows::Rows;
use jasper_graph::{Graph, write_file};

const HEADER_BYTES: usize = 96;

/// Whether a file of `size` bytes that begins with `start` is such an index: its header is consistent, and the elements
/// that it counts fit in the file.
pub fn is_graph(start: &[u8], size: u64) -> bool {
    let Some(header) = start.first_chunk::<HEADER_BYTES>() else { return false };
    let field = |i: usize| u128::from(u64::from_le_bytes(std::array::from_fn(|byte| header[8 * i + byte])));
    let [first, capacity, count, element, label, data] = std::array::from_fn(field);
    let max_degree = field(8);
    // Above the base layer, each element has at least the number of its bytes.
    let bytes = count.saturating_mul(element + 4).saturating_add(HEADER_BYTES as u128);
    first == 0
        && count <= capacity
        && data == 4 + 4 * max_degree
        && data <= label
        && label + 8 == element
        && bytes <= u128::from(size)
}

/// Writes the graph to `path`, for hnswlib's `load_index` with the space `l2`, `ip` or `cosine` of the metric and the
/// same dimension. The label of a vertex is its first key. Returns the slots in file order;
/// [`keys_of`](jasper_graph::KeyMap::keys_of) gives the further keys of each.
///
/// Cost: one pass over the graph; 8 bytes per slot.
///
/// # Errors
/// Returns [`ExportError`]. What was at `path` is unchanged, except after [`FileFault::NotSynced`](jasper_graph::FileFault).
pub fn write<T: Element>(graph: &Graph<T>, path: impl AsRef<Path>) -> Result<Vec<Slot>, ExportError> {
    let rows = Rows::new(graph)?;
    let path = path.as_ref();
    write_file(path, AtomicFile::create(path), |file| Ok(write_to(graph, &rows, file)?))?;
    Ok(rows.into_slots())
}

fn write_to<T: Element>(graph: &Graph<T>, rows: &Rows<'_, T>, out: &mut impl Write) -> std::io::Result<()> {
    let max_degree = graph.params().max_degree();
    let link_bytes = 4 + 4 * max_degree as u64;
    let label_offset = link_bytes + 4 * graph.dimension() as u64;
    let count = rows.len() as u64;
    // hnswlib allows half as many edges above the base layer as in it. There is only a base layer here.
    let links_above = (max_degree as u64 / 2).max(2);

    // offsetLevel0, max_elements, count, size_data_per_element, label_offset, offsetData
    for field in [0, count, count, label_offset + 8, label_offset, link_bytes] {
        out.write_all(&field.to_le_bytes())?;
    }
    // maxlevel, enterpoint
    out.write_all(&0_i32.to_le_bytes())?;
    out.write_all(&rows.start().to_le_bytes())?;
    // maxM, maxM0, M, mult, ef_construction
    for field in [links_above, max_degree as u64, links_above] {
        out.write_all(&field.to_le_bytes())?;
    }
    out.write_all(&(links_above as f64).ln().recip().to_le_bytes())?;
    out.write_all(&(graph.params().build_beam_width() as u64).to_le_bytes())?;

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
