//! Schedules the threads of a block: one coroutine each, which yields where it must wait for others.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use corosensei::{Coroutine, CoroutineResult};

use super::barrier;
use super::block::{Block, Checked, Halted, Shadows, Wait, set_current, with};
use super::collective;
use super::fault::Fault;
use super::launch::Launch;
use super::stacks::{self, LaneStack};

/// Mean number of collectives after which the scheduler switches to another warp.
const MEAN_COLLECTIVES_PER_TURN: u64 = 16;

/// The result of a round.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// Threads made progress.
    Moved,
    /// Threads only polled.
    Idle,
    /// All threads have returned.
    Done,
}

/// A block with its coroutines.
pub struct Runner<'a> {
    block: *mut Block,
    coroutines: Vec<Coroutine<(), (), (), LaneStack>>,
    order: Vec<usize>,
    kernel: PhantomData<&'a (dyn Fn() + Sync)>,
}

impl<'a> Runner<'a> {
    /// A block that will run `kernel` in each of its threads.
    pub fn new(
        launch: &Arc<Launch>,
        number: u32,
        seed: u64,
        kernel: &'a (dyn Fn() + Sync),
        shadows: Shadows,
    ) -> Self {
        let block = Box::into_raw(Box::new(Block::new(launch, number, seed, shadows)));
        let threads = launch.threads as usize;
        let coroutine = |stack| {
            // SAFETY: `kernel` outlives this runner, and dropping a coroutine ends what runs on it.
            unsafe {
                Coroutine::with_stack_unchecked(stack, move |yielder: &corosensei::Yielder<(), ()>, ()| {
                    with(|block, thread| block.lanes[thread as usize].yielder = Some(yielder.into()));
                    catch_unwind(AssertUnwindSafe(kernel)).unwrap_or_else(record_panic);
                })
            }
        };
        let coroutines = stacks::take(threads).into_iter().map(coroutine).collect();
        Self { block, coroutines, order: (0..threads.div_ceil(32)).collect(), kernel: PhantomData }
    }

    fn block(&mut self) -> &mut Block {
        // SAFETY: made by `new`, freed by `finish`; the turns of threads, which use it as well, are within `turn`.
        unsafe { &mut *self.block }
    }

    /// Runs each warp until it waits for others.
    pub fn round(&mut self) -> Checked<Round> {
        let mut order = std::mem::take(&mut self.order);
        self.block().random.shuffle(&mut order);
        let mut moved = false;
        for &warp in &order {
            moved |= self.run(warp)?;
            moved |= barrier::try_release(self.block())?;
        }
        self.order = order;
        let block = self.block();
        let mut polling = false;
        for warp in &mut block.warps {
            polling |= warp.polling != 0;
            warp.ready |= std::mem::take(&mut warp.polling);
        }
        if block.warps.iter().all(|warp| warp.done == u32::MAX) {
            return Ok(Round::Done);
        }
        match (moved, polling) {
            (true, _) => Ok(Round::Moved),
            (false, true) => Ok(Round::Idle),
            (false, false) => Err(barrier::deadlock(block)),
        }
    }

    /// Runs the lanes of `warp` until they wait for others, or the scheduler switches; returns whether any made
    /// progress.
    fn run(&mut self, warp: usize) -> Checked<bool> {
        let mut moved = false;
        loop {
            if self.block().warps[warp].ready != 0 {
                for lane in self.block().random.lanes() {
                    if self.block().warps[warp].ready >> lane & 1 == 1 {
                        moved |= self.turn(warp, lane)?;
                    }
                }
            } else if !collective::try_complete(self.block(), warp)? {
                return Ok(moved);
            } else if self.block().random.next().is_multiple_of(MEAN_COLLECTIVES_PER_TURN) {
                return Ok(true);
            }
        }
    }

    /// Runs one thread until it waits; returns whether it made progress.
    fn turn(&mut self, warp: usize, lane: usize) -> Checked<bool> {
        let thread = warp * 32 + lane;
        let block = self.block();
        block.warps[warp].ready &= !(1 << lane);
        block.counts.turns += 1;
        set_current(self.block, thread as u32);
        let result = self.coroutines[thread].resume(());
        set_current(std::ptr::null_mut(), 0);
        let block = self.block();
        if let CoroutineResult::Return(()) = result {
            block.lanes[thread].wait = Wait::Done;
            block.warps[warp].done |= 1 << lane;
        }
        block.fault.take().map_or(Ok(block.lanes[thread].wait != Wait::Poll), Err)
    }

    /// Ends the block, whose threads have returned or are to be unwound.
    pub fn finish(mut self) -> Block {
        self.block().abandoned = true;
        let block = self.block;
        let mut stacks = Vec::with_capacity(self.coroutines.len());
        for (thread, mut coroutine) in self.coroutines.drain(..).enumerate() {
            // Values on a thread's stack are dropped as that thread.
            set_current(block, thread as u32);
            if coroutine.started() && !coroutine.done() {
                coroutine.force_unwind();
            }
            if coroutine.done() {
                stacks.push(coroutine.into_stack());
            }
        }
        set_current(std::ptr::null_mut(), 0);
        stacks::give_back(stacks);
        // SAFETY: made by `Box::into_raw` in `new`, and given away once: `self` ends here.
        *unsafe { Box::from_raw(block) }
    }
}

/// Records the panic of a thread, unless its fault is recorded or it is being unwound.
fn record_panic(thrown: Box<dyn Any + Send>) {
    if thrown.is::<Halted>() {
        return;
    }
    let abandoned = with(|block, thread| {
        if !block.abandoned {
            let message = thrown.downcast_ref::<String>().cloned();
            let message = message.or_else(|| thrown.downcast_ref::<&str>().map(ToString::to_string));
            let at = block.place(thread, None);
            block.fault = Some(Box::new(Fault::Panic { at, message: message.unwrap_or_default() }));
        }
        block.abandoned
    });
    if abandoned {
        resume_unwind(thrown);
    }
}
