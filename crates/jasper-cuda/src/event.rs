//! Marks in the order of a stream.

use std::time::Duration;

use cust::sys::{self, CUevent};

use crate::error::Result;
use crate::{Context, Stream};

/// A mark in the order of a stream, which is passed when the work before it is done: for other streams to wait for,
/// and for the time between two marks.
#[derive(Debug)]
pub struct Event {
    context: Context,
    raw: CUevent,
}

// SAFETY: the handle is a name for something in the driver, which takes calls from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// A mark that is not set yet: nothing waits for it.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(context: &Context) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUevent_flags_enum::CU_EVENT_DEFAULT as u32;
        // SAFETY: `raw` is writable.
        context.call(|| unsafe { sys::cuEventCreate(&mut raw, flags) })?;
        Ok(Self { context: context.clone(), raw })
    }

    /// Puts the mark behind all work that is now in `stream`; where it was before is forgotten.
    ///
    /// # Errors
    /// What the driver says.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both handles live as long as their owners.
        self.context.call(|| unsafe { sys::cuEventRecord(self.raw, stream.raw()) })
    }

    /// Waits until the mark is passed.
    ///
    /// # Errors
    /// What went wrong in the work before it.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the handle lives as long as `self`.
        self.context.call(|| unsafe { sys::cuEventSynchronize(self.raw) })
    }

    /// From when `earlier` was passed to when this one was, to half a microsecond. Waits for both.
    ///
    /// # Errors
    /// What went wrong in the work before; an error of the driver if one of them was never recorded.
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
        // SAFETY: nobody else has the handle; a mark that was not passed yet is freed when it is.
        self.context.release(|| unsafe { sys::cuEventDestroy_v2(self.raw) });
    }
}
