//! Reads an index of faiss.

use std::io::{Read, Seek};
use std::ops::RangeInclusive;
use std::path::Path;

use bytemuck::Pod;
use jasper_core::{
    BuildParams, Element, ElementKind, Key, MAX_DIMENSION, MAX_VECTORS, Metric, ProgressFn, with_element,
};

use super::{
    FLAT, FLAT_L2, FLAT_PRODUCT, HNSW_FLAT, HNSW_SCALAR, ID_MAP, ID_MAP_BOTH_WAYS, SCALAR, element_of_code,
    metric_of,
};
use crate::import::{Import, params_of, read_file};
use crate::source::{Source, expect};
use crate::{ImportError, ImportFault};
use jasper_graph::Graph;

/// Reads an `IndexHNSWFlat` or `IndexHNSWSQ`, alone or in an `IndexIDMap` or `IndexIDMap2`, that faiss wrote to `path`.
/// Its vectors are f32 in an `IndexHNSWFlat`; in an `IndexHNSWSQ`, f16 for `QT_fp16`, u8 for `QT_8bit_direct` and i8 for
/// `QT_8bit_direct_signed`. The metric is that of the file; `cosine` may be given for an index of inner products whose
/// vectors have unit length. `params` apply to later inserts; if `None`, `max_degree` is that of the base layer, which is
/// 2 `M`.
///
/// Keys are the ids of the id map, or else positions. The edges of a vector in upper layers are added to those of the base
/// layer, as far as its row has room. Searches start at the entry point: `OpenOptions::import_graph` of the crate `jasper`
/// adds other start points. Cost: one pass over the file; 20 bytes per vector.
///
/// # Errors
/// Returns [`ImportError`], naming the file and what is wrong with it.
pub fn read(
    path: impl AsRef<Path>,
    metric: Option<Metric>,
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
    metric: Option<Metric>,
    params: Option<BuildParams>,
    progress: &mut ProgressFn<'_>,
) -> Result<Graph, ImportFault> {
    let mut source = Source::new(source, actual);
    let parts = Parts::read(&mut source)?;
    let Header { rows, dimension, metric: held } = parts.header;
    let held = metric_of(held)?;
    let metric = match metric {
        Some(given) if given != held && (given, held) != (Metric::Cosine, Metric::InnerProduct) => {
            return Err(ImportFault::Metric { held, given });
        }
        given => given.unwrap_or(held),
    };
    let (element, max_degree) = (parts.element, parts.width_of(1));
    let params = params_of(params, max_degree as u64, parts.build_beam_width)?;
    let mut import = Import::without_vectors(element, rows, dimension, metric, params, progress)?;
    source.go_to(parts.vectors_at)?;
    with_element!(element, T => import.add_vectors(|_, values: &mut [T]| {
        source.fill(values)?;
        if T::KIND == ElementKind::I8 {
            // Stored as u8, with an offset of 128.
            bytemuck::cast_slice_mut(values).iter_mut().for_each(|byte: &mut u8| *byte ^= 0x80);
        }
        Ok(())
    }))?;
    source.go_to(parts.neighbors_at)?;
    let mut neighbors: Vec<i32> = Vec::new();
    for (vertex, &layers) in parts.layers.iter().enumerate() {
        neighbors.resize(parts.width_of(layers as usize), 0);
        source.fill(&mut neighbors)?;
        // Unused places follow the edges of a layer.
        let edges = |layer: usize| {
            let places = &neighbors[parts.width_of(layer)..parts.width_of(layer + 1)];
            let degree = places.iter().take_while(|&&to| to >= 0).count();
            bytemuck::cast_slice::<i32, u32>(&places[..degree])
        };
        let base = edges(0);
        import.link(base.len() as u32, &mut bytemuck::cast_slice(base))?;
        // The edges of higher layers lead farther.
        for layer in (1..layers as usize).rev() {
            import.add_edges(vertex, edges(layer))?;
        }
    }
    import.assign_keys(&parts.keys, &[])?;
    import.finish(parts.start)
}

/// The header of an index, without its type.
#[derive(Clone, Copy)]
struct Header {
    rows: usize,
    dimension: usize,
    /// faiss's number of the metric.
    metric: i32,
}

impl Header {
    fn read<R: Read + Seek>(source: &mut Source<R>) -> Result<Self, ImportFault> {
        let [dimension, rows] = [i64::from(source.value::<i32>()?), source.value()?];
        source.skip(2, 8)?;
        source.skip(1, 1)?;
        let metric = source.value()?;
        // Others have an argument here.
        metric_of(metric)?;
        let number = |name, value: i64, range: RangeInclusive<i64>| match range.contains(&value) {
            true => Ok(value as usize),
            false => {
                let expected = format!("between {} and {}", range.start(), range.end());
                Err(ImportFault::field(name, value, expected))
            }
        };
        Ok(Self {
            rows: number("ntotal", rows, 0..=MAX_VECTORS as i64)?,
            dimension: number("d", dimension, 1..=MAX_DIMENSION as i64)?,
            metric,
        })
    }

    /// Reads the header of an index within another, which has the same vectors.
    fn read_inner<R: Read + Seek>(self, source: &mut Source<R>) -> Result<(), ImportFault> {
        let inner = Self::read(source)?;
        expect("ntotal", inner.rows as u64, self.rows as u64, "that of the outer index")?;
        expect("d", inner.dimension as u64, self.dimension as u64, "that of the outer index")?;
        expect("metric_type", inner.metric as u64, self.metric as u64, "that of the outer index")
    }
}

