//! Ordered work on a device.

use std::ffi::c_void;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;
use cust::sys::{self, CUfunction, CUstream};
use gpu_kernels::{Buffer as _, Kernel, Launch};

use crate::error::{Error, Result};
use crate::staging::Staging;
use crate::{Buffer, Context, Event, Module};

/// An ordered queue of work on a device. Work of two streams may run at the same time, and none waits for the null
/// stream. Clones are the same queue.
///
/// The typed half of it is [`gpu_kernels::Stream`]: a launch names a kernel, and takes the arguments of that kernel
/// and no others.
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
    /// Where host memory waits on its way to the device and back; made when the first array is copied.
    staging: Mutex<Option<Staging>>,
}

// SAFETY: the handle is a name for something in the driver, which takes calls from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above; what is ours in it is behind a mutex.
unsafe impl Sync for Inner {}

impl Stream {
    /// A queue without work.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(context: &Context) -> Result<Self> {
        Self::with_priority(context, 0)
    }

    /// A stream whose blocks take the places that become free before those of others do.
    ///
    /// # Errors
    /// What the driver says.
    pub fn with_high_priority(context: &Context) -> Result<Self> {
        // The driver takes the nearest priority that there is; the lowest number comes first.
        Self::with_priority(context, i32::MIN)
    }

    fn with_priority(context: &Context, priority: i32) -> Result<Self> {
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is writable.
        context.call(|| unsafe { sys::cuStreamCreateWithPriority(&mut raw, flags, priority) })?;
        let inner = Inner { context: context.clone(), raw, staging: Mutex::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The device in use.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// Waits until all work so far is done.
    ///
    /// # Errors
    /// What went wrong in it: a fault of a kernel is seen here or at any later call.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the handle lives as long as `self`.
        self.context().call(|| unsafe { sys::cuStreamSynchronize(self.raw()) })
    }

    /// Has the work from here on wait for `event`. The calling thread does not wait.
    ///
    /// # Errors
    /// What the driver says.
    pub fn wait(&self, event: &Event) -> Result<()> {
        // SAFETY: both handles live as long as their owners.
        self.context().call(|| unsafe { sys::cuStreamWaitEvent(self.raw(), event.raw(), 0) })
    }

    /// Bytes that a [write](gpu_kernels::Stream::write) copies at once, and a [read](gpu_kernels::Stream::read_range); twice
    /// that is pinned on the host for each stream that does either.
    pub const PIECE_BYTES: usize = 8 << 20;

    /// How many elements go at once, in whole granules, of a range that is within the buffer.
    fn check_piece<T: Pod>(&self, buffer: &Buffer<T>, within: &Range<usize>, granule: usize) -> usize {
        self.check_owner(buffer);
        assert!(within.end <= buffer.len(), "elements {within:?} of a buffer of {}", buffer.len());
        let piece = Self::PIECE_BYTES / (granule * size_of::<T>()).max(1) * granule;
        assert!(piece > 0, "a granule of {granule} elements is larger than a piece");
        piece
    }

    /// Queues a kernel of one's own.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`], [`Error::Launch`], and what the driver says.
    ///
    /// # Safety
    /// The kernel must take one parameter of the layout of `A`, and do no harm when given `args`: see
    /// [`gpu_kernels::Stream::launch`].
    ///
    /// # Panics
    /// If the module was loaded for another device.
    pub unsafe fn launch_from<A: Copy>(
        &self,
        module: &Module,
        entry: &str,
        launch: Launch,
        args: &A,
    ) -> Result<()> {
        assert_eq!(
            module.context().device().ordinal,
            self.context().device().ordinal,
            "a module runs where it was loaded"
        );
        let function = module.loaded().prepare(self.context(), entry, launch)?;
        self.context().note_launch(entry);
        // SAFETY: the caller's promise.
        unsafe { self.queue(function, launch, args) }
    }

    /// # Safety
    /// As for [`Self::launch_from`], and the launch was prepared.
    unsafe fn queue<A: Copy>(&self, function: CUfunction, launch: Launch, args: &A) -> Result<()> {
        let Launch { grid: (x, y), block, shared } = launch;
        if x == 0 || y == 0 {
            return Ok(());
        }
        let mut parameters = [std::ptr::from_ref(args).cast_mut().cast::<c_void>()];
        // SAFETY: the driver reads as many bytes behind the one pointer as the kernel's parameter has, which is the
        // size of `A` by the caller's promise; what the kernel does is the caller's promise too.
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

    /// Memory is given back in the order of the stream that made it, so that stream alone may work on it unasked.
    pub(crate) fn check_owner<T: Pod>(&self, buffer: &Buffer<T>) {
        assert!(
            Arc::ptr_eq(&self.inner, &buffer.stream().inner),
            "a buffer is used by the stream that made it"
        );
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.inner.raw
    }
}

impl gpu_kernels::Stream for Stream {
    type Error = Error;
    type Buffer<T: Pod> = Buffer<T>;

    fn multiprocessors(&self) -> u32 {
        self.context().device().multiprocessors
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

    /// Panics if a granule is larger than [`Self::PIECE_BYTES`], or another stream made the buffer.
    fn write_range<T: Pod, E: From<Error>>(
        &self,
        buffer: &mut Buffer<T>,
        within: Range<usize>,
        granule: usize,
        mut fill: impl FnMut(Range<usize>, &mut [T]) -> Result<(), E>,
    ) -> Result<(), E> {
        let piece = self.check_piece(buffer, &within, granule);
        if let Some(elements) = buffer.host_mut()? {
            return pieces(within, piece).try_for_each(|range| fill(range.clone(), &mut elements[range]));
        }
        let mut staging = self.inner.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let staging = match &mut *staging {
            Some(staging) => staging,
            none => none.insert(Staging::new(self.context(), Self::PIECE_BYTES)?),
        };
        for range in pieces(within, piece) {
            let slot = staging.next()?;
            let (first, bytes) = (range.start, range.len() * size_of::<T>());
            fill(range, bytemuck::cast_slice_mut(&mut slot.memory[..bytes]))?;
            let to = buffer.address() + (first * size_of::<T>()) as u64;
            let from = slot.memory.as_ptr().cast::<c_void>();
            // SAFETY: `from` holds `bytes` bytes and is not touched again before the event that is recorded next;
            // `to` has room for them, as the range ends within the buffer, and that, which is of this stream, gives
            // its memory back behind this copy.
            self.context().call(|| unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, bytes, self.raw()) })?;
            slot.copied.record(self)?;
        }
        Ok(())
    }

    /// Panics if a granule is larger than [`Self::PIECE_BYTES`], or another stream made the buffer.
    fn read_range<T: Pod>(
        &self,
        buffer: &Buffer<T>,
        within: Range<usize>,
        granule: usize,
        mut take: impl FnMut(Range<usize>, &[T]),
    ) -> Result<()> {
        let piece = self.check_piece(buffer, &within, granule);
        if let Some(elements) = buffer.host()? {
            pieces(within, piece).for_each(|range| take(range.clone(), &elements[range]));
            return Ok(());
        }
        let mut staging = self.inner.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let staging = match &mut *staging {
            Some(staging) => staging,
            none => none.insert(Staging::new(self.context(), Self::PIECE_BYTES)?),
        };
        let mut take = |range: Range<usize>, bytes: &[u8]| {
            let len = range.len() * size_of::<T>();
            take(range, bytemuck::cast_slice(&bytes[..len]));
        };
        let mut before = None;
        for range in pieces(within, piece) {
            let slot = staging.next()?;
            let bytes = range.len() * size_of::<T>();
            let from = buffer.address() + (range.start * size_of::<T>()) as u64;
            let to = slot.memory.as_mut_ptr().cast::<c_void>();
            // SAFETY: `to` has room for `bytes` bytes, which are pinned, and is not looked at before the event that is
            // recorded next; the range ends within the buffer, which is of this stream and goes behind this copy.
            self.context().call(|| unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, bytes, self.raw()) })?;
            slot.copied.record(self)?;
            if let Some(before) = before.replace(range) {
                take(before, staging.copied(false)?);
            }
        }
        if let Some(last) = before {
            take(last, staging.copied(true)?);
        }
        Ok(())
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
        // SAFETY: the buffer has that many bytes, any of which may hold any value, and goes behind this.
        self.context().call(|| unsafe { sys::cuMemsetD8Async(address, byte, bytes, self.raw()) })
    }

    /// Panics if another stream made one of them.
    fn copy<T: Pod>(&self, from: &Buffer<T>, to: &mut Buffer<T>, len: usize) -> Result<()> {
        self.check_owner(from);
        self.check_owner(to);
        assert!(len <= from.len().min(to.len()), "{len} elements of {} to {}", from.len(), to.len());
        let bytes = len * size_of::<T>();
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both buffers have that many bytes, are not the same, and go behind this; the driver knows by an address
        // which memory it is of.
        self.context().call(|| unsafe { sys::cuMemcpyAsync(to.address(), from.address(), bytes, self.raw()) })
    }

    /// The first time, the array goes to memory that grows where it is, if the device has such. One on the host is copied
    /// each time, and there twice meanwhile.
    fn grow<T: Pod>(&self, buffer: &mut Buffer<T>, len: usize) -> Result<()> {
        self.check_owner(buffer);
        if len <= buffer.len() || buffer.extend(len)? {
            return Ok(());
        }
        let mut larger = match buffer.is_on_host() {
            true => self.allocate_on_host(len)?,
            false => match Buffer::growing(self, len)? {
                Some(larger) => larger,
                None => self.allocate(len)?,
            },
        };
        self.copy(buffer, &mut larger, buffer.len())?;
        *buffer = larger;
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Self::synchronize(self)
    }

    fn wait_for(&self, other: &Self) -> Result<()> {
        let behind = Event::new(self.context())?;
        behind.record(other)?;
        self.wait(&behind)
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
        if bytes > 0 {
            let from = buffer.address() + (within.start * size_of::<T>()) as u64;
            let to = values.as_mut_ptr().cast::<c_void>();
            // SAFETY: these bytes are in the buffer, and `to` has room for them and is not touched before the wait below.
            self.context().call(|| unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, bytes, self.raw()) })?;
        }
        self.synchronize()?;
        // SAFETY: that many elements were copied in, and any bytes are a `T`.
        unsafe { values.set_len(within.len()) };
        Ok(values)
    }

    unsafe fn launch<K: Kernel>(&self, kernel: &K, args: K::Args) -> Result<()> {
        let launch = kernel.launch(&args);
        let entry = kernel.entry();
        let function = self.context().kernels().prepare(self.context(), &entry, launch)?;
        self.context().note_launch(&entry);
        // SAFETY: device and host compile the same `K::Args`; the rest is the caller's promise.
        unsafe { self.queue(function, launch, &args) }
    }
}

/// What a range is cut into, all of `piece` elements but the last.
fn pieces(within: Range<usize>, piece: usize) -> impl Iterator<Item = Range<usize>> {
    within.clone().step_by(piece).map(move |first| first..within.end.min(first + piece))
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.context().device())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle. Work that is queued still runs, and the driver frees the stream after.
        self.context.release(|| unsafe { sys::cuStreamDestroy_v2(self.raw) });
    }
}
