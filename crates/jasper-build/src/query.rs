//! Answers for users: the nearest live keys, past tombstones and through filters.

use jasper_core::{BitSet, Element, Key, MatrixView, NO_KEY, Neighbor, VectorId};
use jasper_graph::{Graph, RowError, Scorer};
use rayon::prelude::*;

use crate::cpu::{Beam, Scratch, TOGETHER, order_by_nearness};
use crate::{CpuExecutor, Work};

/// What is asked of a search.
///
/// ```
/// use jasper_build::{Filter, SearchParams};
/// let even = |key| key % 2 == 0;
/// let params = SearchParams::new(10).beam_width(100).filter(Filter::Matching(&even));
/// assert_eq!((params.k, params.beam_width), (10, 100));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SearchParams<'a> {
    /// Answers wanted for each query; at least 1.
    pub k: usize,
    /// Frontier of the search: recall against time. At least `k`.
    pub beam_width: usize,
    /// Which keys may be answers; all, if none.
    pub filter: Option<Filter<'a>>,
}

impl<'a> SearchParams<'a> {
    /// `k` answers, with a frontier of 64 or, where that is more, of 2 `k`: recall near 0.99 on most data.
    pub const fn new(k: usize) -> Self {
        Self { k, beam_width: if k > 32 { k.saturating_mul(2) } else { 64 }, filter: None }
    }

    /// Sets the frontier: recall against time, nearly in proportion.
    #[must_use]
    pub const fn beam_width(mut self, beam_width: usize) -> Self {
        self.beam_width = beam_width;
        self
    }

    /// Returns only keys that pass. A filter that few pass is answered by an exact scan of those.
    #[must_use]
    pub const fn filter(mut self, filter: Filter<'a>) -> Self {
        self.filter = Some(filter);
        self
    }
}

/// Which keys may be answers.
#[derive(Clone, Copy)]
pub enum Filter<'a> {
    /// The keys in a set.
    Keys(&'a BitSet),
    /// The keys of which this is true. Called from many threads, more than once for a key, in any order.
    Matching(&'a (dyn Fn(Key) -> bool + Sync)),
}

impl Filter<'_> {
    /// Whether `key` may be an answer.
    pub fn accepts(&self, key: Key) -> bool {
        match self {
            Self::Keys(keys) => usize::try_from(key).is_ok_and(|key| keys.contains(key)),
            Self::Matching(matches) => matches(key),
        }
    }
}

impl std::fmt::Debug for Filter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Keys(keys) => write!(f, "{} keys", keys.len()),
            Self::Matching(_) => f.write_str("a predicate"),
        }
    }
}

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// The vector's key.
    pub key: Key,
    /// Its distance: squared L2, negated inner product, or 1 - cos.
    pub distance: f32,
}

impl Hit {
    /// The place of an answer that there is none for.
    pub const NONE: Self = Self { key: NO_KEY, distance: f32::INFINITY };
}

/// A search was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// Nothing is asked for.
    #[error("k (0) must be at least 1")]
    NoAnswers,
    /// The frontier cannot hold the answers.
    #[error("beam_width ({beam_width}) must be at least k ({k}); raise beam_width or lower k")]
    BeamWidth {
        /// Frontier asked for.
        beam_width: usize,
        /// Answers asked for.
        k: usize,
    },
    /// The caller's buffer has another size.
    #[error("the buffer holds {given} answers where {queries} queries of k ({k}) need {}", queries.saturating_mul(*k))]
    Buffer {
        /// Answers the buffer holds.
        given: usize,
        /// Queries asked.
        queries: usize,
        /// Answers a query.
        k: usize,
    },
    /// There is no memory for so many answers.
    #[error(
        "no memory for the answers of {queries} queries of k ({k}); lower k, or ask fewer queries at once"
    )]
    Memory {
        /// Queries asked.
        queries: usize,
        /// Answers a query.
        k: usize,
    },
    /// A query cannot be searched for.
    #[error("query: {0}")]
    Row(#[from] RowError),
}

/// What a search was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchReport {
    /// What it cost, all queries together.
    pub work: Work,
    /// Queries that were answered by an exact scan, because so few points match that it is cheaper or surer.
    pub scanned: usize,
}

/// Live slots looked at to tell how many keys a filter lets through.
const FILTER_SAMPLE: usize = 1024;
/// Distances that one expansion costs about, for the choice between graph and scan.
const DISTANCES_PER_HOP: usize = 24;
/// Calls of a filter that cost about as much as one distance.
const FILTER_CALLS_PER_DISTANCE: usize = 8;

