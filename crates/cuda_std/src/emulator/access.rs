//! Every access of memory: its bounds, its alignment, what it reads, and whom it races with.

use std::sync::Arc;

use super::block::{Block, Checked, Content};
use super::clock::Horizon;
use super::copies::Copy;
use super::fault::{Access, Fault, Other, Site, Touch};
use super::releases::joined;
use super::shadow::{PAGE_BYTES, Page, Rival, Toucher};
use super::trace::{Mark, TracePage};

/// An access by a running thread.
#[derive(Clone, Copy)]
pub struct By {
    pub thread: u32,
    pub site: Site,
}

impl Block {
    /// Checks an access of `bytes` bytes of shared memory, and notes it; gives back where they begin.
    pub fn check_shared(&mut self, by: By, touch: Touch, offset: u32, bytes: usize) -> Checked<usize> {
        let start = offset as usize;
        let fault = |block: &Self, fault: fn(super::Place, Access) -> Fault| {
            let at = block.place(by.thread, Some(by.site));
            Err(Box::new(fault(at, block.shared_access(touch, offset, bytes))))
        };
        if start + bytes > self.shared.len() {
            return fault(self, |at, access| Fault::OutOfBounds { at, access });
        }
        if !start.is_multiple_of(bytes) {
            return fault(self, |at, access| Fault::Misaligned { at, access });
        }
        let contents = &mut self.contents[start..start + bytes];
        if touch == Touch::Store && !contents.contains(&Content::InFlight) {
            contents.fill(Content::Value);
        } else if contents.contains(&Content::InFlight) {
            return fault(self, |at, access| Fault::InFlight { at, access });
        } else if contents.contains(&Content::Nothing) {
            return fault(self, |at, access| Fault::Uninitialised { at, access });
        }
        self.race_shared(by, touch, offset, bytes)?;
        Ok(start)
    }

    fn race_shared(&mut self, by: By, touch: Touch, offset: u32, bytes: usize) -> Checked<()> {
        let tag = self.tag();
        let toucher = Toucher { touch, thread: by.thread, site: by.site, tag, clocks: &self.clocks };
        let page = &mut self.shadows.shared[offset as usize / PAGE_BYTES];
        let raced = page.touch(offset as usize % PAGE_BYTES, bytes, &toucher);
        raced.map_err(|rival| self.race(by, self.shared_access(touch, offset, bytes), rival))
    }

    /// Checks an access of `bytes` bytes of global memory, and notes it.
    pub fn check_global(&mut self, by: By, touch: Touch, address: usize, bytes: usize) -> Checked<()> {
        self.check_buffer(by, touch, address, bytes)?;
        let page = self.page(address);
        let offset = address % PAGE_BYTES;
        let toucher =
            Toucher { touch, thread: by.thread, site: by.site, tag: self.tag(), clocks: &self.clocks };
        if let Err(rival) = self.shadows.global[page].touch(offset, bytes, &toucher) {
            return Err(self.race(by, self.global_access(touch, address, bytes), rival));
        }
        let mark = self.mark(by, touch);
        let read_only = self.trace[page].1.touch(offset, bytes, mark);
        read_only
            .map_or(Ok(()), |other| Err(self.read_only(by, self.global_access(touch, address, bytes), other)))
    }

    /// The same for a load through the read-only path.
    pub fn check_read_only(&mut self, by: By, address: usize, bytes: usize) -> Checked<()> {
        self.check_buffer(by, Touch::Load, address, bytes)?;
        let page = self.page(address);
        let mark = self.mark(by, Touch::Load);
        let written = self.trace[page].1.read_only(address % PAGE_BYTES, bytes, mark);
        written.map_or(Ok(()), |other| {
            Err(self.read_only(by, self.global_access(Touch::Load, address, bytes), other))
        })
    }

