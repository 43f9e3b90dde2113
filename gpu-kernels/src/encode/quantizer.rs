//! A quantizer in device memory, and the launches that encode queries with it.

use std::fmt;

use jasper_core::{ElementKind, Metric};
use jasper_quant::Quantizer;
use jasper_quant::parameters::{CodeParameters, PANEL, RotationParameters};

use super::{EncodeQueries, EncodeQueriesArgs, MetricArgs, RotatedResiduals};
use crate::codes::{CodeShape, QueryFactors};
use crate::project::{Project, ProjectArgs};
use crate::residuals::{ResidualArgs, Residuals, Rotate, RotateArgs};
use crate::{Buffer, DevicePtr, DevicePtrMut, Stream};

/// Bytes of residuals per chunk of queries: enough rows to fill a device, and few enough for its L2 cache.
const CHUNK_BYTES: usize = 32 << 20;
/// Residuals are padded to a multiple of this many floats.
const ALIGN: usize = 64;

/// Encoded queries in device memory, for [`CodeArgs`](crate::codes::CodeArgs), and scratch memory.
pub struct QueryCodes<S: Stream> {
    /// `[queries][level_bytes][dimensions]`: int8 levels, four a word.
    pub levels: S::Buffer<u32>,
    /// `[queries]`: the factors of each query.
    pub query_factors: S::Buffer<QueryFactors>,
    scratch: Scratch<S>,
}

impl<S: Stream> QueryCodes<S> {
    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        let Scratch { residuals, rotated, sums } = &self.scratch;
        (self.levels.len() + residuals.len() + rotated.len()) * size_of::<u32>()
            + self.query_factors.len() * size_of::<QueryFactors>()
            + sums.len() * size_of::<[f32; 2]>()
    }
}

/// A quantizer in device memory.
pub struct DeviceQuantizer<S: Stream> {
    shape: CodeShape,
    dimension: usize,
    normalizes: bool,
    metric: MetricArgs,
    units: [f32; 2],
    level_bytes: u32,
    center: S::Buffer<f32>,
    rotation: DeviceRotation<S>,
    levels: LevelParams<S>,
}

/// The rotation of residuals.
enum DeviceRotation<S: Stream> {
    Hadamard { factors: S::Buffer<f32> },
    Matrix { panels: S::Buffer<f32> },
}

/// What weights the coordinates of a query: see [`CodeParameters`].
enum LevelParams<S: Stream> {
    Rabitq { half: f32 },
    Mixed { dimensions: S::Buffer<[f32; 2]> },
}

/// Scratch memory of the encoder.
struct Scratch<S: Stream> {
    residuals: S::Buffer<f32>,
    /// Empty if residuals are rotated in place.
    rotated: S::Buffer<f32>,
    sums: S::Buffer<[f32; 2]>,
}

impl<S: Stream> DeviceQuantizer<S> {
    /// Uploads `quantizer`.
    ///
    /// # Errors
    /// Returns the device's error.
    pub fn new(stream: &S, quantizer: &dyn Quantizer) -> Result<Self, S::Error> {
        let parts = quantizer.parameters();
        let levels = match parts.code {
            CodeParameters::Rabitq { half } => LevelParams::Rabitq { half },
            CodeParameters::Mixed { dimensions } => {
                LevelParams::Mixed { dimensions: stream.upload(&dimensions)? }
            }
        };
        Ok(Self {
            shape: (&**quantizer.layout()).into(),
            dimension: quantizer.dimension(),
            normalizes: parts.metric == Metric::Cosine,
            metric: MetricArgs { squared_weight: parts.squared_weight, squared_center: parts.squared_center },
            units: parts.units,
            level_bytes: parts.level_bytes as u32,
            center: stream.upload(parts.center)?,
            rotation: match parts.rotation {
                RotationParameters::Hadamard(factors) => {
                    DeviceRotation::Hadamard { factors: stream.upload(factors)? }
                }
                RotationParameters::Matrix(matrix) => {
                    DeviceRotation::Matrix { panels: stream.upload(matrix.panels)? }
                }
            },
            levels,
        })
    }

