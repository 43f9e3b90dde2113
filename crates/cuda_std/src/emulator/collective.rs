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
        let complete = match wait {
            Wait::Collective { mask, .. } => group == mask & !warps[warp].done,
            _ => group == u32::MAX,
        };
        left &= !group;
        if !complete {
            continue;
        }
        match wait {
            Wait::Collective { op: Collective::Sync, .. } => block.clocks.sync_warp(warp, group),
            Wait::Collective { op, width, .. } => compute(block, warp, op, group, width)?,
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
fn compute(block: &mut Block, warp: usize, op: Collective, mask: u32, width: u32) -> Checked<()> {
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
        Collective::ShuffleUp | Collective::ShuffleIdx | Collective::ShuffleXor => {
            for lane in lanes(mask) {
                let argument = threads[lane].argument;
                let (from, inside) = source(op, lane as u32, argument, width);
                if mask >> from & 1 == 0 {
                    return Err(inactive(block, warp, lane, from, mask));
                }
                (threads[lane].value, threads[lane].flag) = (values[from as usize], inside);
            }
        }
        Collective::ButterflyAddU32 | Collective::ButterflyAddF32 => {
            let mut distance = width as usize / 2;
            while distance > 0 {
                let before = values;
                for lane in lanes(mask) {
                    let other = lane ^ distance;
                    if mask >> other & 1 == 0 {
                        return Err(inactive(block, warp, lane, other as u32, mask));
                    }
                    let (mine, its) = (before[lane] as u32, before[other] as u32);
                    values[lane] = u64::from(if op == Collective::ButterflyAddU32 {
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

/// The source lane of a shuffle, and whether it is inside the segment; `lane` itself if not.
fn source(op: Collective, lane: u32, argument: u32, width: u32) -> (u32, bool) {
    let first = lane & !(width - 1);
    let last = first + width - 1;
    let from = match op {
        Collective::ShuffleUp => lane.checked_sub(argument).filter(|&from| from >= first),
        Collective::ShuffleXor => Some(lane ^ (argument & 31)).filter(|&from| from <= last),
        _ => Some(first | (argument & (width - 1))),
    };
    (from.unwrap_or(lane), from.is_some())
}

fn inactive(block: &Block, warp: usize, lane: usize, asked: u32, mask: u32) -> Box<Fault> {
    let thread = warp * 32 + lane;
    let at = block.place(thread as u32, block.lanes[thread].site);
    Box::new(Fault::InactiveLane { at, lane: asked, mask })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffles_stay_in_their_segment() {
        assert_eq!(source(Collective::ShuffleUp, 9, 1, 8), (8, true));
        assert_eq!(source(Collective::ShuffleUp, 8, 1, 8), (8, false));
        assert_eq!(source(Collective::ShuffleIdx, 13, 10, 8), (10, true));
        assert_eq!(source(Collective::ShuffleXor, 13, 7, 8), (10, true));
        assert_eq!(source(Collective::ShuffleXor, 3, 8, 8), (3, false));
        assert_eq!(
            source(Collective::ShuffleXor, 11, 8, 8),
            (3, true),
            "an earlier segment counts as inside"
        );
    }
}
