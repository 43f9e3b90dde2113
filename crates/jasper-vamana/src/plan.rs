//! How a search call is executed, on the CPU or a device: by beam search or scan, and which vertices may be returned.

use std::fmt;
use std::sync::{Arc, OnceLock};

use jasper_core::{BitSet, ElementKind, Key, Slot};
use jasper_graph::{AllowedSlots, Graph};

use crate::cost_model::Workload;
use crate::filter::BoundFilter;
use crate::{CostModel, Distances, Filter, Hit, MatchesMut, SearchError, SearchParams};

/// A search call prepared for execution: graph, parameters and strategy, decided once for all its queries.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchPlan<'a> {
    /// The graph that is searched.
    pub graph: &'a Graph,
    /// The parameters of the call.
    pub params: SearchParams<'a>,
    /// How queries are executed.
    pub strategy: Strategy,
    /// For a quantized search, how many of the nearest candidates get exact distances; `None` if the search uses exact
    /// distances throughout.
    pub rerank: Option<usize>,
    /// The slots that the filter allows, if they are kept for other searches; `None` otherwise.
    pub key_filter_slots: Option<Arc<AllowedSlots>>,
    filter: BoundFilter<'a>,
    /// Whether a vertex may be returned only if the filter allows its first key.
    first_keys_only: bool,
    /// The vertices that may be returned, once a scan has listed them.
    listed: Arc<OnceLock<Vec<Slot>>>,
    cost_model: CostModel,
    work: Workload,
    /// Most hits that a query can have.
    max_hits: usize,
    /// Keys that the filter allows, about and at most.
    allowed_keys: (usize, usize),
}

/// How a search is executed, before it is: see [`SearchPlan::explain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Explanation {
    /// Keys in the index.
    pub keys: usize,
    /// Keys that the filter allows. An estimate if several conditions on attributes depend on each other, or the filter is
    /// a predicate.
    pub allowed: usize,
    /// No more keys than this are allowed.
    pub most_allowed: usize,
    /// The width of the beam, wider by the share of keys that are not allowed; `None` for an exact scan of those that are.
    pub beam_width: Option<usize>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keys, allowed, most_allowed, beam_width } = self;
        let about = if allowed == most_allowed { "" } else { "about " };
        write!(f, "{about}{allowed} of {keys} keys pass: ")?;
        match beam_width {
            None => f.write_str("exact scan of these"),
            Some(width) => write!(f, "search with a beam of {width}"),
        }
    }
}

impl std::ops::AddAssign for Explanation {
    /// Adds the keys of another shard.
    fn add_assign(&mut self, other: Self) {
        self.keys += other.keys;
        self.allowed += other.allowed;
        self.most_allowed += other.most_allowed;
        self.beam_width = self.beam_width.max(other.beam_width);
    }
}

/// How the queries of a call are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Beam search of this size: as requested, or larger by the share of vertices that may not be returned.
    Beam(BeamSize),
    /// Distances to every vertex that may be returned.
    Scan,
}

/// The size of a beam search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeamSize {
    /// Only the nearest `width` entries of the frontier are expanded: they decide how long a search takes.
    pub width: usize,
    /// Entries of the frontier, at least `width`. Those beyond cost little: they are among the results, or candidates
    /// of a rerank.
    pub frontier_len: usize,
}

impl BeamSize {
    /// A beam of this width that is the whole frontier.
    pub const fn new(width: usize) -> Self {
        Self { width, frontier_len: width }
    }
}

/// The vertices that an expression selects are listed, and not only counted, if that takes less time than this many hops.
/// A count is an estimate if there are several conditions, which may depend on each other.
const LISTED_HOPS: f64 = 16.0;

/// Slots sampled to estimate how many keys a filter allows.
const FILTER_SAMPLE: usize = 1024;

/// Margin, in standard deviations of a binomial count, so that nearly every query finds `k` allowed vertices
/// (docs/notebook/experiments.md#filters-a-frontier-longer-than-the-beam).
const FRONTIER_DEVIATIONS: f64 = 6.0;

