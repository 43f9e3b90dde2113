//! Two pieces of pinned memory in turn: one is filled, or looked at, while the other is copied.

use crate::error::{Error, Result};
use crate::{Context, Event, Pinned};

/// Where host memory waits on its way to the device, and what comes from there.
pub(crate) struct Staging {
    slots: [Slot; 2],
    turn: usize,
}

/// One piece.
pub(crate) struct Slot {
    pub(crate) memory: Pinned<u8>,
    /// Behind the copy from here, or to here, that was queued last.
    pub(crate) copied: Event,
}

impl Staging {
    pub(crate) fn new(context: &Context, bytes: usize) -> Result<Self> {
        let slot =
            || Ok::<_, Error>(Slot { memory: Pinned::zeroed(context, bytes)?, copied: Event::new(context)? });
        Ok(Self { slots: [slot()?, slot()?], turn: 0 })
    }

    /// The piece that was used longest ago, once it is copied.
    pub(crate) fn next(&mut self) -> Result<&mut Slot> {
        self.turn ^= 1;
        let slot = &mut self.slots[self.turn];
        slot.copied.synchronize()?;
        Ok(slot)
    }

    /// What was copied into the piece that [`Self::next`] gave last, or the one before that, once it is there.
    pub(crate) fn copied(&self, last: bool) -> Result<&[u8]> {
        let slot = &self.slots[if last { self.turn } else { self.turn ^ 1 }];
        slot.copied.synchronize()?;
        Ok(&slot.memory)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Pinned memory must not go while the device reads it; a failure means that it no longer does.
        for slot in &self.slots {
            let _ = slot.copied.synchronize();
        }
    }
}
