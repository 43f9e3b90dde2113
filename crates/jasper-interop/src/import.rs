//! Reads a graph from the file of another library: first the vectors, then the edges, vertex by vertex.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use bytemuck::Pod;
use jasper_core::{BuildParams, Element, Key, Metric, Progress, ProgressFn, Slot, Stage, VectorSource};
use jasper_data::open_file;

use crate::{ImportError, ImportFault};
use jasper_graph::{Graph, VectorError};

/// Bytes per read.
const BUFFER: usize = 1 << 20;
/// Vectors per read.
const ROWS: usize = 1024;
/// Vertices between reports of progress.
const REPORT: usize = 1 << 14;

pub(crate) struct Import<'a, 'p, T: 'static> {
    graph: Graph<T>,
    /// Vertices whose edges have been read.
    linked: usize,
    neighbors: Vec<u32>,
    edges: Vec<Slot>,
    progress: &'a mut ProgressFn<'p>,
}

impl<'a, 'p, T: Element> Import<'a, 'p, T> {
    /// Stores all vectors. The first `searchable` of them get their position as key; the others stay tombstones.
    pub(crate) fn new(
        vectors: &dyn VectorSource<T>,
        searchable: usize,
        metric: Metric,
        params: BuildParams,
        progress: &'a mut ProgressFn<'p>,
    ) -> Result<Self, ImportFault> {
        let (total, dimension) = (vectors.len(), vectors.dimension());
        let mut graph = Graph::new(metric, dimension, params).map_err(VectorError::from)?;
        let mut chunk = vec![T::default(); ROWS * dimension];
        let mut prepared = Vec::new();
        for start in (0..total).step_by(ROWS) {
            let end = total.min(start + ROWS);
            let chunk = &mut chunk[..(end - start) * dimension];
            vectors.read(start..end, chunk)?;
            for (row, vector) in (start..).zip(chunk.chunks_exact(dimension)) {
                let squared_norm = graph.vectors().prepare(row, vector, &mut prepared)?;
                let slot = graph.add_vector(&prepared, squared_norm)?;
                if row < searchable {
                    graph.keys_mut().assign_unused(row as Key, slot);
                }
            }
            Progress { stage: Stage::Reading, done: end, total }.report(progress)?;
        }
        Ok(Self { graph, linked: 0, neighbors: Vec::new(), edges: Vec::new(), progress })
    }

    /// Reads the edges of the next vertex. Skips repeated edges and those to the vertex itself.
    pub(crate) fn link(&mut self, degree: u32, source: &mut impl Read) -> Result<(), ImportFault> {
        let Self { graph, linked: vertex, neighbors, edges, progress } = self;
        let (rows, max_degree) = (graph.slots(), graph.params().max_degree());
        if *vertex == rows {
            return Err(ImportFault::Vertices { vertices: rows as u64 + 1, rows });
        }
        if degree as usize > max_degree {
            return Err(ImportFault::Degree { vertex: *vertex, degree, max_degree });
        }
        neighbors.resize(degree as usize, 0);
        source.read_exact(bytemuck::cast_slice_mut(neighbors))?;
        edges.clear();
        for &to in neighbors.iter() {
            if to as usize >= rows {
                return Err(ImportFault::Edge { from: format!("an edge of vertex {vertex}"), to, rows });
            }
            let edge = Slot::new(to);
            if to as usize != *vertex && !edges.contains(&edge) {
                edges.push(edge);
            }
        }
        graph.adjacency_mut().set_neighbors(Slot::from_index(*vertex), edges);
        *vertex += 1;
        if vertex.is_multiple_of(REPORT) || *vertex == rows {
            Progress { stage: Stage::Linking, done: *vertex, total: rows }.report(progress)?;
        }
        Ok(())
    }

    /// Returns the graph, once every vertex has its edges.
    pub(crate) fn finish(self, start: u32) -> Result<Graph<T>, ImportFault> {
        let Self { mut graph, linked, .. } = self;
        let rows = graph.slots();
        if linked < rows {
            return Err(ImportFault::Vertices { vertices: linked as u64, rows });
        }
        if rows > 0 {
            if start as usize >= rows {
                return Err(ImportFault::Edge { from: "the start".into(), to: start, rows });
            }
            graph.adjacency_mut().set_start_points(vec![Slot::new(start)]);
        }
        Ok(graph)
    }
}

/// Opens a file for `read`, which also gets its size, and adds the path to its error.
pub(crate) fn read_file<R>(
    path: &Path,
    read: impl FnOnce(BufReader<File>, u64) -> Result<R, ImportFault>,
) -> Result<R, ImportError> {
    let whole = || {
        let file = open_file(path)?;
        let size = file.metadata()?.len();
        read(BufReader::with_capacity(BUFFER, file), size)
    };
    whole().map_err(|fault| ImportError::new(path, fault))
}

/// Reads a value as it is in memory, which is little-endian.
pub(crate) fn read_value<V: Pod>(source: &mut impl Read) -> io::Result<V> {
    let mut value = V::zeroed();
    source.read_exact(bytemuck::bytes_of_mut(&mut value))?;
    Ok(value)
}
