//! Where the index is: in host memory, or on CUDA devices.

use std::sync::Arc;

use jasper_core::Element;
use jasper_vamana::{MemoryPlan, MemorySpace};

use super::{Index, Typed, typed};
use crate::typed::TypedIndex;
use crate::{Device, DeviceChoice, DeviceError, DeviceOptions, MoveError};

impl Index {
    /// Moves the index to a device. [`DeviceChoice::Auto`] is the first CUDA device with room for it, or the CPU if
    /// there is none. On a [`Device::CudaSet`] the index becomes [replicas](crate::Spread::Replicated); an index with
    /// shards keeps them, spread over the devices.
    ///
    /// Copies the index over PCIe once per device. Vectors and keys stay in host memory as well; edges only until the
    /// device's kernels [are compiled](Self::warm_up). Calls that need edges later, such as [`Self::save`], copy them
    /// back.
    ///
    /// # Errors
    /// Returns [`MoveError`], which [contains the index](MoveError::into_index), in host memory if it had to leave its
    /// device.
    ///
    /// # Panics
    /// Panics if an index [with a callback](Self::with_progress), which borrows this one, was forgotten by
    /// [`std::mem::forget`].
    pub fn to_device(self, device: impl Into<DeviceChoice>) -> Result<Self, MoveError> {
        self.to_device_with(device, DeviceOptions::new())
    }

    /// Moves the index as [`Self::to_device`] does, with options for its copy on a CUDA device. An index that is there
    /// with other options is moved to the host and back.
    ///
    /// # Errors
    /// Returns [`MoveError`], which [contains the index](MoveError::into_index), in host memory if it had to leave its
    /// device.
    pub fn to_device_with(
        self,
        device: impl Into<DeviceChoice>,
        options: DeviceOptions,
    ) -> Result<Self, MoveError> {
        self.move_to(device.into(), options)
    }

    fn move_to(self, device: DeviceChoice, options: DeviceOptions) -> Result<Self, MoveError> {
        match self.typed {
            Typed::F32(index) => moved(index, |index| index.moved_to_device(device, options)),
            Typed::F16(index) => moved(index, |index| index.moved_to_device(device, options)),
            Typed::U8(index) => moved(index, |index| index.moved_to_device(device, options)),
            Typed::I8(index) => moved(index, |index| index.moved_to_device(device, options)),
        }
    }

    /// Moves the index back to host memory, and frees its device memory.
    ///
    /// Copies the edges over PCIe once.
    ///
    /// # Errors
    /// Returns [`MoveError`], which [contains the index](MoveError::into_index), if the device failed.
    ///
    /// # Panics
    /// As [`Self::to_device`].
    pub fn to_host(self) -> Result<Self, MoveError> {
        match self.typed {
            Typed::F32(index) => moved(index, TypedIndex::moved_to_host),
            Typed::F16(index) => moved(index, TypedIndex::moved_to_host),
            Typed::U8(index) => moved(index, TypedIndex::moved_to_host),
            Typed::I8(index) => moved(index, TypedIndex::moved_to_host),
        }
    }

    /// The memory that the index would take on a CUDA device and on the host, with its vectors in `storage`. The device
    /// need not exist. `None` without the feature `cuda`.
    pub fn memory_plan_on_device(&self, storage: MemorySpace) -> Option<MemoryPlan> {
        typed!(self, index => index.memory_plan_on_device(storage))
    }

    /// Waits until a CUDA device has compiled the kernels of a single search with default parameters.
    ///
    /// That takes some tenths of a second after the index is moved there, unless the driver has compiled them before.
    /// Until then, the host answers single searches and batches of at most 16 queries. Returns at once on the CPU.
    ///
    /// # Errors
    /// Returns [`DeviceError`].
    pub fn warm_up(&self) -> Result<(), DeviceError> {
        typed!(self, index => index.backend.warm_up())
    }

    /// The largest beam width of searches: 1024 on a CUDA device, `usize::MAX` on the CPU.
    pub fn max_beam_width(&self) -> usize {
        typed!(self, index => index.backend.max_beam_width())
    }

    /// Where the index is. Devices that are [left out](Self::device_faults) do not count.
    pub fn device(&self) -> Device {
        typed!(self, index => index.device())
    }

    /// Name of the CPU or GPU that the index is on.
    pub fn device_name(&self) -> String {
        typed!(self, index => index.backend.device_name())
    }

    /// The errors of devices that faulted and are left out, where [several](crate::Spread::Replicated) hold the index.
    /// The others answer all searches.
    pub fn device_faults(&self) -> Vec<Arc<DeviceError>> {
        typed!(self, index => index.backend.device_faults())
    }

    /// Bytes of device memory that the index takes; 0 on the CPU.
    pub fn device_bytes(&self) -> u64 {
        typed!(self, index => index.backend.device_bytes())
    }
}

/// Moves an index, to which there is no other reference: an index with a progress callback borrows it.
fn moved<T: Element>(
    index: Arc<TypedIndex<T>>,
    to: impl FnOnce(TypedIndex<T>) -> Result<TypedIndex<T>, MoveError<TypedIndex<T>>>,
) -> Result<Index, MoveError> {
    let index = Arc::into_inner(index).expect("an index with a progress callback was forgotten");
    to(index).map(Index::from).map_err(|error| error.map(Index::from))
}
