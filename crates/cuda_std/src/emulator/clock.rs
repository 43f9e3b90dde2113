//! What each thread knows to have happened: the order that barriers, `sync_warp`, releases and acquires make.
//!
//! A thread's own time is a clock that rises whenever it tells others what it did. An access carries its thread's
//! clock, and came before anything that another thread does now if that thread has been told of this clock. Full vector
//! clocks would hold 1024 numbers for each of 1024 threads, so knowledge is kept by what brought it:
//!
//! - a barrier of the block tells all to all: one number, the epoch;
//! - `sync_warp` of a whole warp tells 32 to 32: one number a warp; of a part of it: a table of 32 x 32;
//! - named barriers, releases and acquires, which are rare: a [`Horizon`], for the threads that met one.

use std::collections::BTreeMap;
use std::sync::Arc;

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

/// When and by whom something was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The block's number in the grid.
    pub block: u32,
    /// The thread in the block.
    pub thread: u32,
    /// Barriers of the block before it.
    pub epoch: u32,
    /// The thread's clock.
    pub clock: u32,
}

/// What is known of threads outside of a warp, or beyond its own meetings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Horizon {
    /// Of a block: everything in earlier epochs than this.
    epochs: BTreeMap<u32, u32>,
    /// Of the lanes of a (block, warp): everything up to these clocks.
    warps: BTreeMap<(u32, u32), [u32; 32]>,
}

impl Horizon {
    /// Adds what `other` knows.
    pub fn join(&mut self, other: &Self) {
        for (&block, &epoch) in &other.epochs {
            let known = self.epochs.entry(block).or_default();
            *known = epoch.max(*known);
        }
        for (&warp, clocks) in &other.warps {
            raise(self.warps.entry(warp).or_insert([0; 32]), clocks);
        }
    }

    /// Whether what was done at that moment is known.
    pub fn covers(&self, moment: Moment) -> bool {
        let Moment { block, thread, epoch, clock } = moment;
        self.epochs.get(&block).is_some_and(|&known| epoch < known)
            || self.warps.get(&(block, thread / 32)).is_some_and(|known| clock <= known[thread as usize % 32])
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
    block: u32,
    epoch: u32,
    warps: Vec<WarpClock>,
    /// For each thread, which of `horizons` it knows.
    beyond: Vec<u32>,
    /// What threads of this block knew at some time; the first knows nothing.
    horizons: Vec<Arc<Horizon>>,
}

impl Clocks {
    /// Those of a block of `threads` at its start.
    pub fn new(block: u32, threads: u32) -> Self {
        let warps = (0..threads).step_by(32).map(|first| WarpClock::new(threads - first)).collect();
        Self { block, epoch: 0, warps, beyond: vec![0; threads as usize], horizons: vec![Arc::default()] }
    }

    /// Barriers of the whole block until now.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The number of what `thread` knows beyond its block's barriers and its warp.
    pub fn beyond(&self, thread: u32) -> u32 {
        self.beyond[thread as usize]
    }

    /// What those numbers mean.
    pub fn into_horizons(self) -> Vec<Arc<Horizon>> {
        self.horizons
    }

    /// Now, for `thread`.
    pub fn now(&self, thread: u32) -> Moment {
        let clock = self.warps[thread as usize / 32].own[thread as usize % 32];
        Moment { block: self.block, thread, epoch: self.epoch, clock }
    }

