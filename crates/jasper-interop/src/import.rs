//! Reads a graph from the file of another library: each vertex has its vector before it gets its edges.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::path::Path;

use bytemuck::Pod;
use jasper_core::{
    BuildParams, Element, ElementKind, Key, Metric, NO_KEY, Progress, ProgressFn, Slot, Stage, VectorSource,
    defaults,
};
use jasper_data::open_file;

use crate::{ImportError, ImportFault};
use jasper_graph::{Graph, VectorError};

/// Bytes per read.
pub(crate) const BUFFER: usize = 1 << 20;
/// Vectors per read.
const ROWS: usize = 1024;
/// Vertices between reports of progress.
const REPORT: usize = 1 << 14;
/// The largest beam width that [`BuildParams`] may have.
const LARGEST_BEAM_WIDTH: u64 = 4096;

pub(crate) struct Import<'a, 'p> {
    graph: Graph,
    /// Vertices of the whole graph.
    rows: usize,
    /// Vertices whose edges have been read.
    linked: usize,
    neighbors: Vec<u32>,
    edges: Vec<Slot>,
    progress: &'a mut ProgressFn<'p>,
}

impl<'a, 'p> Import<'a, 'p> {
    /// Stores all vectors. The first `searchable` of them get their position as key; the others stay tombstones.
    pub(crate) fn new<T: Element>(
        vectors: &dyn VectorSource<T>,
        searchable: usize,
        metric: Metric,
        params: BuildParams,
        progress: &'a mut ProgressFn<'p>,
    ) -> Result<Self, ImportFault> {
        let (total, dimension) = (vectors.len(), vectors.dimension());
        let mut import = Self::without_vectors(T::KIND, total, dimension, metric, params, progress)?;
        import.add_vectors(|rows, values: &mut [T]| Ok(vectors.read(rows, values)?))?;
        for row in 0..searchable {
            import.graph.keys_mut().assign_unused(row as Key, Slot::from_index(row));
        }
        Ok(import)
    }

    /// A graph that is to have this number of vertices.
    pub(crate) fn without_vectors(
        element: ElementKind,
        rows: usize,
        dimension: usize,
        metric: Metric,
        params: BuildParams,
        progress: &'a mut ProgressFn<'p>,
    ) -> Result<Self, ImportFault> {
        let graph = Graph::new(element, metric, dimension, params).map_err(VectorError::from)?;
        Ok(Self { graph, rows, linked: 0, neighbors: Vec::new(), edges: Vec::new(), progress })
    }

    /// Stores all vectors, without keys: calls `read` for one range of rows after another.
    pub(crate) fn add_vectors<T: Element>(
        &mut self,
        mut read: impl FnMut(Range<usize>, &mut [T]) -> Result<(), ImportFault>,
    ) -> Result<(), ImportFault> {
        let (total, dimension) = (self.rows, self.graph.dimension());
        let (mut chunk, mut prepared) = (vec![T::default(); ROWS.min(total) * dimension], Vec::new());
        for start in (0..total).step_by(ROWS) {
            let end = total.min(start + ROWS);
            let chunk = &mut chunk[..(end - start) * dimension];
            read(start..end, chunk)?;
            chunk.chunks_exact(dimension).try_for_each(|vector| self.add_vector(vector, &mut prepared))?;
            Progress { stage: Stage::Reading, done: end, total }.report(self.progress)?;
        }
        Ok(())
    }

    /// Stores the vector of the next vertex, without a key. `prepared` is scratch memory.
    pub(crate) fn add_vector<T: Element>(
        &mut self,
        vector: &[T],
        prepared: &mut Vec<T>,
    ) -> Result<(), ImportFault> {
        let squared_norm = self.graph.vectors().prepare(self.graph.slots(), vector, prepared)?;
        self.graph.add_vector(prepared, squared_norm)?;
        Ok(())
    }

    /// Assigns the keys of all vertices, which are in the order of `keys`. Those that are `deleted`, given by their
    /// vertices, can be restored.
    pub(crate) fn assign_keys(&mut self, keys: &[Key], deleted: &[usize]) -> Result<(), ImportFault> {
        if let Some(vertex) = keys.iter().position(|&key| key == NO_KEY) {
            return Err(ImportFault::ReservedKey { vertex });
        }
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|&vertex| (keys[vertex], vertex));
        if let Some(pair) = order.windows(2).find(|pair| keys[pair[0]] == keys[pair[1]]) {
            return Err(ImportFault::RepeatedKey { key: keys[pair[0]], vertices: [pair[0], pair[1]] });
        }
        let map = self.graph.keys_mut();
        map.assign_first(keys.iter().enumerate().map(|(vertex, &key)| (key, Slot::from_index(vertex))));
        for &vertex in deleted {
            map.delete(keys[vertex]).expect("each key is live");
        }
        Ok(())
    }

    /// Reads the edges of the next vertex. Skips repeated edges and those to the vertex itself.
    pub(crate) fn link(&mut self, degree: u32, source: &mut impl Read) -> Result<(), ImportFault> {
        let Self { graph, rows, linked: vertex, neighbors, edges, progress, .. } = self;
        let (rows, max_degree) = (*rows, graph.params().max_degree());
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
            let edge = checked_edge(*vertex, to, rows)?;
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

    /// Adds edges of an upper layer to a vertex that has those of the base layer, as far as its row has room.
    pub(crate) fn add_edges(&mut self, vertex: usize, neighbors: &[u32]) -> Result<(), ImportFault> {
        let Self { graph, rows, edges, .. } = self;
        let (slot, max_degree) = (Slot::from_index(vertex), graph.params().max_degree());
        edges.clear();
        edges.extend_from_slice(graph.adjacency().neighbors(slot));
        for &to in neighbors {
            let edge = checked_edge(vertex, to, *rows)?;
            if edge != slot && edges.len() < max_degree && !edges.contains(&edge) {
                edges.push(edge);
            }
        }
        graph.adjacency_mut().set_neighbors(slot, edges);
        Ok(())
    }

    /// Returns the graph, once every vertex has its edges.
    pub(crate) fn finish(self, start: u32) -> Result<Graph, ImportFault> {
        let Self { mut graph, rows, linked, .. } = self;
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

fn checked_edge(from: usize, to: u32, rows: usize) -> Result<Slot, ImportFault> {
    if to as usize >= rows {
        return Err(ImportFault::Edge { from: format!("an edge of vertex {from}"), to, rows });
    }
    Ok(Slot::new(to))
}

/// The parameters for later inserts into a graph whose rows have up to `max_degree` edges, and that was built with
/// searches of this beam width, unless others are given.
pub(crate) fn params_of(
    given: Option<BuildParams>,
    max_degree: u64,
    build_beam_width: u64,
) -> Result<BuildParams, ImportFault> {
    if let Some(params) = given {
        return Ok(params);
    }
    let beam_width = build_beam_width.clamp(defaults::BUILD_BEAM_WIDTH as u64, LARGEST_BEAM_WIDTH);
    Ok(BuildParams::builder()
        .max_degree(usize::try_from(max_degree).unwrap_or(usize::MAX))
        .build_beam_width(beam_width as usize)
        .build()?)
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
