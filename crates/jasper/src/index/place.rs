//! Where the index is: in host memory, or on CUDA devices.

use std::sync::Arc;

use jasper_vamana::{MemoryPlan, MemorySpace};

use super::Index;
use crate::Device;
#[cfg(doc)]
use crate::ErrorKind;
use crate::device::DeviceInfo;
use crate::device::MoveError;
use crate::error::{Error, Result};

impl Index {
    /// Moves the index to a device. [`Device::AUTO`] is the first CUDA device with room for it, or the CPU if there is
    /// none. Several devices get [a copy each](Device::cuda_set) or, if [sharded](Device::sharded), a part each; an index
    /// with shards keeps them. An index that is there with another [storage](Device::vector_storage) is moved to the host
    /// and back.
    ///
    /// ```
    /// # use jasper::{Device, IndexBuilder, MatrixView, Metric};
    /// # let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&[1_u8, 2, 3, 4], 2)?)?;
    /// let index = index.to_device(Device::CPU)?; // Frees device memory.
    /// assert_eq!(index.device(), Device::CPU);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Copies the index over PCIe once per device, and from a device the edges only. Vectors and keys stay in host memory as
    /// well; edges only until the device's kernels [are compiled](Self::warm_up). Calls that need edges later, such as
    /// [`Self::save`], copy them back.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Device`] or [`ErrorKind::OutOfMemory`]. The error [has the index](Error::into_index), in
    /// host memory if it had to leave its device.
    ///
    /// # Panics
    /// Panics if an index [with a callback](Self::with_progress), which borrows this one, was forgotten by
    /// [`std::mem::forget`].
    pub fn to_device(self, device: Device) -> Result<Self> {
        Ok(self.moved_to_device(device)?)
    }

    pub(crate) fn moved_to_device(self, device: Device) -> Result<Self, MoveError<Self>> {
        // An index with a progress callback borrows it.
        let index = Arc::into_inner(self.inner).expect("an index with a progress callback was forgotten");
        index.moved_to_device(device).map(Self::from).map_err(|error| error.map(Self::from))
    }

    /// Waits until a CUDA device has compiled the kernels of a single search with default parameters.
    ///
    /// That takes some tenths of a second after the index is moved there, unless the driver has compiled them before.
    /// Until then, the host answers single searches and batches of at most 16 queries. Returns at once on the CPU.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Device`].
    pub fn warm_up(&self) -> Result<()> {
        Ok(self.inner.backend.warm_up()?)
    }

    /// Where the index is, without options, which [`stats`](Self::stats) shows. Devices that are
    /// [left out](DeviceInfo::faults) do not count.
    pub fn device(&self) -> Device {
        self.inner.device()
    }

    /// The device that the index is on: its name, the memory that the index takes there, and faults.
    pub fn device_info(&self) -> DeviceInfo {
        let backend = &self.inner.backend;
        DeviceInfo {
            device: self.device(),
            name: backend.device_name(),
            bytes: backend.device_bytes(),
            max_beam_width: backend.max_beam_width(),
            faults: backend.device_faults().into_iter().map(Error::from).collect(),
        }
    }
}

impl Device {
    /// The memory that an index would take on one CUDA device and on the host, with its vectors
    /// [stored](Self::vector_storage) where this says, or else on the device. The device need not exist. `None` without
    /// the feature `cuda`.
    pub fn memory_plan(&self, index: &Index) -> Option<MemoryPlan> {
        let storage = self.vector_storage.unwrap_or(MemorySpace::Device);
        index.inner.memory_plan_on_device(storage)
    }
}
