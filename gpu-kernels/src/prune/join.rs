//! The nearest of its own batch, which the graph does not lead to yet.

use cuda_std::prelude::*;

use super::keep::Memory;
use super::layout::join_capacity;
use super::score::score;
use super::sort::{NO_CANDIDATE, for_my_places, sort_padded};
use super::space::Space;
use super::{DISTANCES, JoinArgs};
use crate::graph::NO_ROW;
use crate::neighbor;

/// Compares one vertex with the others of its group; one block a vertex.
///
/// # Safety
/// The arguments are what [`JoinArgs`] says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn join<S: Space>(args: JoinArgs) {
    let list = thread::block_idx_x();
    let first = list / args.group * args.group;
    let len = args.group.min(args.lists - first);
    let keys = Memory::carve(&args.prune, join_capacity(args.group)).keys;
    let most = args.prune.max_degree;
    let joined = args.joined.from(list as usize * most as usize);
    let space = S::new(&args.prune.graph, args.prune.form);
    // SAFETY: the whole block comes to every step; places are those of the group, for which there is room.
    unsafe {
        let other = |place: u32| global::load_readonly(args.batch.at((first + place) as usize));
        let is_linked =
            |place: u32| global::load_readonly(args.identical.at((first + place) as usize)) == NO_ROW;
        let vertex = global::load_readonly(args.batch.at(list as usize));
        score(&space, vertex, len, other, |place, id, distance| {
            let counts = id != vertex && is_linked(place);
            keys.add(place).store(if counts { neighbor::key(distance, id) } else { NO_CANDIDATE });
        });
        sort_padded(keys, len);
        for_my_places(most, |place| {
            let key = if place < len { keys.add(place).load() } else { NO_CANDIDATE };
            global::store(joined.at(place as usize), key);
        });
        if thread::thread_idx_x() == 0 {
            atomic::add(args.prune.counters.at(DISTANCES), u64::from(len - 1));
        }
    }
}
