//! The graph file of ParlayANN: u32 vertices, u32 largest degree, a u32 degree per vertex, then all neighbors as u32.
//!
//! Source: `utils/graph.h` of cmuparlay/ParlayANN. Searches start at vertex 0, as in ParlayANN.

use std::io::Read;
use std::path::Path;

use jasper_core::{BuildParams, Element, Metric, ProgressFn, VectorSource};

use crate::import::{Import, read_file, read_value};
use crate::{ImportError, ImportFault};
use jasper_graph::Graph;

const HEADER_BYTES: u64 = 8;

/// Reads a graph that ParlayANN wrote to `path`. `vectors` are those it was built from. `params` apply to later
/// inserts.
///
/// Keys are positions in `vectors`. Cost: one pass over both; 4 bytes per vertex.
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
    if actual < HEADER_BYTES {
        return Err(ImportFault::Length { claimed: HEADER_BYTES, actual });
    }
    let [vertices, bound]: [u32; 2] = read_value(&mut source)?;
    let vertices = u64::from(vertices);
    if vertices != rows as u64 {
        return Err(ImportFault::Vertices { vertices, rows });
    }
    let least = HEADER_BYTES + 4 * vertices;
    if actual < least {
        return Err(ImportFault::Length { claimed: least, actual });
    }
    let mut degrees = vec![0_u32; rows];
    source.read_exact(bytemuck::cast_slice_mut(&mut degrees))?;
    if let Some(vertex) = degrees.iter().position(|&degree| degree > bound) {
        return Err(ImportFault::HeaderDegree { vertex, degree: degrees[vertex], bound });
    }
    let claimed = least + degrees.iter().map(|&degree| 4 * u64::from(degree)).sum::<u64>();
    if actual != claimed {
        return Err(ImportFault::Length { claimed, actual });
    }
    let mut import = Import::new(vectors, rows, metric, params, progress)?;
    degrees.into_iter().try_for_each(|degree| import.link(degree, &mut source))?;
    import.finish(0)
}
