//! The HNSW indexes of faiss. Their base layer is read as our graph, in whose rows the edges of upper layers are added;
//! and our graph is written as a base layer without upper ones, which faiss, OpenSearch and Milvus search.
//!
//! | bytes | |
//! | --- | --- |
//! | 37 | type `IxMp` or `IxM2` of an id map, and its header; without ids, this is left out |
//! | 37 | type `IHNf` or `IHNs`, and the header of the HNSW index |
//! | 8 + 8 L | vector of f64: probabilities of layers |
//! | 8 + 4 (L + 1) | vector of i32: neighbors that a vertex has in the layers below each; the second number is the degree of the base layer |
//! | 8 + 4 n | vector of i32: layers of each vertex |
//! | 8 + 8 (n + 1) | vector of u64: where the neighbors of each vertex begin |
//! | 8 + 4 m | vector of i32: neighbors, and -1 in unused places |
//! | 20 | as i32: entry point, highest layer, `efConstruction`, `efSearch`, and one more |
//! | 37 | type `IxF2`, `IxFI` or `IxFl`, or `IxSQ`, and the header of the vectors |
//! | 24 + 8 | of `IxSQ`: i32 kind of code, 8 bytes, u64 dimension, u64 bytes per vector, and a vector of f32 that is empty |
//! | 8 + | vectors: a number of f32 and these, or of bytes |
//! | 8 + 8 n | of an id map: a vector of i64 |
//!
//! A header is the type, i32 dimension, i64 number of vectors, two i64, u8, and the i32 metric (0: inner product, 1: L2).
//! A vector in the sense of C++ is its u64 length, then its elements.
//!
//! Source: `write_index`, `write_HNSW` and `write_index_header` in `impl/index_write.cpp`, `HNSW.h` and
//! `ScalarQuantizer.h`, of facebookresearch/faiss 1.15, on a machine of 64 bits and little endian, and files that it wrote.

mod read;
mod write;

use jasper_core::{ElementKind, Metric};

use crate::ImportFault;

pub use read::{read, read_from};
pub use write::write;

/// Types of indexes.
const ID_MAP: [u8; 4] = *b"IxMp";
const ID_MAP_BOTH_WAYS: [u8; 4] = *b"IxM2";
const HNSW_FLAT: [u8; 4] = *b"IHNf";
const HNSW_SCALAR: [u8; 4] = *b"IHNs";
const FLAT_L2: [u8; 4] = *b"IxF2";
const FLAT_PRODUCT: [u8; 4] = *b"IxFI";
const FLAT: [u8; 4] = *b"IxFl";
const SCALAR: [u8; 4] = *b"IxSQ";

/// Bytes of a header with its type.
const HEADER_BYTES: usize = 37;
/// Two fields of a header that faiss ignores.
const DUMMY: i64 = 1 << 20;

/// faiss's number of a metric.
const INNER_PRODUCT: i32 = 0;
const L2: i32 = 1;

/// Whether a file that begins with `start` is such an index, by the types in its first two headers.
pub fn is_graph(start: &[u8]) -> bool {
    let kind = |start: &[u8]| start.first_chunk::<4>().copied();
    let is_hnsw = |kind| matches!(kind, Some(HNSW_FLAT | HNSW_SCALAR));
    match kind(start) {
        Some(ID_MAP | ID_MAP_BOTH_WAYS) => is_hnsw(start.get(HEADER_BYTES..).and_then(kind)),
        kind => is_hnsw(kind),
    }
}

/// The vectors that are stored as elements of ours.
fn element_of_code(kind: i32) -> Result<ElementKind, ImportFault> {
    match kind {
        4 => Ok(ElementKind::F16),
        5 => Ok(ElementKind::U8),
        8 => Ok(ElementKind::I8),
        _ => Err(ImportFault::Unsupported {
            found: format!("its vectors are codes of the scalar quantizer {kind}"),
            remedy: "those of QT_fp16, QT_8bit_direct and QT_8bit_direct_signed are read; reconstruct the others in \
                     faiss, and build an index of them",
        }),
    }
}

/// Our metric for faiss's number of one.
fn metric_of(number: i32) -> Result<Metric, ImportFault> {
    match number {
        L2 => Ok(Metric::L2),
        INNER_PRODUCT => Ok(Metric::InnerProduct),
        _ => Err(ImportFault::Unsupported {
            found: format!("is of faiss's metric {number}"),
            remedy: "indexes of METRIC_L2 and METRIC_INNER_PRODUCT are read",
        }),
    }
}
