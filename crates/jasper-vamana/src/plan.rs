//! How a search call is executed, on any executor: by graph or by scan, and which vertices may be answers.

use jasper_core::{Element, Key, VectorId};
use jasper_graph::Graph;

use crate::{Distances, Filter, Hit, MatchesMut, SearchError, SearchParams, TunedLaunch};

/// A search call prepared for execution: graph, parameters and strategy, decided once for all its queries.
#[derive(Clone, Copy, Debug)]
pub struct SearchPlan<'a, T: Element> {
    graph: &'a Graph<T>,
    params: SearchParams<'a>,
    strategy: Strategy,
    /// How many of what estimates find get exact distances; none where there are no estimates.
    rerank: Option<usize>,
    /// Answers there are to a query, at most.
    most: usize,
}

/// How the queries of a call are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Beam search with a frontier of this width, wide enough that what it may return is as much as was asked for.
    Beam(usize),
    /// Distances to every point that may be returned.
    Scan,
}

/// Live slots looked at to tell how many keys a filter lets through.
const FILTER_SAMPLE: usize = 1024;
/// Distances that one expansion costs about, for the choice between graph and scan.
const DISTANCES_PER_HOP: usize = 24;
/// Calls of a filter that cost about as much as one distance.
const FILTER_CALLS_PER_DISTANCE: usize = 8;

impl<'a, T: Element> SearchPlan<'a, T> {
    /// Plans a search of `graph`. The beam is at most `widest`: where tombstones, a filter or a large `k` would need a wider one,
    /// it is limited, and missing results are found by a scan.
    ///
    /// # Errors
    /// [`SearchError::NoAnswers`], [`SearchError::BeamWidth`], [`SearchError::Widest`], [`SearchError::NoCodes`],
    /// [`SearchError::Vector`] if exact distances are requested of an index that has only codes.
    pub fn new(graph: &'a Graph<T>, params: SearchParams<'a>, widest: usize) -> Result<Self, SearchError> {
        let params = params.within(widest);
        let SearchParams { k, beam_width, .. } = params;
        if k == 0 {
            return Err(SearchError::NoAnswers);
        }
        if beam_width < k {
            return Err(SearchError::BeamWidth { beam_width, k });
        }
        if beam_width > widest {
            return Err(SearchError::Widest { beam_width, widest });
        }
        let rerank = match (params.distances, graph.vectors().codes()) {
            (Distances::Exact, _) | (Distances::Auto, None) => {
                graph.require_vectors()?;
                None
            }
            (_, Some(_)) if !graph.has_vectors() => Some(0),
            (Distances::Auto, Some(_)) => Some(usize::MAX),
            (Distances::Quantized { rerank }, Some(_)) => Some(rerank),
            (Distances::Quantized { .. }, None) => return Err(SearchError::NoCodes),
        };
        Ok(Self {
            graph,
            params,
            strategy: choose(graph, params, widest),
            rerank,
            most: graph.keys().len().min(k),
        })
    }

    /// The graph that is asked.
    pub fn graph(&self) -> &'a Graph<T> {
        self.graph
    }

    /// Answers wanted for each query.
    pub fn k(&self) -> usize {
        self.params.k
    }

    /// How queries are answered.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Whether vertices are found by estimates, and how many of the nearest then get exact distances.
    pub fn rerank(&self) -> Option<usize> {
        self.rerank
    }

    /// How a GPU is to share the work out, if that is said.
    pub fn launch(&self) -> Option<TunedLaunch> {
        self.params.launch
    }

    /// Whether every vertex may be an answer.
    pub fn allows_all(&self) -> bool {
        self.params.filter.is_none() && self.graph.keys().tombstones() == 0
    }

    /// Whether a filter decides which keys may be answers.
    pub fn is_filtered(&self) -> bool {
        self.params.filter.is_some()
    }

    /// Whether a vertex may be an answer: it is live, and one of its keys passes the filter.
    pub fn allows(&self, slot: VectorId) -> bool {
        self.graph.keys().keys_of(slot).any(|key| self.accepts(key))
    }

    /// All vertices that may be answers, rising: what a scan looks at.
    pub fn matching(&self) -> impl Iterator<Item = VectorId> {
        self.graph.keys().live_slots().filter(|&slot| self.allows(slot))
    }

    /// Checks that both arrays of `matches` have `k` entries per query.
    ///
    /// # Errors
    /// [`SearchError::Buffer`].
    pub fn check_size(&self, queries: usize, matches: &MatchesMut<'_>) -> Result<(), SearchError> {
        let k = self.k();
        let expected = queries.checked_mul(k);
        let given = matches.len(expected.unwrap_or(usize::MAX));
        if expected == Some(given) { Ok(()) } else { Err(SearchError::Buffer { given, queries, k }) }
    }

    /// Writes the hits of one query into its `row`: the keys that may be returned of the vertices `found`, nearest first.
    /// Returns the number of hits written.
    pub fn fill(&self, found: impl Iterator<Item = (VectorId, f32)>, row: &mut MatchesMut<'_>) -> usize {
        let hits = found.flat_map(|(slot, distance)| {
            self.graph.keys().keys_of(slot).map(move |key| Hit { key, distance })
        });
        row.fill(hits.filter(|hit| self.accepts(hit.key)))
    }

    /// Whether a scan may find more than these `filled` answers of one query.
    pub fn wants_scan(&self, filled: usize) -> bool {
        filled < self.most && (self.strategy == Strategy::Scan || !self.allows_all())
    }

    fn accepts(&self, key: Key) -> bool {
        self.params.filter.is_none_or(|filter| filter.accepts(key))
    }
}

