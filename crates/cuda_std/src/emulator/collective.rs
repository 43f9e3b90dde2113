//! Warp collectives, computed once all participating lanes have reached them.

use super::block::{Block, Checked, Wait};
use super::clock::lanes;
use super::fault::Fault;
use super::matrix;
use crate::primitive::Collective;

/// Completes the collectives of `warp` that all participating lanes have reached; returns whether there was one.
///
/// Called when no lane of the warp is ready.
pub fn try_complete(block: &mut Block, warp: usize) -> Checked<bool> {
    let mut met = false;
    let mut left = block.warps[warp].at_collective;
    while left != 0 {
        let first = left.trailing_zeros() as usize;
        let Block { lanes: threads, warps, .. } = block;
        let warp_lanes = &threads[warp * 32..];
        let wait = warp_lanes[first].wait;
        let group =
            lanes(left).filter(|&lane| warp_lanes[lane].wait == wait).fold(0, |all, lane| all | 1 << lane);
        left &= !group;
        // Lanes that have returned take no part, except that a matrix product needs all.
        let absent = if matches!(wait, Wait::Mma(_)) { 0 } else { warps[warp].done };
        if group | absent != u32::MAX {
            continue;
        }
        match wait {
            Wait::Collective(Collective::Sync) => block.clocks.sync_warp(warp, group),
            Wait::Collective(op) => compute(block, warp, op, group)?,
            Wait::Mma(op) => matrix::multiply(op, &mut block.extras[warp * 32..warp * 32 + 32]),
            _ => {}
        }
        let state = &mut block.warps[warp];
        state.at_collective &= !group;
        state.ready |= group;
        block.counts.collectives += 1;
        met = true;
    }
    Ok(met)
}

/// The collective `op` of the lanes of `mask`.
fn compute(block: &mut Block, warp: usize, op: Collective, mask: u32) -> Checked<()> {
    let threads = &mut block.lanes[warp * 32..];
    let mut values = [0_u64; 32];
    lanes(mask).for_each(|lane| values[lane] = threads[lane].value);
    let words = || lanes(mask).map(|lane| values[lane] as u32);
    let mut shared = |value: u64, flag: bool| {
        for lane in lanes(mask) {
            (threads[lane].value, threads[lane].flag) = (value, flag);
        }
    };
    let reduce = |fold: fn(u32, u32) -> u32| u64::from(words().reduce(fold).unwrap_or(0));
    match op {
        Collective::VoteAll => shared(0, words().all(|word| word != 0)),
        Collective::VoteAny => shared(0, words().any(|word| word != 0)),
        Collective::Ballot => {
            let ballot = lanes(mask).filter(|&lane| values[lane] != 0).fold(0, |all, lane| all | 1 << lane);
            shared(ballot, true);
        }
        Collective::MatchAny => {
            for lane in lanes(mask) {
                let same = lanes(mask).filter(|&other| values[other] == values[lane]);
                threads[lane].value = same.fold(0, |all, other| all | 1 << other);
            }
        }
        Collective::ReduceAdd => shared(reduce(u32::wrapping_add), true),
        Collective::ReduceMin => shared(reduce(u32::min), true),
        Collective::ReduceMax => shared(reduce(u32::max), true),
        Collective::ReduceOr => shared(reduce(|a, b| a | b), true),
        Collective::Sync => {}
        Collective::ShuffleUp | Collective::Shuffle(_) | Collective::ShuffleXor => {
            for lane in lanes(mask) {
                let argument = threads[lane].argument;
                let source = match op {
                    Collective::ShuffleUp => (lane as u32).checked_sub(argument),
                    Collective::Shuffle(width) => Some(lane as u32 & !(width - 1) | argument & (width - 1)),
                    _ => Some(lane as u32 ^ (argument & 31)),
                };
                let from = source.unwrap_or(lane as u32);
                if mask >> from & 1 == 0 {
                    return Err(inactive(block, warp, lane, from, mask));
                }
                (threads[lane].value, threads[lane].flag) = (values[from as usize], source.is_some());
            }
        }
        Collective::SumU32(width) | Collective::SumF32(width) => {
            let mut distance = width as usize / 2;
            while distance > 0 {
                let before = values;
                for lane in lanes(mask) {
                    let other = lane ^ distance;
                    if mask >> other & 1 == 0 {
                        return Err(inactive(block, warp, lane, other as u32, mask));
                    }
                    let (mine, its) = (before[lane] as u32, before[other] as u32);
                    values[lane] = u64::from(if matches!(op, Collective::SumU32(_)) {
                        mine.wrapping_add(its)
                    } else {
                        (f32::from_bits(mine) + f32::from_bits(its)).to_bits()
                    });
                }
                distance /= 2;
            }
            lanes(mask).for_each(|lane| threads[lane].value = values[lane]);
        }
    }
    Ok(())
}

fn inactive(block: &Block, warp: usize, lane: usize, asked: u32, mask: u32) -> Box<Fault> {
    let thread = warp * 32 + lane;
    let at = block.place(thread as u32, block.lanes[thread].site);
    Box::new(Fault::InactiveLane { at, lane: asked, mask })
}
