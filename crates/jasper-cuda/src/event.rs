//! CUDA events.

use std::time::Duration;

use cust::sys::{self, CUevent};

use crate::error::Result;
use crate::{Context, Stream};

/// A CUDA event: recorded in a stream, it completes when the work queued before it is complete. Other streams can wait
/// for it, and two events measure the time between them.
#[derive(Debug)]
pub struct Event {
    context: Context,
    raw: CUevent,
}

// SAFETY: the driver takes calls with the handle from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Creates an event that is not recorded yet; waiting for it returns at once.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn new(context: &Context) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUevent_flags_enum::CU_EVENT_DEFAULT as u32;
        // SAFETY: `raw` is writable.
        context.call(|| unsafe { sys::cuEventCreate(&mut raw, flags) })?;
        Ok(Self { context: context.clone(), raw })
    }

    /// Records the event after all work queued in `stream`, replacing an earlier recording.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both handles live as long as their owners.
        self.context.call(|| unsafe { sys::cuEventRecord(self.raw, stream.raw()) })
    }

    /// Blocks the calling thread until the event is complete.
    ///
    /// # Errors
    /// Returns the error of the work before the event.
    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the handle lives as long as `self`.
        self.context.call(|| unsafe { sys::cuEventSynchronize(self.raw) })
    }

    /// The time from the completion of `earlier` to the completion of this event, with a resolution of half a
    /// microsecond. Blocks until both are complete.
    ///
    /// # Errors
    /// Returns the error of the work before either event, or the driver's error if one of them was never recorded.
    pub fn since(&self, earlier: &Self) -> Result<Duration> {
        earlier.synchronize()?;
        self.synchronize()?;
        let mut milliseconds = 0.0;
        // SAFETY: `milliseconds` is writable, and both handles live as long as their owners.
        self.context.call(|| unsafe { sys::cuEventElapsedTime(&mut milliseconds, earlier.raw, self.raw) })?;
        Ok(Duration::from_secs_f32(milliseconds.max(0.0) / 1e3))
    }

    pub(crate) fn raw(&self) -> CUevent {
        self.raw
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: this is the only owner of the handle; the driver destroys a pending event when it completes.
        self.context.release(|| unsafe { sys::cuEventDestroy_v2(self.raw) });
    }
}
