//! Global memory: buffers with their bounds and a bit map of initialized bytes.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
};
use std::sync::{Arc, Mutex, MutexGuard};

use bytemuck::Pod;

use super::fault::{Address, Fault};
use crate::{Value, Word};

/// The alignment of allocations, and the number of unused bytes on both sides of one.
const ALIGNMENT: usize = 256;

/// The fill byte of uninitialized memory: neither a small number nor a common float.
pub const POISON: u8 = 0xA5;

/// The memory of one buffer.
pub struct Region {
    name: Arc<str>,
    start: NonNull<u8>,
    bytes: usize,
    element_bytes: usize,
    /// A bit for each byte that was written.
    written: Vec<AtomicU64>,
}

// SAFETY: the region owns the memory; kernels access it only by atomic operations, and the host only between launches.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    fn new(name: Arc<str>, bytes: usize, element_bytes: usize) -> Self {
        let layout = Self::layout(bytes);
        // SAFETY: the layout has a size above zero.
        let Some(whole) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        // SAFETY: the layout has ALIGNMENT bytes before the region, and as many behind it.
        let start = unsafe {
            whole.write_bytes(POISON, layout.size());
            whole.add(ALIGNMENT)
        };
        let written = (0..bytes.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { name, start, bytes, element_bytes, written }
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes + 2 * ALIGNMENT, ALIGNMENT).expect("a buffer fits the address space")
    }

    fn start(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// The bits of the bytes from `address` on that an access of `bytes` (at most 16, aligned) touches, and the word
    /// with these bits.
    fn bits(&self, address: usize, bytes: usize) -> (&AtomicU64, u64) {
        let offset = address - self.start();
        (&self.written[offset / 64], ((1 << bytes) - 1) << (offset % 64))
    }

    /// Whether all the bytes were written.
    pub fn is_written(&self, address: usize, bytes: usize) -> bool {
        let (word, mask) = self.bits(address, bytes);
        word.load(Relaxed) & mask == mask
    }

    /// Records that the bytes are written.
    pub fn mark_written(&self, address: usize, bytes: usize) {
        let (word, mask) = self.bits(address, bytes);
        if word.load(Relaxed) & mask != mask {
            word.fetch_or(mask, Relaxed);
        }
    }

    /// The distance of `address` from the region.
    fn distance(&self, address: usize) -> usize {
        self.start().saturating_sub(address).max((address + 1).saturating_sub(self.start() + self.bytes))
    }

    fn describe(&self, address: usize) -> Address {
        Address::Buffer {
            name: self.name.clone(),
            offset: address as i64 - self.start() as i64,
            element_bytes: self.element_bytes as u32,
            len: (self.bytes / self.element_bytes) as u64,
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it with this layout, ALIGNMENT bytes before the start.
        unsafe { dealloc(self.start.as_ptr().sub(ALIGNMENT), Self::layout(self.bytes)) };
    }
}

/// The buffers of an emulator, by ascending address.
#[derive(Clone, Default)]
pub struct Regions(Vec<Arc<Region>>);

impl Regions {
    /// The region that contains all the bytes. The search begins at `near`, which is set to the index of the region.
    pub fn find(&self, address: usize, bytes: usize, near: &mut usize) -> Option<&Region> {
        let holds =
            |region: &Region| region.start() <= address && address - region.start() + bytes <= region.bytes;
        if let Some(region) = self.0.get(*near)
            && holds(region)
        {
            return Some(region);
        }
        *near = self.0.partition_point(|region| region.start() <= address).checked_sub(1)?;
        Some(&*self.0[*near]).filter(|region| holds(region))
    }

    /// `address` in terms of the nearest buffer.
    pub fn describe(&self, address: usize) -> Address {
        let nearest = self.0.iter().min_by_key(|region| region.distance(address));
        nearest.map_or(Address::Nowhere(address), |region| region.describe(address))
    }
}

/// The live buffers of an emulator.
#[derive(Default)]
pub struct Memory {
    regions: Mutex<Regions>,
    /// Peak size of all buffers together, in bytes.
    peak: AtomicUsize,
}

impl Memory {
    /// The current buffers.
    pub fn regions(&self) -> MutexGuard<'_, Regions> {
        self.regions.lock().expect("no panic holds the list of buffers")
    }

    /// The peak size of all buffers together, in bytes.
    pub fn peak_bytes(&self) -> usize {
        self.peak.load(Relaxed)
    }
}

