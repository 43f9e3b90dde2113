//! Races between the blocks of a launch, and writes to memory that the launch also reads as read-only.
//!
//! Nothing orders two blocks, so any two conflicting accesses of different blocks race. Blocks run on several OS
//! threads, so each records a trace of its accesses to global memory; when it has ended, the ledger of the launch
//! compares the trace with the earlier ones. Traces are added in the seeded order of the blocks, so that the reported
//! race does not depend on the OS threads.

use std::collections::HashMap;

use super::fault::{AccessKind, Site};
use super::shadow::PAGE_BYTES;

/// An access of one kind by one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    pub kind: AccessKind,
    pub site: Site,
    pub block: u32,
    pub thread: u32,
}

/// One access per [`AccessKind`], of the bytes of a cell.
type Marks = [Option<Mark>; 4];

/// The accesses of one or more blocks to a page of global memory.
#[derive(Clone)]
pub struct TracePage {
    /// The words that were read as read-only, and one such access. Most pages have no other accesses.
    read_only: u64,
    reader: Option<Mark>,
    /// Bytes per cell.
    grain: usize,
    /// All other accesses; empty if there are none.
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
    let writes = [AccessKind::Store, AccessKind::AtomicStore];
    cells.into_iter().find_map(|(number, marks)| {
        writes.iter().find_map(|&kind| marks[kind as usize]).map(|mark| (number, mark))
    })
}

impl TracePage {
    /// Records a read-only load, unless this block has written the same bytes.
    pub fn read_only(&mut self, offset: usize, bytes: usize, mark: Mark) -> Result<(), Mark> {
        self.read_only |= words(offset, bytes);
        self.reader.get_or_insert(mark);
        if self.cells.is_empty() {
            return Ok(());
        }
        let range = offset / self.grain..(offset + bytes).div_ceil(self.grain);
        first_write(self.cells[range].iter().enumerate()).map_or(Ok(()), |(_, mark)| Err(mark))
    }

    /// Records any other access, unless it conflicts with a read-only load by this block.
    pub fn touch(&mut self, offset: usize, bytes: usize, mark: Mark) -> Result<(), Mark> {
        if self.cells.is_empty() {
            self.cells = vec![[None; 4]; PAGE_BYTES / self.grain];
        }
        if bytes < self.grain {
            self.refine();
        }
        for marks in &mut self.cells[offset / self.grain..(offset + bytes) / self.grain] {
            marks[mark.kind as usize] = Some(mark);
        }
        let forbidden = mark.kind.writes() && self.read_only & words(offset, bytes) != 0;
        self.reader.filter(|_| forbidden).map_or(Ok(()), Err)
    }

    fn refine(&mut self) {
        if self.grain > 1 {
            self.cells = self.cells.iter().flat_map(|marks| [*marks; 4]).collect();
            self.grain = 1;
        }
    }
}

/// The accesses of a block to global memory: pages with their numbers, in the order of first access.
pub type Trace = Vec<(usize, TracePage)>;

/// Two accesses of one launch that conflict.
#[derive(Debug)]
pub struct Conflict {
    /// The first byte, in global memory.
    pub address: usize,
    /// Number of bytes.
    pub bytes: usize,
    /// Whether one of them is a read-only load, which conflicts with every write of the launch.
    pub read_only: bool,
    /// The access that is later in the ledger.
    pub later: Mark,
    /// The earlier access.
    pub earlier: Mark,
}

/// The accesses of all blocks of a launch to global memory so far.
#[derive(Default)]
pub struct Ledger(HashMap<usize, TracePage>);

impl Ledger {
    /// Adds the trace of a block.
    ///
    /// # Errors
    /// Returns a conflict with an earlier block: the first one in the page that the block accessed first, which does
    /// not depend on the addresses of buffers.
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
    /// Adds the accesses of a later block; the address of a conflict is relative to the page.
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
                if let Some(&earlier) = earlier.iter().flatten().find(|mark| mark.kind.races(later.kind)) {
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
