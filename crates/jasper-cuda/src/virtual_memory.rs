//! Device memory that grows in place: a reserved address range, to which physical memory is mapped as needed.

use cust::sys::{
    self, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationType, CUmemGenericAllocationHandle,
    CUmemLocation, CUmemLocationType,
};

use crate::Context;
use crate::error::Result;

/// A reserved address range of the size of the device's memory, with physical memory mapped to its first bytes.
pub(crate) struct VirtualAllocation {
    context: Context,
    address: CUdeviceptr,
    /// Size of the range in bytes.
    reserved: usize,
    /// The size of a mapping is a multiple of this.
    granularity: usize,
    /// Handles and sizes of the mapped memory, in the order of their addresses.
    allocations: Vec<(CUmemGenericAllocationHandle, usize)>,
}

impl VirtualAllocation {
    /// Reserves a range without memory; `None` if the device has no virtual memory management.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub(crate) fn new(context: &Context) -> Result<Option<Self>> {
        if !context.device().maps_memory()? {
            return Ok(None);
        }
        let (mut granularity, kind) = (0, allocation(context));
        let recommended = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        // SAFETY: `granularity` is writable, and `kind` lives through the call.
        let ask = || unsafe { sys::cuMemGetAllocationGranularity(&mut granularity, &kind, recommended) };
        context.call(ask)?;
        let reserved = context.device().memory.next_multiple_of(granularity);
        let mut address = 0;
        // SAFETY: `address` is writable; any addresses will do.
        context.call(|| unsafe { sys::cuMemAddressReserve(&mut address, reserved, 0, 0, 0) })?;
        Ok(Some(Self { context: context.clone(), address, reserved, granularity, allocations: Vec::new() }))
    }

    /// The first address.
    pub(crate) fn address(&self) -> CUdeviceptr {
        self.address
    }

    /// Maps memory to at least the first `bytes` bytes. Does not synchronize: work that uses the memory continues.
    ///
    /// # Errors
    /// Returns the driver's error, such as out of memory. Nothing has changed then.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<()> {
        let mapped = self.mapped();
        let more = bytes.saturating_sub(mapped).next_multiple_of(self.granularity);
        if more == 0 {
            return Ok(());
        }
        assert!(mapped + more <= self.reserved, "callers check the size against the device's memory");
        let (context, kind, to) = (&self.context, allocation(&self.context), self.address + mapped as u64);
        let mut allocation = 0;
        // SAFETY: `allocation` is writable, and `kind` lives through the call.
        context.call(|| unsafe { sys::cuMemCreate(&mut allocation, more, &kind, 0) })?;
        let release = || {
            // SAFETY: the allocation was just created and is not mapped.
            context.release(|| unsafe { sys::cuMemRelease(allocation) });
        };
        // SAFETY: the addresses are reserved, as asserted, and unmapped; the allocation has the same size.
        context.call(|| unsafe { sys::cuMemMap(to, more, 0, allocation, 0) }).inspect_err(|_| release())?;
        let access = CUmemAccessDesc {
            location: kind.location,
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the addresses were just mapped; `access` lives through the call.
        context.call(|| unsafe { sys::cuMemSetAccess(to, more, &access, 1) }).inspect_err(|_| {
            // SAFETY: the mapping is not in use yet.
            context.release(|| unsafe { sys::cuMemUnmap(to, more) });
            release();
        })?;
        self.allocations.push((allocation, more));
        Ok(())
    }

    /// Mapped bytes.
    fn mapped(&self) -> usize {
        self.allocations.iter().map(|allocation| allocation.1).sum()
    }
}

/// Properties of pinned memory on the device.
fn allocation(context: &Context) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: context.device().ordinal as i32,
        },
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: Default::default(),
    }
}

impl Drop for VirtualAllocation {
    fn drop(&mut self) {
        // Queued work may still use the memory. After a failure it no longer runs.
        let _ = self.context.synchronize();
        let mut address = self.address;
        for &(allocation, bytes) in &self.allocations {
            // SAFETY: the allocation is mapped there, and all work that used it is complete.
            self.context.release(|| unsafe { sys::cuMemUnmap(address, bytes) });
            // SAFETY: it is no longer mapped.
            self.context.release(|| unsafe { sys::cuMemRelease(allocation) });
            address += bytes as u64;
        }
        // SAFETY: the range was reserved, and nothing is mapped to it.
        self.context.release(|| unsafe { sys::cuMemAddressFree(self.address, self.reserved) });
    }
}
