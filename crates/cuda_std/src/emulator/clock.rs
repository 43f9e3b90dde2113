//! What each thread knows to have happened: the order that barriers, `sync_warp`, releases and acquires make.
//!
//! A thread's own time is a clock that rises whenever it tells others what it did. An access carries its thread's
//! clock, and came before anything that another thread does now if that thread has been told of this clock. Full vector
//! clocks would hold 1024 numbers for each of 1024 threads, so knowledge is kept by what brought it:
//!
//! - a barrier of the block tells all to all: one number, the epoch;
//! - `sync_warp` of a whole warp tells 32 to 32: one number a warp; of a part of it: a table of 32 x 32;
//! - atomics with fences around them, which are rare: a [`Horizon`], for the threads that acquired one.

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

/// What is known of the lanes of each warp of the block: everything up to these clocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Horizon(BTreeMap<u32, [u32; 32]>);

impl Horizon {
    /// Adds what `other` knows.
    pub fn join(&mut self, other: &Self) {
        for (&warp, clocks) in &other.0 {
            raise(self.0.entry(warp).or_insert([0; 32]), clocks);
        }
    }

    /// Whether what `thread` did at its `clock` is known.
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

/// The clocks of one warp, and what its lanes know of one another.
struct WarpClock {
    own: [u32; 32],
    /// Every lane knows every lane up to here.
    common: u32,
    /// What each lane knows above that.
    rows: Option<Box<[[u32; 32]; 32]>>,
    /// Lanes that the block does not have.
    absent: u32,
}

impl WarpClock {
    fn new(lanes: u32) -> Self {
        let absent = ALL.checked_shl(lanes).unwrap_or(0);
        Self { own: [1; 32], common: 0, rows: None, absent }
    }

    fn knows(&self, me: usize, lane: usize, clock: u32) -> bool {
        me == lane || clock <= self.common || self.rows.as_ref().is_some_and(|rows| clock <= rows[me][lane])
    }

    /// What lane `me` knows of its warp.
    fn row(&self, me: usize) -> [u32; 32] {
        let mut row = self.rows.as_ref().map_or([0; 32], |rows| rows[me]);
        raise(&mut row, &[self.common; 32]);
        row[me] = self.own[me];
        row
    }

    /// Tells lane `me` of its warp.
    fn learn(&mut self, me: usize, clocks: &[u32; 32]) {
        raise(&mut self.rows.get_or_insert_default()[me], clocks);
    }

    /// The lanes of `mask` tell one another everything.
    fn meet(&mut self, mask: u32) {
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
        // One clock for all that met, so that what they do next is told apart by lane only.
        lanes(mask).for_each(|lane| self.own[lane] = latest + 1);
    }
}

/// The clocks of a block.
pub struct Clocks {
    epoch: u32,
    warps: Vec<WarpClock>,
    /// For each thread, which of `horizons` it knows.
    beyond: Vec<u32>,
    /// What threads of this block knew at some time; the first knows nothing.
    horizons: Vec<Horizon>,
}

impl Clocks {
    /// Those of a block of `threads` at its start.
    pub fn new(threads: u32) -> Self {
        let warps = (0..threads).step_by(32).map(|first| WarpClock::new(threads - first)).collect();
        Self { epoch: 0, warps, beyond: vec![0; threads as usize], horizons: vec![Horizon::default()] }
    }

    /// Barriers of the whole block until now.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The clock of `thread`.
    pub fn now(&self, thread: u32) -> u32 {
        self.warps[thread as usize / 32].own[thread as usize % 32]
    }

    /// Whether `thread` knows what `other` did in this epoch at its `clock`.
    pub fn knows(&self, thread: u32, other: u32, clock: u32) -> bool {
        let (me, it) = (thread as usize, other as usize);
        if me / 32 == it / 32 && self.warps[me / 32].knows(me % 32, it % 32, clock) {
            return true;
        }
        self.horizons[self.beyond[me] as usize].covers(other, clock)
    }

    /// The lanes of `mask` meet.
    pub fn sync_warp(&mut self, warp: usize, mask: u32) {
        if self.horizons.len() > 1 {
            let threads: Vec<u32> = lanes(mask).map(|lane| (warp * 32 + lane) as u32).collect();
            self.share(&threads);
        }
        self.warps[warp].meet(mask);
    }

    /// The whole block meets.
    pub fn sync_block(&mut self) {
        if self.horizons.len() > 1 {
            let threads: Vec<u32> = (0..self.beyond.len() as u32).collect();
            self.share(&threads);
        }
        self.epoch += 1;
        self.warps.iter_mut().for_each(|warp| warp.meet(ALL & !warp.absent));
    }

    /// `threads` share what they know beyond their warps.
    fn share(&mut self, threads: &[u32]) {
        let first = self.beyond[threads[0] as usize];
        if threads.iter().all(|&thread| self.beyond[thread as usize] == first) {
            return;
        }
        let mut joined = Horizon::default();
        let mut numbers: Vec<u32> = threads.iter().map(|&thread| self.beyond[thread as usize]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.iter().for_each(|&number| joined.join(&self.horizons[number as usize]));
        self.tell(threads, joined);
    }

    /// All that `thread` knows now, itself included: what others learn when they acquire it.
    pub fn release(&mut self, thread: u32) -> Horizon {
        let me = thread as usize;
        let mut all = self.horizons[self.beyond[me] as usize].clone();
        raise(all.0.entry(thread / 32).or_insert([0; 32]), &self.warps[me / 32].row(me % 32));
        self.warps[me / 32].own[me % 32] += 1;
        all
    }

    /// `thread` learns what was released.
    pub fn acquire(&mut self, thread: u32, released: &Horizon) {
        let me = thread as usize;
        if let Some(clocks) = released.0.get(&(thread / 32)) {
            self.warps[me / 32].learn(me % 32, clocks);
        }
        let mut joined = self.horizons[self.beyond[me] as usize].clone();
        joined.join(released);
        self.tell(&[thread], joined);
    }

    fn tell(&mut self, threads: &[u32], horizon: Horizon) {
        let number = self.horizons.len() as u32;
        self.horizons.push(horizon);
        threads.iter().for_each(|&thread| self.beyond[thread as usize] = number);
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
        assert!(clocks.knows(4, 3, three) && !clocks.knows(8, 3, three) && !clocks.knows(4, 9, nine));
        let after = clocks.now(3);
        assert!(!clocks.knows(4, 3, after));
        clocks.sync_warp(0, 0xff80);
        assert!(clocks.knows(9, 3, three), "transitively, through lane 7");
        assert!(!clocks.knows(9, 3, after) && !clocks.knows(40, 3, three));
        clocks.sync_warp(0, ALL);
        assert!(clocks.knows(31, 3, after) && !clocks.knows(40, 3, after));
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
        assert!(clocks.knows(9, 63, early) && clocks.knows(9, 40, mine));
        assert!(!clocks.knows(9, 41, other) && !clocks.knows(9, 40, after) && !clocks.knows(8, 40, mine));
        clocks.sync_warp(0, ALL);
        assert!(clocks.knows(8, 40, mine), "transitively, through lane 9");
    }
}