/// How queries of one call are answered: worked out once for all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plan {
    /// Beam search with a frontier of this width, wide enough that what it may return is as much as was asked for.
    Beam(usize),
    /// Distances to every point that may be returned.
    Scan,
}

impl CpuExecutor {
    /// Answers every row of `queries` into `hits`, `k` places a query: nearest first, by (distance, vertex), then
    /// [`Hit::NONE`].
    ///
    /// Queries run in parallel; the answers do not depend on how many there are.
    ///
    /// # Errors
    /// [`SearchError`]; what `hits` holds then means nothing.
    pub fn answer<T: Element>(
        &self,
        graph: &Graph<T>,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, SearchError> {
        params.check()?;
        if queries.len().checked_mul(params.k) != Some(hits.len()) {
            return Err(SearchError::Buffer { given: hits.len(), queries: queries.len(), k: params.k });
        }
        let plan = params.plan(graph);
        let rows: Vec<_> = queries.rows().collect();
        let order = order_by_nearness(&rows);
        let mut places: Vec<Option<&mut [Hit]>> = hits.chunks_mut(params.k).map(Some).collect();
        let mut tasks: Vec<Task<'_, T>> = order
            .into_iter()
            .map(|row| row as usize)
            .filter_map(|row| Some(Task { row, vector: rows[row], hits: places[row].take()? }))
            .collect();
        if let [task] = &mut tasks[..] {
            return self
                .with_scratch(|scratch| scratch.answer(graph, std::slice::from_mut(task), params, plan));
        }
        let reports: Result<Vec<_>, SearchError> = self.pool().install(|| {
            tasks
                .par_chunks_mut(TOGETHER)
                .map(|tasks| self.with_scratch(|scratch| scratch.answer(graph, tasks, params, plan)))
                .collect()
        });
        Ok(reports?.into_iter().fold(SearchReport::default(), |mut sum, report| {
            sum += report;
            sum
        }))
    }

    /// The answers to one query: `k`, or as many as there are.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn answer_one<T: Element>(
        &self,
        graph: &Graph<T>,
        query: &[T],
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        params.check()?;
        let mut hits = vec![Hit::NONE; params.k.min(graph.keys())];
        let plan = params.plan(graph);
        let mut task = [Task { row: 0, vector: query, hits: &mut hits }];
        self.with_scratch(|scratch| scratch.answer(graph, &mut task, params, plan))?;
        hits.retain(|hit| *hit != Hit::NONE);
        Ok(hits)
    }
}

impl SearchParams<'_> {
    /// Empty places for the answers of some queries.
    ///
    /// # Errors
    /// [`SearchError::Memory`].
    pub fn places(&self, queries: usize) -> Result<Vec<Hit>, SearchError> {
        let no_memory = SearchError::Memory { queries, k: self.k };
        let Some(places) = queries.checked_mul(self.k) else { return Err(no_memory) };
        let mut hits = Vec::new();
        if hits.try_reserve_exact(places).is_err() {
            return Err(no_memory);
        }
        hits.resize(places, Hit::NONE);
        Ok(hits)
    }

    fn check(&self) -> Result<(), SearchError> {
        let Self { k, beam_width, .. } = *self;
        if k == 0 {
            return Err(SearchError::NoAnswers);
        }
        if beam_width < k { Err(SearchError::BeamWidth { beam_width, k }) } else { Ok(()) }
    }

    /// Graph or scan, by what each costs in distances. Without a filter and tombstones always the graph, as asked.
    fn plan<T: Element>(&self, graph: &Graph<T>) -> Plan {
        let passing = self.filter.map_or(1.0, |filter| share_passing(graph, filter));
        let live = graph.live() as f64 / (graph.live() + graph.hidden()).max(1) as f64;
        let share = passing * live;
        // A frontier never holds more than there is.
        let vertices = (graph.live() + graph.hidden()).max(1);
        if share == 1.0 {
            return Plan::Beam(self.beam_width.min(vertices));
        }
        let scan = graph.live() as f64 * passing + (graph.live() / FILTER_CALLS_PER_DISTANCE) as f64;
        let wide = (self.beam_width as f64 / share).ceil();
        if passing < 1.0 && scan <= wide * DISTANCES_PER_HOP as f64 || !wide.is_finite() {
            return Plan::Scan;
        }
        Plan::Beam((wide as usize).min(vertices))
    }

    fn accepts(&self, key: Key) -> bool {
        self.filter.is_none_or(|filter| filter.accepts(key))
    }
}

