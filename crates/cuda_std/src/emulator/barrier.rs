//! Barriers of the block: who has come, when it opens, and what to say when it never will.

use std::collections::BTreeMap;
use std::mem::discriminant;

use super::block::{Block, Checked, Wait, Warp};
use super::clock::lanes;
use super::fault::{Fault, Waiting};
use crate::primitive::{Barrier, Collective, Mma};

/// Opens the barriers for which all have come; says whether there was one.
///
/// It is called after each turn of a warp: no more than a warp comes to a barrier between two calls.
pub fn meet(block: &mut Block) -> Checked<bool> {
    let count =
        |lanes: fn(&Warp) -> u32| block.warps.iter().map(|warp| lanes(warp).count_ones() as usize).sum();
    let (stopped, done): (usize, usize) = (count(|warp| warp.stopped), count(|warp| warp.done));
    if block.named == 0 && (stopped == 0 || stopped + done < block.warps.len() * 32) {
        return Ok(false);
    }
    let mut at: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for thread in stopped_threads(block) {
        if let Wait::Barrier(barrier) = block.lanes[thread as usize].wait {
            at.entry(number(barrier)).or_default().push(thread);
        }
    }
    let mut met = false;
    for (number, threads) in at {
        met |= match number {
            0 if threads.len() + done < block.warps.len() * 32 => false,
            0 => meet_all(block, &threads)?,
            _ => meet_some(block, number, &threads)?,
        };
    }
    Ok(met)
}

/// The threads that wait at a barrier of the block.
fn stopped_threads(block: &Block) -> impl Iterator<Item = u32> {
    block
        .warps
        .iter()
        .enumerate()
        .flat_map(|(number, warp)| lanes(warp.stopped).map(move |lane| (number * 32 + lane) as u32))
}

fn number(barrier: Barrier) -> u32 {
    match barrier {
        Barrier::Named { barrier, .. } => barrier,
        _ => 0,
    }
}

/// Opens barrier 0, where all that have not returned wait.
fn meet_all(block: &mut Block, threads: &[u32]) -> Checked<bool> {
    if threads.len() < block.lanes.len() {
        let (kernel, index) = (block.launch.kernel.clone(), block.index());
        return Err(Box::new(Fault::PartialBarrier { kernel, block: index, groups: groups(block) }));
    }
    check_alike(block, threads)?;
    let brought = |thread: &&u32| match block.lanes[**thread as usize].wait {
        Wait::Barrier(Barrier::Count(bit) | Barrier::And(bit) | Barrier::Or(bit)) => bit,
        _ => false,
    };
    let count = threads.iter().filter(brought).count() as u32;
    let result = match block.lanes[0].wait {
        Wait::Barrier(Barrier::Count(_)) => count,
        Wait::Barrier(Barrier::And(_)) => u32::from(count as usize == threads.len()),
        Wait::Barrier(Barrier::Or(_)) => u32::from(count > 0),
        _ => 0,
    };
    block.clocks.sync_block();
    open(block, threads, result);
    Ok(true)
}

/// Opens a named barrier once as many warps are there as it waits for.
fn meet_some(block: &mut Block, number: u32, threads: &[u32]) -> Checked<bool> {
    let Wait::Barrier(Barrier::Named { threads: wanted, .. }) = block.lanes[threads[0] as usize].wait else {
        return Ok(false);
    };
    check_alike(block, threads)?;
    let warps = || threads.chunk_by(|a, b| a / 32 == b / 32);
    let come = 32 * warps().count();
    if come < wanted as usize {
        return Ok(false);
    }
    let misuse = |thread: u32, what| Err(block.misuse(thread, block.lanes[thread as usize].site, what));
    if come > wanted as usize {
        let what = format!("{come} threads have come to barrier {number}, which is for {wanted} at a time");
        return misuse(threads[0], what);
    }
    for warp in warps() {
        let done = block.warps[warp[0] as usize / 32].done.count_ones() as usize;
        if warp.len() + done < 32 {
            return misuse(warp[0], format!("has come to barrier {number} without the whole of its warp"));
        }
    }
    block.clocks.sync_some(threads);
    open(block, threads, 0);
    Ok(true)
}

/// All make the same call, and the lanes of a warp make it together.
fn check_alike(block: &Block, threads: &[u32]) -> Checked<()> {
    let lane = |thread: u32| &block.lanes[thread as usize];
    let first = lane(threads[0]);
    let same = |a: Wait, b: Wait| match (a, b) {
        (Wait::Barrier(a @ Barrier::Named { .. }), Wait::Barrier(b)) => a == b,
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
        warp.stopped &= !(1 << (thread % 32));
        warp.ready |= 1 << (thread % 32);
        let lane = &mut block.lanes[thread as usize];
        lane.value = u64::from(result);
        block.named -= u32::from(matches!(lane.wait, Wait::Barrier(Barrier::Named { .. })));
    }
    block.counts.barriers += 1;
}

/// Why no thread of `block` can go on.
pub fn stuck(block: &Block) -> Box<Fault> {
    let (kernel, index) = (block.launch.kernel.clone(), block.index());
    Box::new(Fault::Stuck { kernel, block: index, groups: groups(block) })
}

/// The threads by what they wait for, in the order of the first of each group.
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

/// What a thread waits for, after "wait".
fn describe(wait: Wait) -> String {
    let name = |op| match op {
        Collective::Sync => "sync_warp",
        Collective::ShuffleUp => "warp_shuffle_up",
        Collective::ShuffleDown => "warp_shuffle_down",
        Collective::ShuffleIdx => "warp_shuffle_idx",
        Collective::ShuffleXor => "warp_shuffle_xor",
        Collective::VoteAll => "warp_vote_all",
        Collective::VoteAny => "warp_vote_any",
        Collective::Ballot => "warp_vote_ballot",
        Collective::MatchAny => "warp_match_any",
        Collective::MatchAll => "warp_match_all",
        Collective::ReduceAdd => "warp_reduce_add",
        Collective::ReduceMin => "warp_reduce_min",
        Collective::ReduceMax => "warp_reduce_max",
        Collective::ReduceAnd => "warp_reduce_and",
        Collective::ReduceOr => "warp_reduce_or",
        Collective::ReduceXor => "warp_reduce_xor",
        Collective::ButterflyAddU32 | Collective::ButterflyAddF32 => "warp_sum",
    };
    match wait {
        Wait::Turn | Wait::Active => "for their turn".into(),
        Wait::Nap => "for another thread, again and again".into(),
        Wait::Collective { op, mask, .. } => format!("at {} of lanes {mask:#010x}", name(op)),
        Wait::Mma(Mma::M16N8K16F16) => "at m16n8k16 of the whole warp".into(),
        Wait::Mma(_) => "at m16n8k32 of the whole warp".into(),
        Wait::Barrier(Barrier::All) => "at sync_threads".into(),
        Wait::Barrier(Barrier::Count(_)) => "at sync_threads_count".into(),
        Wait::Barrier(Barrier::And(_)) => "at sync_threads_and".into(),
        Wait::Barrier(Barrier::Or(_)) => "at sync_threads_or".into(),
        Wait::Barrier(Barrier::Named { barrier, threads }) => {
            format!("at barrier {barrier} for {threads} threads")
        }
        Wait::Done => "for nothing".into(),
    }
}
