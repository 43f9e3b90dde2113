//! Serialization of a quantizer as a section of the index file: little-endian, without padding.
//!
//! ```text
//! all:     u32 kind (1 RaBitQ, 2 mixed) | u32 version (1) | u32 metric | u32 dimension d | f32 center[d]
//! RaBitQ:  u32 bits | f32 bound_sigmas | rotation | f32 units[3]
//! mixed:   u32 sectors | u32 words of 8, 4, 2, 1 bits | f32 fit[4] | f32 steps[coded]
//!          | f32 directions[min(coded, d)][d] | f32 units[3]
//! rotation: u32 0, u64 signs[4][D / 64], D = d rounded up to 64
//! ```

use std::ops::RangeInclusive;

use bytemuck::Pod;
use jasper_core::{MAX_DIMENSION, Metric};

use crate::factors::{Factors, Units};
use crate::projection::Projection;
use crate::rotation::ROUNDS;
use crate::space::Space;
use crate::{DecodeError, Rotation};

const VERSION: u32 = 1;
/// The kind of rotation, of which there is one.
const HADAMARD: u32 = 0;

/// The kinds of quantizers in a section.
pub(crate) const RABITQ: u32 = 1;
pub(crate) const MIXED: u32 = 2;

/// Writes a section.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(kind: u32) -> Self {
        let mut writer = Self(Vec::new());
        writer.u32(kind);
        writer.u32(VERSION);
        writer
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn floats(&mut self, values: &[f32]) {
        values.iter().for_each(|value| self.0.extend(value.to_le_bytes()));
    }

    pub(crate) fn space(&mut self, space: &Space) {
        self.u32(space.metric.code());
        self.u32(space.dimension() as u32);
        self.floats(&space.center);
    }

    pub(crate) fn rotation(&mut self, rotation: &Rotation) {
        self.u32(HADAMARD);
        rotation.signs.iter().for_each(|signs| self.0.extend(signs.to_le_bytes()));
    }

    pub(crate) fn units(&mut self, units: &Units) {
        self.floats(&units.to_array());
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads a section. Checks lengths before it allocates.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads kind and version, the head of the section.
    pub(crate) fn kind(&mut self) -> Result<u32, DecodeError> {
        let expected = "1 (RaBitQ) or 2 (mixed); a newer Jasper may read it";
        let kind = self.u32_in("kind", RABITQ..=MIXED, expected)?;
        self.u32_in("version", VERSION..=VERSION, "version 1; open the file with a newer Jasper")?;
        Ok(kind)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(self.values::<u32>(1)?[0])
    }

    /// Reads a number within `range`, which `expected` describes.
    pub(crate) fn u32_in(
        &mut self,
        field: &'static str,
        range: RangeInclusive<u32>,
        expected: &'static str,
    ) -> Result<u32, DecodeError> {
        let value = self.u32()?;
        if range.contains(&value) {
            return Ok(value);
        }
        Err(DecodeError::Field { field, value: value.into(), expected })
    }

    /// Reads `count` finite numbers.
    pub(crate) fn floats(&mut self, field: &'static str, count: usize) -> Result<Vec<f32>, DecodeError> {
        let values = self.values::<f32>(count)?;
        if values.iter().all(|value| value.is_finite()) {
            Ok(values)
        } else {
            Err(DecodeError::Number(field))
        }
    }

    /// Reads a number above zero.
    pub(crate) fn positive(&mut self, field: &'static str) -> Result<f32, DecodeError> {
        let value = self.floats(field, 1)?[0];
        if value > 0.0 { Ok(value) } else { Err(DecodeError::Number(field)) }
    }

    pub(crate) fn space(&mut self) -> Result<Space, DecodeError> {
        let code = self.u32_in("metric", 0..=2, "0 (l2), 1 (ip) or 2 (cosine)")?;
        let metric = Metric::from_code(code).expect("a code of a metric");
        let dimension = self.u32_in("dimension", 1..=MAX_DIMENSION as u32, "1 to 32768")?;
        Ok(Space { metric, center: self.floats("center", dimension as usize)? })
    }

    pub(crate) fn rotation(&mut self, dimension: usize) -> Result<Rotation, DecodeError> {
        self.u32_in("rotation", HADAMARD..=HADAMARD, "0 (Hadamard)")?;
        Ok(Rotation::from_signs(dimension, self.values(ROUNDS * dimension.div_ceil(64))?))
    }

    pub(crate) fn projection(
        &mut self,
        field: &'static str,
        directions: usize,
        dimension: usize,
    ) -> Result<Projection, DecodeError> {
        Ok(Projection::new(&self.floats(field, directions * dimension)?, dimension))
    }

    pub(crate) fn units(&mut self) -> Result<Units, DecodeError> {
        let (add, rescale) = (self.positive("unit of add")?, self.positive("unit of rescale")?);
        Ok(Units(Factors { add, rescale, error: self.positive("unit of error")? }))
    }

    /// Checks that nothing is left.
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            left => Err(DecodeError::Long(left)),
        }
    }

    fn values<T: Pod>(&mut self, count: usize) -> Result<Vec<T>, DecodeError> {
        // Cannot overflow: at most 2^15 * 2^15 values of 8 bytes.
        let needed = self.at + count * size_of::<T>();
        let part =
            self.bytes.get(self.at..needed).ok_or(DecodeError::Short { len: self.bytes.len(), needed })?;
        self.at = needed;
        Ok(part.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect())
    }
}
