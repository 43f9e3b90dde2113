//! Effort that follows the data: the beam width of a bulk build, L, is doubled while its searches miss neighbors.
//!
//! ```text
//! whenever the number of linked vertices has doubled, from 16,384 on:
//!     for each of a sample of the next vertices, which are in random order:
//!         wide   <- its 10 nearest found with a beam of 8 L
//!         missed += those of wide that are not among its 10 nearest found with a beam of 2 L
//!     double L if more than 3 in 10,000 were missed; to 512 if more than 3 in 1,000
//! ```
//!
//! A beam of 2 L finds all neighbors in a graph of good edges, whatever the dimension of the data. What it misses is
//! out of reach: vertices to which few edges lead, because a search for their neighbors had not found them. A wider L
//! finds them. On data where neighbors are many and equally near, a narrow beam misses some too, but one of 2 L does
//! not, and a wider L would not help (docs/notebook/experiments.md#effort-that-follows-the-data).
//!
//! Three quarters of all vertices are linked after the last decision but one, so that those linked before need no
//! second pass.

use jasper_core::synthetic::Permutation;
use jasper_core::{Element, Slot};
use jasper_graph::Graph;

use crate::compiled::Compiled;
use crate::{CpuExecutor, Executor, GraphAccess, MutableGraph, UpdateError};

/// Vertices that are linked before the first decision. In a smaller graph, every search finds nearly all.
const FIRST_DECISION: usize = 16_384;
/// One vertex in this many is sampled, at most [`MAX_SAMPLE`].
const SAMPLE_DIVISOR: usize = 64;
const MAX_SAMPLE: usize = 1024;
/// Neighbors per vertex that must be found.
const NEIGHBORS: usize = 10;
/// The share of neighbors that searches of 2 L may miss. Sets for which a wider L pays miss 0.0005 to 0.01, others none.
const MAX_MISSED: f64 = 0.0003;
/// The same for a build that would become as wide as [`WIDEST`], which takes four times as long as one of 128.
const MAX_MISSED_IF_WIDEST: f64 = 0.003;
/// So many may be missed by chance.
const FEW_MISSED: usize = 2;
/// The widest beam that finds the neighbors to compare with: the widest of a device.
const MAX_WIDE: usize = 1024;
/// Vertices that [`missed_neighbors`] samples, and the beam that it compares.
const CHECKED: usize = 256;
const CHECKED_BEAM: usize = 256;
/// L is not raised beyond this.
const WIDEST: usize = 512;

/// The beam width of a bulk build, and what was decided about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effort {
    is_adaptive: bool,
    /// The share of neighbors that the last sample missed.
    missed: Option<f64>,
}

/// Whether a decision is due after a batch.
pub(crate) fn is_due(linked_before: usize, linked: usize) -> bool {
    linked >= FIRST_DECISION && linked_before.checked_ilog2() < linked.checked_ilog2()
}

impl Effort {
    /// L stays as the parameters say.
    pub fn fixed() -> Self {
        Self::default()
    }

    /// L starts as the parameters say, and is doubled up to 512 while searches miss neighbors.
    pub fn adaptive() -> Self {
        Self { is_adaptive: true, missed: None }
    }

    /// The widest L of a build of `vertices` vertices that starts with `beam_width`.
    pub fn widest(&self, vertices: usize, mut beam_width: usize) -> usize {
        while self.is_adaptive && vertices > FIRST_DECISION && 2 * beam_width <= WIDEST {
            beam_width *= 2;
        }
        beam_width
    }

    /// The share of the nearest neighbors of a sample that searches with a beam of 2 L missed, when it was last
    /// measured.
    pub fn missed(&self) -> Option<f64> {
        self.missed
    }

    /// Doubles L if it is not enough for the first of the `next` vertices.
    pub(crate) fn adapt<T: Element, E: Executor<T>>(
        &mut self,
        executor: &E,
        graph: &mut dyn GraphAccess<E::Graph>,
        linked: usize,
        next: &[Slot],
    ) -> Result<(), UpdateError> {
        let beam_width = graph.read(|graph| graph.host().params().build_beam_width());
        let doubled = 2 * beam_width;
        let sample = &next[..next.len().min(linked / SAMPLE_DIVISOR).min(MAX_SAMPLE)];
        if !self.is_adaptive || doubled > WIDEST || sample.is_empty() {
            return Ok(());
        }
        let counts = graph.read(|graph| count_missed(executor, graph, sample, doubled));
        let (missed, total) = counts.map_err(UpdateError::device)?;
        self.missed = Some(missed as f64 / total);
        let allowed = if doubled == WIDEST { MAX_MISSED_IF_WIDEST } else { MAX_MISSED };
        if missed > FEW_MISSED.max((allowed * total) as usize) {
            graph.change_host(|host| host.set_build_beam_width(doubled)).map_err(UpdateError::device)?;
        }
        Ok(())
    }
}

/// The difficulty of the data of a graph. Of the 10 nearest neighbors of a sample of its vertices, this is the share that
/// a beam of 1,024 finds and one of 256 misses: 0 where neighbors are easily found, 0.01 where few searches find all. `None` if there are fewer than two vertices, or no vectors.
///
/// Cost: 512 searches. Runs on the threads of the executor.
pub fn missed_neighbors<T: Element>(executor: &CpuExecutor, graph: &Graph<T>) -> Option<f64> {
    (Compiled::get().missed_neighbors)(executor, graph)
}

/// [`missed_neighbors`].
pub(crate) fn missed<T: Element>(executor: &CpuExecutor, graph: &Graph<T>) -> Option<f64> {
    let vertices: Vec<Slot> = graph.keys().live_slots().collect();
    if vertices.len() < 2 || !graph.has_vectors() {
        return None;
    }
    let order = Permutation::new(vertices.len(), graph.params().seed());
    let sample = 0..vertices.len().min(CHECKED) as u32;
    let sample: Vec<Slot> = sample.map(|position| vertices[order.at(position) as usize]).collect();
    let Ok((missed, total)) = count_missed(executor, graph, &sample, CHECKED_BEAM);
    Some(missed as f64 / total)
}

/// How many of the nearest neighbors of some vertices, found with a beam of four times this width or the widest, searches
/// with this one miss; and how many there are, at least 1.
fn count_missed<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &E::Graph,
    sample: &[Slot],
    beam_width: usize,
) -> Result<(usize, f64), E::Error> {
    let mut sample = sample.to_vec();
    sample.sort_unstable();
    let nearest = |beam_width| -> Result<_, E::Error> {
        let candidates = executor.find_candidates(graph, &sample, beam_width)?;
        let mut nearest = executor.nearest_candidates(candidates, NEIGHBORS)?;
        // Executors return them in orders of their own.
        nearest.sort_unstable_by_key(|(vertex, _)| *vertex);
        Ok(nearest)
    };
    let (found, wide) = (nearest(beam_width)?, nearest((4 * beam_width).min(MAX_WIDE))?);
    let pairs = found.iter().zip(&wide);
    let missed = pairs.flat_map(|((_, found), (_, wide))| wide.iter().filter(|near| !found.contains(near)));
    let total: usize = wide.iter().map(|(_, wide)| wide.len()).sum();
    Ok((missed.count(), total.max(1) as f64))
}