    /// Bytes of device memory of `quantizer`.
    pub fn bytes_of(quantizer: &dyn Quantizer) -> usize {
        let parts = quantizer.parameters();
        let rotation = match parts.rotation {
            RotationParameters::Hadamard(factors) => size_of_val(factors),
            RotationParameters::Matrix(matrix) => size_of_val(matrix.panels),
        };
        let code = match &parts.code {
            CodeParameters::Rabitq { .. } => 0,
            CodeParameters::Mixed { dimensions } => size_of_val(&**dimensions),
        };
        size_of_val(parts.center) + rotation + code
    }

    /// The layout of a code.
    pub fn shape(&self) -> &CodeShape {
        &self.shape
    }

    /// int8 numbers per coordinate of a query.
    pub fn level_bytes(&self) -> u32 {
        self.level_bytes
    }

    /// Coordinates per vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Bytes of device memory that [`Self::encode_queries`] takes for `queries` queries in addition to their codes.
    pub fn scratch_bytes(&self, queries: usize) -> usize {
        let [residuals, rotated, sums] = self.scratch_len(queries);
        (residuals + rotated) * size_of::<f32>() + sums * size_of::<[f32; 2]>()
    }

    /// Lengths of the arrays of scratch memory for `queries` queries.
    fn scratch_len(&self, queries: usize) -> [usize; 3] {
        let (rows, (residual, rotated)) = (queries.min(self.chunk_rows()), self.strides());
        [rows * residual, rows * rotated, rows]
    }

    /// Strides in floats of residuals, and of rotated residuals (0 if in place).
    fn strides(&self) -> (usize, usize) {
        let rotated = match self.rotation {
            DeviceRotation::Hadamard { .. } => 0,
            DeviceRotation::Matrix { .. } => (self.shape.dimensions as usize).next_multiple_of(ALIGN),
        };
        (self.dimension.next_multiple_of(ALIGN), rotated)
    }

    fn chunk_rows(&self) -> usize {
        CHUNK_BYTES / (self.dimension.next_multiple_of(ALIGN) * size_of::<f32>())
    }

    fn scratch(&self, stream: &S, queries: usize) -> Result<Scratch<S>, S::Error> {
        let [residuals, rotated, sums] = self.scratch_len(queries);
        Ok(Scratch {
            residuals: stream.allocate(residuals)?,
            rotated: stream.allocate(rotated)?,
            sums: stream.allocate(sums)?,
        })
    }

    /// Words of levels per query.
    pub fn levels_words(&self) -> usize {
        (self.level_bytes * self.shape.dimensions / 4) as usize
    }

    /// Allocates `queries` encoded queries.
    ///
    /// # Errors
    /// Returns the device's error.
    pub fn query_codes(&self, stream: &S, queries: usize) -> Result<QueryCodes<S>, S::Error> {
        Ok(QueryCodes {
            levels: stream.allocate(queries * self.levels_words())?,
            query_factors: stream.allocate(queries)?,
            scratch: self.scratch(stream, queries)?,
        })
    }

    /// Whether `codes`, possibly allocated for another quantizer, have room for `queries` of this one.
    pub fn fits(&self, codes: &QueryCodes<S>, queries: usize) -> bool {
        let QueryCodes { levels, query_factors, scratch: Scratch { residuals, rotated, sums } } = codes;
        let held = [residuals.len(), rotated.len(), sums.len()];
        queries * self.levels_words() <= levels.len()
            && queries <= query_factors.len()
            && self.scratch_len(queries).into_iter().zip(held).all(|(needed, held)| needed <= held)
    }