/// What an index has, and where its vectors and edges begin.
struct Parts {
    header: Header,
    element: ElementKind,
    /// Neighbors that a vertex has in the layers below each, of `i32`.
    ends: Vec<i32>,
    /// Layers of each vertex, from 1 to the last of `ends`.
    layers: Vec<i32>,
    neighbors_at: u64,
    start: u32,
    build_beam_width: u64,
    vectors_at: u64,
    keys: Vec<Key>,
}

impl Parts {
    /// Reads everything but vectors and edges, and checks it.
    fn read<R: Read + Seek>(source: &mut Source<R>) -> Result<Self, ImportFault> {
        let mut kind: [u8; 4] = source.value()?;
        let map = match kind {
            ID_MAP | ID_MAP_BOTH_WAYS => Some(Header::read(source)?),
            _ => None,
        };
        if map.is_some() {
            kind = source.value()?;
        }
        if !matches!(kind, HNSW_FLAT | HNSW_SCALAR) {
            return Err(unread("index", kind));
        }
        let header = match map {
            Some(map) => {
                map.read_inner(source)?;
                map
            }
            None => Header::read(source)?,
        };
        let rows = header.rows as u64;

        let probabilities = source.value()?;
        source.skip(probabilities, 8)?;
        let ends = read_vector::<i32, _>(source)?;
        if ends.len() < 2 || ends[0] != 0 || !ends.is_sorted_by(|a, b| a < b) {
            let expected = "the length of at least 2 numbers that ascend from 0";
            return Err(ImportFault::field("cum_nneighbor_per_level", ends.len(), expected));
        }
        let layers = read_vector::<i32, _>(source)?;
        expect("levels.size()", layers.len() as u64, rows, "that of ntotal")?;
        let offsets = read_vector::<u64, _>(source)?;
        expect("offsets.size()", offsets.len() as u64, rows + 1, "one more than ntotal")?;
        let mut end = 0;
        for (&layers, &offset) in layers.iter().zip(&offsets) {
            expect("offsets", offset, end, "the sum of the rows before it")?;
            let width = usize::try_from(layers).ok().filter(|&layers| layers > 0).and_then(|l| ends.get(l));
            let Some(&width) = width else {
                let expected = format!("between 1 and {}", ends.len() - 1);
                return Err(ImportFault::field("levels", layers, expected));
            };
            end += width as u64;
        }
        expect("offsets", offsets[layers.len()], end, "the sum of the rows before it")?;
        let neighbors = source.value()?;
        expect("neighbors.size()", neighbors, end, "the last of offsets")?;
        let neighbors_at = source.skip(neighbors, 4)?;
        let [start, _, build_beam_width, _, _]: [i32; 5] = source.value()?;

        let (element, vectors_at) = read_storage(source, kind, header)?;
        let keys: Vec<Key> = match map {
            Some(_) => {
                read_vector::<i64, _>(source)?.into_iter().map(key_of).collect::<Result<_, ImportFault>>()?
            }
            None => (0..rows).collect(),
        };
        expect("id_map.size()", keys.len() as u64, rows, "that of ntotal")?;
        source.finish()?;
        Ok(Self {
            header,
            element,
            ends,
            layers,
            neighbors_at,
            // Negative numbers are larger than that of any vertex.
            start: start as u32,
            build_beam_width: build_beam_width.max(0) as u64,
            vectors_at,
            keys,
        })
    }

    /// Neighbors of a vertex of this number of layers.
    fn width_of(&self, layers: usize) -> usize {
        self.ends[layers] as usize
    }
}

/// Reads the index of the vectors, but not these; returns their type and where they begin.
fn read_storage<R: Read + Seek>(
    source: &mut Source<R>,
    hnsw: [u8; 4],
    header: Header,
) -> Result<(ElementKind, u64), ImportFault> {
    let kind = source.value()?;
    match (hnsw, kind) {
        (HNSW_FLAT, FLAT_L2 | FLAT_PRODUCT | FLAT) | (HNSW_SCALAR, SCALAR) => header.read_inner(source)?,
        _ => return Err(unread("storage of vectors", kind)),
    }
    let (rows, dimension) = (header.rows as u64, header.dimension as u64);
    let element = if kind == SCALAR {
        let [code, _, _]: [i32; 3] = source.value()?;
        let element = element_of_code(code)?;
        let bytes = dimension * element.size() as u64;
        expect("ScalarQuantizer.d", source.value()?, dimension, "that of the index")?;
        expect("ScalarQuantizer.code_size", source.value()?, bytes, "from d")?;
        let trained = source.value()?;
        source.skip(trained, 4)?;
        element
    } else {
        ElementKind::F32
    };
    // Flat vectors are counted in numbers, others in bytes.
    let width = if kind == SCALAR { 1 } else { 4 };
    let len = source.value()?;
    expect("codes.size()", len, rows * dimension * element.size() as u64 / width, "from ntotal and d")?;
    Ok((element, source.skip(len, width)?))
}

/// The key for an id.
fn key_of(id: i64) -> Result<Key, ImportFault> {
    let expected = "0 or more; give the vector another id in faiss";
    Key::try_from(id).map_err(|_| ImportFault::field("id_map", id, expected))
}

/// A vector in the sense of C++: its length, then its elements.
fn read_vector<V: Pod, R: Read + Seek>(source: &mut Source<R>) -> Result<Vec<V>, ImportFault> {
    let len = source.value()?;
    source.values(len)
}

fn unread(what: &str, kind: [u8; 4]) -> ImportFault {
    ImportFault::Unsupported {
        found: format!("its {what} is of faiss's type `{}`", kind.escape_ascii()),
        remedy: "IndexHNSWFlat (IHNf) and IndexHNSWSQ (IHNs) are read, alone or in an IndexIDMap; for others, \
                 reconstruct the vectors in faiss, and build an index of them",
    }
}
