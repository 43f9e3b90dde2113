//! CUDA streams: ordered queues of copies and kernel launches.

use std::ffi::c_void;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytemuck::Pod;
use cust::sys::{self, CUfunction, CUresult, CUstream};
use gpu_kernels::{Buffer as _, Kernel, LaunchConfig, Stream as _};
use jasper_core::sync::lock;

use crate::error::{Error, ErrorKind, Result};
use crate::staging::Staging;
use crate::{Buffer, Context, Event, Module, Pinned};

/// An array of a graph is large if it takes more than this fraction of the device's memory.
const LARGE_DIVISOR: usize = 64;

/// Up to this many bytes, the driver keeps a copy of what is written, in less time than staging takes.
const SMALL_WRITE: usize = 64 << 10;

/// An ordered queue of work on a device. Work in different streams may run concurrently; no stream that is made here
/// synchronizes with the null stream. Clones refer to the same queue.
///
/// Allocation, copies and typed launches are methods of the trait [`gpu_kernels::Stream`]: a launch takes a kernel and
/// the arguments of that kernel.
///
/// ```compile_fail,E0308
/// # use gpu_kernels::{Kernel, Stream as _};
/// # use jasper_cuda::{Result, Stream};
/// fn mismatched<A: Kernel, B: Kernel>(stream: &Stream, kernel: &A, args: B::Args) -> Result<()> {
///     unsafe { stream.launch(kernel, args) }
/// }
/// ```
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
}

struct Inner {
    context: Context,
    raw: CUstream,
    /// Whether another library made the stream and destroys it.
    is_borrowed: bool,
    /// Pinned memory for copies from and to pageable memory, while no copy uses it; allocated by the first.
    staging: Mutex<Option<Staging>>,
}

// SAFETY: the driver takes calls with the handle from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above; the other fields are `Sync`.
unsafe impl Sync for Inner {}

