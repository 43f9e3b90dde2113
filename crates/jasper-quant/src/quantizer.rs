//! What every code offers.

use std::fmt;
use std::sync::Arc;

use jasper_core::Metric;

use crate::wide::Buffers;
use crate::{Code, DecodeError, Layout, Mixed, QueryCode, Rabitq, section};

/// Turns rows into codes, and queries into what estimates distances from codes.
///
/// Codes are read without knowing which quantizer made them: [`QueryCode`] and [`Layout`] say all that a scorer needs,
/// on a CPU or a GPU.
pub trait Quantizer: fmt::Debug + Send + Sync {
    /// Which code it makes.
    fn code(&self) -> Code;

    /// The metric whose distances are estimated.
    fn metric(&self) -> Metric;

    /// Coordinates of a row.
    fn dimension(&self) -> usize;

    /// The shape of a code row.
    fn layout(&self) -> &Arc<Layout>;

    /// Codes `rows` (`n x dimension`, finite, row-major; overwritten) into `out` (`n x layout.words()`).
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

    /// Everything that was learnt, as the bytes of a section; [`open`] reads them.
    fn to_bytes(&self) -> Vec<u8>;
}

/// Memory that coding reuses from call to call.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Coordinates after the rotation, `n x coded dimensions`.
    pub(crate) rotated: Vec<f32>,
    /// Levels of one row.
    pub(crate) levels: Vec<u8>,
    /// Magnitudes and points of one row.
    pub(crate) buffers: Buffers,
}

/// Reads a quantizer of any kind from the bytes that [`Quantizer::to_bytes`] gave.
///
/// # Errors
/// [`DecodeError`] on bytes of another version, damaged bytes, or numbers out of range. Never panics, and asks for no
/// more memory than the bytes hold.
pub fn open(bytes: &[u8]) -> Result<Box<dyn Quantizer>, DecodeError> {
    let mut reader = section::Reader::new(bytes);
    let quantizer: Box<dyn Quantizer> = match reader.kind()? {
        section::Kind::Rabitq => Box::new(Rabitq::read(&mut reader)?),
        section::Kind::Mixed => Box::new(Mixed::read(&mut reader)?),
    };
    reader.finish()?;
    Ok(quantizer)
}
