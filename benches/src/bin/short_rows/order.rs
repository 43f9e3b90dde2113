//! Orders of vertices in which neighbors are near each other.

use std::collections::VecDeque;

use gpu_kernels::graph::NO_SLOT;
use jasper::Element;
use rayon::prelude::*;

use super::tables::Tables;

/// Cuthill-McKee: breadth first from the first start point, the children of a vertex by ascending in-degree.
pub fn breadth_first<T: Element>(tables: &Tables<T>) -> Vec<u32> {
    let degrees = tables.in_degrees();
    let mut placed = vec![false; tables.slots()];
    let mut order = Vec::with_capacity(tables.slots());
    let roots = tables.starts.iter().copied().chain(0..tables.slots() as u32);
    for root in roots {
        if std::mem::replace(&mut placed[root as usize], true) {
            continue;
        }
        let mut queue = VecDeque::from([root]);
        while let Some(vertex) = queue.pop_front() {
            order.push(vertex);
            let is_new = |edge: &u32| !std::mem::replace(&mut placed[*edge as usize], true);
            let mut children: Vec<u32> = tables.neighbors(vertex).iter().copied().filter(is_new).collect();
            children.sort_unstable_by_key(|&child| degrees[child as usize]);
            queue.extend(children);
        }
    }
    order
}

/// Rows of a cluster that is not divided further.
const LEAF: usize = 16;
/// Rows whose means are the centers of a division.
const SAMPLE: usize = 512;
const ROUNDS: usize = 4;

/// Repeated division into two clusters by 2-means.
pub fn clusters<T: Element>(rows: &[T], width: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..(rows.len() / width) as u32).collect();
    divide(rows, width, &mut order);
    order
}

fn divide<T: Element>(rows: &[T], width: usize, ids: &mut [u32]) {
    if ids.len() <= LEAF {
        return;
    }
    let row = |id: u32| &rows[id as usize * width..][..width];
    let squared_l2 = T::kernels().squared_l2;
    let sample: Vec<u32> = ids.iter().step_by(ids.len().div_ceil(SAMPLE)).copied().collect();
    // Two distant rows, then means.
    let farthest = |from: u32| {
        let of = |&&id: &&u32| squared_l2(row(from), row(id));
        *sample.iter().max_by(|a, b| of(a).total_cmp(&of(b))).unwrap_or(&from)
    };
    let one = farthest(sample[0]);
    let mut centers = [row(one).to_vec(), row(farthest(one)).to_vec()];
    for _ in 0..ROUNDS {
        let mut sums = [vec![0.0_f32; width], vec![0.0_f32; width]];
        let mut counts = [0; 2];
        for &id in &sample {
            let side = usize::from(squared_l2(&centers[1], row(id)) < squared_l2(&centers[0], row(id)));
            counts[side] += 1;
            sums[side].iter_mut().zip(row(id)).for_each(|(sum, x)| *sum += x.to_f32());
        }
        for side in (0..2).filter(|&side| counts[side] > 0) {
            let mean = sums[side].iter().map(|&sum| T::from_f32(sum / counts[side] as f32));
            centers[side] = mean.collect();
        }
    }
    let [zero, one] = &centers;
    let sides: Vec<bool> =
        ids.par_iter().map(|&id| squared_l2(one, row(id)) < squared_l2(zero, row(id))).collect();
    let side = |of: bool| ids.iter().zip(&sides).filter(move |(_, side)| **side == of).map(|(&id, _)| id);
    let (mut sorted, first): (Vec<u32>, usize) =
        (side(false).collect(), sides.iter().filter(|side| !**side).count());
    sorted.extend(side(true));
    ids.copy_from_slice(&sorted);
    if first == 0 || first == ids.len() {
        return;
    }
    let (left, right) = ids.split_at_mut(first);
    rayon::join(|| divide(rows, width, left), || divide(rows, width, right));
}

/// Vertices whose edges count.
const WINDOW: usize = 64;

/// Greedy, as Gorder without siblings: next comes the vertex with the most edges from and to the last [`WINDOW`]; where
/// there is none with two, the next breadth first.
pub fn greedy<T: Element>(tables: &Tables<T>) -> Vec<u32> {
    let slots = tables.slots();
    let mut rest = breadth_first(tables).into_iter();
    // Reversed edges.
    let mut ends = vec![0_u32; slots + 1];
    let degrees = tables.in_degrees();
    (0..slots).for_each(|slot| ends[slot + 1] = ends[slot] + degrees[slot]);
    let (mut next, mut sources) = (ends.clone(), vec![0_u32; ends[slots] as usize]);
    for slot in 0..slots as u32 {
        for &edge in tables.neighbors(slot) {
            sources[next[edge as usize] as usize] = slot;
            next[edge as usize] += 1;
        }
    }
    let around = |vertex: u32| {
        let range = ends[vertex as usize] as usize..ends[vertex as usize + 1] as usize;
        // Sources of hubs are many, and few of them near.
        let sources = &sources[range];
        tables.neighbors(vertex).iter().chain(&sources[..sources.len().min(256)]).copied()
    };
    const LEVELS: usize = 2 * WINDOW + 1;
    let mut levels: Vec<Vec<u32>> = vec![Vec::new(); LEVELS];
    let (mut scores, mut placed) = (vec![0_u8; slots], vec![false; slots]);
    let (mut order, mut top): (Vec<u32>, usize) = (Vec::with_capacity(slots), 0);
    while order.len() < slots {
        let mut best = NO_SLOT;
        while best == NO_SLOT && top >= 2 {
            match levels[top].pop() {
                None => top -= 1,
                Some(vertex) => {
                    let score = usize::from(scores[vertex as usize]);
                    if !placed[vertex as usize] && score == top {
                        best = vertex;
                    } else if !placed[vertex as usize] && score >= 2 && score < top {
                        levels[score].push(vertex);
                    }
                }
            }
        }
        if best == NO_SLOT {
            best = rest.find(|&vertex| !placed[vertex as usize]).expect("some are not placed");
        }
        placed[best as usize] = true;
        order.push(best);
        for near in around(best).filter(|&near| !placed[near as usize]) {
            let score = &mut scores[near as usize];
            *score = (*score + 1).min(LEVELS as u8 - 1);
            if *score >= 2 {
                levels[usize::from(*score)].push(near);
                top = top.max(usize::from(*score));
            }
        }
        if let Some(left) = order.len().checked_sub(WINDOW + 1) {
            around(order[left]).for_each(|near| {
                let score = &mut scores[near as usize];
                *score = score.saturating_sub(1);
            });
        }
    }
    order
}
