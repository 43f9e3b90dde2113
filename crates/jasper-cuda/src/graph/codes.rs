//! The codes of a graph's rows, in step with them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gpu_kernels::codes::{CodeArgs, QueryTerms};
use gpu_kernels::encode::DeviceQuantizer;
use gpu_kernels::{Buffer as _, DevicePtr, Stream};
use jasper_core::{Element, VectorId};
use jasper_graph::{Codes, Graph};
use jasper_quant::Quantizer;

use super::{table, write_rows};

/// A copy of the codes of a graph in device memory, and of what codes queries.
pub(crate) struct DeviceCodes<S: Stream> {
    /// `[slots][words]`
    pub(super) table: S::Buffer<u32>,
    quantizer: Arc<dyn Quantizer>,
    on_device: DeviceQuantizer<S>,
}

impl<S: Stream> DeviceCodes<S> {
    /// Copies the codes of `slots` rows, on the threads of the pool that this is called in.
    ///
    /// # Errors
    /// Of the device.
    pub(super) fn upload(stream: &S, codes: &Codes<'_>, slots: usize) -> Result<Self, S::Error> {
        let quantizer = Arc::clone(codes.quantizer());
        Ok(Self {
            table: table(stream, slots, quantizer.layout().words(), |slot, out| copy(codes, slot, out))?,
            on_device: DeviceQuantizer::new(stream, &*quantizer)?,
            quantizer,
        })
    }

    /// What codes queries on the host.
    pub(crate) fn quantizer(&self) -> &dyn Quantizer {
        &*self.quantizer
    }

    /// What codes queries on the device, to the same codes.
    pub(crate) fn on_device(&self) -> &DeviceQuantizer<S> {
        &self.on_device
    }

    /// Bytes of device memory.
    pub(super) fn bytes(&self) -> usize {
        self.table.len() * size_of::<u32>() + DeviceQuantizer::<S>::bytes_of(self.quantizer())
    }

    /// Words of a row.
    pub(super) fn words(&self) -> usize {
        self.on_device.shape().words as usize
    }

    /// Its parts, for kernels that compare rows with queries coded so.
    pub(crate) fn args(&self, levels: DevicePtr<u32>, terms: DevicePtr<QueryTerms>) -> CodeArgs {
        let (limbs, shape) = (self.on_device.limbs(), *self.on_device.shape());
        CodeArgs { rows: self.table.input(), levels, terms, limbs, shape }
    }

    /// Whether these codes are by the same quantizer.
    pub(super) fn is_of(&self, codes: &Codes<'_>) -> bool {
        Arc::ptr_eq(&self.quantizer, codes.quantizer())
    }

    /// Makes `copy` the copy of what codes `host` has now, in a table for `capacity` rows, of which it was a copy before
    /// `rows` got others; codes of another quantizer are all copied.
    ///
    /// # Errors
    /// Of the device. Another call with the same rows, and later ones, makes it whole.
    pub(super) fn follow<T: Element>(
        copy_of: &mut Option<Self>,
        stream: &S,
        host: &Graph<T>,
        rows: impl Iterator<Item = Range<usize>>,
        capacity: usize,
    ) -> Result<(), S::Error> {
        let Some(codes) = host.vectors().codes() else {
            *copy_of = None;
            return Ok(());
        };
        match copy_of {
            Some(copied) if copied.is_of(&codes) => {
                let words = copied.words();
                stream.grow(&mut copied.table, capacity * words)?;
                for rows in rows {
                    write_rows(stream, &mut copied.table, rows, words, |slot, out| copy(&codes, slot, out))?;
                }
            }
            _ => {
                let mut copied = Self::upload(stream, &codes, host.slots())?;
                let words = copied.words();
                stream.grow(&mut copied.table, capacity * words)?;
                *copy_of = Some(copied);
            }
        }
        Ok(())
    }
}

impl<S: Stream> fmt::Debug for DeviceCodes<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceCodes({} words by {:?})", self.table.len(), self.on_device)
    }
}

/// The code of a slot, to `out`.
fn copy(codes: &Codes<'_>, slot: VectorId, out: &mut [u32]) {
    out.copy_from_slice(codes.table().row(slot.index()));
}
