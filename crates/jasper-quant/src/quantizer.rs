//! What every code offers, and the little that each kind has to say for it.

use std::fmt;
use std::sync::Arc;

use jasper_core::Metric;

use crate::factors::{Factors, UNIT_ROWS, Units};
use crate::parts::{CodeParts, RotationParts};
use crate::query::QueryParts;
use crate::section::{Kind, Reader, Writer};
use crate::space::{Space, dot};
use crate::wide::Buffers;
use crate::{DecodeError, Layout, Mixed, Parts, Quantization, QueryCode, Rabitq};

/// Turns rows into codes, and queries into what estimates distances from codes.
///
/// Codes are read without knowing which quantizer made them: [`QueryCode`] and [`Layout`] say all that a scorer needs,
/// on a CPU or a GPU.
pub trait Quantizer: fmt::Debug + Send + Sync {
    /// Which code it makes.
    fn quantization(&self) -> Quantization;

    /// The metric whose distances are estimated.
    fn metric(&self) -> Metric;

    /// Coordinates of a row.
    fn dimension(&self) -> usize;

    /// The shape of a code row.
    fn layout(&self) -> &Arc<Layout>;

    /// Codes `rows` (`n x dimension`, finite, row-major; overwritten) into `out` (`n x layout.words()`). The same codes
    /// for any `n`; [`ENCODE_ROWS`](crate::ENCODE_ROWS) at once cost least.
    ///
    /// [`Codes::encode`](crate::Codes::encode) calls this from many threads, with a scratch for each.
    ///
    /// # Panics
    /// If the slices do not hold the same number of rows.
    fn encode(&self, rows: &mut [f32], scratch: &mut Scratch, out: &mut [u32]);

    /// Queries (`n x dimension`, finite, row-major; overwritten) in the form that estimates distances. Costs about as much
    /// as coding as many rows; a few dozen at once cost least.
    ///
    /// # Panics
    /// If they are no whole number of queries.
    fn queries(&self, queries: &mut [f32]) -> Vec<QueryCode>;

    /// [`Self::queries`] of one.
    ///
    /// # Panics
    /// If the query has another dimension.
    fn query(&self, query: &[f32]) -> QueryCode {
        assert_eq!(query.len(), self.dimension());
        self.queries(&mut query.to_vec()).swap_remove(0)
    }

    /// Everything that was learnt, as data: for kernels that code rows and queries.
    fn parts(&self) -> Parts<'_>;

    /// Everything that was learnt, as the bytes of a section; [`open`] reads them.
    fn to_bytes(&self) -> Vec<u8>;
}

/// Memory that coding reuses from call to call.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Coordinates after the rotation, `n x coded dimensions`.
    rotated: Vec<f32>,
    /// Levels of one row.
    levels: Vec<u8>,
    /// Magnitudes and points of one row.
    buffers: Buffers,
}

/// What every quantizer has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Common {
    pub(crate) space: Space,
    pub(crate) layout: Arc<Layout>,
    pub(crate) units: Units,
}

/// What differs between kinds of codes; all else of a [`Quantizer`] follows from it.
pub(crate) trait Coder: fmt::Debug + Send + Sync {
    /// Which kind its section is.
    const KIND: Kind;

    /// Which code it makes.
    fn kind(&self) -> Quantization;

    /// What it has like all others.
    fn common(&self) -> &Common;

    /// The coordinates that are coded of `residuals` (`n x dimension`), into `out` (`n x layout.dimensions()`).
    fn rotate(&self, residuals: &[f32], out: &mut [f32]);

    /// Leaves the levels of a row in `levels`, from its residual and the rotated one; returns its factors.
    fn quantize(
        &self,
        residual: &[f32],
        rotated: &[f32],
        buffers: &mut Buffers,
        levels: &mut [u8],
    ) -> Factors;

    /// Weighs the coordinates of a rotated query as the levels of a row are.
    fn weigh(&self, rotated: &mut [f32]);

    /// int8 numbers that a coordinate of a query takes.
    fn limbs(&self) -> usize;

    /// What [`Self::rotate`] does, as data.
    fn rotation_parts(&self) -> RotationParts<'_>;

    /// What [`Self::quantize`] and [`Self::weigh`] know, as data.
    fn code_parts(&self) -> CodeParts;

    /// Writes what the kind has of its own, between centre and units.
    fn write(&self, writer: &mut Writer);

    /// Calls `each` with the factors of each of `residuals` (`n x dimension`), its number and its levels.
    fn quantize_all(
        &self,
        residuals: &[f32],
        scratch: &mut Scratch,
        mut each: impl FnMut(usize, Factors, &[u8]),
    ) {
        let Common { space, layout, .. } = self.common();
        let (dimension, coded) = (space.dimension(), layout.dimensions());
        let Scratch { rotated, levels, buffers } = scratch;
        rotated.resize(residuals.len() / dimension * coded, 0.0);
        levels.resize(coded, 0);
        self.rotate(residuals, rotated);
        for (i, residual) in residuals.chunks_exact(dimension).enumerate() {
            let factors = self.quantize(residual, &rotated[i * coded..][..coded], buffers, levels);
            each(i, factors, levels);
        }
    }

    /// Units for the factors of rows like these `residuals`.
    fn units_of(&self, residuals: &[f32]) -> Units {
        let dimension = self.common().space.dimension();
        let (mut scratch, mut factors) = (Scratch::default(), Vec::new());
        for residual in residuals.chunks_exact(dimension).step_by(unit_stride(residuals.len() / dimension)) {
            self.quantize_all(residual, &mut scratch, |_, of_row, _| factors.push(of_row));
        }
        Units::of(&factors)
    }
}

/// How far apart the rows are, of `rows` in all, whose factors choose the units.
pub(crate) fn unit_stride(rows: usize) -> usize {
    rows.div_ceil(UNIT_ROWS)
}

impl<C: Coder> Quantizer for C {
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

    fn encode(&self, rows: &mut [f32], scratch: &mut Scratch, out: &mut [u32]) {
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
            self.weigh(rotated);
            let squared_norm = dot(residual, residual);
            let add = space.query_part(residual, squared_norm);
            let parts = QueryParts { add, norm: squared_norm.sqrt(), limbs: self.limbs() };
            QueryCode::new(layout, units, rotated, &parts)
        };
        queries.chunks_exact(dimension).zip(rotated.chunks_exact_mut(coded)).map(code).collect()
    }

    fn parts(&self) -> Parts<'_> {
        let Common { space, units, .. } = self.common();
        Parts::new(space, units, self.rotation_parts(), self.limbs(), self.code_parts())
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

/// Reads a quantizer of any kind from the bytes that [`Quantizer::to_bytes`] gave.
///
/// # Errors
/// [`DecodeError`] on bytes of another version, damaged bytes, or numbers out of range. Never panics, and asks for no
/// more memory than the bytes hold.
pub fn open(bytes: &[u8]) -> Result<Box<dyn Quantizer>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let quantizer: Box<dyn Quantizer> = match reader.kind()? {
        Kind::Rabitq => Box::new(Rabitq::read(&mut reader)?),
        Kind::Mixed => Box::new(Mixed::read(&mut reader)?),
    };
    reader.finish()?;
    Ok(quantizer)
}
