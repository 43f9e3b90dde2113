//! Quantized codes of the vectors, from which searches estimate distances.

use std::io;
use std::sync::Arc;

use jasper_core::distance::prefetch_l2;
use jasper_core::{Element, ElementKind, Slot, with_element};
use jasper_quant::{ENCODE_ROWS, EncodeBuffers, Quantizer, QueryCode};

use super::{Block, ComputeDistances, VectorTable};
use crate::{Graph, Segments, VectorError};

/// The code of each slot's vector, and the quantizer that made them.
#[derive(Debug)]
pub struct Codes {
    pub(crate) quantizer: Arc<dyn Quantizer>,
    /// `(slots, layout.words())`.
    pub(crate) table: Segments<u32>,
}

/// Consecutive vectors and room for their codes, to be encoded by one thread: see [`Graph::encode`].
#[derive(Debug)]
pub struct CodeChunk<'a> {
    /// Padded rows of `width` blocks.
    rows: &'a [Block],
    width: usize,
    element: ElementKind,
    quantizer: &'a dyn Quantizer,
    codes: &'a mut [u32],
}

impl Codes {
    /// Copies the codes; both have the same quantizer.
    ///
    /// # Errors
    /// Returns an error if memory cannot be reserved.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { quantizer: Arc::clone(&self.quantizer), table: self.table.try_clone()? })
    }
}

/// A quantizer and its buffers.
#[derive(Debug)]
pub(crate) struct Encoder<'a> {
    quantizer: &'a dyn Quantizer,
    scratch: EncodeBuffers,
    values: Vec<f32>,
}

/// Vectors, codes and tuned searches of a graph, in memory that it shares until it replaces them: see
/// [`Graph::keep_vectors`].
#[derive(Debug)]
pub struct KeptVectors {
    slots: usize,
    vectors: VectorTable,
    tuned: Vec<u8>,
}

/// Rows of a [`CodeChunk`].
const CHUNK_ROWS: usize = 1024;

impl<'a> Encoder<'a> {
    pub(crate) fn new(quantizer: &'a dyn Quantizer) -> Self {
        Self { quantizer, scratch: EncodeBuffers::default(), values: Vec::new() }
    }

    /// Encodes rows of `width` elements, padded or not. Cheapest for [`ENCODE_ROWS`] rows at a time.
    pub(crate) fn encode<T: Element>(&mut self, rows: &[T], width: usize, out: &mut [u32]) {
        let dimension = self.quantizer.dimension();
        self.values.resize(rows.len() / width * dimension, 0.0);
        for (values, row) in self.values.chunks_exact_mut(dimension).zip(rows.chunks_exact(width)) {
            T::slice_to_f32(&row[..dimension], values);
        }
        self.quantizer.encode(&mut self.values, &mut self.scratch, out);
    }
}

impl CodeChunk<'_> {
    /// Encodes the vectors.
    pub fn fill(self) {
        let mut encoder = Encoder::new(self.quantizer);
        let codes = self.codes.chunks_mut(ENCODE_ROWS * self.quantizer.layout().words());
        let rows = self.rows.chunks(ENCODE_ROWS * self.width);
        with_element!(self.element, T => {
            let width = self.width * Block::elements::<T>();
            rows.zip(codes).for_each(|(rows, codes)| encoder.encode::<T>(Block::cast(rows), width, codes));
        });
    }
}

impl Codes {
    /// Returns the quantizer.
    pub fn quantizer(&self) -> &Arc<dyn Quantizer> {
        &self.quantizer
    }

    /// Returns the words of each slot's code, `(slots, layout.words())`.
    pub fn table(&self) -> &Segments<u32> {
        &self.table
    }

    /// Returns the estimated distances of each query, padded or not. Cheapest for a few dozen queries at a time.
    pub fn distance_computers<'q, T: Element>(
        &self,
        queries: impl Iterator<Item = &'q [T]>,
    ) -> Vec<CodeDistanceComputer<'_>> {
        let dimension = self.quantizer.dimension();
        let mut values = Vec::new();
        for query in queries {
            let first = values.len();
            values.resize(first + dimension, 0.0);
            T::slice_to_f32(&query[..dimension], &mut values[first..]);
        }
        let queries = self.quantizer.queries(&mut values);
        queries.into_iter().map(|query| CodeDistanceComputer { table: &self.table, query }).collect()
    }
}

/// Estimated distances of one vector to stored ones, from their codes; made by [`Codes::distance_computers`].
#[derive(Debug)]
pub struct CodeDistanceComputer<'a> {
    table: &'a Segments<u32>,
    query: QueryCode,
}

/// There are no lower bounds: estimates are so cheap that bounds would not pay off.
impl ComputeDistances for CodeDistanceComputer<'_> {
    #[inline]
    fn prefetch_bounds(&self, slots: &[Slot]) {
        slots.iter().for_each(|slot| prefetch_l2(self.table.row(slot.index())));
    }

    fn compute(&self, slots: &[Slot], out: &mut [f32]) {
        self.query.estimate_rows(|i| self.table.row(slots[i].index()), out);
    }
}

