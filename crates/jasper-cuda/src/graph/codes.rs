//! The codes of a graph's vectors in device memory.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gpu_kernels::codes::{CodeArgs, QueryFactors};
use gpu_kernels::encode::DeviceQuantizer;
use gpu_kernels::{Buffer as _, DevicePtr, Stream};
use jasper_core::Slot;
use jasper_graph::{Codes, Graph};
use jasper_quant::Quantizer;

use super::{OldArray, table, write_rows};

/// A copy of the codes of a graph in device memory, and of the quantizer for queries.
pub(crate) struct DeviceCodes<S: Stream> {
    /// `[slots][words]`
    pub(super) table: S::Buffer<u32>,
    quantizer: Arc<dyn Quantizer>,
    on_device: Arc<DeviceQuantizer<S>>,
}

/// The codes of a graph as searches read them.
pub(crate) struct CodeTable<S: Stream> {
    /// `[slots][words]`
    rows: DevicePtr<u32>,
    quantizer: Arc<dyn Quantizer>,
    /// The quantizer for queries on the device, which gives the same codes as `quantizer`.
    pub(crate) on_device: Arc<DeviceQuantizer<S>>,
}

impl<S: Stream> CodeTable<S> {
    /// The quantizer for queries on the host.
    pub(crate) fn quantizer(&self) -> &dyn Quantizer {
        &*self.quantizer
    }

    /// Arguments for kernels that estimate distances to queries with these levels and factors.
    pub(crate) fn args(&self, levels: DevicePtr<u32>, query_factors: DevicePtr<QueryFactors>) -> CodeArgs {
        let (level_bytes, shape) = (self.on_device.level_bytes(), *self.on_device.shape());
        CodeArgs { rows: self.rows, levels, query_factors, level_bytes, shape }
    }
}

impl<S: Stream> DeviceCodes<S> {
    /// Copies the codes of `slots` slots, in the current rayon pool.
    ///
    /// # Errors
    /// Returns the device's error.
    pub(super) fn upload(stream: &S, codes: &Codes, slots: usize) -> Result<Self, S::Error> {
        let quantizer = Arc::clone(codes.quantizer());
        Ok(Self {
            table: table(stream, slots, quantizer.layout().words(), &|slot, out| copy(codes, slot, out))?,
            on_device: Arc::new(DeviceQuantizer::new(stream, &*quantizer)?),
            quantizer,
        })
    }

    /// The codes as searches read them.
    pub(crate) fn view(&self) -> CodeTable<S> {
        let (quantizer, on_device) = (Arc::clone(&self.quantizer), Arc::clone(&self.on_device));
        CodeTable { rows: self.table.input(), quantizer, on_device }
    }

    /// All arrays that searches may read.
    fn into_old(self) -> [OldArray<S>; 2] {
        [OldArray::Words(self.table), OldArray::Quantizer(self.on_device)]
    }

    /// Bytes of device memory.
    pub(super) fn bytes(&self) -> usize {
        self.table.len() * size_of::<u32>() + DeviceQuantizer::<S>::bytes_of(&*self.quantizer)
    }

    /// Words per code.
    pub(super) fn words(&self) -> usize {
        self.on_device.shape().words as usize
    }

    /// Whether these codes are of the same quantizer.
    pub(super) fn is_of(&self, codes: &Codes) -> bool {
        Arc::ptr_eq(&self.quantizer, codes.quantizer())
    }

    /// Updates the copy to the codes of `host`, in a table of `capacity` slots: the codes of changed `rows`, or all
    /// codes if the quantizer has changed. A table that is replaced is given to `keep`.
    ///
    /// # Errors
    /// Returns the device's error. The copy is then inconsistent until a call with the same rows, and later ones,
    /// succeeds.
    pub(super) fn apply_changes(
        copy_of: &mut Option<Self>,
        stream: &S,
        host: &Graph,
        rows: impl Iterator<Item = Range<usize>>,
        capacity: usize,
        mut keep: impl FnMut(OldArray<S>),
    ) -> Result<(), S::Error> {
        let Some(codes) = host.vectors().codes() else {
            copy_of.take().into_iter().flat_map(Self::into_old).for_each(keep);
            return Ok(());
        };
        match copy_of {
            Some(copied) if copied.is_of(codes) => {
                let words = copied.words();
                let moved = stream.grow(&mut copied.table, capacity * words)?;
                moved.into_iter().map(OldArray::Words).for_each(keep);
                for rows in rows {
                    write_rows(stream, &mut copied.table, rows, words, &|slot, out| copy(codes, slot, out))?;
                }
            }
            _ => {
                let mut copied = Self::upload(stream, codes, host.slots())?;
                let words = copied.words();
                let moved = stream.grow(&mut copied.table, capacity * words)?.map(OldArray::Words);
                let replaced = copy_of.replace(copied).into_iter().flat_map(Self::into_old);
                moved.into_iter().chain(replaced).for_each(&mut keep);
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

/// Writes the code of a slot to `out`.
fn copy(codes: &Codes, slot: Slot, out: &mut [u32]) {
    out.copy_from_slice(codes.table().row(slot.index()));
}