/// Graph or scan, by what each costs in distances. Without a filter and tombstones always the graph, as asked.
fn choose<T: Element>(graph: &Graph<T>, params: SearchParams<'_>, widest: usize) -> Strategy {
    let passing = params.filter.map_or(1.0, |filter| share_passing(graph, filter));
    // A frontier never holds more than there is.
    let vertices = (graph.keys().live() + graph.keys().tombstones()).max(1);
    let live = graph.keys().live() as f64 / vertices as f64;
    let share = passing * live;
    if share == 1.0 {
        return Strategy::Beam(params.beam_width.min(vertices));
    }
    let scan =
        graph.keys().live() as f64 * passing + (graph.keys().live() / FILTER_CALLS_PER_DISTANCE) as f64;
    let wide = (params.beam_width as f64 / share).ceil();
    if passing < 1.0 && scan <= wide * DISTANCES_PER_HOP as f64 || !wide.is_finite() {
        return Strategy::Scan;
    }
    Strategy::Beam((wide as usize).min(vertices).min(widest))
}

/// The share of keys that a filter lets through: of all live slots, or of a sample.
///
/// The sample follows multiples of the golden ratio, which are spread evenly and do not alias with periodic keys:
/// sampling every fifth slot would misjudge a filter of every fifth key.
fn share_passing<T: Element>(graph: &Graph<T>, filter: Filter<'_>) -> f64 {
    let slots = graph.slots();
    let place = |i: usize| {
        let share = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if slots <= FILTER_SAMPLE { i } else { ((u128::from(share) * slots as u128) >> 64) as usize }
    };
    let sample = (0..slots.min(FILTER_SAMPLE)).map(|i| VectorId::from_index(place(i)));
    let sample = sample.filter(|&slot| graph.keys().is_live(slot));
    let (mut asked, mut passed) = (0, 0);
    for slot in sample {
        asked += 1;
        passed += usize::from(graph.keys().keys_of(slot).any(|key| filter.accepts(key)));
    }
    if asked == 0 { 0.0 } else { f64::from(passed as u32) / f64::from(asked as u32) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyFilter, Matches};
    use jasper_core::{BuildParams, Metric};

    /// `n` vertices without edges, under the keys 0 to n.
    fn graph(n: u64) -> Graph<u8> {
        let mut graph = Graph::new(Metric::L2, 16, BuildParams::default()).unwrap();
        for key in 0..n {
            let slot = graph.add_vector(&[key as u8; 16], 0.0).unwrap();
            graph.keys_mut().assign(key, slot).unwrap();
        }
        graph
    }

    fn strategy(graph: &Graph<u8>, params: SearchParams<'_>, widest: usize) -> Strategy {
        SearchPlan::new(graph, params, widest).unwrap().strategy()
    }

    #[test]
    fn a_frontier_is_as_wide_as_what_it_may_not_return_asks_and_no_wider_than_the_executor_has() {
        let mut graph = graph(4000);
        let params = SearchParams::new(10);
        assert_eq!(strategy(&graph, params, 64), Strategy::Beam(64));
        assert_eq!(strategy(&graph, params.beam_width(5000), usize::MAX), Strategy::Beam(4000));
        (0..3000).for_each(|key| graph.keys_mut().delete(key).unwrap());
        assert_eq!(strategy(&graph, params, usize::MAX), Strategy::Beam(256));
        assert_eq!(strategy(&graph, params, 200), Strategy::Beam(200));
        (3000..4000).for_each(|key| graph.keys_mut().delete(key).unwrap());
        assert_eq!(strategy(&graph, params, usize::MAX), Strategy::Scan);
    }

    #[test]
    fn a_frontier_that_nobody_asked_for_is_as_wide_as_there_is() {
        let graph = graph(2000);
        assert_eq!(strategy(&graph, SearchParams::new(1000), usize::MAX), Strategy::Beam(2000));
        for k in [513, 1000, 1024] {
            assert_eq!(strategy(&graph, SearchParams::new(k), 1024), Strategy::Beam(1024), "{k}");
        }
        for params in [SearchParams::new(1025), SearchParams::new(1000).beam_width(1025)] {
            assert!(matches!(SearchPlan::new(&graph, params, 1024), Err(SearchError::Widest { .. })));
        }
    }

    #[test]
    fn a_filter_that_few_pass_makes_a_scan_and_names_what_it_looks_at() {
        let mut graph = graph(1000);
        graph.keys_mut().delete(501).unwrap();
        let keys: KeyFilter = [7, 500, 501].into_iter().collect();
        let params = SearchParams::new(2).filter(Filter::Keys(&keys));
        let plan = SearchPlan::new(&graph, params, usize::MAX).unwrap();
        assert_eq!(plan.strategy(), Strategy::Scan);
        assert_eq!(plan.matching().map(VectorId::index).collect::<Vec<_>>(), [7, 500]);
        assert!(plan.wants_scan(1) && !plan.wants_scan(2));
        let mut matches = Matches::new(1, 2).unwrap();
        let found = [(VectorId::new(501), 1.0), (VectorId::new(3), 2.0), (VectorId::new(500), 3.0)];
        assert_eq!(plan.fill(found.into_iter(), &mut matches.as_mut()), 1);
        assert_eq!(matches.hits(0).collect::<Vec<_>>(), [Hit { key: 500, distance: 3.0 }]);
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        let graph = graph(1);
        let told = |params, widest| SearchPlan::new(&graph, params, widest).unwrap_err().to_string();
        assert!(told(SearchParams::new(0), 10).starts_with("k (0)"));
        assert!(
            told(SearchParams::new(10).beam_width(9), 10)
                .starts_with("beam_width (9) must be at least k (10)")
        );
        let wide = told(SearchParams::new(10).beam_width(2000), 1024);
        assert!(wide.contains("at most 1024") && wide.ends_with("search on the cpu"), "{wide}");
    }
}