/// The share of keys that a filter lets through: of all live slots, or of a sample.
///
/// The sample follows multiples of the golden ratio, which spread evenly and beat in time with nothing: every fifth
/// slot would make a filter of every fifth key look like none at all.
fn share_passing<T: Element>(graph: &Graph<T>, filter: Filter<'_>) -> f64 {
    let slots = graph.slots();
    let place = |i: usize| {
        let share = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if slots <= FILTER_SAMPLE { i } else { ((u128::from(share) * slots as u128) >> 64) as usize }
    };
    let sample = (0..slots.min(FILTER_SAMPLE)).map(|i| VectorId::from_index(place(i)));
    let sample = sample.filter(|&slot| graph.is_live(slot));
    let (mut asked, mut passed) = (0, 0);
    for slot in sample {
        asked += 1;
        passed += usize::from(graph.keys_of(slot).any(|key| filter.accepts(key)));
    }
    if asked == 0 { 0.0 } else { f64::from(passed as u32) / f64::from(asked as u32) }
}

/// A query and the places for its answers.
struct Task<'a, T> {
    row: usize,
    vector: &'a [T],
    hits: &'a mut [Hit],
}

impl Scratch {
    /// Answers a few queries, at most [`TOGETHER`].
    fn answer<T: Element>(
        &mut self,
        graph: &Graph<T>,
        tasks: &mut [Task<'_, T>],
        params: SearchParams<'_>,
        plan: Plan,
    ) -> Result<SearchReport, SearchError> {
        let mut prepared: [Vec<T>; TOGETHER] = Default::default();
        for (prepared, task) in prepared.iter_mut().zip(&*tasks) {
            graph.prepare(task.row, task.vector, prepared)?;
        }
        let scorers: Vec<_> =
            prepared[..tasks.len()].iter().map(|prepared| graph.scorer(prepared).sketched()).collect();
        if let Plan::Beam(width) = plan {
            Beam::search(&mut self.beams, &scorers, graph, width);
        }
        let all_there_is = graph.keys().min(params.k);
        let mut report = SearchReport::default();
        for ((task, scorer), beam) in tasks.iter_mut().zip(&scorers).zip(&self.beams) {
            let mut filled = 0;
            if plan != Plan::Scan {
                report.work += beam.work();
                filled = fill(graph, beam.found(), params, task.hits);
            }
            if filled < all_there_is && (plan == Plan::Scan || params.filter.is_some() || graph.hidden() > 0)
            {
                let found = scan(graph, scorer, params, &mut report.work);
                filled = fill(graph, &found, params, task.hits);
                report.scanned += 1;
            }
            task.hits[filled..].fill(Hit::NONE);
        }
        Ok(report)
    }
}

/// Writes the keys of `found` that may be returned; gives how many.
fn fill<T: Element>(
    graph: &Graph<T>,
    found: &[Neighbor],
    params: SearchParams<'_>,
    hits: &mut [Hit],
) -> usize {
    let keys = found
        .iter()
        .flat_map(|near| graph.keys_of(near.id()).map(|key| Hit { key, distance: near.distance() }));
    let mut filled = 0;
    for (place, hit) in hits.iter_mut().zip(keys.filter(|hit| params.accepts(hit.key))) {
        *place = hit;
        filled += 1;
    }
    filled
}

/// The nearest `k` vertices with a key that may be returned, by looking at all.
fn scan<T: Element>(
    graph: &Graph<T>,
    scorer: &Scorer<'_, T>,
    params: SearchParams<'_>,
    work: &mut Work,
) -> Vec<Neighbor> {
    let matching: Vec<VectorId> =
        graph.live_slots().filter(|&slot| graph.keys_of(slot).any(|key| params.accepts(key))).collect();
    let mut distances = vec![0.0; matching.len()];
    scorer.score(&matching, &mut distances);
    work.distances += matching.len() as u64;
    let mut found: Vec<_> = distances.iter().zip(matching).map(|(&d, slot)| Neighbor::new(d, slot)).collect();
    if found.len() > params.k {
        found.select_nth_unstable(params.k - 1);
        found.truncate(params.k);
    }
    found.sort_unstable();
    found
}

impl std::ops::AddAssign for SearchReport {
    fn add_assign(&mut self, other: Self) {
        self.work += other.work;
        self.scanned += other.scanned;
    }
}
