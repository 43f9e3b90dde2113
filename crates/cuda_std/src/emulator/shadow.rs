//! Shadow memory: the accesses of each byte, for races within a block.
//!
//! A cell stands for 4 bytes, or for one byte in pages with narrower accesses. It holds the accesses of the current
//! epoch (since the last block barrier) that a later one can race with; everything before the barrier happened before.
//! Cells are not cleared: each has the tag of its epoch, and tags increase from block to block.

use super::clock::{Clocks, lanes};
use super::fault::{AccessKind, Site};
use super::trace::Mark;

/// Bytes per page; no access crosses a page boundary.
pub const PAGE_BYTES: usize = 256;

/// The current access.
#[derive(Clone, Copy)]
pub struct Accessor<'a> {
    pub mark: Mark,
    /// Identifies the block and its epoch.
    pub tag: u32,
    pub clocks: &'a Clocks,
}

/// Accesses of one kind by lanes of one warp at one clock.
#[derive(Clone, Copy)]
struct Entry {
    site: Site,
    tag: u32,
    clock: u32,
    lanes: u32,
    warp: u8,
    kind: AccessKind,
}

impl Entry {
    /// The access of the first thread of this entry that `accessor` races with.
    fn conflicting(&self, accessor: &Accessor<'_>) -> Option<Mark> {
        if !self.kind.races(accessor.mark.kind) {
            return None;
        }
        let thread = lanes(self.lanes)
            .map(|lane| u32::from(self.warp) * 32 + lane as u32)
            .find(|&thread| !accessor.clocks.happened_before(accessor.mark.thread, thread, self.clock))?;
        Some(Mark { kind: self.kind, site: self.site, thread, ..accessor.mark })
    }
}

/// The accesses of some bytes in one epoch, that of the first. Most cells have one.
#[derive(Clone, Default)]
struct Cell {
    first: Option<Entry>,
    #[expect(clippy::box_collection, reason = "8 bytes where there are none, in place of 24")]
    more: Option<Box<Vec<Entry>>>,
}

impl Cell {
    fn entries(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.first.iter_mut().chain(self.more.iter_mut().flat_map(|more| &mut **more))
    }

    fn touch(&mut self, accessor: &Accessor<'_>, now: Entry) -> Result<(), Mark> {
        if self.first.is_none_or(|first| first.tag != now.tag) {
            self.keep_only(now);
            return Ok(());
        }
        let (mut group, mut of_kind) = (None, 0);
        for entry in self.entries() {
            if let Some(conflicting) = entry.conflicting(accessor) {
                return Err(conflicting);
            }
            if entry.warp == now.warp && entry.kind == now.kind {
                of_kind += 1;
                group = (entry.clock == now.clock).then_some(&mut entry.lanes).or(group);
            }
        }
        match group {
            // The common case: the lanes of a warp in turn.
            Some(lanes) if of_kind == 1 && now.kind != AccessKind::Store => *lanes |= now.lanes,
            _ if now.kind == AccessKind::Store => self.keep_only(now),
            _ => self.replace(now),
        }
        Ok(())
    }

    /// Replaces earlier accesses of the same kind by the same thread, which `now` supersedes.
    fn replace(&mut self, now: Entry) {
        let mut merged = false;
        for entry in self.entries().filter(|entry| entry.warp == now.warp && entry.kind == now.kind) {
            entry.lanes &= !now.lanes;
            if entry.clock == now.clock {
                entry.lanes |= now.lanes;
                merged = true;
            }
        }
        if !merged {
            let more = self.more.get_or_insert_default();
            more.retain(|entry| entry.lanes != 0);
            more.push(now);
        }
    }

    /// Replaces all accesses by `now`, which happened after them.
    fn keep_only(&mut self, now: Entry) {
        self.first = Some(now);
        if let Some(more) = &mut self.more {
            more.clear();
        }
    }
}

/// The cells of one page.
#[derive(Clone)]
pub struct Page {
    cells: Vec<Cell>,
    /// Whether a cell stands for one byte instead of four.
    fine: bool,
}

impl Default for Page {
    fn default() -> Self {
        Self { cells: vec![Cell::default(); PAGE_BYTES / 4], fine: false }
    }
}