impl<'a> SearchPlan<'a> {
    /// Plans a search of `graph` for `queries` queries where they cost what the `cost_model` says. The beam width is at
    /// most that of the model: where tombstones, a filter or a large `k` would need a wider one, it is limited, and
    /// missing results are found by [`Self::as_scan`].
    ///
    /// # Errors
    /// Returns [`SearchError::ZeroK`], [`SearchError::ZeroBeamWidth`], [`SearchError::BeamWidthLimit`],
    /// [`SearchError::NoCodes`], [`SearchError::Vector`] if exact distances are requested of an index that has only
    /// codes.
    pub fn new(
        graph: &'a Graph,
        params: SearchParams<'a>,
        queries: usize,
        cost_model: CostModel,
    ) -> Result<Self, SearchError> {
        let max_beam_width = cost_model.max_beam_width;
        let params = params.within(max_beam_width);
        params.check()?;
        let k = params.k;
        let frontier_len = params.effective_beam_width().max(k);
        if frontier_len > max_beam_width {
            return Err(SearchError::BeamWidthLimit { beam_width: frontier_len, max_beam_width });
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
        let filter = BoundFilter::new(graph, params.filter)?;
        let key_filter_slots = match &filter {
            BoundFilter::Keys(keys) => {
                let is_kept =
                    cost_model.keeps_slots || queries > 1 || keys.is_used() && cost_model.keeps_used;
                keys.set_used();
                is_kept.then(|| graph.keys().allowed_slots(keys))
            }
            BoundFilter::Where(predicate) if cost_model.keeps_slots => {
                let Some(Filter::Where(expression)) = params.filter else { unreachable!("it was bound") };
                Some(graph.keys().allowed_slots_where(expression, predicate))
            }
            _ => None,
        };
        let coordinates = graph.vectors().padded_dimension();
        let vector_bytes = coordinates * graph.element().size();
        let code_bytes = graph
            .vectors()
            .codes()
            .map_or(vector_bytes, |codes| codes.quantizer().layout().words() * size_of::<u32>());
        let work = Workload {
            queries,
            k,
            coordinates,
            row_bytes: if graph.has_vectors() { vector_bytes } else { code_bytes },
            beam_row_bytes: if rerank.is_some() { code_bytes } else { vector_bytes },
            is_f32: graph.element() == ElementKind::F32,
            has_vectors: graph.has_vectors(),
            max_degree: graph.params().max_degree(),
        };
        let least_len = least_len(k, rerank, max_beam_width);
        let mut estimate = filter.estimate();
        let listed = Arc::new(OnceLock::new());
        if let (BoundFilter::Where(predicate), Some((_, most)), None) = (&filter, estimate, &key_filter_slots)
            && cost_model.key_look_up_ns > 0.0
            && most as f64 * cost_model.key_look_up_ns < cost_model.beam_search(&work, LISTED_HOPS)
        {
            let slots = listed.get_or_init(|| graph.keys().slots_where(predicate));
            estimate = Some((slots.len(), most));
        }
        let allowed = share_of_live(graph, key_filter_slots.as_deref(), &filter, estimate, &cost_model);
        let allowed_share = allowed.share_of_live;
        let strategy = choose(graph, params, least_len, allowed, &cost_model, &work);
        let most_allowed = estimate.map_or(usize::MAX, |(_, most)| most);
        let keys = graph.keys().len();
        let max_hits = keys.min(most_allowed).min(k);
        let likely = estimate.map_or((keys as f64 * allowed_share).round() as usize, |(likely, _)| likely);
        let allowed_keys = (likely.min(keys), most_allowed.min(keys));
        Ok(Self {
            graph,
            params,
            strategy,
            rerank,
            key_filter_slots,
            filter,
            first_keys_only: false,
            listed,
            cost_model,
            work,
            max_hits,
            allowed_keys,
        })
    }

    /// What the plan is, and the counts that it was made from.
    pub fn explain(&self) -> Explanation {
        let (allowed, most_allowed) = self.allowed_keys;
        let beam_width = match self.strategy {
            Strategy::Beam(BeamSize { width, .. }) => Some(width),
            Strategy::Scan => None,
        };
        Explanation { keys: self.graph.keys().len(), allowed, most_allowed, beam_width }
    }

    /// The strategy of a plan that is the same, but for a filter that selects about `keys` keys, and for which a scan tests
    /// `tested` slots; none if it cannot be scanned.
    pub fn strategy_of(&self, keys: usize, tested: Option<usize>) -> Strategy {
        let Self { graph, params, cost_model, .. } = self;
        let live = graph.keys().live();
        let share_of_live = if live == 0 { 1.0 } else { (keys as f64 / live as f64).min(1.0) };
        let least_len = least_len(params.k, self.rerank, cost_model.max_beam_width);
        let listing_ns = tested.map_or(f64::INFINITY, |tested| cost_model.tests(&self.work, tested));
        let allowed = Allowed { share_of_live, listing_ns };
        choose(graph, *params, least_len, allowed, cost_model, &self.work)
    }

    /// The plan for results that have no key but the first of a vertex: only vertices may be returned whose first key the
    /// filter allows, so that no result has the key of another tenant with the same vector.
    #[must_use]
    pub fn for_first_keys(&self) -> Self {
        Self { key_filter_slots: None, first_keys_only: true, listed: Arc::default(), ..self.clone() }
    }

    /// The plan for queries that this one leaves with fewer than `k` hits: a scan.
    #[must_use]
    pub fn as_scan(&self) -> Self {
        Self { strategy: Strategy::Scan, ..self.clone() }
    }

    /// What searches cost.
    pub fn cost_model(&self) -> CostModel {
        self.cost_model
    }

    /// Whether a scan of `slots` slots for `queries` queries is to be one matrix product, and not a scan for each.
    pub fn prefers_product(&self, queries: usize, slots: usize) -> bool {
        self.cost_model.prefers_product(&Workload { queries, ..self.work }, slots)
    }

    /// Whether every vertex may be returned.
    pub(crate) fn allows_all(&self) -> bool {
        self.params.filter.is_none() && self.graph.keys().tombstones() == 0
    }

    /// Whether a vertex may be returned: it is live, and the filter allows one of its keys.
    pub fn allows(&self, slot: Slot) -> bool {
        match self.key_filter_set() {
            Some(slots) => slots.contains(slot.index()),
            None if self.first_keys_only => {
                let keys = self.graph.keys();
                keys.is_live(slot) && self.allows_key(keys.first_key(slot))
            }
            None => self.graph.keys().keys_of(slot).any(|key| self.allows_key(key)),
        }
    }

    /// The vertices that may be returned, if the filter is a set of keys; `None` for a predicate or no filter.
    pub fn key_filter_set(&self) -> Option<&BitSet> {
        self.key_filter_slots.as_deref().map(AllowedSlots::slots)
    }

    /// Lists all vertices that may be returned, ascending: those that a scan computes distances to.
    pub fn list_allowed(&self) -> &[Slot] {
        self.listed.get_or_init(|| {
            let keys = self.graph.keys();
            match (self.key_filter_set(), &self.filter) {
                (Some(slots), _) => slots.iter().map(Slot::from_index).collect(),
                (None, BoundFilter::Where(predicate)) => keys.slots_where(predicate),
                (None, BoundFilter::Keys(filter)) => keys.slots_of(filter),
                (None, _) => keys.live_slots().filter(|&slot| self.allows(slot)).collect(),
            }
        })
    }

    /// Writes the hits of one query into its `row`: the keys that may be returned of the vertices `found`, nearest
    /// first. Returns the number of hits written.
    pub fn fill(&self, found: impl Iterator<Item = (Slot, f32)>, row: &mut MatchesMut<'_>) -> usize {
        self.fill_with(found, row, |key| self.allows_key(key))
    }

    /// [`Self::fill`] for a filter that allows the keys for which a function returns true.
    pub fn fill_with(
        &self,
        found: impl Iterator<Item = (Slot, f32)>,
        row: &mut MatchesMut<'_>,
        allows: impl Fn(Key) -> bool,
    ) -> usize {
        let metric = self.graph.metric();
        let hits = found.flat_map(|(slot, distance)| {
            let distance = metric.clamp(distance);
            self.graph.keys().keys_of(slot).map(move |key| Hit { key, distance })
        });
        row.fill(hits.filter(|hit| allows(hit.key)))
    }

    /// Whether a query with `filled` hits may have more, which a scan would find.
    pub fn needs_scan(&self, filled: usize) -> bool {
        filled < self.rescan_below()
    }

    /// The hits below which a query is scanned again: `min(k, keys)` if tombstones or a filter exclude vertices, or if
    /// the beam is narrower than `k`, whose expansions may not find as many; else 0.
    pub fn rescan_below(&self) -> usize {
        let has_all = self.allows_all() && self.params.effective_beam_width() >= self.params.k;
        if has_all { 0 } else { self.max_hits }
    }

    fn allows_key(&self, key: Key) -> bool {
        self.filter.allows(key)
    }
}

/// The least length of a frontier: `k`, or 1.5 `k` if results are reranked.
fn least_len(k: usize, rerank: Option<usize>, max_beam_width: usize) -> usize {
    let reranked = rerank.map_or(0, |rerank| rerank.min(k.saturating_add(k / 2)));
    k.max(reranked).min(max_beam_width)
}

/// Chooses between beam search and scan by their estimated times. Without a filter, it is a beam search while anything
/// is live: tombstones only widen the beam.
fn choose(
    graph: &Graph,
    params: SearchParams<'_>,
    least_len: usize,
    Allowed { share_of_live, listing_ns }: Allowed,
    cost_model: &CostModel,
    work: &Workload,
) -> Strategy {
    let live = graph.keys().live() as f64;
    // A frontier never holds more than all vertices.
    let vertices = (graph.keys().live() + graph.keys().tombstones()).max(1);
    let share = share_of_live * live / vertices as f64;
    if share == 1.0 {
        let width = params.effective_beam_width();
        let frontier_len = width.max(least_len).min(vertices);
        return Strategy::Beam(BeamSize { width: width.min(vertices), frontier_len });
    }
    // The nearest `k` allowed vertices are expected among the nearest `k / share`.
    let k = params.k as f64;
    let width = params.effective_beam_width() as f64 + (k / share - k).ceil();
    let deviation = (k * (1.0 - share)).sqrt();
    let allowed_len = ((k + FRONTIER_DEVIATIONS * deviation) / share).ceil();
    let frontier_len = width.max(allowed_len).max(least_len as f64);
    let scan = cost_model.scan(work, (live * share_of_live) as usize) + listing_ns;
    if share_of_live < 1.0 && scan <= cost_model.beam_search(work, width) || !width.is_finite() {
        return Strategy::Scan;
    }
    let possible = |width: f64| (width as usize).min(vertices).min(cost_model.max_beam_width);
    Strategy::Beam(BeamSize { width: possible(width), frontier_len: possible(frontier_len) })
}

/// How many vertices a filter allows.
struct Allowed {
    /// Their share of the live ones, estimated.
    share_of_live: f64,
    /// The time that it takes to list them.
    listing_ns: f64,
}

fn share_of_live(
    graph: &Graph,
    known: Option<&AllowedSlots>,
    filter: &BoundFilter<'_>,
    estimate: Option<(usize, usize)>,
    cost_model: &CostModel,
) -> Allowed {
    let live = graph.keys().live() as f64;
    let of_live = |slots: usize| (slots as f64 / live).min(1.0);
    let (share_of_live, listing_ns) = match (known, filter, estimate) {
        _ if live == 0.0 => (1.0, 0.0),
        (_, BoundFilter::None, _) => (1.0, 0.0),
        (Some(slots), ..) => (of_live(slots.slots().len()), 0.0),
        (None, _, Some((likely, _))) => (of_live(likely), likely as f64 * cost_model.key_look_up_ns),
        (None, ..) => (sampled_share(graph, filter), live * cost_model.filter_call_ns),
    };
    Allowed { share_of_live, listing_ns }
}

/// The share of live slots with a key that the filter allows: of all slots, or of a sample.
///
/// The sample follows multiples of the golden ratio, which are spread evenly and do not alias with periodic keys:
/// sampling every fifth slot would misjudge a filter of every fifth key.
fn sampled_share(graph: &Graph, filter: &BoundFilter<'_>) -> f64 {
    let slots = graph.slots();
    let place = |i: usize| {
        let share = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if slots <= FILTER_SAMPLE { i } else { ((u128::from(share) * slots as u128) >> 64) as usize }
    };
    let sample = (0..slots.min(FILTER_SAMPLE)).map(|i| Slot::from_index(place(i)));
    let sample = sample.filter(|&slot| graph.keys().is_live(slot));
    let (mut sampled, mut allowed) = (0, 0);
    for slot in sample {
        sampled += 1;
        allowed += usize::from(graph.keys().keys_of(slot).any(|key| filter.allows(key)));
    }
    if sampled == 0 { 0.0 } else { f64::from(allowed as u32) / f64::from(sampled as u32) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Matches, ProductCost};
    use jasper_core::{BuildParams, Metric};
    use jasper_graph::KeyFilter;

    /// `n` vertices without edges, under the keys 0 to n.
    fn graph(n: u64) -> Graph {
        let mut graph = Graph::new(ElementKind::U8, Metric::L2, 16, BuildParams::default()).unwrap();
        for key in 0..n {
            let slot = graph.add_vector(&[key as u8; 16], 0.0).unwrap();
            graph.keys_mut().assign(key, slot).unwrap();
        }
        graph
    }

    fn strategy(graph: &Graph, params: SearchParams<'_>, max_beam_width: usize) -> Strategy {
        SearchPlan::new(graph, params, 1, up_to(max_beam_width)).unwrap().strategy
    }

    fn up_to(max_beam_width: usize) -> CostModel {
        CostModel { max_beam_width, ..CostModel::CPU }
    }

    #[test]
    fn tombstones_widen_the_beam_up_to_the_limit() {
        let mut graph = graph(4000);
        let params = SearchParams::new(10);
        let whole = |width| Strategy::Beam(BeamSize::new(width));
        assert_eq!(strategy(&graph, params, 64), whole(64));
        assert_eq!(strategy(&graph, params.beam_width(5000), usize::MAX), whole(4000));
        (0..3000).for_each(|key| graph.keys_mut().delete(key).unwrap());
        // There are 30 tombstones between the nearest ten. A frontier of 40 would leave half of the queries with fewer
        // than ten: 10 + 6 * sqrt(7.5) are wanted of each four.
        let long = |width| Strategy::Beam(BeamSize { width, frontier_len: 106 });
        assert_eq!(strategy(&graph, params.beam_width(10), usize::MAX), long(40));
        assert_eq!(strategy(&graph, params, usize::MAX), long(94));
        assert_eq!(strategy(&graph, params.beam_width(90), usize::MAX), whole(120));
        assert_eq!(strategy(&graph, params.beam_width(90), 100), whole(100));
        (3000..4000).for_each(|key| graph.keys_mut().delete(key).unwrap());
        assert_eq!(strategy(&graph, params, usize::MAX), Strategy::Scan);
    }

    #[test]
    fn a_default_beam_width_is_limited_to_the_largest_possible() {
        let graph = graph(2000);
        assert_eq!(
            strategy(&graph, SearchParams::new(1000), usize::MAX),
            Strategy::Beam(BeamSize::new(2000))
        );
        for k in [513, 1000, 1024] {
            assert_eq!(
                strategy(&graph, SearchParams::new(k), 1024),
                Strategy::Beam(BeamSize::new(1024)),
                "{k}"
            );
        }
        for params in [SearchParams::new(1025), SearchParams::new(1000).beam_width(1025)] {
            assert!(matches!(
                SearchPlan::new(&graph, params, 1, up_to(1024)),
                Err(SearchError::BeamWidthLimit { .. })
            ));
        }
    }

    #[test]
    fn a_frontier_holds_what_is_returned_and_reranked() {
        let mut graph = graph(2000);
        let narrow = SearchParams::new(10).beam_width(4);
        let size = |graph: &Graph, params, max| match strategy(graph, params, max) {
            Strategy::Beam(BeamSize { width, frontier_len }) => (width, frontier_len),
            Strategy::Scan => panic!("a scan"),
        };
        assert_eq!(size(&graph, narrow, usize::MAX), (4, 10));
        let executor = crate::CpuExecutor::new(1).unwrap();
        let rabitq = jasper_quant::Quantization::Rabitq { bits: 1 };
        crate::quantize(&executor, &mut graph, rabitq).unwrap();
        assert_eq!(size(&graph, narrow, usize::MAX), (4, 15));
        assert_eq!(size(&graph, narrow, 12), (4, 12));
        assert_eq!(size(&graph, narrow.beam_width(40), usize::MAX), (40, 40));
        assert_eq!(size(&graph, narrow.distances(Distances::Exact), usize::MAX), (4, 10));
        for (rerank, len) in [(0, 10), (12, 12), (100, 15)] {
            assert_eq!(size(&graph, narrow.distances(Distances::Quantized { rerank }), usize::MAX), (4, len));
        }
        graph.drop_vectors();
        assert_eq!(size(&graph, narrow, usize::MAX), (4, 10));
    }

    #[test]
    fn a_filter_that_few_keys_pass_makes_a_scan() {
        let mut graph = graph(1000);
        graph.keys_mut().delete(501).unwrap();
        let keys: KeyFilter = [7, 500, 501].into_iter().collect();
        let params = SearchParams::new(2).filter(&keys);
        let plan = SearchPlan::new(&graph, params, 1, CostModel::CPU).unwrap();
        assert_eq!(plan.strategy, Strategy::Scan);
        assert_eq!(plan.list_allowed(), [7, 500].map(Slot::from_index));
        assert!(plan.needs_scan(1) && !plan.needs_scan(2));
        let mut matches = Matches::new(1, 2).unwrap();
        let found = [(Slot::new(501), 1.0), (Slot::new(3), 2.0), (Slot::new(500), 3.0)];
        assert_eq!(plan.fill(found.into_iter(), &mut matches.as_mut()), 1);
        assert_eq!(matches.hits(0).collect::<Vec<_>>(), [Hit { key: 500, distance: 3.0 }]);
    }

    #[test]
    fn a_vertex_may_be_allowed_by_its_first_key_only() {
        let mut graph = graph(10);
        graph.keys_mut().assign(100, Slot::new(3)).unwrap();
        graph.keys_mut().assign(101, Slot::new(4)).unwrap();
        let keys: KeyFilter = [4, 100].into_iter().collect();
        let params = SearchParams::new(2).filter(&keys);
        let plan =
            SearchPlan::new(&graph, params, 1, CostModel { keeps_slots: true, ..CostModel::CPU }).unwrap();
        let allowed = |plan: &SearchPlan<'_>| -> Vec<u32> {
            (0..10).filter(|&slot| plan.allows(Slot::new(slot))).collect()
        };
        assert_eq!((allowed(&plan), allowed(&plan.for_first_keys())), (vec![3, 4], vec![4]));
    }

