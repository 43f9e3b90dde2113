//! Device memory that grows where it is: addresses are reserved, and memory is put behind more of them when it is wanted.

use cust::sys::{
    self, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationType, CUmemGenericAllocationHandle,
    CUmemLocation, CUmemLocationType,
};

use crate::error::Result;
use crate::{Context, Device};

/// Addresses for as many bytes as the device has, the first of which are memory.
pub(crate) struct VirtualAllocation {
    context: Context,
    address: CUdeviceptr,
    /// Bytes of addresses.
    reserved: usize,
    /// What a piece is a multiple of.
    granularity: usize,
    /// Pieces of memory and their bytes, one behind the other.
    pieces: Vec<(CUmemGenericAllocationHandle, usize)>,
}

impl VirtualAllocation {
    /// No memory yet; `None` where the device has no such addresses.
    ///
    /// # Errors
    /// What the driver says.
    pub(crate) fn new(context: &Context) -> Result<Option<Self>> {
        if !Device::maps_memory(context)? {
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
        Ok(Some(Self { context: context.clone(), address, reserved, granularity, pieces: Vec::new() }))
    }

    /// The first address.
    pub(crate) fn address(&self) -> CUdeviceptr {
        self.address
    }

    /// Makes at least `bytes` of it memory. Waits for nothing: work that uses what there was goes on.
    ///
    /// # Errors
    /// What the driver says, which is that there is not so much; all is as it was.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<()> {
        let mapped = self.mapped();
        let more = bytes.saturating_sub(mapped).next_multiple_of(self.granularity);
        if more == 0 {
            return Ok(());
        }
        assert!(mapped + more <= self.reserved, "nobody asks for more than the device has");
        let (context, kind, to) = (&self.context, allocation(&self.context), self.address + mapped as u64);
        let mut piece = 0;
        // SAFETY: `piece` is writable, and `kind` lives through the call.
        context.call(|| unsafe { sys::cuMemCreate(&mut piece, more, &kind, 0) })?;
        let release = || {
            // SAFETY: the piece has just been made, and is mapped nowhere.
            context.release(|| unsafe { sys::cuMemRelease(piece) });
        };
        // SAFETY: these addresses are reserved, as asserted, and have no memory yet; the piece is as large.
        context.call(|| unsafe { sys::cuMemMap(to, more, 0, piece, 0) }).inspect_err(|_| release())?;
        let access = CUmemAccessDesc {
            location: kind.location,
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the addresses have just been mapped; `access` lives through the call.
        context.call(|| unsafe { sys::cuMemSetAccess(to, more, &access, 1) }).inspect_err(|_| {
            // SAFETY: nobody has used them.
            context.release(|| unsafe { sys::cuMemUnmap(to, more) });
            release();
        })?;
        self.pieces.push((piece, more));
        Ok(())
    }

    /// Bytes that are memory.
    fn mapped(&self) -> usize {
        self.pieces.iter().map(|piece| piece.1).sum()
    }
}

/// Memory of the device itself.
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
        // Work that is queued may still use it; a failure means that it no longer does.
        let _ = self.context.synchronize();
        let mut address = self.address;
        for &(piece, bytes) in &self.pieces {
            // SAFETY: the piece was mapped there, and nobody uses it any more.
            self.context.release(|| unsafe { sys::cuMemUnmap(address, bytes) });
            // SAFETY: it is mapped nowhere else.
            self.context.release(|| unsafe { sys::cuMemRelease(piece) });
            address += bytes as u64;
        }
        // SAFETY: these were reserved, and nothing is mapped there.
        self.context.release(|| unsafe { sys::cuMemAddressFree(self.address, self.reserved) });
    }
}