    /// Whether `thread` knows what `other` of this block did in this epoch at its `clock`.
    pub fn knows(&self, thread: u32, other: u32, clock: u32) -> bool {
        let (me, it) = (thread as usize, other as usize);
        if me / 32 == it / 32 && self.warps[me / 32].knows(me % 32, it % 32, clock) {
            return true;
        }
        let beyond = self.beyond[me] as usize;
        let moment = Moment { block: self.block, thread: other, epoch: self.epoch, clock };
        beyond > 0 && self.horizons[beyond].covers(moment)
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
        let first = self.beyond(threads[0]);
        if threads.iter().all(|&thread| self.beyond(thread) == first) {
            return;
        }
        let mut joined = Horizon::default();
        let mut numbers: Vec<u32> = threads.iter().map(|&thread| self.beyond(thread)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.iter().for_each(|&number| joined.join(&self.horizons[number as usize]));
        self.tell(threads, joined);
    }

    /// `threads`, in rising order and of any warps, meet at a named barrier.
    pub fn sync_some(&mut self, threads: &[u32]) {
        let mut joined = Horizon::default();
        threads.iter().for_each(|&thread| joined.join(&self.knowledge(thread)));
        for members in threads.chunk_by(|a, b| a / 32 == b / 32) {
            let warp = members[0] / 32;
            let known = joined.warps[&(self.block, warp)];
            for &thread in members {
                self.warps[warp as usize].learn(thread as usize % 32, &known);
                self.tick(thread);
            }
        }
        self.tell(threads, joined);
    }

    /// What `thread` tells whoever acquires what it releases now.
    pub fn release(&mut self, thread: u32) -> Arc<Horizon> {
        let told = Arc::new(self.knowledge(thread));
        self.tick(thread);
        told
    }

    /// `thread` is told what `horizon` knows.
    pub fn acquire(&mut self, thread: u32, horizon: &Horizon) {
        let me = thread as usize;
        if let Some(clocks) = horizon.warps.get(&(self.block, thread / 32)) {
            self.warps[me / 32].learn(me % 32, clocks);
        }
        let mut joined = Horizon::clone(&self.horizons[self.beyond[me] as usize]);
        joined.join(horizon);
        self.tell(&[thread], joined);
    }

    /// All that `thread` knows, itself included.
    fn knowledge(&self, thread: u32) -> Horizon {
        let me = thread as usize;
        let mut all = Horizon::clone(&self.horizons[self.beyond[me] as usize]);
        all.epochs.insert(self.block, self.epoch);
        raise(
            all.warps.entry((self.block, thread / 32)).or_insert([0; 32]),
            &self.warps[me / 32].row(me % 32),
        );
        all
    }

    fn tell(&mut self, threads: &[u32], horizon: Horizon) {
        let number = self.horizons.len() as u32;
        self.horizons.push(Arc::new(horizon));
        threads.iter().for_each(|&thread| self.beyond[thread as usize] = number);
    }

    fn tick(&mut self, thread: u32) {
        self.warps[thread as usize / 32].own[thread as usize % 32] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether thread `b` knows what thread `a` did at `moment`.
    fn told(clocks: &Clocks, b: u32, a: Moment) -> bool {
        a.epoch < clocks.epoch() || clocks.knows(b, a.thread, a.clock)
    }

    #[test]
    fn sync_warp_tells_the_lanes_of_its_mask_only() {
        let mut clocks = Clocks::new(0, 64);
        let [three, nine] = [3, 9].map(|thread| clocks.now(thread));
        clocks.sync_warp(0, 0xff);
        assert!(told(&clocks, 4, three) && !told(&clocks, 8, three) && !told(&clocks, 4, nine));
        let after = clocks.now(3);
        assert!(!told(&clocks, 4, after));
        clocks.sync_warp(0, 0xff80);
        assert!(told(&clocks, 9, three), "told on by lane 7");
        assert!(!told(&clocks, 9, after) && !told(&clocks, 40, three));
        clocks.sync_warp(0, ALL);
        assert!(told(&clocks, 31, after) && !told(&clocks, 40, after));
    }

    #[test]
    fn barriers_tell_the_block() {
        let mut clocks = Clocks::new(0, 64);
        let before = clocks.now(40);
        clocks.sync_block();
        assert!(told(&clocks, 0, before) && !told(&clocks, 0, clocks.now(40)));
    }

    #[test]
    fn named_barriers_tell_their_members_and_whom_these_meet() {
        let mut clocks = Clocks::new(0, 128);
        let before = clocks.now(40);
        clocks.sync_some(&(0..64).collect::<Vec<_>>());
        assert!(told(&clocks, 0, before) && told(&clocks, 63, before) && !told(&clocks, 64, before));
        assert!(!told(&clocks, 0, clocks.now(40)));
        clocks.sync_some(&[0, 64]);
        clocks.sync_warp(2, ALL);
        assert!(told(&clocks, 95, before) && !told(&clocks, 96, before));
    }

    #[test]
    fn an_acquire_tells_what_was_known_at_the_release() {
        let [mut from, mut to] = [Clocks::new(5, 64), Clocks::new(6, 32)];
        let early = from.now(63);
        from.sync_block();
        let [mine, late] = [from.now(0), from.now(1)];
        let released = from.release(0);
        let after = from.now(0);
        to.acquire(9, &released);
        let known = to.beyond(9) as usize;
        let horizons = to.into_horizons();
        assert!(horizons[known].covers(early) && horizons[known].covers(mine));
        assert!(!horizons[known].covers(late) && !horizons[known].covers(after));
    }
}