    #[test]
    fn the_strategy_depends_on_the_batch_and_the_costs() {
        let graph = graph(4000);
        let keys: KeyFilter = (0..4000).step_by(4).collect();
        let params = SearchParams::new(10).beam_width(10).filter(&keys);
        let plan = |queries, cost_model| SearchPlan::new(&graph, params, queries, cost_model).unwrap();
        // A beam of 40 computes 1,536 distances, a scan 1,000 of half the cost.
        assert_eq!(plan(1, CostModel::CPU).strategy, Strategy::Scan);
        let slow_scan = CostModel { scan_distance: CostModel::CPU.beam_distance, ..CostModel::CPU };
        assert_eq!(plan(1, slow_scan).strategy, Strategy::Scan);
        let slower = CostModel { scan_ns: 1e9, ..slow_scan };
        assert!(matches!(plan(1, slower).strategy, Strategy::Beam(_)));
        // Its fixed cost is shared by a batch.
        assert_eq!(plan(1_000_000, slower).strategy, Strategy::Scan);
        let product = ProductCost {
            max_k: 10,
            ns: 1e5,
            tile: 128,
            least_tiles: 1,
            pair_ns: 0.0,
            f32_ns: 1e-3,
            byte_ns: 1e-3,
            gather_ns_per_byte: 0.0,
        };
        let device = CostModel { product: Some(product), ..slow_scan };
        let plan = plan(1000, device);
        assert!(plan.prefers_product(1000, 1000) && !plan.prefers_product(1, 1000));
        assert!(!plan.prefers_product(1000, 0));
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let graph = graph(1);
        let message = |params, max_beam_width| {
            SearchPlan::new(&graph, params, 1, up_to(max_beam_width)).unwrap_err().to_string()
        };
        assert!(message(SearchParams::new(0), 10).starts_with("k (0)"));
        assert_eq!(message(SearchParams::new(10).beam_width(0), 10), "beam_width (0) must be at least 1");
        let wide = message(SearchParams::new(10).beam_width(2000), 1024);
        assert!(wide.contains("at most 1024") && wide.ends_with("search on the cpu"), "{wide}");
    }
}
