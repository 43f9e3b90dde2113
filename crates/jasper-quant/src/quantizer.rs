//! The interface of quantizers, and its implementation over the steps that differ between them.

use std::fmt;
use std::sync::Arc;

use jasper_core::Metric;

use crate::factors::{Factors, UNIT_ROWS, Units};
use crate::parameters::{CodeParameters, RotationParameters};
use crate::section::{Reader, Writer};
use crate::simd::Buffers;
use crate::space::{Space, dot};
use crate::{DecodeError, Layout, Mixed, Parameters, Quantization, QueryCode, Rabitq, TrainError};

/// A trained quantizer: encodes vectors, and encodes queries that estimate distances from codes.
///
/// Estimates need only the [`QueryCode`] and the [`Layout`], not the quantizer.
pub trait Quantizer: fmt::Debug + Send + Sync {
    /// The kind and size of the quantizer.
    fn quantization(&self) -> Quantization;

    /// The metric whose distances are estimated.
    fn metric(&self) -> Metric;

    /// Coordinates per vector.
    fn dimension(&self) -> usize;

    /// The layout of a code row.
    fn layout(&self) -> &Arc<Layout>;

    /// Encodes `rows` (`n x dimension`, finite, row-major) into `out` (`n x layout.words()`). Overwrites `rows`.
    ///
    /// Codes do not depend on `n`; blocks of [`ENCODE_ROWS`](crate::ENCODE_ROWS) are fastest.
    /// [`CodeTable::from_vectors`](crate::CodeTable::from_vectors) encodes on many threads, with one scratch each.
    ///
    /// # Panics
    /// Panics if the slices hold different numbers of rows.
    fn encode(&self, rows: &mut [f32], scratch: &mut EncodeBuffers, out: &mut [u32]);

    /// Encodes `queries` (`n x dimension`, finite, row-major). Overwrites `queries`.
    ///
    /// Costs about as much as encoding `n` vectors; batches of a few dozen are fastest.
    ///
    /// # Panics
    /// Panics if they are not a whole number of queries.
    fn queries(&self, queries: &mut [f32]) -> Vec<QueryCode>;

    /// Encodes one query.
    ///
    /// # Panics
    /// Panics if its length is not [`Self::dimension`].
    fn query(&self, query: &[f32]) -> QueryCode {
        assert_eq!(query.len(), self.dimension());
        self.queries(&mut query.to_vec()).swap_remove(0)
    }

    /// The trained parameters, for kernels that encode queries on a device.
    fn parameters(&self) -> Parameters<'_>;

    /// Serializes the quantizer; [`open`] reads it.
    fn to_bytes(&self) -> Vec<u8>;
}

/// Memory that [`Quantizer::encode`] reuses from call to call.
#[derive(Debug, Default)]
pub struct EncodeBuffers {
    /// Rotated residuals, `n x coded dimensions`.
    rotated: Vec<f32>,
    /// Levels of one row.
    levels: Vec<u8>,
    /// Magnitudes and grid point of one row.
    buffers: Buffers,
}

/// The parameters that all quantizers have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Common {
    pub(crate) space: Space,
    pub(crate) layout: Arc<Layout>,
    pub(crate) units: Units,
}

/// The steps that differ between quantizers. Each implementation is a [`Quantizer`]:
///
/// ```text
/// encode(v): r = v - center        (normalized first for cosine)
///            z = rotate(r)
///            levels, factors = quantize(r, z)
///            pack levels and factors into the row
/// query(q):  p = q - center
///            y = scale_query(rotate(p))
///            int8 levels of y, and the query's factors
/// ```
pub(crate) trait Codec: fmt::Debug + Send + Sync {
    /// The kind of the quantizer's section.
    const KIND: u32;

    /// See [`Quantizer::quantization`].
    fn kind(&self) -> Quantization;

    /// The common parameters.
    fn common(&self) -> &Common;

    /// Rotates or projects `residuals` (`n x dimension`) into `out` (`n x layout.dimensions()`).
    fn rotate(&self, residuals: &[f32], out: &mut [f32]);

    /// Quantizes a residual, given itself and rotated. Writes its levels and returns its factors.
    fn quantize(
        &self,
        residual: &[f32],
        rotated: &[f32],
        buffers: &mut Buffers,
        levels: &mut [u8],
    ) -> Factors;

    /// Multiplies the coordinates of a rotated query by the steps of the levels.
    fn scale_query(&self, rotated: &mut [f32]);

    /// int8 per coordinate of a query.
    fn level_bytes(&self) -> usize;

    /// The parameters of [`Self::rotate`].
    fn rotation_parameters(&self) -> RotationParameters<'_>;

    /// The parameters of [`Self::scale_query`].
    fn code_parameters(&self) -> CodeParameters;

