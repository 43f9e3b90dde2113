//! Races between the blocks of a launch, and of a launch with what it reads as read-only.
//!
//! Blocks run on several OS threads, so each keeps a trace of its own of the global memory that it touched; when it has
//! ended, the ledger of the launch compares its trace with those before. Traces come to the ledger in the seeded order
//! of the blocks, so that the race that is told does not depend on the OS threads.

use std::collections::HashMap;

use super::fault::{Site, Touch};
use super::shadow::PAGE_BYTES;

/// The accesses of one kind by one block to some bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    pub touch: Touch,
    pub site: Site,
    pub block: u32,
    pub thread: u32,
}

/// A mark for each kind of [`Touch`], of the bytes of a cell.
type Marks = [Option<Mark>; 4];

/// What a block did to a page of global memory.
#[derive(Clone)]
pub struct TracePage {
    /// The words that were read as read-only, and by whom. Most pages of most kernels hold no more than that.
    read_only: u64,
    reader: Option<Mark>,
    /// Bytes of a cell.
    grain: usize,
    /// All other accesses; empty where there are none.
    cells: Vec<Marks>,
}

impl Default for TracePage {
    fn default() -> Self {
        Self { read_only: 0, reader: None, grain: 4, cells: Vec::new() }
    }
}

/// The words of 4 bytes of a page that an access touches, as bits.
fn words(offset: usize, bytes: usize) -> u64 {
    ((1 << bytes.div_ceil(4)) - 1) << (offset / 4)
}

/// The first mark of a write among these cells, with the cell's number.
fn first_write<'a>(cells: impl Iterator<Item = (usize, &'a Marks)>) -> Option<(usize, Mark)> {
    let writes = [Touch::Store, Touch::AtomicStore];
    cells.into_iter().find_map(|(number, marks)| {
        writes.iter().find_map(|&touch| marks[touch as usize]).map(|mark| (number, mark))
    })
}

impl TracePage {
    /// Notes a load of what nobody may write during the launch; gives back a write by this block.
    pub fn read_only(&mut self, offset: usize, bytes: usize, mark: Mark) -> Option<Mark> {
        self.read_only |= words(offset, bytes);
        self.reader.get_or_insert(mark);
        if self.cells.is_empty() {
            return None;
        }
        let range = offset / self.grain..(offset + bytes).div_ceil(self.grain);
        first_write(self.cells[range].iter().enumerate()).map(|(_, mark)| mark)
    }

    /// Notes any other access; gives back the read-only load by this block that it may not be in a launch with.
    pub fn touch(&mut self, offset: usize, bytes: usize, mark: Mark) -> Option<Mark> {
        if self.cells.is_empty() {
            self.cells = vec![[None; 4]; PAGE_BYTES / self.grain];
        }
        if bytes < self.grain {
            self.refine();
        }
        for marks in &mut self.cells[offset / self.grain..(offset + bytes) / self.grain] {
            marks[mark.touch as usize] = Some(mark);
        }
        let forbidden = mark.touch.writes() && self.read_only & words(offset, bytes) != 0;
        self.reader.filter(|_| forbidden)
    }

    fn refine(&mut self) {
        if self.grain > 1 {
            self.cells = self.cells.iter().flat_map(|marks| [*marks; 4]).collect();
            self.grain = 1;
        }
    }
}

/// What a block did to global memory: pages with their numbers, in the order in which the block first touched them.
pub type Trace = Vec<(usize, TracePage)>;

/// Two accesses of one launch that may not both be in it.
#[derive(Debug)]
pub struct Conflict {
    /// The first byte, in global memory.
    pub address: usize,
    /// How many bytes.
    pub bytes: usize,
    /// Whether one of them is a read-only load, which no order helps.
    pub read_only: bool,
    /// The one that comes later in the ledger.
    pub later: Mark,
    /// The one that comes earlier.
    pub earlier: Mark,
}

/// What the blocks of a launch did to global memory until now.
#[derive(Default)]
pub struct Ledger(HashMap<usize, TracePage>);

impl Ledger {
    /// Adds the trace of a block.
    ///
    /// # Errors
    /// A conflict with an access of an earlier block: the first in the page that the block touched first. Which of two
    /// buffers has the lower address is not the seed's to decide.
    pub fn add(&mut self, trace: Trace) -> Result<(), Box<Conflict>> {
        for (number, page) in trace {
            let conflict = self.0.entry(number).or_default().add(page);
            conflict.map_err(|mut conflict| {
                conflict.address += number * PAGE_BYTES;
                conflict
            })?;
        }
        Ok(())
    }
}

impl TracePage {
    /// Adds what a later block did; the address of a conflict is that within the page.
    fn add(&mut self, mut page: Self) -> Result<(), Box<Conflict>> {
        while self.grain != page.grain {
            if page.grain < self.grain { self.refine() } else { page.refine() }
        }
        let grain = self.grain;
        let conflict = |cell: usize, read_only, later, earlier| {
            Err(Box::new(Conflict { address: cell * grain, bytes: grain, read_only, later, earlier }))
        };
        let read = |page: &Self, cell: usize| page.read_only >> (cell * grain / 4) & 1 == 1;
        let written = |cells: &Self, reads: &Self| {
            first_write(cells.cells.iter().enumerate().filter(|(cell, _)| read(reads, *cell)))
        };
        if let (Some(later), Some((cell, earlier))) = (page.reader, written(self, &page)) {
            return conflict(cell, true, later, earlier);
        }
        if let (Some(earlier), Some((cell, later))) = (self.reader, written(&page, self)) {
            return conflict(cell, true, later, earlier);
        }
        self.read_only |= page.read_only;
        self.reader = self.reader.or(page.reader);
        if self.cells.is_empty() {
            self.cells = page.cells;
            return Ok(());
        }
        for (cell, (later, earlier)) in page.cells.iter().zip(&mut self.cells).enumerate() {
            for &later in later.iter().flatten() {
                if let Some(&earlier) = earlier.iter().flatten().find(|mark| mark.touch.races(later.touch)) {
                    return conflict(cell, false, later, earlier);
                }
            }
            for (earlier, later) in earlier.iter_mut().zip(later) {
                *earlier = earlier.or(*later);
            }
        }
        Ok(())
    }
}
