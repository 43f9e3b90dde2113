//! The in-memory graph of DiskANN: `<prefix>` with the edges, `<prefix>.data` with the vectors.
//!
//! | offset | type | |
//! | --- | --- | --- |
//! | 0 | u64 | bytes of the file |
//! | 8 | u32 | largest degree |
//! | 12 | u32 | start vertex |
//! | 16 | u64 | frozen points: the last vertices, traversed and never returned |
//! | 24 | | for each vertex a u32 degree and as many u32 neighbors |
//!
//! Sources: `in_mem_graph_store.cpp` of microsoft/DiskANN (branch cpp_main), and files that diskannpy 0.7.0 wrote and
//! read. The file does not store the number of vertices: it equals that of the vectors.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;

use bytemuck::{Pod, Zeroable};
use jasper_core::{BuildParams, Element, Metric, ProgressFn, Slot, VectorSource};
use jasper_data::AtomicFile;

use crate::import::{Import, read_file, read_value};
use crate::rows::Rows;
use crate::{ExportError, ImportError, ImportFault};
use jasper_graph::{Graph, write_file};

/// The first fields of the file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Header {
    bytes: u64,
    largest_degree: u32,
    start: u32,
    frozen: u64,
}

const HEADER_BYTES: u64 = size_of::<Header>() as u64;

/// Whether a file of `size` bytes that begins with `start` is such a graph: its header names its length.
pub fn is_graph(start: &[u8], size: u64) -> bool {
    size >= HEADER_BYTES && start.first_chunk().is_some_and(|&bytes| u64::from_le_bytes(bytes) == size)
}

/// Reads a graph that DiskANN (or cuVS Vamana) wrote to `path`. `vectors` are those it was built from, including frozen
/// points, as in its `.data` file. `params` apply to later inserts.
///
/// Keys are positions in `vectors`; frozen points have none and become tombstones. Cost: one pass over both.
///
/// # Errors
/// Returns [`ImportError`], naming the file and what is wrong with it.
pub fn read<T: Element>(
    path: impl AsRef<Path>,
    vectors: &dyn VectorSource<T>,
    metric: Metric,
    params: BuildParams,
    progress: &mut ProgressFn<'_>,
) -> Result<Graph, ImportError> {
    read_file(path.as_ref(), |file, size| read_from(file, size, vectors, metric, params, progress))
}

/// [`read`] from any source of `actual` bytes.
///
/// # Errors
/// Returns [`ImportFault`].
#[doc(hidden)]
pub fn read_from<T: Element>(
    mut source: impl Read,
    actual: u64,
    vectors: &dyn VectorSource<T>,
    metric: Metric,
    params: BuildParams,
    progress: &mut ProgressFn<'_>,
) -> Result<Graph, ImportFault> {
    let rows = vectors.len();
    let least = HEADER_BYTES + 4 * rows as u64;
    if actual < least {
        return Err(ImportFault::Length { claimed: least, actual });
    }
    let Header { bytes: claimed, largest_degree: bound, start, frozen } = read_value(&mut source)?;
    if claimed != actual {
        return Err(ImportFault::Length { claimed, actual });
    }
    if frozen > rows as u64 {
        return Err(ImportFault::Frozen { frozen, rows });
    }
    let mut import = Import::new(vectors, rows - frozen as usize, metric, params, progress)?;
    let mut left = actual - HEADER_BYTES;
    let mut vertex = 0;
    while left > 0 {
        let needed = |bytes: u64| ImportFault::Length { claimed: actual - left + bytes, actual };
        if left < 4 {
            return Err(needed(4));
        }
        let degree: u32 = read_value(&mut source)?;
        if degree > bound {
            return Err(ImportFault::HeaderDegree { vertex, degree, bound });
        }
        let record = 4 + 4 * u64::from(degree);
        if left < record {
            return Err(needed(record));
        }
        import.link(degree, &mut source)?;
        left -= record;
        vertex += 1;
    }
    import.finish(start)
}

/// Writes the graph to `path` and its vectors to `path.data`, for `StaticMemoryIndex` of diskannpy. f16 vectors are
/// written as f32, which DiskANN can read.
///
/// Returns the slot of each row of the files; [`keys_of`](jasper_graph::KeyMap::keys_of) gives its keys. Rows are ordered by
/// first key, so if keys are the numbers from 0 on, they equal rows.
///
/// Cost: one pass over the graph; 8 bytes per slot.
///
/// # Errors
/// Returns [`ExportError`]; each of the two files is then entirely the old or the new one.
pub fn write(graph: &Graph, path: impl AsRef<Path>) -> Result<Vec<Slot>, ExportError> {
    let path = path.as_ref();
    let rows = Rows::new(graph)?;
    let mut data_path = OsString::from(path);
    data_path.push(".data");
    let data_path = Path::new(&data_path);
    write_file(data_path, AtomicFile::create(data_path), |file| Ok(write_data(graph, &rows, file)?))?;
    write_file(path, AtomicFile::create(path), |file| Ok(write_graph(graph, &rows, file)?))?;
    Ok(rows.into_slots())
}

fn write_data(graph: &Graph, rows: &Rows<'_>, out: &mut impl Write) -> std::io::Result<()> {
    out.write_all(&(rows.len() as u32).to_le_bytes())?;
    out.write_all(&(graph.dimension() as u32).to_le_bytes())?;
    for slot in rows.iter() {
        if graph.element().is_integer() {
            out.write_all(&graph.vectors().padded_bytes(slot)[..graph.dimension()])?;
        } else {
            rows.write_f32(slot, out)?;
        }
    }
    out.flush()
}

fn write_graph(graph: &Graph, rows: &Rows<'_>, out: &mut impl Write) -> std::io::Result<()> {
    let largest = rows.iter().map(|slot| graph.adjacency().neighbors(slot).len()).max().unwrap_or(0);
    let bytes = HEADER_BYTES + 4 * (rows.len() as u64 + graph.adjacency().edges());
    let header = Header { bytes, largest_degree: largest as u32, start: rows.start(), frozen: 0 };
    out.write_all(bytemuck::bytes_of(&header))?;
    let mut neighbors = Vec::new();
    for slot in rows.iter() {
        rows.neighbors(slot, &mut neighbors);
        out.write_all(&(neighbors.len() as u32).to_le_bytes())?;
        out.write_all(bytemuck::cast_slice(&neighbors))?;
    }
    out.flush()
}