/// An array in the emulator's global memory. Dropping it frees the memory; a kernel that uses it later faults.
pub struct Buffer<T> {
    region: Arc<Region>,
    memory: Arc<Memory>,
    element: PhantomData<fn() -> T>,
}

impl<T: Pod> Buffer<T> {
    pub(super) fn new(memory: &Arc<Memory>, name: &str, len: usize) -> Self {
        let region = Arc::new(Region::new(name.into(), len * size_of::<T>(), size_of::<T>()));
        let regions = &mut memory.regions().0;
        let place = regions.partition_point(|other| other.start() < region.start());
        regions.insert(place, region.clone());
        memory.peak.fetch_max(regions.iter().map(|region| region.bytes).sum(), Relaxed);
        Self { region, memory: memory.clone(), element: PhantomData }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.region.bytes / size_of::<T>()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.region.bytes == 0
    }

    /// The address, for a kernel that reads.
    pub fn as_ptr(&self) -> *const T {
        self.region.start.as_ptr().cast()
    }

    /// The address, for a kernel that writes.
    pub fn as_mut_ptr(&self) -> *mut T {
        self.region.start.as_ptr().cast()
    }

    /// Copies `values` to the buffer's beginning.
    ///
    /// # Panics
    /// Panics if there are more values than elements.
    pub fn write(&mut self, values: &[T]) {
        self.write_from(0, values);
    }

    /// Copies `values` to the elements from `first` on.
    ///
    /// # Panics
    /// Panics if there are more values than elements.
    pub fn write_from(&mut self, first: usize, values: &[T]) {
        let (bytes, len) = (size_of_val(values), self.len());
        assert!(first + values.len() <= len, "{} values into a buffer of {len}, from {first}", values.len());
        self.overwrite(first * size_of::<T>(), bytes, |start| {
            // SAFETY: `overwrite` provides room for these bytes, and no launch runs.
            unsafe { start.copy_from_nonoverlapping(NonNull::from(values).cast(), bytes) }
        });
    }

    /// Sets every byte to `byte`.
    pub fn fill(&mut self, byte: u8) {
        let bytes = self.region.bytes;
        // SAFETY: as in `write_from`.
        self.overwrite(0, bytes, |start| unsafe { start.write_bytes(byte, bytes) });
    }

    /// Copies the first `len` elements of another buffer to the beginning of this one. Elements that were never written
    /// there do not become written here.
    ///
    /// # Panics
    /// Panics if either buffer has fewer elements.
    pub fn copy(&mut self, from: &Self, len: usize) {
        assert!(len <= self.len().min(from.len()), "{len} elements of {} to {}", from.len(), self.len());
        let bytes = len * size_of::<T>();
        // SAFETY: both have that many bytes, they are two buffers, and no launch runs.
        unsafe { self.region.start.copy_from_nonoverlapping(from.region.start, bytes) };
        for (number, (to, from)) in self.region.written.iter().zip(&from.region.written).enumerate() {
            let mask = low_bits(bytes.saturating_sub(number * 64));
            to.store(to.load(Relaxed) & !mask | from.load(Relaxed) & mask, Relaxed);
        }
    }

    /// Lets `write` overwrite `bytes` bytes from byte `first` on, and records that they are written.
    fn overwrite(&mut self, first: usize, bytes: usize, write: impl FnOnce(NonNull<u8>)) {
        // SAFETY: the caller has checked that they are in the region.
        write(unsafe { self.region.start.add(first) });
        for (number, word) in self.region.written.iter().enumerate() {
            let [before, through] =
                [first, first + bytes].map(|end| low_bits(end.saturating_sub(number * 64)));
            word.fetch_or(through & !before, Relaxed);
        }
    }

    /// Returns a copy of the elements.
    ///
    /// # Errors
    /// Returns [`Fault::Unwritten`] if any of them was never written.
    pub fn read(&self) -> Result<Vec<T>, Fault> {
        self.read_range(0..self.len())
    }