impl Graph {
    /// Encodes all vectors, for [`Self::set_codes`]. `encode` calls [`CodeChunk::fill`] on every chunk, from as many
    /// threads as it likes.
    ///
    /// # Errors
    /// Returns [`VectorError::Memory`], [`VectorError::NoVectors`], or the error of `encode`.
    ///
    /// # Panics
    /// Panics if the quantizer has another metric or dimension.
    pub fn encode<E: From<VectorError>>(
        &self,
        quantizer: Arc<dyn Quantizer>,
        encode: impl FnOnce(Vec<CodeChunk<'_>>) -> Result<(), E>,
    ) -> Result<Codes, E> {
        assert_eq!((quantizer.metric(), quantizer.dimension()), (self.metric(), self.dimension()));
        self.require_vectors()?;
        let (width, words) = (self.vectors.table.width(), quantizer.layout().words());
        let mut table = Segments::zeroed(self.slots(), words).map_err(VectorError::from)?;
        let segments = self.vectors.table.chunks().zip(table.chunks_mut());
        let chunks = segments.flat_map(|(rows, codes)| {
            rows.chunks(CHUNK_ROWS * width).zip(codes.chunks_mut(CHUNK_ROWS * words))
        });
        let element = self.element();
        let chunk = |(rows, codes)| CodeChunk { rows, width, element, quantizer: &*quantizer, codes };
        encode(chunks.map(chunk).collect())?;
        Ok(Codes { quantizer, table })
    }

    /// Replaces the codes. Vectors added later are encoded as well. Removes tuned searches, which were measured on
    /// other distances.
    ///
    /// # Panics
    /// Panics if the graph has another number of slots than the one that was encoded.
    pub fn set_codes(&mut self, codes: Codes) {
        assert_eq!(codes.table.len(), self.slots(), "codes of another graph");
        self.vectors.codes = Some(codes);
        self.tuned.clear();
    }

    /// Frees the vectors and keeps the codes. Searches by estimated distances, deleting and compacting still work;
    /// operations that need the vectors return [`VectorError::NoVectors`]. Removes tuned searches.
    ///
    /// # Panics
    /// Panics if there are no codes.
    pub fn drop_vectors(&mut self) {
        assert!(self.vectors.codes.is_some(), "without codes the vectors are needed");
        let VectorTable { table, is_stored, sketches, .. } = &mut self.vectors;
        (*table, *is_stored, *sketches) = (Segments::new(table.width()), false, None);
        self.tuned.clear();
    }

    /// Frees the codes. Removes tuned searches if there were any codes.
    ///
    /// # Panics
    /// Panics if the vectors were dropped.
    pub fn drop_codes(&mut self) {
        assert!(self.has_vectors(), "the vectors were dropped, so the codes are needed");
        if self.vectors.codes.take().is_some() {
            self.tuned.clear();
        }
    }

    /// Keeps what [`Self::set_codes`], [`Self::drop_codes`], [`Self::drop_vectors`] and
    /// [`Self::set_encoded_tuned_searches`] replace, to undo them.
    #[doc(hidden)]
    pub fn keep_vectors(&self) -> KeptVectors {
        KeptVectors { slots: self.slots(), vectors: self.vectors.share(), tuned: self.tuned.clone() }
    }

    /// Whether none of these has been replaced since.
    #[doc(hidden)]
    pub fn has_kept(&self, kept: &KeptVectors) -> bool {
        let has_codes = match (self.vectors.codes(), kept.vectors.codes()) {
            (Some(now), Some(before)) => Arc::ptr_eq(&now.quantizer, &before.quantizer),
            (now, before) => now.is_none() && before.is_none(),
        };
        has_codes && self.has_vectors() == kept.vectors.is_stored && self.tuned == kept.tuned
    }

    /// Undoes these changes.
    ///
    /// # Panics
    /// Panics if the number of slots has changed.
    #[doc(hidden)]
    pub fn restore_vectors(&mut self, kept: &KeptVectors) {
        assert_eq!(kept.slots, self.slots(), "vectors of another graph");
        let undo = self.vectors.undo.take();
        self.vectors = VectorTable { undo, ..kept.vectors.share() };
        self.tuned.clone_from(&kept.tuned);
    }

    /// Whether the vectors are stored, or only their codes.
    pub fn has_vectors(&self) -> bool {
        self.vectors.is_stored
    }

    /// Checks that the vectors are stored.
    ///
    /// # Errors
    /// Returns [`VectorError::NoVectors`] if they are not.
    pub fn require_vectors(&self) -> Result<(), VectorError> {
        if self.has_vectors() { Ok(()) } else { Err(VectorError::NoVectors) }
    }
}