    /// Bounds, alignment, and that what is read was written.
    fn check_buffer(&mut self, by: By, touch: Touch, address: usize, bytes: usize) -> Checked<()> {
        let fault = match self.launch.regions.find(address, bytes, &mut self.near) {
            None => |at, access| Fault::OutOfBounds { at, access },
            Some(_) if !address.is_multiple_of(bytes) => |at, access| Fault::Misaligned { at, access },
            Some(region) if touch == Touch::Store => {
                region.mark_written(address, bytes);
                return Ok(());
            }
            Some(region) if region.is_written(address, bytes) => return Ok(()),
            Some(_) => |at, access| Fault::Uninitialised { at, access },
        };
        let at = self.place(by.thread, Some(by.site));
        Err(Box::new(fault(at, self.global_access(touch, address, bytes))))
    }

    /// The index of the page of global memory that holds `address`.
    fn page(&mut self, address: usize) -> usize {
        let number = address / PAGE_BYTES;
        *self.pages.entry(number).or_insert_with(|| {
            let index = self.trace.len();
            self.trace.push((number, TracePage::default()));
            if self.shadows.global.len() == index {
                self.shadows.global.push(Page::default());
            }
            index
        })
    }

    fn mark(&self, by: By, touch: Touch) -> Mark {
        let (moment, beyond) = (self.clocks.now(by.thread), self.clocks.beyond(by.thread));
        Mark { touch, site: by.site, moment, beyond }
    }

    fn race(&self, by: By, access: Access, rival: Rival) -> Box<Fault> {
        let Rival { touch, thread, site } = rival;
        let other = Box::new(Other { touch, block: self.index(), thread, site });
        Box::new(Fault::Race { at: self.place(by.thread, Some(by.site)), access, other })
    }

    fn read_only(&self, by: By, access: Access, other: Mark) -> Box<Fault> {
        let Mark { touch, site, moment, .. } = other;
        let other = Box::new(Other { touch, block: self.index(), thread: moment.thread, site });
        Box::new(Fault::ReadOnly { at: self.place(by.thread, Some(by.site)), access, other })
    }

    /// Starts an asynchronous copy of 16 bytes.
    pub fn start_copy(&mut self, by: By, to: u32, bytes: [u8; 16]) -> Checked<()> {
        let start = self.check_shared(by, Touch::Store, to, 16)?;
        self.contents[start..start + 16].fill(Content::InFlight);
        self.asides[by.thread as usize].copies.start(Copy { to, bytes, site: by.site });
        Ok(())
    }

    /// Lets the copies of `thread` arrive until at most `left` groups are under way.
    pub fn finish_copies(&mut self, thread: u32, left: usize) -> Checked<()> {
        for Copy { to, bytes, site } in self.asides[thread as usize].copies.arrive(left) {
            let start = to as usize;
            self.shared[start..start + 16].copy_from_slice(&bytes);
            self.contents[start..start + 16].fill(Content::Value);
            // They may have arrived at any time since: once more, for those who came after the start.
            self.race_shared(By { thread, site }, Touch::Store, to, 16)?;
        }
        Ok(())
    }

    /// What an atomic store of `thread` tells: all that it knew at its last fence.
    pub fn fenced(&self, thread: u32) -> Option<Arc<Horizon>> {
        self.asides[thread as usize].fenced.clone()
    }

    /// An atomic load of `thread` found that told; a fence will make it known.
    pub fn found(&mut self, thread: u32, told: Option<Arc<Horizon>>) {
        let found = &mut self.asides[thread as usize].found;
        *found = match (told, found.take()) {
            (Some(one), Some(other)) => Some(joined(&one, &other)),
            (one, other) => one.or(other),
        };
    }

    /// A fence of `thread`.
    pub fn fence(&mut self, thread: u32) {
        if let Some(found) = self.asides[thread as usize].found.take() {
            self.clocks.acquire(thread, &found);
        }
        self.asides[thread as usize].fenced = Some(self.clocks.release(thread));
    }
}
