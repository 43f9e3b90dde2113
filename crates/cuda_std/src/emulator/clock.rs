//! Happens-before within a block, by clocks.
//!
//! Each thread has a clock that advances at every synchronization. An access carries its thread's clock, and happened
//! before everything that another thread does once that thread has learned this clock. Full vector clocks would take
//! 1024 numbers for each of 1024 threads, so knowledge is stored by the synchronization that caused it:
//!
//! - a block barrier orders all threads: one number, the epoch;
//! - `sync_warp` of a whole warp orders its 32 lanes: one number per warp; of those that have not returned: a 32 x 32
//!   table;
//! - fences around relaxed accesses, which are rare: a sparse [`VectorClock`] per thread.

use std::collections::BTreeMap;

/// All lanes of a warp.
const ALL: u32 = u32::MAX;

/// The lanes whose bits are set.
pub fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(lane)
    })
}

/// A sparse vector clock: for some warps, the clock of each lane up to which everything happened before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorClock(BTreeMap<u32, [u32; 32]>);

impl VectorClock {
    /// The maximum with `other`, element by element.
    pub fn join(&mut self, other: &Self) {
        for (&warp, clocks) in &other.0 {
            raise(self.0.entry(warp).or_insert([0; 32]), clocks);
        }
    }

    /// Whether the access of `thread` at `clock` happened before.
    fn covers(&self, thread: u32, clock: u32) -> bool {
        self.0.get(&(thread / 32)).is_some_and(|known| clock <= known[thread as usize % 32])
    }
}

/// Raises each of `known` to that of `clocks`.
fn raise(known: &mut [u32; 32], clocks: &[u32; 32]) {
    for (known, clock) in known.iter_mut().zip(clocks) {
        *known = (*known).max(*clock);
    }
}

/// The clocks of one warp, and what each lane knows of the others.
struct WarpClock {
    own: [u32; 32],
    /// All lanes know all lanes up to this clock.
    common: u32,
    /// What each lane knows beyond that.
    rows: Option<Box<[[u32; 32]; 32]>>,
    /// Lanes that do not exist.
    absent: u32,
}

impl WarpClock {
    fn new(lanes: u32) -> Self {
        let absent = ALL.checked_shl(lanes).unwrap_or(0);
        Self { own: [1; 32], common: 0, rows: None, absent }
    }

    fn happened_before(&self, me: usize, lane: usize, clock: u32) -> bool {
        me == lane || clock <= self.common || self.rows.as_ref().is_some_and(|rows| clock <= rows[me][lane])
    }

    /// What lane `me` knows of its warp.
    fn row(&self, me: usize) -> [u32; 32] {
        let mut row = self.rows.as_ref().map_or([0; 32], |rows| rows[me]);
        raise(&mut row, &[self.common; 32]);
        row[me] = self.own[me];
        row
    }

    /// Lane `me` learns these clocks of its warp.
    fn learn(&mut self, me: usize, clocks: &[u32; 32]) {
        raise(&mut self.rows.get_or_insert_default()[me], clocks);
    }

    /// The lanes of `mask` learn everything from each other.
    fn sync(&mut self, mask: u32) {
        let latest = lanes(mask).map(|lane| self.own[lane]).max().unwrap_or(0);
        if mask | self.absent == ALL {
            self.common = latest;
            self.rows = None;
        } else {
            let mut joined = [0; 32];
            lanes(mask).for_each(|lane| raise(&mut joined, &self.row(lane)));
            let rows = self.rows.get_or_insert_default();
            lanes(mask).for_each(|lane| rows[lane] = joined);
        }
        // One clock for all of them, so that their next accesses differ by lane only.
        lanes(mask).for_each(|lane| self.own[lane] = latest + 1);
    }
}

/// The clocks of a block.
pub struct Clocks {
    epoch: u32,
    warps: Vec<WarpClock>,
    /// For each thread, the index of its vector clock.
    current: Vec<u32>,
    /// Vector clocks; the first is empty.
    vector_clocks: Vec<VectorClock>,
}

impl Clocks {
    /// The clocks of a block of `threads` threads at its start.
    pub fn new(threads: u32) -> Self {
        let warps = (0..threads).step_by(32).map(|first| WarpClock::new(threads - first)).collect();
        Self {
            epoch: 0,
            warps,
            current: vec![0; threads as usize],
            vector_clocks: vec![VectorClock::default()],
        }
    }

    /// The number of block barriers so far.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The clock of `thread`.
    pub fn now(&self, thread: u32) -> u32 {
        self.warps[thread as usize / 32].own[thread as usize % 32]
    }