    /// Encodes `len` queries, which are laid out as rows are. The result equals that of [`Quantizer::query`] bit for
    /// bit.
    ///
    /// # Errors
    /// Returns the device's error.
    ///
    /// # Panics
    /// Panics if they do not [fit](Self::fits).
    ///
    /// # Safety
    /// `queries` holds as many queries of this type, each [padded](ElementKind::padded_len). They are written for this stream, and live until
    /// the launches have run, as does this quantizer, which another stream may have uploaded.
    pub unsafe fn encode_queries(
        &self,
        stream: &S,
        element: ElementKind,
        queries: DevicePtr<u8>,
        len: usize,
        codes: &mut QueryCodes<S>,
    ) -> Result<(), S::Error> {
        assert!(self.fits(codes, len), "{len} queries");
        let words = self.levels_words();
        for first in (0..len).step_by(self.chunk_rows()) {
            let count = (len - first).min(self.chunk_rows()) as u32;
            let queries = queries.add(first * element.row_bytes(self.dimension));
            // SAFETY: upheld by the caller; there is room, by the assertion.
            let rotated = unsafe { self.rotate(stream, element, queries, count, &mut codes.scratch)? };
            let (of_dimensions, half) = match &self.levels {
                LevelParams::Rabitq { half } => (DevicePtr::null(), *half),
                LevelParams::Mixed { dimensions } => (dimensions.input(), 0.0),
            };
            let args = EncodeQueriesArgs {
                rotated,
                of_dimensions,
                levels: stream.output(&mut codes.levels).add(first * words),
                query_factors: stream.output(&mut codes.query_factors).add(first),
                metric: self.metric,
                units: self.units,
                half,
                queries_len: count,
                dimensions: self.shape.dimensions,
                level_bytes: self.level_bytes,
            };
            // SAFETY: the rotated residuals exist, and there is room, by the assertion; buffers are freed after the
            // launch.
            unsafe { stream.launch(&EncodeQueries, args)? };
        }
        Ok(())
    }

    /// Residuals of `len` vectors, rotated; at most [`Self::chunk_rows`].
    ///
    /// # Safety
    /// There are as many vectors, which live until the launches have run; the scratch memory has room for as many.
    unsafe fn rotate(
        &self,
        stream: &S,
        element: ElementKind,
        rows: DevicePtr<u8>,
        len: u32,
        scratch: &mut Scratch<S>,
    ) -> Result<RotatedResiduals, S::Error> {
        let (stride, rotated_stride) = self.strides();
        let residuals: DevicePtrMut<f32> = stream.output(&mut scratch.residuals);
        let args = ResidualArgs {
            rows,
            center: self.center.input(),
            residuals,
            sums: stream.output(&mut scratch.sums),
            rows_len: len,
            row_bytes: element.row_bytes(self.dimension) as u32,
            dimension: self.dimension as u32,
            stride: stride as u32,
            normalizes: self.normalizes.into(),
        };
        // SAFETY: upheld by the caller; buffers are freed after the launch.
        unsafe { stream.launch(&Residuals { element }, args)? };
        let (values, stride) = match &self.rotation {
            DeviceRotation::Hadamard { factors } => {
                let dimension = stride as u32;
                let args =
                    RotateArgs { values: residuals, factors: factors.input(), rows_len: len, dimension };
                // SAFETY: residuals and factors are of this length; buffers are freed after the launch.
                unsafe { stream.launch(&Rotate::new(dimension), args)? };
                (residuals.cast_const(), stride)
            }
            DeviceRotation::Matrix { panels } => {
                let args = ProjectArgs {
                    rows: residuals.cast_const(),
                    panels: panels.input(),
                    out: stream.output(&mut scratch.rotated),
                    rows_len: len,
                    dimension: self.dimension as u32,
                    stride: stride as u32,
                    panels_len: (panels.len() / (self.dimension * PANEL)) as u32,
                    out_stride: rotated_stride as u32,
                };
                // SAFETY: the scratch has room for products of as many rows; buffers are freed after the launch.
                unsafe { stream.launch(&Project, args)? };
                (stream.input(&scratch.rotated), rotated_stride)
            }
        };
        Ok(RotatedResiduals { values, sums: stream.input(&scratch.sums), stride: stride as u32 })
    }
}

impl<S: Stream> fmt::Debug for DeviceQuantizer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceQuantizer({} coordinates in {} bytes)", self.dimension, self.shape.row_bytes())
    }
}

impl<S: Stream> fmt::Debug for QueryCodes<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueryCodes(room for {})", self.query_factors.len())
    }
}
