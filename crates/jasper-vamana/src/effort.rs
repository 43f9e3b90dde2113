//! Effort that follows the data: the beam width of a bulk build, L, is raised if its searches miss neighbors.
//!
//! ```text
//! after the first pass, for each of a sample of the vertices:
//!     wide   <- its 10 nearest found with a beam of 8 L
//!     missed += those of wide that are not among its 10 nearest found with a beam of 2 L
//! if more than 3 in 1,000 were missed: double L
//! if more than 12 in 1,000:            double it again        grows with the dimension beyond 256
//! if more than 6 in 100:               widen alpha, if prunes leave few edges
//! ```
//!
//! The sample consists of the vertices that were linked last. Their rows hold what their prune kept, and hardly any
//! edges that later vertices would have added.
//!
//! Under inner products there is one pass. Then this is decided whenever the number of linked vertices has doubled,
//! from 16,384 on, by a sample of those that are linked next: L is doubled if more than 3 in 10,000 were missed, and
//! to 512 if more than 3 in 1,000.
//!
//! A beam of 2 L finds all neighbors in a graph of good edges, whatever the dimension of the data. What it misses is
//! out of reach: vertices to which few edges lead, because a search for their neighbors had not found them. A wider
//! second pass finds them. On data where neighbors are many and equally near, a narrow beam misses some too, but one of
//! 2 L does not, and a wider L would not help (docs/notebook/experiments.md#effort-that-follows-the-data). The second
//! doubling pays less, and its cost grows with the length of rows
//! (docs/notebook/experiments.md#a-second-doubling-of-l).

use std::ops::Range;

use jasper_core::synthetic::Permutation;
use jasper_core::{Element, Metric, Slot, defaults};
use jasper_graph::Graph;

use crate::compiled::Compiled;
use crate::{CandidateSearch, CpuExecutor, Executor, GraphAccess, MutableGraph, UpdateError};

/// In a graph of fewer vertices, every search finds nearly all.
const MIN_VERTICES: usize = 16_384;
/// One vertex in this many is sampled, at most [`MAX_SAMPLE`].
const SAMPLE_DIVISOR: usize = 64;
const MAX_SAMPLE: usize = 1024;
/// Neighbors per vertex that must be found.
const NEIGHBORS: usize = 10;
/// The share of neighbors that searches of 2 L may miss before L is doubled, and before it is doubled again. For rows
/// of more than [`SHORT_DIMENSION`] dimensions the second grows in proportion.
const MAX_MISSED: [f64; 2] = [0.003, 0.012];
const SHORT_DIMENSION: usize = 256;
/// The same while vertices are linked in one pass: the share before L is doubled, and before it becomes [`WIDEST`].
const MAX_MISSED_IN_ONE_PASS: [f64; 2] = [0.0003, 0.003];
/// The share that may be missed before alpha is widened.
const MAX_MISSED_OF_THIN: f64 = 0.06;
/// So many may be missed by chance.
const FEW_MISSED: usize = 2;
/// The widest beam that finds the neighbors to compare with: the widest of a device.
const MAX_WIDE: usize = 1024;
/// Vertices that [`missed_neighbors`] samples, and the beam that it compares.
const CHECKED: usize = 256;
const CHECKED_BEAM: usize = 256;
/// L is not raised beyond this.
const WIDEST: usize = 512;
/// Rows are thin if prunes leave them fewer than this share of the edges that they could have.
const THIN: f64 = 0.4;

/// The beam width and alpha of a bulk build, and what was decided about them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effort {
    /// Whether L may be raised.
    is_adaptive: bool,
    /// Whether alpha may be raised with it.
    may_widen: bool,
    /// The share of neighbors that the last sample missed.
    missed: Option<f64>,
}

impl Effort {
    /// L and alpha stay as the parameters say.
    pub fn fixed() -> Self {
        Self::default()
    }

    /// L and alpha start as the parameters say, and are raised, L up to 512, if searches miss neighbors.
    pub fn adaptive() -> Self {
        Self { is_adaptive: true, may_widen: true, missed: None }
    }