    /// Whether the access of `other` in this epoch at `clock` happened before what `thread` does now.
    pub fn happened_before(&self, thread: u32, other: u32, clock: u32) -> bool {
        let (me, it) = (thread as usize, other as usize);
        if me / 32 == it / 32 && self.warps[me / 32].happened_before(me % 32, it % 32, clock) {
            return true;
        }
        self.vector_clocks[self.current[me] as usize].covers(other, clock)
    }

    /// `sync_warp` of the lanes of `mask`.
    pub fn sync_warp(&mut self, warp: usize, mask: u32) {
        if self.vector_clocks.len() > 1 {
            let threads: Vec<u32> = lanes(mask).map(|lane| (warp * 32 + lane) as u32).collect();
            self.share(&threads);
        }
        self.warps[warp].sync(mask);
    }

    /// A block barrier.
    pub fn sync_block(&mut self) {
        if self.vector_clocks.len() > 1 {
            let threads: Vec<u32> = (0..self.current.len() as u32).collect();
            self.share(&threads);
        }
        self.epoch += 1;
        self.warps.iter_mut().for_each(|warp| warp.sync(ALL & !warp.absent));
    }

    /// `threads` join their vector clocks.
    fn share(&mut self, threads: &[u32]) {
        let first = self.current[threads[0] as usize];
        if threads.iter().all(|&thread| self.current[thread as usize] == first) {
            return;
        }
        let mut joined = VectorClock::default();
        let mut numbers: Vec<u32> = threads.iter().map(|&thread| self.current[thread as usize]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.iter().for_each(|&number| joined.join(&self.vector_clocks[number as usize]));
        self.set(threads, joined);
    }

    /// All that `thread` knows now, itself included: what others learn when they acquire it.
    pub fn release(&mut self, thread: u32) -> VectorClock {
        let me = thread as usize;
        let mut all = self.vector_clocks[self.current[me] as usize].clone();
        raise(all.0.entry(thread / 32).or_insert([0; 32]), &self.warps[me / 32].row(me % 32));
        self.warps[me / 32].own[me % 32] += 1;
        all
    }

    /// `thread` learns what was released.
    pub fn acquire(&mut self, thread: u32, released: &VectorClock) {
        let me = thread as usize;
        if let Some(clocks) = released.0.get(&(thread / 32)) {
            self.warps[me / 32].learn(me % 32, clocks);
        }
        let mut joined = self.vector_clocks[self.current[me] as usize].clone();
        joined.join(released);
        self.set(&[thread], joined);
    }

    fn set(&mut self, threads: &[u32], vector_clock: VectorClock) {
        let number = self.vector_clocks.len() as u32;
        self.vector_clocks.push(vector_clock);
        threads.iter().for_each(|&thread| self.current[thread as usize] = number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync_warp_orders_the_lanes_of_its_mask() {
        let mut clocks = Clocks::new(64);
        let [three, nine] = [3, 9].map(|thread| clocks.now(thread));
        clocks.sync_warp(0, 0xff);
        assert!(
            clocks.happened_before(4, 3, three)
                && !clocks.happened_before(8, 3, three)
                && !clocks.happened_before(4, 9, nine)
        );
        let after = clocks.now(3);
        assert!(!clocks.happened_before(4, 3, after));
        clocks.sync_warp(0, 0xff80);
        assert!(clocks.happened_before(9, 3, three), "transitively, through lane 7");
        assert!(!clocks.happened_before(9, 3, after) && !clocks.happened_before(40, 3, three));
        clocks.sync_warp(0, ALL);
        assert!(clocks.happened_before(31, 3, after) && !clocks.happened_before(40, 3, after));
    }

    #[test]
    fn an_acquire_orders_what_was_known_at_the_release() {
        let mut clocks = Clocks::new(96);
        let early = clocks.now(63);
        clocks.sync_warp(1, ALL);
        let [mine, other] = [40, 41].map(|thread| clocks.now(thread));
        let released = clocks.release(40);
        let after = clocks.now(40);
        clocks.acquire(9, &released);
        assert!(clocks.happened_before(9, 63, early) && clocks.happened_before(9, 40, mine));
        assert!(
            !clocks.happened_before(9, 41, other)
                && !clocks.happened_before(9, 40, after)
                && !clocks.happened_before(8, 40, mine)
        );
        clocks.sync_warp(0, ALL);
        assert!(clocks.happened_before(8, 40, mine), "transitively, through lane 9");
    }
}
