//! Block barriers, and the report of a deadlock.

use std::mem::discriminant;

use super::block::{Block, Checked, Wait, Warp};
use super::clock::lanes;
use super::fault::{Fault, Waiting};
use crate::primitive::{Barrier, Collective};

/// Releases the barrier if all threads have reached it; returns whether it did.
///
/// Called after each warp has run, so at most one warp reaches a barrier between two calls.
pub fn try_release(block: &mut Block) -> Checked<bool> {
    let count =
        |lanes: fn(&Warp) -> u32| block.warps.iter().map(|warp| lanes(warp).count_ones() as usize).sum();
    let (at_barrier, done): (usize, usize) = (count(|warp| warp.at_barrier), count(|warp| warp.done));
    if at_barrier == 0 || at_barrier + done < block.warps.len() * 32 {
        return Ok(false);
    }
    let threads: Vec<u32> = waiting_threads(block).collect();
    release_all(block, &threads)?;
    Ok(true)
}

/// The threads that wait at the barrier.
fn waiting_threads(block: &Block) -> impl Iterator<Item = u32> {
    block
        .warps
        .iter()
        .enumerate()
        .flat_map(|(number, warp)| lanes(warp.at_barrier).map(move |lane| (number * 32 + lane) as u32))
}

/// Releases the barrier, at which all threads wait that have not returned.
fn release_all(block: &mut Block, threads: &[u32]) -> Checked<()> {
    if threads.len() < block.lanes.len() {
        let (kernel, index) = (block.launch.kernel.clone(), block.index());
        return Err(Box::new(Fault::PartialBarrier { kernel, block: index, groups: groups(block) }));
    }
    check_alike(block, threads)?;
    let has_bit = |thread: &&u32| match block.lanes[**thread as usize].wait {
        Wait::Barrier(Barrier::Count(bit) | Barrier::Or(bit)) => bit,
        _ => false,
    };
    let count = threads.iter().filter(has_bit).count() as u32;
    let result = match block.lanes[0].wait {
        Wait::Barrier(Barrier::Count(_)) => count,
        Wait::Barrier(Barrier::Or(_)) => u32::from(count > 0),
        _ => 0,
    };
    block.clocks.sync_block();
    open(block, threads, result);
    Ok(())
}

/// Checks that all threads make the same call, and that the lanes of a warp make it together.
fn check_alike(block: &Block, threads: &[u32]) -> Checked<()> {
    let lane = |thread: u32| &block.lanes[thread as usize];
    let first = lane(threads[0]);
    let same = |a: Wait, b: Wait| match (a, b) {
        (Wait::Barrier(a), Wait::Barrier(b)) => discriminant(&a) == discriminant(&b),
        _ => false,
    };
    if let Some(&odd) = threads.iter().find(|&&thread| !same(first.wait, lane(thread).wait)) {
        let what =
            format!("waits {}, and thread {} {}", describe(lane(odd).wait), threads[0], describe(first.wait));
        return Err(block.misuse(odd, lane(odd).site, what));
    }
    for pair in threads.windows(2).filter(|pair| pair[0] / 32 == pair[1] / 32) {
        let (one, other) = (lane(pair[0]).site, lane(pair[1]).site);
        if one != other {
            let place = one.map_or(String::new(), ToString::to_string);
            let what = format!("diverged from thread {} of its warp, which waits at {place}", pair[0]);
            return Err(block.misuse(pair[1], other, what));
        }
    }
    Ok(())
}

fn open(block: &mut Block, threads: &[u32], result: u32) {
    for &thread in threads {
        let warp = &mut block.warps[thread as usize / 32];
        warp.at_barrier &= !(1 << (thread % 32));
        warp.ready |= 1 << (thread % 32);
        let lane = &mut block.lanes[thread as usize];
        lane.value = u64::from(result);
    }
    block.counts.barriers += 1;
}

/// The fault of a block none of whose threads can proceed.
pub fn deadlock(block: &Block) -> Box<Fault> {
    let (kernel, index) = (block.launch.kernel.clone(), block.index());
    Box::new(Fault::Deadlock { kernel, block: index, groups: groups(block) })
}

/// The threads grouped by what they wait for.
fn groups(block: &Block) -> Vec<Waiting> {
    let mut groups: Vec<Waiting> = Vec::new();
    for (thread, lane) in block.lanes.iter().enumerate() {
        let what = (lane.wait != Wait::Done).then(|| describe(lane.wait));
        let site = lane.site.filter(|_| what.is_some());
        match groups.iter_mut().find(|group| group.what == what && group.site == site) {
            Some(group) => group.threads.push(thread as u32),
            None => groups.push(Waiting { threads: vec![thread as u32], what, site }),
        }
    }
    groups
}

/// Describes what a thread waits for, as words that follow "waits".
fn describe(wait: Wait) -> String {
    let name = |op| match op {
        Collective::Sync => "sync_warp",
        Collective::ShuffleUp => "shuffle_up",
        Collective::Shuffle(_) => "shuffle",
        Collective::ShuffleXor => "shuffle_xor",
        Collective::VoteAll => "all",
        Collective::VoteAny => "any",
        Collective::Ballot => "ballot",
        Collective::MatchAny => "match_any",
        Collective::ReduceAdd => "reduce_add",
        Collective::ReduceMin => "reduce_min",
        Collective::ReduceMax => "reduce_max",
        Collective::ReduceOr => "reduce_or",
        Collective::SumU32(_) | Collective::SumF32(_) => "sum",
    };
    match wait {
        Wait::Turn => "for their turn".into(),
        Wait::Poll => "for another thread, again and again".into(),
        Wait::Collective(op) => format!("at {} of the whole warp", name(op)),
        Wait::Mma(_) => "at a matrix product of the whole warp".into(),
        Wait::Barrier(Barrier::All) => "at sync_threads".into(),
        Wait::Barrier(Barrier::Count(_)) => "at sync_threads_count".into(),
        Wait::Barrier(Barrier::Or(_)) => "at sync_threads_or".into(),
        Wait::Done => "for nothing".into(),
    }
}