    /// The same for L, with alpha as the parameters say.
    #[must_use]
    pub fn with_fixed_alpha(self) -> Self {
        Self { may_widen: false, ..self }
    }

    /// An upper bound of L in a build of `vertices` vertices that starts with `beam_width`.
    pub fn widest(&self, vertices: usize, mut beam_width: usize) -> usize {
        while self.is_adaptive && vertices > MIN_VERTICES && 2 * beam_width <= WIDEST {
            beam_width *= 2;
        }
        beam_width
    }

    /// Whether alpha may become [`defaults::WIDE_ALPHA`] in a build that starts with `alpha`.
    pub(crate) fn may_widen(&self, alpha: f32) -> bool {
        self.may_widen && alpha < defaults::WIDE_ALPHA
    }

    /// The share of the nearest neighbors of a sample that searches with a beam of 2 L missed, when it was last
    /// measured.
    pub fn missed(&self) -> Option<f64> {
        self.missed
    }

    /// Raises L if a decision is due, now that the vertices `linked` of the order were linked as well, and searches
    /// miss neighbors.
    pub(crate) fn adapt<T: Element, E: Executor<T>>(
        &mut self,
        executor: &E,
        graph: &mut dyn GraphAccess<E::Graph>,
        order: &[Slot],
        linked: Range<usize>,
    ) -> Result<(), UpdateError> {
        let (params, metric, dimension) =
            graph.read(|graph| (*graph.host().params(), graph.host().metric(), graph.host().dimension()));
        let doubled = 2 * params.build_beam_width();
        if !self.is_adaptive || doubled > WIDEST || linked.end < MIN_VERTICES {
            return Ok(());
        }
        let sample_len = (linked.end / SAMPLE_DIVISOR).min(MAX_SAMPLE);
        let (sample, allowed) = match metric {
            Metric::InnerProduct if linked.start.checked_ilog2() < linked.end.checked_ilog2() => {
                let next = &order[linked.end..];
                let allowed = MAX_MISSED_IN_ONE_PASS[usize::from(doubled == WIDEST)];
                (&next[..next.len().min(sample_len)], [allowed, f64::INFINITY, f64::INFINITY])
            }
            Metric::L2 | Metric::Cosine if linked.end == order.len() => {
                let [once, twice] = MAX_MISSED;
                let twice = twice * dimension.max(SHORT_DIMENSION) as f64 / SHORT_DIMENSION as f64;
                (&order[order.len() - sample_len..], [once, twice, MAX_MISSED_OF_THIN])
            }
            _ => return Ok(()),
        };
        if sample.is_empty() {
            return Ok(());
        }
        let counts = graph.read(|graph| count_missed(executor, graph, sample, doubled));
        let (missed, total) = counts.map_err(UpdateError::device)?;
        self.missed = Some(missed as f64 / total);
        let [once, twice, may_widen] =
            allowed.map(|allowed| missed > FEW_MISSED.max((allowed * total) as usize));
        if !once {
            return Ok(());
        }
        let beam_width = if twice && 2 * doubled <= WIDEST { 2 * doubled } else { doubled };
        let mut alpha = params.alpha();
        if may_widen && self.may_widen(alpha) {
            let rows = graph.read(|graph| executor.edge_rows(graph, sample)).map_err(UpdateError::device)?;
            let edges: usize = rows.iter().map(Vec::len).sum();
            let is_thin = (edges as f64) < THIN * (sample.len() * params.max_degree()) as f64;
            if is_thin {
                alpha = defaults::WIDE_ALPHA;
            }
        }
        graph.change_host(|host| host.set_effort(beam_width, alpha)).map_err(UpdateError::device)
    }
}

/// The difficulty of the data of a graph. Of the 10 nearest neighbors of a sample of its vertices, this is the share
/// that a beam of 1,024 finds and one of 256 misses: 0 where neighbors are easily found, 0.01 where few searches find
/// all. `None` if there are fewer than two vertices, or no vectors.
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
        let candidates = executor.find_candidates(graph, &sample, CandidateSearch::new(beam_width))?;
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
