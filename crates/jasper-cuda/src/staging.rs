//! Two pieces of pinned memory in turn: one is filled while the other is copied.

use crate::error::{Error, Result};
use crate::{Context, Event, Pinned};

/// Where host memory waits on its way to the device.
pub(crate) struct Staging {
    slots: [Slot; 2],
    turn: usize,
}

/// One piece.
pub(crate) struct Slot {
    pub(crate) memory: Pinned<u8>,
    /// Behind the copy of what was filled in last.
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
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Pinned memory must not go while the device reads it; a failure means that it no longer does.
        for slot in &self.slots {
            let _ = slot.copied.synchronize();
        }
    }
}