    /// Serializes the quantizer's own parameters, which are between center and units.
    fn write(&self, writer: &mut Writer);

    /// Quantizes `residuals` (`n x dimension`), and calls `each` with the index, factors and levels of each.
    fn quantize_all(
        &self,
        residuals: &[f32],
        scratch: &mut EncodeBuffers,
        mut each: impl FnMut(usize, Factors, &[u8]),
    ) {
        let Common { space, layout, .. } = self.common();
        let (dimension, coded) = (space.dimension(), layout.dimensions());
        let EncodeBuffers { rotated, levels, buffers } = scratch;
        rotated.resize(residuals.len() / dimension * coded, 0.0);
        levels.resize(coded, 0);
        self.rotate(residuals, rotated);
        for (i, residual) in residuals.chunks_exact(dimension).enumerate() {
            let factors = self.quantize(residual, &rotated[i * coded..][..coded], buffers, levels);
            each(i, factors, levels);
        }
    }

    /// The units of factors, from the first [`UNIT_ROWS`] residuals of a random sample.
    fn train_units(&self, residuals: &[f32]) -> Units {
        let dimension = self.common().space.dimension();
        let residuals = &residuals[..residuals.len().min(UNIT_ROWS * dimension)];
        let mut factors = Vec::new();
        self.quantize_all(residuals, &mut EncodeBuffers::default(), |_, of_row, _| factors.push(of_row));
        Units::from_sample(&factors)
    }

    /// The quantizer, once it is known that [`open`] reads it: with values near the limits of f32, parameters overflow.
    fn checked(self) -> Result<Self, TrainError>
    where
        Self: Sized,
    {
        open(&self.to_bytes()).map_err(|_| TrainError::Range(self.kind()))?;
        Ok(self)
    }
}

impl<C: Codec> Quantizer for C {
    fn quantization(&self) -> Quantization {
        self.kind()
    }

    fn metric(&self) -> Metric {
        self.common().space.metric
    }

    fn dimension(&self) -> usize {
        self.common().space.dimension()
    }

    fn layout(&self) -> &Arc<Layout> {
        &self.common().layout
    }

    fn encode(&self, rows: &mut [f32], scratch: &mut EncodeBuffers, out: &mut [u32]) {
        let Common { space, layout, units } = self.common();
        let (dimension, words) = (space.dimension(), layout.words());
        assert_eq!(rows.len() / dimension * words, out.len());
        rows.chunks_exact_mut(dimension).for_each(|row| space.to_residual(row));
        self.quantize_all(rows, scratch, |i, factors, levels| {
            let out = &mut out[i * words..][..words];
            out.fill(0);
            layout.pack(levels, out);
            units.store(factors, layout, out);
        });
    }

    fn queries(&self, queries: &mut [f32]) -> Vec<QueryCode> {
        let Common { space, layout, units } = self.common();
        let (dimension, coded) = (space.dimension(), layout.dimensions());
        assert!(queries.len().is_multiple_of(dimension));
        queries.chunks_exact_mut(dimension).for_each(|query| space.to_residual(query));
        let mut rotated = vec![0.0; queries.len() / dimension * coded];
        self.rotate(queries, &mut rotated);
        let code = |(residual, rotated): (&[f32], &mut [f32])| {
            self.scale_query(rotated);
            let squared_norm = dot(residual, residual);
            let add = space.query_term(residual, squared_norm);
            QueryCode::new(layout, units, rotated, self.level_bytes(), add, squared_norm.sqrt())
        };
        queries.chunks_exact(dimension).zip(rotated.chunks_exact_mut(coded)).map(code).collect()
    }

    fn parameters(&self) -> Parameters<'_> {
        let Common { space, units, .. } = self.common();
        Parameters {
            metric: space.metric,
            squared_weight: space.squared_weight(),
            center: &space.center,
            squared_center: dot(&space.center, &space.center),
            rotation: self.rotation_parameters(),
            units: [units.0.add, units.0.rescale],
            level_bytes: self.level_bytes(),
            code: self.code_parameters(),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let Common { space, units, .. } = self.common();
        let mut writer = Writer::new(C::KIND);
        writer.space(space);
        self.write(&mut writer);
        writer.units(units);
        writer.finish()
    }
}

/// Reads a quantizer from the bytes of [`Quantizer::to_bytes`].
///
/// # Errors
/// Returns [`DecodeError`] if the bytes are of another version or damaged, or numbers are out of range. Never panics,
/// and allocates no more memory than the bytes take.
pub fn open(bytes: &[u8]) -> Result<Box<dyn Quantizer>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let quantizer: Box<dyn Quantizer> = match reader.kind()? {
        Rabitq::KIND => Box::new(Rabitq::read(&mut reader)?),
        _ => Box::new(Mixed::read(&mut reader)?),
    };
    reader.finish()?;
    Ok(quantizer)
}
