//! Writes a graph as an `IndexIDMap` of an `IndexHNSWFlat`, with a base layer only. All of its vectors are f32: other
//! elements are converted, and cosine is the inner product of vectors of unit length.
//! `crates/jasper-python/tests/test_export.py` loads such files in faiss and searches them.

use std::io::{self, Write};
use std::path::Path;

use bytemuck::NoUninit;
use jasper_core::{Metric, Slot};
use jasper_data::AtomicFile;

use super::{DUMMY, FLAT_L2, FLAT_PRODUCT, HNSW_FLAT, ID_MAP, INNER_PRODUCT, L2};
use crate::ExportError;
use crate::rows::Rows;
use jasper_graph::{Graph, write_file};

/// Fills the rows of neighbors.
const NO_NEIGHBOR: u32 = u32::MAX;
/// faiss has no layer that a vertex reaches with less probability.
const LEAST_PROBABILITY: f64 = 1e-9;

/// Writes the graph to `path`, for faiss's `read_index`. The id of a vertex is its first key. Search with
/// `hnsw.efSearch` as the beam width, which is k or 64 here. Distances of `ip` and `cosine` are inner products: larger
/// is nearer. For `cosine`, queries must have unit length. Returns the slots in file order;
/// [`keys_of`](jasper_graph::KeyMap::keys_of) gives the further keys of each.
///
/// Cost: one pass over the graph; 8 bytes per slot.
///
/// # Errors
/// Returns [`ExportError`]. What was at `path` is unchanged, except after [`FileFault::NotSynced`](jasper_graph::FileFault).
pub fn write(graph: &Graph, path: impl AsRef<Path>) -> Result<Vec<Slot>, ExportError> {
    let rows = Rows::new(graph)?;
    let path = path.as_ref();
    write_file(path, AtomicFile::create(path), |file| {
        Ok(FaissWriter { graph, rows: &rows, out: file }.write()?)
    })?;
    Ok(rows.into_slots())
}

struct FaissWriter<'a, W> {
    graph: &'a Graph,
    rows: &'a Rows<'a>,
    out: W,
}

impl<W: Write> FaissWriter<'_, W> {
    fn write(mut self) -> io::Result<()> {
        self.header(ID_MAP)?;
        self.header(HNSW_FLAT)?;
        self.graph_of_neighbors()?;
        self.vectors()?;
        self.keys()?;
        self.out.flush()
    }

    /// A four-letter type, and what all indexes have.
    fn header(&mut self, kind: [u8; 4]) -> io::Result<()> {
        self.out.write_all(&kind)?;
        self.number(self.graph.dimension() as i32)?;
        [self.rows.len() as i64, DUMMY, DUMMY].into_iter().try_for_each(|field| self.number(field))?;
        let is_trained = 1_u8;
        self.number(is_trained)?;
        self.number(if self.graph.metric() == Metric::L2 { L2 } else { INNER_PRODUCT })
    }

    fn graph_of_neighbors(&mut self) -> io::Result<()> {
        let (count, max_degree) = (self.rows.len(), self.graph.params().max_degree());
        // faiss allows half as many neighbors above the base layer as in it, and draws the highest layer of a vector that
        // is added from these probabilities.
        let above = (max_degree / 2).max(2);
        let probability = |layer: i32| (above as f64).powi(-layer) * (1.0 - 1.0 / above as f64);
        let probabilities: Vec<f64> =
            (0..).map(probability).take_while(|&probability| probability >= LEAST_PROBABILITY).collect();
        let ends = (0..=probabilities.len()).map(|layers| match layers {
            0 => 0,
            layers => (max_degree + (layers - 1) * above) as i32,
        });
        let ends: Vec<i32> = ends.collect();
        self.vector(&probabilities)?;
        self.vector(&ends)?;
        // Layers of each vertex, and where its neighbors begin.
        self.vector_of(count, |_| 1_i32)?;
        self.vector_of(count + 1, |row| (row * max_degree) as u64)?;
        self.number((count * max_degree) as u64)?;
        let mut neighbors = Vec::new();
        for slot in self.rows.iter() {
            self.rows.neighbors(slot, &mut neighbors);
            neighbors.resize(max_degree, NO_NEIGHBOR);
            self.out.write_all(bytemuck::cast_slice(&neighbors))?;
        }
        // Entry point, highest layer, efConstruction, efSearch, and one that faiss ignores.
        self.number(self.rows.start())?;
        let build_beam_width = self.graph.params().build_beam_width() as i32;
        [0, build_beam_width, 64, 1].into_iter().try_for_each(|field: i32| self.number(field))
    }

    fn vectors(&mut self) -> io::Result<()> {
        self.header(if self.graph.metric() == Metric::L2 { FLAT_L2 } else { FLAT_PRODUCT })?;
        self.number((self.rows.len() * self.graph.dimension()) as u64)?;
        self.rows.iter().try_for_each(|slot| self.rows.write_f32(slot, &mut self.out))
    }

    fn keys(&mut self) -> io::Result<()> {
        self.number(self.rows.len() as u64)?;
        let keys = self.graph.keys();
        self.rows.iter().try_for_each(|slot| self.out.write_all(&keys.first_key(slot).to_le_bytes()))
    }

    /// A vector in the sense of C++: its length, then its elements.
    fn vector<N: NoUninit>(&mut self, elements: &[N]) -> io::Result<()> {
        self.vector_of(elements.len(), |i| elements[i])
    }

    fn vector_of<N: NoUninit>(&mut self, len: usize, element: impl Fn(usize) -> N) -> io::Result<()> {
        self.number(len as u64)?;
        (0..len).try_for_each(|i| self.number(element(i)))
    }

    fn number<N: NoUninit>(&mut self, number: N) -> io::Result<()> {
        self.out.write_all(bytemuck::bytes_of(&number))
    }
}
