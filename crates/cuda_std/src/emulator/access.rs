//! The checks of every access: bounds, alignment, initialization and races.

use super::block::{Block, Checked};
use super::fault::{Access, AccessKind, Fault, Site};
use super::shadow::{Accessor, PAGE_BYTES, Page};
use super::trace::{Mark, TracePage};

/// An access by a running thread.
#[derive(Clone, Copy)]
pub struct By {
    pub thread: u32,
    pub site: Site,
}

impl Block {
    /// Checks and records an access of `bytes` bytes of shared memory; returns their offset.
    pub fn check_shared(&mut self, by: By, kind: AccessKind, offset: u32, bytes: usize) -> Checked<usize> {
        let start = offset as usize;
        let fault = |block: &Self, fault: fn(super::Place, Access) -> Fault| {
            let at = block.place(by.thread, Some(by.site));
            Err(Box::new(fault(at, block.shared_access(kind, offset, bytes))))
        };
        if start + bytes > self.shared.len() {
            return fault(self, |at, access| Fault::OutOfBounds { at, access });
        }
        if !start.is_multiple_of(bytes) {
            return fault(self, |at, access| Fault::Misaligned { at, access });
        }
        let written = &mut self.written[start..start + bytes];
        if kind == AccessKind::Store {
            written.fill(true);
        } else if written.contains(&false) {
            return fault(self, |at, access| Fault::Uninitialized { at, access });
        }
        self.race_shared(by, kind, offset, bytes)?;
        Ok(start)
    }

    fn race_shared(&mut self, by: By, kind: AccessKind, offset: u32, bytes: usize) -> Checked<()> {
        let accessor = Accessor { mark: self.mark(by, kind), tag: self.tag(), clocks: &self.clocks };
        let page = &mut self.shadows.shared[offset as usize / PAGE_BYTES];
        let raced = page.touch(offset as usize % PAGE_BYTES, bytes, &accessor);
        raced.map_err(|other| self.conflict(by, self.shared_access(kind, offset, bytes), other, false))
    }

    /// Checks and records an access of `bytes` bytes of global memory.
    pub fn check_global(&mut self, by: By, kind: AccessKind, address: usize, bytes: usize) -> Checked<()> {
        self.check_buffer(by, kind, address, bytes)?;
        let page = self.page(address);
        let (offset, mark) = (address % PAGE_BYTES, self.mark(by, kind));
        let accessor = Accessor { mark, tag: self.tag(), clocks: &self.clocks };
        let access = |block: &Self| block.global_access(kind, address, bytes);
        let raced = self.shadows.global[page].touch(offset, bytes, &accessor);
        raced.map_err(|other| self.conflict(by, access(self), other, false))?;
        let read = self.trace[page].1.touch(offset, bytes, mark);
        read.map_err(|other| self.conflict(by, access(self), other, true))
    }

    /// Checks and records a relaxed store of `bytes` bytes of global memory, which reads nothing.
    pub fn check_relaxed_store(&mut self, by: By, address: usize, bytes: usize) -> Checked<()> {
        self.check_buffer(by, AccessKind::Store, address, bytes)?;
        self.check_global(by, AccessKind::AtomicStore, address, bytes)
    }

    /// Checks and records a read-only load of `bytes` bytes of global memory.
    pub fn check_read_only(&mut self, by: By, address: usize, bytes: usize) -> Checked<()> {
        self.check_buffer(by, AccessKind::Load, address, bytes)?;
        let page = self.page(address);
        let mark = self.mark(by, AccessKind::Load);
        let written = self.trace[page].1.read_only(address % PAGE_BYTES, bytes, mark);
        let access = |block: &Self| block.global_access(AccessKind::Load, address, bytes);
        written.map_err(|other| self.conflict(by, access(self), other, true))
    }

    /// Checks bounds, alignment and initialization.
    fn check_buffer(&mut self, by: By, kind: AccessKind, address: usize, bytes: usize) -> Checked<()> {
        let fault = match self.launch.regions.find(address, bytes, &mut self.near) {
            None => |at, access| Fault::OutOfBounds { at, access },
            Some(_) if !address.is_multiple_of(bytes) => |at, access| Fault::Misaligned { at, access },
            Some(region) if kind == AccessKind::Store => {
                region.mark_written(address, bytes);
                return Ok(());
            }
            Some(region) if region.is_written(address, bytes) => return Ok(()),
            Some(_) => |at, access| Fault::Uninitialized { at, access },
        };
        let at = self.place(by.thread, Some(by.site));
        Err(Box::new(fault(at, self.global_access(kind, address, bytes))))
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

    fn mark(&self, by: By, kind: AccessKind) -> Mark {
        Mark { kind, site: by.site, block: self.number, thread: by.thread }
    }

    fn conflict(&self, by: By, access: Access, other: Mark, read_only: bool) -> Box<Fault> {
        self.launch.conflict(self.place(by.thread, Some(by.site)), access, other, read_only)
    }

    /// An atomic store of `thread` to shared memory releases all that the thread knew at its last fence.
    pub fn release_fenced(&mut self, thread: u32, offset: usize) {
        if let Some(fenced) = &self.extras[thread as usize].fenced {
            self.released.entry(offset).or_default().join(fenced);
        }
    }

    /// At its next fence, `thread` acquires what was released at `offset` of shared memory.
    pub fn acquire_at_fence(&mut self, thread: u32, offset: usize) {
        if let Some(released) = self.released.get(&offset) {
            self.extras[thread as usize].found.get_or_insert_default().join(released);
        }
    }

    /// Records a fence of `thread`.
    pub fn fence(&mut self, thread: u32) {
        let extra = &mut self.extras[thread as usize];
        if let Some(found) = extra.found.take() {
            self.clocks.acquire(thread, &found);
        }
        extra.fenced = Some(self.clocks.release(thread));
    }
}
