//! Who touched which bytes: the shadow of shared memory, and of global memory within a block.
//!
//! A cell stands for 4 bytes, or for one in pages where narrower accesses happen. It holds the accesses of this epoch
//! (since the last barrier of the block) that a later one could race with: what came before is ordered before all.
//! Cells are never cleared: each has the tag of its epoch, and tags rise from block to block.

use super::clock::{Clocks, lanes};
use super::fault::{Site, Touch};

/// Bytes that a page stands for; no access crosses its borders.
pub const PAGE_BYTES: usize = 256;

/// Who touches memory now.
#[derive(Clone, Copy)]
pub struct Toucher<'a> {
    pub touch: Touch,
    pub thread: u32,
    pub site: Site,
    /// Names the block and its epoch.
    pub tag: u32,
    pub clocks: &'a Clocks,
}

/// Accesses of lanes of one warp that were alike.
#[derive(Clone, Copy)]
struct Entry {
    site: Site,
    tag: u32,
    clock: u32,
    lanes: u32,
    warp: u8,
    touch: Touch,
}

/// An earlier access that races with the one now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rival {
    pub touch: Touch,
    pub thread: u32,
    pub site: Site,
}

impl Entry {
    /// The first thread of this entry that `toucher` races with.
    fn rival(&self, toucher: &Toucher<'_>) -> Option<Rival> {
        if !self.touch.races(toucher.touch) {
            return None;
        }
        let thread = lanes(self.lanes)
            .map(|lane| u32::from(self.warp) * 32 + lane as u32)
            .find(|&thread| !toucher.clocks.knows(toucher.thread, thread, self.clock))?;
        Some(Rival { touch: self.touch, thread, site: self.site })
    }
}

/// The accesses of some bytes in one epoch, that of the first. Most cells have one, and there are many cells.
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

    fn touch(&mut self, toucher: &Toucher<'_>, now: Entry) -> Result<(), Rival> {
        if self.first.is_none_or(|first| first.tag != now.tag) {
            self.keep_only(now);
            return Ok(());
        }
        let (mut alike, mut of_kind) = (None, 0);
        for entry in self.entries() {
            if let Some(rival) = entry.rival(toucher) {
                return Err(rival);
            }
            if entry.warp == now.warp && entry.touch == now.touch {
                of_kind += 1;
                alike = (entry.clock == now.clock).then_some(&mut entry.lanes).or(alike);
            }
        }
        match alike {
            // The common case: the lanes of a warp in turn.
            Some(lanes) if of_kind == 1 && now.touch != Touch::Store => *lanes |= now.lanes,
            _ if now.touch == Touch::Store => self.keep_only(now),
            _ => self.replace(now),
        }
        Ok(())
    }

    /// Puts `now` in place of what its thread did of the same kind before, which says no more.
    fn replace(&mut self, now: Entry) {
        let mut merged = false;
        for entry in self.entries().filter(|entry| entry.warp == now.warp && entry.touch == now.touch) {
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

    /// Forgets all but `now`.
    fn keep_only(&mut self, now: Entry) {
        self.first = Some(now);
        if let Some(more) = &mut self.more {
            more.clear();
        }
    }
}

/// The cells of [`PAGE_BYTES`] bytes.
#[derive(Clone)]
pub struct Page {
    cells: Vec<Cell>,
    /// Whether a cell stands for one byte, not four.
    fine: bool,
}

impl Default for Page {
    fn default() -> Self {
        Self { cells: vec![Cell::default(); PAGE_BYTES / 4], fine: false }
    }
}

impl Page {
    /// Notes an access of `bytes` bytes from `offset` on, unless it races with an earlier one.
    pub fn touch(&mut self, offset: usize, bytes: usize, toucher: &Toucher<'_>) -> Result<(), Rival> {
        if bytes < 4 && !self.fine {
            self.cells = self.cells.iter().flat_map(|cell| vec![cell.clone(); 4]).collect();
            self.fine = true;
        }
        let now = Entry {
            site: toucher.site,
            tag: toucher.tag,
            clock: toucher.clocks.now(toucher.thread),
            lanes: 1 << (toucher.thread % 32),
            warp: (toucher.thread / 32) as u8,
            touch: toucher.touch,
        };
        let range = if self.fine { offset..offset + bytes } else { offset / 4..(offset + bytes) / 4 };
        let cells = &mut self.cells[range];
        cells.iter_mut().try_for_each(|cell| cell.touch(toucher, now))
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
        touch: Touch,
        (offset, bytes): (usize, usize),
    ) -> Option<u32> {
        let toucher = Toucher { touch, thread, site: Location::caller(), tag: 1 + clocks.epoch(), clocks };
        page.touch(offset, bytes, &toucher).err().map(|rival| rival.thread)
    }

    #[test]
    fn each_reader_is_remembered() {
        let clocks = Clocks::new(64);
        for reader in 0..64 {
            let mut page = Page::default();
            for thread in 0..64 {
                assert_eq!(touch(&mut page, &clocks, thread, Touch::Load, (0, 4)), None);
            }
            // Of readers whom the writer does not know, the first is told: itself it knows.
            let rival = touch(&mut page, &clocks, reader, Touch::Store, (0, 4));
            assert_eq!(rival, Some(u32::from(reader == 0)));
        }
    }

    #[test]
    fn what_was_met_is_forgotten() {
        let mut clocks = Clocks::new(64);
        let mut page = Page::default();
        assert_eq!(touch(&mut page, &clocks, 5, Touch::Store, (16, 16)), None);
        assert_eq!(touch(&mut page, &clocks, 6, Touch::Load, (28, 4)), Some(5));
        clocks.sync_warp(0, u32::MAX);
        assert_eq!(touch(&mut page, &clocks, 6, Touch::Load, (28, 4)), None);
        assert_eq!(touch(&mut page, &clocks, 40, Touch::Load, (28, 4)), Some(5));
        clocks.sync_block();
        assert_eq!(touch(&mut page, &clocks, 40, Touch::Store, (28, 4)), None);
        assert_eq!(touch(&mut page, &clocks, 5, Touch::Store, (28, 4)), Some(40));
    }

    #[test]
    fn atomics_race_with_plain_accesses_only() {
        let clocks = Clocks::new(64);
        let mut page = Page::default();
        for thread in [3, 40, 3] {
            assert_eq!(touch(&mut page, &clocks, thread, Touch::AtomicStore, (8, 8)), None);
        }
        assert_eq!(touch(&mut page, &clocks, 9, Touch::AtomicLoad, (8, 4)), None);
        assert_eq!(touch(&mut page, &clocks, 40, Touch::Load, (12, 4)), Some(3));
        assert_eq!(touch(&mut page, &clocks, 3, Touch::Store, (8, 4)), Some(40));
    }

    #[test]
    fn neighbouring_bytes_are_apart() {
        let clocks = Clocks::new(32);
        let mut page = Page::default();
        assert_eq!(touch(&mut page, &clocks, 0, Touch::Store, (0, 4)), None);
        assert_eq!(touch(&mut page, &clocks, 1, Touch::Store, (4, 1)), None);
        assert_eq!(touch(&mut page, &clocks, 2, Touch::Store, (5, 1)), None);
        assert_eq!(touch(&mut page, &clocks, 2, Touch::Store, (3, 1)), Some(0));
        assert_eq!(touch(&mut page, &clocks, 3, Touch::Load, (4, 2)), Some(1));
    }
}
