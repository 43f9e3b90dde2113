//! Races between the blocks of a launch, and of a launch with what it reads as read-only.
//!
//! Blocks run on several OS threads, so each keeps a trace of its own of the global memory that it touched; when it has
//! ended, the ledger of the launch compares its trace with those before. Traces come to the ledger in the seeded order
//! of the blocks, so that the race that is told does not depend on the OS threads.

use std::collections::HashMap;
use std::sync::Arc;

use super::clock::{Horizon, Moment};
use super::fault::{Site, Touch};
use super::shadow::PAGE_BYTES;

/// The accesses of one kind by one block to some bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    pub touch: Touch,
    pub site: Site,
    /// The last of them: what an acquire must cover for all of them to be ordered before another block's.
    pub moment: Moment,
    /// What was known at the first of them: it must cover another block's for all of them to come after those.
    pub beyond: u32,
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
            let slot = &mut marks[mark.touch as usize];
            *slot = Some(Mark { beyond: slot.map_or(mark.beyond, |first| first.beyond), ..mark });
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

/// What a block did to global memory.
#[derive(Default)]
pub struct Trace {
    /// Pages with their numbers, in the order in which the block first touched them.
    pub pages: Vec<(usize, TracePage)>,
    /// What [`Mark::beyond`] means.
    pub horizons: Vec<Arc<Horizon>>,
}

/// An access of an earlier block, and what was known at the first of its kind; none if nothing.
#[derive(Clone)]
struct Past {
    mark: Mark,
    known: Option<Arc<Horizon>>,
}

/// Accesses of one kind that the ledger keeps for a cell where releases and acquires order some of them; without
/// these any two that differ in block are a race, and one is enough.
const KEPT: usize = 8;

/// What the blocks before did to a page.
struct LedgerPage {
    read_only: u64,
    reader: Option<Mark>,
    grain: usize,
    cells: Vec<Vec<Past>>,
}

impl Default for LedgerPage {
    fn default() -> Self {
        Self { read_only: 0, reader: None, grain: 4, cells: Vec::new() }
    }
}

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
pub struct Ledger(HashMap<usize, LedgerPage>);

impl Ledger {
    /// Adds the trace of a block.
    ///
    /// # Errors
    /// A conflict with an access of an earlier block: the first in the page that the block touched first. Which of two
    /// buffers has the lower address is not the seed's to decide.
    pub fn add(&mut self, trace: Trace) -> Result<(), Box<Conflict>> {
        for (number, page) in trace.pages {
            let conflict = self.0.entry(number).or_default().add(page, &trace.horizons);
            conflict.map_err(|mut conflict| {
                conflict.address += number * PAGE_BYTES;
                conflict
            })?;
        }
        Ok(())
    }
}

impl LedgerPage {
    /// Adds what one block did; the address of a conflict is that within the page.
    fn add(&mut self, mut page: TracePage, horizons: &[Arc<Horizon>]) -> Result<(), Box<Conflict>> {
        if let Some(later) = page.reader {
            let read = |cell: usize| page.read_only >> (cell * self.grain / 4) & 1 == 1;
            let written = |mark: &Past| mark.mark.touch.writes();
            let meets = |(cell, pasts): (usize, &Vec<Past>)| {
                pasts
                    .iter()
                    .find(|past| read(cell) && written(past))
                    .map(|past| (cell * self.grain, past.mark))
            };
            if let Some((address, earlier)) = self.cells.iter().enumerate().find_map(meets) {
                return Err(Box::new(Conflict {
                    address,
                    bytes: self.grain,
                    read_only: true,
                    later,
                    earlier,
                }));
            }
        }
        if let Some(earlier) = self.reader {
            let read = |cell: usize| self.read_only >> (cell * page.grain / 4) & 1 == 1;
            if let Some((cell, later)) =
                first_write(page.cells.iter().enumerate().filter(|(cell, _)| read(*cell)))
            {
                let (address, bytes) = (cell * page.grain, page.grain);
                return Err(Box::new(Conflict { address, bytes, read_only: true, later, earlier }));
            }
        }
        self.read_only |= page.read_only;
        self.reader = self.reader.or(page.reader);
        if page.cells.is_empty() {
            return Ok(());
        }
        if self.cells.is_empty() {
            (self.grain, self.cells) = (page.grain, vec![Vec::new(); page.cells.len()]);
        } else if page.grain < self.grain {
            self.cells = self.cells.iter().flat_map(|cell| vec![cell.clone(); 4]).collect();
            self.grain = page.grain;
        } else if self.grain < page.grain {
            page.refine();
        }
        for (cell, (marks, pasts)) in page.cells.iter().zip(&mut self.cells).enumerate() {
            add_cell(marks, pasts, horizons).map_err(|(later, earlier)| {
                let (address, bytes) = (cell * page.grain, page.grain);
                Box::new(Conflict { address, bytes, read_only: false, later, earlier })
            })?;
        }
        Ok(())
    }
}

/// Adds the marks of one block to what earlier ones did to the same bytes; an error is the later and the earlier of
/// two accesses that race.
fn add_cell(marks: &Marks, pasts: &mut Vec<Past>, horizons: &[Arc<Horizon>]) -> Result<(), (Mark, Mark)> {
    let before = pasts.len();
    for &mark in marks.iter().flatten() {
        let known = (mark.beyond > 0).then(|| &horizons[mark.beyond as usize]);
        for past in &pasts[..before] {
            let ordered = || {
                known.is_some_and(|known| known.covers(past.mark.moment))
                    || past.known.as_ref().is_some_and(|known| known.covers(mark.moment))
            };
            if mark.touch.races(past.mark.touch) && !ordered() {
                return Err((mark, past.mark));
            }
        }
        let alike = pasts.iter().filter(|past| past.mark.touch == mark.touch).count();
        if alike == 0 || (horizons.len() > 1 && alike < KEPT) {
            // Most cells hold one: there are as many as a launch touches words.
            pasts.reserve_exact(1);
            pasts.push(Past { mark, known: known.cloned() });
        }
    }
    Ok(())
}