impl Stream {
    /// Creates a stream of default priority.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn new(context: &Context) -> Result<Self> {
        Self::with_priority(context, 0)
    }

    /// Creates a stream of the highest priority: its pending blocks are scheduled before those of other streams.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub(crate) fn with_high_priority(context: &Context) -> Result<Self> {
        // The driver clamps the priority to its range; lower numbers are more urgent.
        Self::with_priority(context, i32::MIN)
    }

    /// Creates a stream whose pending blocks are scheduled before those of [other streams](Self::new): for searches of few
    /// queries, which else wait for each large launch of a change.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub(crate) fn for_short_work(context: &Context) -> Result<Self> {
        Self::with_priority(context, -1)
    }

    fn with_priority(context: &Context, priority: i32) -> Result<Self> {
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is writable.
        context.call(|| unsafe { sys::cuStreamCreateWithPriority(&mut raw, flags, priority) })?;
        Ok(Self::of(context, raw, false))
    }

    /// Borrows a stream of another library, such as PyTorch's current stream: work that either queues is in one order.
    /// `handle` is its `CUstream` or `cudaStream_t` as a number; 0 and 1 are the legacy default stream. The stream is
    /// not destroyed at the end.
    ///
    /// # Errors
    /// Returns [`ErrorKind::OtherStream`](crate::ErrorKind::OtherStream) if the stream belongs to another device, or to
    /// a context that is not the primary one.
    ///
    /// # Safety
    /// `handle` is 0, 1, or a stream that lives as long as the result, its clones, and the buffers that they allocate.
    pub unsafe fn borrow(context: &Context, handle: u64) -> Result<Self> {
        let raw: CUstream = std::ptr::without_provenance_mut(handle as usize);
        let mut owner = std::ptr::null_mut();
        // SAFETY: the caller promises that the handle is a stream; `owner` is writable.
        context.call(|| unsafe { sys::cuStreamGetCtx(raw, &mut owner) })?;
        if !context.is_primary(owner) {
            return Err(context.fail(ErrorKind::OtherStream));
        }
        Ok(Self::of(context, raw, true))
    }

    fn of(context: &Context, raw: CUstream, is_borrowed: bool) -> Self {
        let inner = Inner { context: context.clone(), raw, is_borrowed, staging: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// The stream's `CUstream` as a number, for other libraries. It is valid as long as the stream.
    pub fn handle(&self) -> u64 {
        self.raw().addr() as u64
    }

    /// The context of the stream.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// Blocks the calling thread until all queued work is complete.
    ///
    /// # Errors
    /// Returns the error of that work: a kernel's fault is reported here or by any later call.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the handle lives as long as `self`.
        self.context().call(|| unsafe { sys::cuStreamSynchronize(self.raw()) })
    }

    /// Whether all queued work is complete.
    ///
    /// # Errors
    /// Returns the error of that work.
    pub(crate) fn is_complete(&self) -> Result<bool> {
        let mut is_complete = true;
        self.context().call(|| {
            // SAFETY: the handle lives as long as `self`.
            match unsafe { sys::cuStreamQuery(self.raw()) } {
                CUresult::CUDA_ERROR_NOT_READY => {
                    is_complete = false;
                    CUresult::CUDA_SUCCESS
                }
                result => result,
            }
        })?;
        Ok(is_complete)
    }

    /// Makes later work in this stream wait for `event`, without blocking the calling thread.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn wait(&self, event: &Event) -> Result<()> {
        // SAFETY: both handles live as long as their owners.
        self.context().call(|| unsafe { sys::cuStreamWaitEvent(self.raw(), event.raw(), 0) })
    }

    /// Bytes per copy of a [write](gpu_kernels::Stream::write) or [read](gpu_kernels::Stream::read_range). A stream
    /// that does either holds twice as much pinned memory.
    pub const CHUNK_BYTES: usize = 8 << 20;

    /// Elements per copy: whole rows, at most [`Self::CHUNK_BYTES`]. Checks that the range is within the buffer.
    fn check_chunk<T: Pod>(&self, buffer: &Buffer<T>, within: &Range<usize>, row_len: usize) -> usize {
        self.check_owner(buffer);
        assert!(within.end <= buffer.len(), "elements {within:?} of a buffer of {}", buffer.len());
        let chunk = Self::CHUNK_BYTES / (row_len * size_of::<T>()).max(1) * row_len;
        assert!(chunk > 0, "a row of {row_len} elements is larger than a chunk");
        chunk
    }

    /// [`gpu_kernels::Stream::write_range`], compiled once for all functions.
    fn write_chunks<T: Pod, E: From<Error>>(
        &self,
        buffer: &mut Buffer<T>,
        within: Range<usize>,
        chunk: usize,
        fill: &mut Fill<'_, T, E>,
    ) -> Result<(), E> {
        if let Some(elements) = buffer.host_mut()? {
            return chunks(within, chunk).try_for_each(|range| fill(range.clone(), &mut elements[range]));
        }
        if within.len() * size_of::<T>() <= SMALL_WRITE {
            let mut values = vec![T::zeroed(); within.len()];
            fill(within.clone(), &mut values)?;
            let (from, bytes) = (values.as_ptr().cast::<c_void>(), within.len() * size_of::<T>());
            if bytes > 0 {
                let to = buffer.address() + (within.start * size_of::<T>()) as u64;
                // SAFETY: the range is within the buffer, which this stream frees after the copy. The driver has copied
                // pageable memory, as `values` is, to its own when it returns.
                self.context().call(|| unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, bytes, self.raw()) })?;
            }
            return Ok(());
        }
        self.with_staging(|staging| {
            for range in chunks(within, chunk) {
                let pinned = staging.next()?;
                let (first, bytes) = (range.start, range.len() * size_of::<T>());
                fill(range, bytemuck::cast_slice_mut(&mut pinned.memory[..bytes]))?;
                let to = buffer.address() + (first * size_of::<T>()) as u64;
                let from = pinned.memory.as_ptr().cast::<c_void>();
                // SAFETY: `from` holds `bytes` bytes and is not written before the event that is recorded next
                // completes. The range is within the buffer, which this stream frees after the copy.
                self.context().call(|| unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, bytes, self.raw()) })?;
                pinned.copied.record(self)?;
            }
            Ok(())
        })
    }

    /// [`gpu_kernels::Stream::read_range`], compiled once for all functions.
    fn read_chunks<T: Pod>(
        &self,
        buffer: &Buffer<T>,
        within: Range<usize>,
        chunk: usize,
        take: &mut dyn FnMut(Range<usize>, &[T]),
    ) -> Result<()> {
        if let Some(elements) = buffer.host()? {
            chunks(within, chunk).for_each(|range| take(range.clone(), &elements[range]));
            return Ok(());
        }
        let mut take = |range: Range<usize>, bytes: &[u8]| {
            let len = range.len() * size_of::<T>();
            take(range, bytemuck::cast_slice(&bytes[..len]));
        };
        self.with_staging(|staging| {
            let mut previous = None;
            for range in chunks(within, chunk) {
                let pinned = staging.next()?;
                let bytes = range.len() * size_of::<T>();
                let from = buffer.address() + (range.start * size_of::<T>()) as u64;
                let to = pinned.memory.as_mut_ptr().cast::<c_void>();
                // SAFETY: `to` has room for `bytes` pinned bytes and is not read before the event that is recorded next
                // completes. The range is within the buffer, which this stream frees after the copy.
                self.context().call(|| unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, bytes, self.raw()) })?;
                pinned.copied.record(self)?;
                if let Some(previous) = previous.replace(range) {
                    take(previous, staging.previous()?);
                }
            }
            if let Some(last) = previous {
                take(last, staging.current()?);
            }
            Ok(())
        })
    }

    /// Launches the kernel `entry` of a module.
    ///
    /// # Errors
    /// Returns [`ErrorKind::UnknownKernel`](crate::ErrorKind::UnknownKernel),
    /// [`ErrorKind::Launch`](crate::ErrorKind::Launch), and errors of the driver.
    ///
    /// # Safety
    /// The kernel must take one parameter with the layout of `A`, and be sound for `args`: see
    /// [`gpu_kernels::Stream::launch`].
    ///
    /// # Panics
    /// Panics if the module was loaded for another device.
    pub unsafe fn launch_from<A: Copy>(
        &self,
        module: &Module,
        entry: &str,
        launch: LaunchConfig,
        args: &A,
    ) -> Result<()> {
        assert_eq!(
            module.context.device().ordinal,
            self.context().device().ordinal,
            "a module is launched on the device that it was loaded for"
        );
        let function = module.loaded.function(self.context(), entry)?.prepare(self.context(), launch)?;
        // SAFETY: upheld by the caller.
        unsafe { self.queue(function, launch, args) }
    }

    /// # Safety
    /// The same as for [`Self::launch_from`], and the launch was prepared.
    unsafe fn queue<A: Copy>(&self, function: CUfunction, launch: LaunchConfig, args: &A) -> Result<()> {
        let LaunchConfig { grid: (x, y), block, shared } = launch;
        if x == 0 || y == 0 {
            return Ok(());
        }
        let mut parameters = [std::ptr::from_ref(args).cast_mut().cast::<c_void>()];
        // SAFETY: the driver reads the kernel's parameter from the one pointer, and the caller promises that it has the
        // layout of `A`, and that the kernel is sound.
        self.context().call(|| unsafe {
            sys::cuLaunchKernel(
                function,
                x,
                y,
                1,
                block,
                1,
                1,
                shared,
                self.raw(),
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        })
    }

    /// Bytes of pinned memory for copies, while no copy uses it.
    pub(crate) fn staging_bytes(&self) -> usize {
        lock(&self.inner.staging).as_ref().map_or(0, |_| 2 * Self::CHUNK_BYTES)
    }

    /// Calls `copy` with pinned memory for copies, allocated by the first copy. The lock is not held meanwhile, because
    /// `copy` calls code that may copy in this stream, or take long: a copy that begins meanwhile allocates memory of
    /// its own, and the last to end keeps it.
    fn with_staging<E: From<Error>>(
        &self,
        copy: impl FnOnce(&mut Staging) -> Result<(), E>,
    ) -> Result<(), E> {
        let idle = lock(&self.inner.staging).take();
        let mut staging = match idle {
            Some(staging) => staging,
            None => Staging::new(self.context(), Self::CHUNK_BYTES)?,
        };
        let copied = copy(&mut staging);
        let other = lock(&self.inner.staging).replace(staging);
        drop(other);
        copied
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.inner.raw
    }

    /// Queues a copy of the first `len` elements of pinned memory to a buffer of this stream.
    ///
    /// # Errors
    /// Returns the driver's error.
    ///
    /// # Panics
    /// Panics if either has fewer elements, or another stream allocated the buffer.
    ///
    /// # Safety
    /// `from` is neither written nor freed before the copy is complete.
    pub(crate) unsafe fn copy_pinned<T: Pod>(
        &self,
        from: &Pinned<T>,
        to: &mut Buffer<T>,
        len: usize,
    ) -> Result<()> {
        gpu_kernels::Stream::check_owner(self, to);
        assert!(len <= from.len().min(to.len()), "{len} elements of {} to {}", from.len(), to.len());
        let (bytes, to) = (len * size_of::<T>(), to.address());
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both have `bytes` bytes. The source remains, as the caller promises; this stream frees the buffer
        // after the copy.
        self.context()
            .call(|| unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), bytes, self.raw()) })
    }
}

