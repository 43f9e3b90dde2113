//! Compares every frontier with the definition: the nearest of all entries offered, each expanded at most once, while
//! it is in the beam.

use std::collections::BTreeMap;
use std::sync::Mutex;

use cuda_std::emulator::Emulator;
use cuda_std::prelude::*;
use jasper_core::{Neighbor, Slot, synthetic};
use rand::{Rng, RngExt};

use super::buffered_list::BufferedList;
use super::frontier::Frontier;
use super::register_list::RegisterList;
use super::sorted_list::SortedList;
use crate::WARP_SIZE;
use crate::neighbor::NO_ENTRY;

/// Entries that fit into shared memory: enough for every frontier.
const FRONTIER: u32 = 2 << 10;

/// An operation on a frontier.
enum Step {
    /// Offers an entry per lane.
    Offer(Vec<u64>),
    Pick,
}

/// The entries that a frontier expanded, in order.
type Answers = Vec<u64>;

/// The definition: every vertex offered, in order, and whether it was expanded.
#[derive(Default)]
struct Model(BTreeMap<u64, bool>);

impl Model {
    fn results(&mut self, steps: &[Step], len: u32, beam_width: u32) -> Answers {
        let mut results = Answers::new();
        for step in steps {
            match step {
                Step::Offer(entries) => {
                    for entry in entries.iter().filter(|entry| **entry != NO_ENTRY) {
                        self.0.entry(*entry).or_default();
                    }
                }
                Step::Pick => {
                    let mut nearest = self.0.iter_mut().take(beam_width as usize).filter(|entry| !*entry.1);
                    results.push(nearest.next().map_or(NO_ENTRY, |(entry, visited)| {
                        *visited = true;
                        *entry
                    }));
                }
            }
        }
        let entries = self.0.iter().map(|(entry, visited)| entry & !u64::from(*visited));
        results.extend(entries.take(len as usize));
        results
    }
}

/// The entries that `F` expanded, and its entries at the end.
fn results<F: Frontier>(steps: &[Step], len: u32, beam_width: u32, seed: u64) -> Answers {
    let results = Mutex::new(Answers::new());
    let answer = |entry| results.lock().unwrap().push(entry);
    // SAFETY: one warp with memory of its own, which is converged, since conditions are the same in all lanes.
    let run = || unsafe {
        let lane = warp::lane_id();
        let memory = shared::dynamic_shared_mem::<u64>();
        let mut frontier = F::new(len, beam_width, memory);
        for step in steps {
            match step {
                Step::Offer(entries) => frontier.offer(entries[lane as usize]),
                Step::Pick => {
                    let entry = frontier.take_nearest();
                    if lane == 0 {
                        answer(entry);
                    }
                }
            }
        }
        frontier.flush();
        for place in 0..len {
            let entry = frontier.entry(place);
            if lane == 0 && entry != NO_ENTRY {
                answer(entry);
            }
        }
    };
    let shared = FRONTIER * size_of::<u64>() as u32;
    Emulator::new(seed).launch("frontier", (1, 1), WARP_SIZE, shared, run).unwrap();
    results.into_inner().unwrap()
}

/// Steps like those of a search: neighbors repeat, come from far to near, and many have equal distances. One lane in
/// `fill` offers an entry; one vertex or several are expanded at a time.
fn steps(rng: &mut impl Rng, len: usize, vertices: u32, fill: u32) -> Vec<Step> {
    let entry = |id: u32| Neighbor::new((id / 4) as f32 - 10.0, Slot::new(id ^ 3)).to_bits();
    let mut all = Vec::new();
    for at in 0..len {
        let nearest = vertices - vertices * at as u32 / len as u32;
        for _ in 0..rng.random_range(0..3) {
            let lane = |_| {
                let id = rng.random_range(nearest / 2..vertices);
                if rng.random_range(0..fill) == 0 { entry(id) } else { NO_ENTRY }
            };
            all.push(Step::Offer((0..WARP_SIZE).map(lane).collect()));
        }
        let picks = rng.random_range(0..4);
        all.extend((0..picks).map(|_| Step::Pick));
    }
    // Until no vertex is left to expand.
    if rng.random() {
        all.extend((0..vertices).map(|_| Step::Pick));
    }
    all
}

fn agrees<F: Frontier>(lengths: &[u32]) {
    let beams = |&len: &u32| [len, len / 3 + 1].map(|beam_width| (len, beam_width));
    for ((len, beam_width), seed) in lengths.iter().flat_map(beams).zip(0..) {
        for (vertices, fill) in [(len / 2 + 1, 2), (len + len / 3 + 40, 1), (len * 4 + 40, 8)] {
            let mut rng = synthetic::rng(seed);
            let steps = steps(&mut rng, 60, vertices, fill);
            let expected = Model::default().results(&steps, len, beam_width);
            let found = results::<F>(&steps, len, beam_width, seed);
            assert_eq!(
                found, expected,
                "beam {beam_width} of {len}, {vertices} vertices, one entry in {fill}"
            );
        }
    }
}

#[test]
fn registers_hold_the_nearest_of_all() {
    agrees::<RegisterList<1>>(&[1, 2, 7, 31, 32]);
    agrees::<RegisterList<2>>(&[1, 33, 63, 64]);
    agrees::<RegisterList<4>>(&[1, 65, 100, 127, 128]);
}

#[test]
fn shared_memory_holds_the_nearest_of_all() {
    let lengths = [1, 2, 31, 32, 33, 65, 129, 200, 500, 777, 1023, 1024];
    agrees::<BufferedList>(&lengths);
    agrees::<SortedList>(&lengths);
}