    /// Returns a copy of the elements `within`.
    ///
    /// # Errors
    /// Returns [`Fault::Unwritten`] if any of them was never written.
    ///
    /// # Panics
    /// Panics if there are fewer elements.
    pub fn read_range(&self, within: Range<usize>) -> Result<Vec<T>, Fault> {
        let Region { start, element_bytes, ref written, ref name, .. } = *self.region;
        assert!(within.end <= self.len(), "elements {within:?} of a buffer of {}", self.len());
        let [first, end] = [within.start, within.end].map(|element| element * element_bytes);
        let unwritten = (first / 64..end.div_ceil(64)).find_map(|number| {
            let [before, through] = [first, end].map(|byte| low_bits(byte.saturating_sub(number * 64)));
            let missing = through & !before & !written[number].load(Relaxed);
            (missing != 0).then(|| number * 64 + missing.trailing_zeros() as usize)
        });
        if let Some(byte) = unwritten {
            return Err(Fault::Unwritten {
                buffer: name.clone(),
                element: (byte / element_bytes) as u64,
                len: self.len() as u64,
            });
        }
        let mut values = vec![T::zeroed(); within.len()];
        // SAFETY: these bytes are in the region, any bits are a `T`, and no launch runs.
        unsafe {
            let from = start.add(first);
            from.copy_to_nonoverlapping(NonNull::from(&mut values[..]).cast(), end - first);
        }
        Ok(values)
    }
}

/// A word of which the lowest `count` bits are set, or all.
fn low_bits(count: usize) -> u64 {
    u64::MAX.checked_shr(64 - count.min(64) as u32).unwrap_or(0)
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        self.memory.regions().0.retain(|region| !Arc::ptr_eq(region, &self.region));
    }
}

/// Reads global memory.
///
/// # Safety
/// The address is that of a `T` in a region, aligned to its size.
pub unsafe fn read<T: Value>(from: *const T) -> T {
    let from = from.cast_mut();
    // SAFETY: promised; the atomic types have the size of `T`, and every pattern of bits is a `T`.
    unsafe {
        match size_of::<T>() {
            1 => std::mem::transmute_copy(&AtomicU8::from_ptr(from.cast()).load(Relaxed)),
            2 => std::mem::transmute_copy(&AtomicU16::from_ptr(from.cast()).load(Relaxed)),
            4 => std::mem::transmute_copy(&AtomicU32::from_ptr(from.cast()).load(Relaxed)),
            8 => std::mem::transmute_copy(&AtomicU64::from_ptr(from.cast()).load(Relaxed)),
            _ => std::mem::transmute_copy(
                &[0, 1].map(|half| AtomicU64::from_ptr(from.cast::<u64>().add(half)).load(Relaxed)),
            ),
        }
    }
}

/// Writes global memory.
///
/// # Safety
/// The same as for [`read`].
pub unsafe fn write<T: Value>(to: *mut T, value: T) {
    // SAFETY: promised; the atomic types have the size of `T`.
    unsafe {
        match size_of::<T>() {
            1 => AtomicU8::from_ptr(to.cast()).store(std::mem::transmute_copy(&value), Relaxed),
            2 => AtomicU16::from_ptr(to.cast()).store(std::mem::transmute_copy(&value), Relaxed),
            4 => AtomicU32::from_ptr(to.cast()).store(std::mem::transmute_copy(&value), Relaxed),
            8 => AtomicU64::from_ptr(to.cast()).store(std::mem::transmute_copy(&value), Relaxed),
            _ => {
                let halves: [u64; 2] = std::mem::transmute_copy(&value);
                for (half, bits) in halves.into_iter().enumerate() {
                    AtomicU64::from_ptr(to.cast::<u64>().add(half)).store(bits, Relaxed);
                }
            }
        }
    }
}

/// Atomically replaces a value in global memory by the result of `change`, and returns the old value.
///
/// # Safety
/// The same as for [`read`].
pub unsafe fn update<T: Word>(place: *mut T, change: impl Fn(T) -> T) -> T {
    let change = |old: u64| change(T::from_bits(old)).bits();
    // SAFETY: promised; the atomic types have the size of `T`.
    T::from_bits(unsafe {
        if size_of::<T>() == 4 {
            let word = AtomicU32::from_ptr(place.cast());
            u64::from(word.update(SeqCst, SeqCst, |old| change(old.into()) as u32))
        } else {
            AtomicU64::from_ptr(place.cast()).update(SeqCst, SeqCst, change)
        }
    })
}
