//! Double buffering in pinned memory: the host fills or reads one buffer while the other is copied.

use crate::error::{Error, Result};
use crate::{Context, Event, Pinned};

/// Two pinned buffers, used in turn by copies between the device and pageable memory.
pub(crate) struct Staging {
    buffers: [StagingBuffer; 2],
    current: usize,
}

pub(crate) struct StagingBuffer {
    pub(crate) memory: Pinned<u8>,
    /// Recorded after the last copy from or to the buffer.
    pub(crate) copied: Event,
}

impl Staging {
    pub(crate) fn new(context: &Context, bytes: usize) -> Result<Self> {
        let buffer = || {
            let memory = Pinned::zeroed(context, bytes)?;
            Ok::<_, Error>(StagingBuffer { memory, copied: Event::new(context)? })
        };
        Ok(Self { buffers: [buffer()?, buffer()?], current: 0 })
    }

    /// Waits until the copy of the previous buffer is complete, and makes it the current one.
    pub(crate) fn next(&mut self) -> Result<&mut StagingBuffer> {
        self.current ^= 1;
        let buffer = &mut self.buffers[self.current];
        buffer.copied.synchronize()?;
        Ok(buffer)
    }

    /// Waits until the copy into the current buffer is complete, and returns its contents.
    pub(crate) fn current(&self) -> Result<&[u8]> {
        self.contents(self.current)
    }

    /// Waits until the copy into the previous buffer is complete, and returns its contents.
    pub(crate) fn previous(&self) -> Result<&[u8]> {
        self.contents(self.current ^ 1)
    }

    fn contents(&self, index: usize) -> Result<&[u8]> {
        self.buffers[index].copied.synchronize()?;
        Ok(&self.buffers[index].memory)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // The device may still read the memory. After a failure it no longer does.
        for buffer in &self.buffers {
            let _ = buffer.copied.synchronize();
        }
    }
}