// SAFETY: the driver runs the work of a stream in order; buffers hold the stream that allocated them, and are freed in
// its order.
unsafe impl gpu_kernels::Stream for Stream {
    type Error = Error;
    type Buffer<T: Pod> = Buffer<T>;

    fn another(&self) -> Result<Self> {
        Self::new(self.context())
    }

    fn multiprocessors(&self) -> u32 {
        self.context().device().multiprocessors
    }

    fn free_bytes(&self) -> Result<u64> {
        Ok(self.context().free_memory()?.device)
    }

    fn allocate<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::new(self, len)
    }

    fn allocate_on_host<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::on_host(self, len)
    }

    fn upload<T: Pod>(&self, values: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.allocate(values.len())?;
        self.write(&mut buffer, values.len(), 1, |range, out| {
            out.copy_from_slice(&values[range]);
            Ok::<(), Error>(())
        })?;
        Ok(buffer)
    }

    /// Panics if a row is larger than [`Self::CHUNK_BYTES`], or another stream allocated the buffer.
    fn write_range<T: Pod, E: From<Error>>(
        &self,
        buffer: &mut Buffer<T>,
        within: Range<usize>,
        row_len: usize,
        mut fill: impl FnMut(Range<usize>, &mut [T]) -> Result<(), E>,
    ) -> Result<(), E> {
        let chunk = self.check_chunk(buffer, &within, row_len);
        self.write_chunks(buffer, within, chunk, &mut fill)
    }

    /// Panics if a row is larger than [`Self::CHUNK_BYTES`], or another stream allocated the buffer.
    fn read_range<T: Pod>(
        &self,
        buffer: &Buffer<T>,
        within: Range<usize>,
        row_len: usize,
        mut take: impl FnMut(Range<usize>, &[T]),
    ) -> Result<()> {
        let chunk = self.check_chunk(buffer, &within, row_len);
        self.read_chunks(buffer, within, chunk, &mut take)
    }

    fn fill<T: Pod>(&self, buffer: &mut Buffer<T>, byte: u8) -> Result<()> {
        self.check_owner(buffer);
        if let Some(elements) = buffer.host_mut()? {
            bytemuck::cast_slice_mut(elements).fill(byte);
            return Ok(());
        }
        let (address, bytes) = (buffer.address(), buffer.bytes());
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the buffer has `bytes` bytes, which may hold any value, and this stream frees it later.
        self.context().call(|| unsafe { sys::cuMemsetD8Async(address, byte, bytes, self.raw()) })
    }

    /// Panics if another stream allocated one of the arrays.
    fn copy<T: Pod>(&self, from: &Buffer<T>, to: &mut Buffer<T>, len: usize) -> Result<()> {
        self.check_owner(from);
        self.check_owner(to);
        assert!(len <= from.len().min(to.len()), "{len} elements of {} to {}", from.len(), to.len());
        let bytes = len * size_of::<T>();
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both buffers have `bytes` bytes, are distinct, and are freed by this stream later. With unified
        // addressing the driver finds the kind of memory from the address.
        self.context().call(|| unsafe { sys::cuMemcpyAsync(to.address(), from.address(), bytes, self.raw()) })
    }

    /// A large array is allocated in memory that grows in place, if the device supports virtual memory management:
    /// moving it there later would take its memory twice. Small ones are not, because each such allocation reserves
    /// addresses for as much memory as the device has.
    fn allocate_table<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        let is_large = len.saturating_mul(size_of::<T>()) > self.context().device().memory / LARGE_DIVISOR;
        match if is_large { Buffer::growing(self, len)? } else { None } {
            Some(buffer) => Ok(buffer),
            None => self.allocate(len),
        }
    }

    /// The first call moves the array to memory that grows in place, if the device supports virtual memory management.
    /// Each call copies an array in host memory, which takes its memory twice meanwhile.
    fn grow<T: Pod>(&self, buffer: &mut Buffer<T>, len: usize) -> Result<Option<Buffer<T>>> {
        self.check_owner(buffer);
        if len <= buffer.len() || buffer.extend(len)? {
            return Ok(None);
        }
        let mut larger = match buffer.is_on_host() {
            true => self.allocate_on_host(len)?,
            false => match Buffer::growing(self, len)? {
                Some(larger) => larger,
                None => self.allocate(len)?,
            },
        };
        self.copy(buffer, &mut larger, buffer.len())?;
        Ok(Some(std::mem::replace(buffer, larger)))
    }

    fn synchronize(&self) -> Result<()> {
        Self::synchronize(self)
    }

    fn wait_for(&self, other: &Self) -> Result<()> {
        let event = Event::new(self.context())?;
        event.record(other)?;
        self.wait(&event)
    }

    fn synchronize_device(&self) -> Result<()> {
        self.context().synchronize()
    }

    fn download_range<T: Pod>(&self, buffer: &Buffer<T>, within: Range<usize>) -> Result<Vec<T>> {
        self.check_owner(buffer);
        assert!(within.end <= buffer.len(), "elements {within:?} of a buffer of {}", buffer.len());
        if let Some(elements) = buffer.host()? {
            return Ok(elements[within].to_vec());
        }
        let bytes = within.len() * size_of::<T>();
        let mut values = Vec::<T>::with_capacity(within.len());
        if bytes > 0 && self.staging_bytes() > 0 {
            // A copy to pageable memory takes longer.
            self.read_range(buffer, within, 1, |_, chunk| values.extend_from_slice(chunk))?;
            return Ok(values);
        }
        if bytes > 0 {
            let from = buffer.address() + (within.start * size_of::<T>()) as u64;
            let to = values.as_mut_ptr().cast::<c_void>();
            // SAFETY: the range is within the buffer; `to` has room for it and is not used before `synchronize` below.
            self.context().call(|| unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, bytes, self.raw()) })?;
        }
        self.synchronize()?;
        // SAFETY: the copy initialized that many elements, and any bytes are a valid `T`.
        unsafe { values.set_len(within.len()) };
        Ok(values)
    }

    fn check_owner<T: Pod>(&self, buffer: &Buffer<T>) {
        assert!(
            Arc::ptr_eq(&self.inner, &buffer.stream().inner),
            "a buffer is used by the stream that made it"
        );
    }

    unsafe fn launch<K: Kernel>(&self, kernel: &K, args: K::Args) -> Result<()> {
        let launch = kernel.launch_config(&args);
        let function = self.context().kernels().function(self.context(), kernel)?;
        let function = function.prepare(self.context(), launch)?;
        // SAFETY: device and host share the definition of `K::Args`; the rest is upheld by the caller.
        unsafe { self.queue(function, launch, &args) }
    }
}

/// Writes a range of elements to host memory.
type Fill<'a, T, E> = dyn FnMut(Range<usize>, &mut [T]) -> Result<(), E> + 'a;

/// Splits a range into chunks of `chunk` elements; the last may be shorter.
fn chunks(within: Range<usize>, chunk: usize) -> impl Iterator<Item = Range<usize>> {
    within.clone().step_by(chunk).map(move |first| first..within.end.min(first + chunk))
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.context().device())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.is_borrowed {
            return;
        }
        // SAFETY: this is the only owner of the handle. The driver destroys the stream once queued work is complete.
        self.context.release(|| unsafe { sys::cuStreamDestroy_v2(self.raw) });
    }
}