impl Page {
    /// Records an access of `bytes` bytes from `offset` on, unless it races with an earlier one.
    pub fn touch(&mut self, offset: usize, bytes: usize, accessor: &Accessor<'_>) -> Result<(), Mark> {
        if bytes < 4 && !self.fine {
            self.cells = self.cells.iter().flat_map(|cell| vec![cell.clone(); 4]).collect();
            self.fine = true;
        }
        let Mark { kind, site, thread, .. } = accessor.mark;
        let now = Entry {
            site,
            tag: accessor.tag,
            clock: accessor.clocks.now(thread),
            lanes: 1 << (thread % 32),
            warp: (thread / 32) as u8,
            kind,
        };
        let range = if self.fine { offset..offset + bytes } else { offset / 4..(offset + bytes) / 4 };
        let cells = &mut self.cells[range];
        cells.iter_mut().try_for_each(|cell| cell.touch(accessor, now))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::*;

    fn touch(
        page: &mut Page,
        clocks: &Clocks,
        thread: u32,
        kind: AccessKind,
        (offset, bytes): (usize, usize),
    ) -> Option<u32> {
        let mark = Mark { kind, site: Location::caller(), block: 0, thread };
        let accessor = Accessor { mark, tag: 1 + clocks.epoch(), clocks };
        page.touch(offset, bytes, &accessor).err().map(|conflicting| conflicting.thread)
    }

    #[test]
    fn each_reader_is_remembered() {
        let clocks = Clocks::new(64);
        for reader in 0..64 {
            let mut page = Page::default();
            for thread in 0..64 {
                assert_eq!(touch(&mut page, &clocks, thread, AccessKind::Load, (0, 4)), None);
            }
            // The first reader that the writer does not know is reported. The writer itself is not such a reader.
            let conflicting = touch(&mut page, &clocks, reader, AccessKind::Store, (0, 4));
            assert_eq!(conflicting, Some(u32::from(reader == 0)));
        }
    }

    #[test]
    fn what_was_met_is_forgotten() {
        let mut clocks = Clocks::new(64);
        let mut page = Page::default();
        assert_eq!(touch(&mut page, &clocks, 5, AccessKind::Store, (16, 16)), None);
        assert_eq!(touch(&mut page, &clocks, 6, AccessKind::Load, (28, 4)), Some(5));
        clocks.sync_warp(0, u32::MAX);
        assert_eq!(touch(&mut page, &clocks, 6, AccessKind::Load, (28, 4)), None);
        assert_eq!(touch(&mut page, &clocks, 40, AccessKind::Load, (28, 4)), Some(5));
        clocks.sync_block();
        assert_eq!(touch(&mut page, &clocks, 40, AccessKind::Store, (28, 4)), None);
        assert_eq!(touch(&mut page, &clocks, 5, AccessKind::Store, (28, 4)), Some(40));
    }

    #[test]
    fn atomics_race_with_plain_accesses_only() {
        let clocks = Clocks::new(64);
        let mut page = Page::default();
        for thread in [3, 40, 3] {
            assert_eq!(touch(&mut page, &clocks, thread, AccessKind::AtomicStore, (8, 8)), None);
        }
        assert_eq!(touch(&mut page, &clocks, 9, AccessKind::AtomicLoad, (8, 4)), None);
        assert_eq!(touch(&mut page, &clocks, 40, AccessKind::Load, (12, 4)), Some(3));
        assert_eq!(touch(&mut page, &clocks, 3, AccessKind::Store, (8, 4)), Some(40));
    }

    #[test]
    fn neighboring_bytes_are_apart() {
        let clocks = Clocks::new(32);
        let mut page = Page::default();
        assert_eq!(touch(&mut page, &clocks, 0, AccessKind::Store, (0, 4)), None);
        assert_eq!(touch(&mut page, &clocks, 1, AccessKind::Store, (4, 1)), None);
        assert_eq!(touch(&mut page, &clocks, 2, AccessKind::Store, (5, 1)), None);
        assert_eq!(touch(&mut page, &clocks, 2, AccessKind::Store, (3, 1)), Some(0));
        assert_eq!(touch(&mut page, &clocks, 3, AccessKind::Load, (4, 2)), Some(1));
    }
}
