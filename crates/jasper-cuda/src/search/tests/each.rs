//! Filters of each query on a device, against the CPU.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use jasper_attributes::{Expression, Frame, Value, column};
use jasper_core::Key;
use jasper_vamana::{Filter, GraphAccess};

use super::snapshots::{DIMENSION, InUse};
use super::*;
use crate::GraphSnapshot;
use crate::graph::SearchTables;
use crate::search::filter_plans::{FilterPlans, PlannedFor};
use crate::search::filtered::FilteredSearch;
use crate::search::groups::Pass;
use crate::search::params::cost_model;

impl Both {
    /// The results on the emulated device of queries with filters of their own.
    fn filtered<T: Element>(
        &self,
        graph: &Graph,
        queries: &[T],
        params: SearchParams<'_>,
    ) -> Result<(Vec<Hit>, SearchReport), SearchError> {
        let copy = DeviceGraph::upload(&self.stream, graph, self.vectors).map_err(SearchError::device)?;
        self.filtered_in(graph, copy.searched(), queries, params)
    }

    /// The same in a copy of the graph.
    fn filtered_in<T: Element>(
        &self,
        graph: &Graph,
        tables: &SearchTables<EmulatedStream>,
        queries: &[T],
        params: SearchParams<'_>,
    ) -> Result<(Vec<Hit>, SearchReport), SearchError> {
        let buffers = || EmulatedBuffers::new(&self.stream);
        let queries: Vec<_> = queries.chunks(graph.dimension()).map(VectorView::from).collect();
        let (mut matches, mut sets) = (Matches::new(queries.len(), params.k)?, vec![buffers()?]);
        let queue = QueryQueue::new(&queries, params.k, matches.as_mut(), 1)?;
        let search = FilteredSearch {
            host: graph,
            graph: tables,
            params,
            cost_model: self.cost_model,
            pool: self.cpu.pool(),
        };
        let report = search.search(&queue, &mut sets, buffers)?;
        assert!(queue.is_empty());
        Ok((entries(&matches), report))
    }

    /// Searches with both, where the CPU takes the plan of each query, and compares. Returns the results.
    fn each_agrees<T: Element>(&self, graph: &Graph, queries: &[T], params: SearchParams<'_>) -> Vec<Hit> {
        let copy = DeviceGraph::upload(&self.stream, graph, self.vectors).unwrap();
        self.each_agrees_in(graph, copy.searched(), queries, params)
    }

    /// The same in a copy of the graph.
    fn each_agrees_in<T: Element>(
        &self,
        graph: &Graph,
        tables: &SearchTables<EmulatedStream>,
        queries: &[T],
        params: SearchParams<'_>,
    ) -> Vec<Hit> {
        let pending: Vec<_> = queries
            .chunks(graph.dimension())
            .enumerate()
            .map(|(i, row)| PendingQuery::new(i, row.into(), MatchesMut::default()))
            .collect();
        let on = PlannedFor {
            tables,
            stream: &self.stream,
            cost_model: cost_of_each(self.cost_model, pending.len()),
            pool: self.cpu.pool(),
        };
        // Until the columns that are worth their while are there, after which plans stay the same.
        let mut plans = FilterPlans::new(graph, params, &pending, &on).unwrap();
        for _ in 0..20 {
            plans = FilterPlans::new(graph, params, &pending, &on).unwrap();
        }
        let (found, report) = self.filtered_in(graph, tables, queries, params).unwrap();
        let mut scanned = 0;
        let places = plans.places(&pending, Pass::Planned, on.pool);
        assert_eq!(
            places,
            plans.places(&pending, Pass::Planned, on.pool),
            "those that were kept are those of the plans"
        );
        for ((pending, place), found) in pending.iter().zip(places).zip(found.chunks(params.k)) {
            let of_query = params.of_query(pending.row);
            let mut plan = SearchPlan::new(graph, of_query, 1, on.cost_model).unwrap();
            plan.strategy = place.group.strategy();
            let mut expected = Matches::new(1, params.k).unwrap();
            let on_cpu = self.cpu.search_planned(&plan, &[pending.vector], expected.as_mut()).unwrap();
            scanned += on_cpu.scanned;
            let expected = entries(&expected);
            let name = format!("{} {}, {params:?}, query {}", T::KIND, graph.metric(), pending.row);
            // A device scans a query anew of which it found a vertex with several keys, none of which the filter allows.
            let is_near = |a: f32, b: f32| a <= b + if T::EXACT_SUMS { 0.0 } else { 1e-5 * b.abs().max(1.0) };
            let near = found.iter().zip(&expected).all(|(a, b)| is_near(a.distance, b.distance));
            let is_same = graph.metric() == Metric::Cosine || !T::EXACT_SUMS || found == expected;
            assert!(
                near && (is_same || graph.keys().duplicate_keys() > 0),
                "{name}: {found:?} for {expected:?}"
            );
            let keys: Vec<Key> = found.iter().map(|hit| hit.key).filter(|&key| key != NO_KEY).collect();
            assert!(
                keys.iter().all(|&key| plan.params.filter.is_none_or(|filter| allows(graph, filter, key)))
            );
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "{name}");
        }
        // A device counts less exactly how many keys several conditions allow, and looks for those that may be left.
        assert!(report.scanned >= scanned, "{report:?}, {scanned}");
        found
    }
}

fn allows(graph: &Graph, filter: Filter<'_>, key: Key) -> bool {
    match filter {
        Filter::Keys(keys) => keys.contains(key),
        Filter::Where(expression) => graph.keys().attributes().bind(expression).unwrap().matches(key),
        Filter::Predicate(allows) => allows(key),
        Filter::PerQuery(_) => unreachable!("a query has one filter"),
    }
}

/// Gives each live key a number that is its own, a label of one in `labels`, and up to three of as many tags.
fn set_attributes(graph: &mut Graph, labels: u64) {
    let keys: Vec<Key> = graph.keys().live_slots().flat_map(|slot| graph.keys().keys_of(slot)).collect();
    let numbers = keys.iter().map(|&key| (key as i64 * 7919) % 10_007);
    let of_labels = keys.iter().map(|&key| match key % labels {
        0 => Value::Null,
        label => Value::from(format!("label {label}").as_str()),
    });
    let tags = keys.iter().map(|&key| match key % 7 {
        0 => Value::Null,
        len => Value::Keywords((0..len % 4).map(|i| format!("tag {}", key * (i + 1) % labels)).collect()),
    });
    let frame = Frame::new(keys.len()).column("number", numbers).unwrap();
    let frame = frame.column("label", of_labels).unwrap().column("tags", tags).unwrap();
    graph.keys_mut().set_attributes(&keys, &frame).unwrap();
}

fn random_filters(n: usize, most: i64, seed: u64) -> Vec<Expression> {
    let mut rng = rng(seed);
    let mut random = |i: usize| {
        let first = rng.random_range(-100..10_007_i64);
        // Of all lengths, empty ones included.
        let len = (10_100_f64.powf(rng.random_range(0.0..1.0))) as i64;
        let within = column("number").ge(first).and(column("number").le(first.saturating_add(len.min(most))));
        let mut label = || format!("label {}", rng.random_range(0..6));
        let (one, other) = (label(), label());
        let mut tag = || format!("tag {}", rng.random_range(0..6));
        let tags = [tag(), tag()];
        match i % 14 {
            0 => column("label").eq(one),
            1 => within.and(column("label").is_null().not()),
            2 => Expression::all(),
            3 => column("label").is_in([&one[..], &other[..]]).and(within),
            4 => column("tags").contains_any([&tags[0][..]]),
            5 => column("tags").contains_all(tags),
            6 => column("tags").contains_any(tags),
            7 => column("tags").contains_any(tags).not().and(column("label").eq(one)),
            8 => column("label").eq(one).not(),
            9 => column("label").eq(one).or(within).and(column("tags").contains_any([&tags[0][..]]).not()),
            10 => column("tags").is_null().and(within),
            11 => Expression::keys(0..300).and(within),
            _ => within,
        }
    };
    let mut filters: Vec<_> = (0..n).map(&mut random).collect();
    // Some are equal.
    filters.extend_from_within(..n / 3);
    filters
}

fn each_of_random_filters_agrees<T: Element>(seed: u64) {
    let mut both = Both::new(seed);
    for (metric, dimension) in [(Metric::L2, 19), (Metric::Cosine, 9)] {
        let mut rows = whole::<T>(500, dimension, seed + 1);
        rows.extend_from_within(..60 * dimension);
        let mut graph = built(&rows, dimension, metric, &both);
        set_attributes(&mut graph, 5);
        (0..560).step_by(9).for_each(|key| graph.keys_mut().delete(key).unwrap());
        let expressions = random_filters(42, i64::MAX / 2, seed + 2);
        let queries = whole::<T>(expressions.len(), dimension, seed + 3);
        let filters: Vec<Filter<'_>> = expressions.iter().map(Filter::from).collect();
        for storage in [MemorySpace::Device, MemorySpace::Host] {
            both.vectors = storage;
            for (k, width) in [(1, 8), (7, 20), (40, 64)] {
                let params = SearchParams::new(k).beam_width(width).filter(&filters[..]);
                for cost in [AS_CPU, cost_model(2, MemorySpace::Device)] {
                    both.cost_model = cost;
                    both.each_agrees(&graph, &queries, params);
                }
            }
        }
    }
}

#[test]
fn each_query_is_answered_by_its_own_expression() {
    each_of_random_filters_agrees::<u8>(60);
    each_of_random_filters_agrees::<f32>(61);
}

#[test]
fn each_query_is_answered_by_its_own_keys_or_predicate() {
    let both = Both::new(62);
    let graph = built(&whole::<i8>(600, 12, 63), 12, Metric::L2, &both);
    let sets = [
        KeyFilter::from_iter(0..600),
        KeyFilter::from_iter([]),
        KeyFilter::from_iter((0..600).step_by(2)),
        KeyFilter::from_iter([5, 599, 10_000]),
        KeyFilter::from_iter(100..400),
    ];
    let odd = |key: Key| key % 2 == 1;
    let none = |_: Key| false;
    let mut filters: Vec<Filter<'_>> = sets.iter().map(Filter::from).collect();
    filters.extend([Filter::from(&odd), Filter::from(&none), filters[2], Filter::from(&odd), filters[0]]);
    let queries = whole::<i8>(filters.len(), 12, 64);
    let params = SearchParams::new(9).beam_width(16).filter(&filters[..]);
    // The second time, the sets of keys are kept as slots.
    for _ in 0..2 {
        let found = both.each_agrees(&graph, &queries, params);
        assert!(found.chunks(9).enumerate().all(|(i, hits)| (hits[0].key == NO_KEY) == [1, 6].contains(&i)));
    }
}

/// Columns stay on the device while keys and attributes change, and no search of an earlier state sees a later one.
#[test]
fn columns_are_searched_as_they_are_after_each_change() {
    let in_use = InUse::new(300, 700);
    let set = |keys: &[Key], seed: i64| {
        let numbers = keys.iter().map(|&key| (key as i64 * 7919 + seed) % 10_007);
        let labels = keys.iter().map(|&key| format!("label {}", (key as i64 + seed) % 5));
        let frame = Frame::new(keys.len()).column("number", numbers).unwrap();
        let frame = frame.column("label", labels).unwrap();
        let tags =
            keys.iter().map(|&key| vec![format!("tag {}", (key as i64 * seed) % 6); (key % 3) as usize]);
        let frame = frame.column("tags", tags.map(Value::Keywords)).unwrap();
        let change = |host: &mut Graph| host.keys_mut().set_attributes(keys, &frame).is_ok();
        assert!(<dyn GraphAccess<_>>::change_host(&mut &in_use.graph, change).unwrap());
    };
    // So wide that a beam search finds all.
    let params = SearchParams::new(6).beam_width(500);
    let check = |seed: u64, snapshot: &GraphSnapshot<EmulatedStream>| {
        let host = snapshot.host();
        let expressions = random_filters(28, 9000, seed);
        let filters: Vec<Filter<'_>> = expressions.iter().map(Filter::from).collect();
        let queries = whole::<u8>(filters.len(), DIMENSION, seed);
        let of_all = params.filter(&filters[..]);
        let (found, _) = in_use.both.filtered_in(host, snapshot.tables(), &queries, of_all).unwrap();
        let found = found.chunks(params.k).zip(queries.chunks(DIMENSION)).zip(&filters);
        for ((found, query), &filter) in found {
            let computer = host.vectors().distance_computer(query);
            let slots = host.keys().live_slots();
            let keys = slots.flat_map(|slot| host.keys().keys_of(slot).map(move |key| (key, slot)));
            let allowed = keys.filter(|&(key, _)| allows(host, filter, key));
            let mut nearest: Vec<_> = allowed.map(|(_, slot)| computer.distance_to(slot)).collect();
            nearest.sort_unstable_by(f32::total_cmp);
            let found: Vec<&Hit> = found.iter().filter(|hit| hit.key != NO_KEY).collect();
            assert!(found.iter().all(|hit| allows(host, filter, hit.key)), "{filter:?}");
            let distances = found.iter().map(|hit| hit.distance);
            assert!(distances.eq(nearest.into_iter().take(params.k)), "{filter:?}: {found:?}");
        }
    };
    set(&(0..300).collect::<Vec<_>>(), 1);
    let mut before = in_use.graph.snapshot(None);
    let mut rng = rng(78);
    let (mut next, mut with_changes) = (300, 0);
    for round in 0..24 {
        match round % 6 {
            0 | 3 => set(&[rng.random_range(40..300)], round),
            1 => {
                in_use.insert(next..next + 5);
                set(&(next + 1..next + 5).collect::<Vec<_>>(), round);
                next += 5;
            }
            2 => in_use.delete(round as Key..round as Key + 3),
            4 => set(&(100..100 + rng.random_range(1..60)).collect::<Vec<_>>(), round),
            _ => {}
        }
        let now = in_use.graph.snapshot(None);
        check(round as u64, &now);
        check(round as u64, &before);
        let tables = now.tables();
        with_changes += usize::from(
            tables.columns.made(now.host().keys(), tables.bitmap_len()).changed_slots().is_some(),
        );
        before = now;
        if round == 17 {
            before = in_use.graph.snapshot(None);
            in_use.graph.compact().unwrap();
        }
    }
    // Vertices of an insert that is under way have slots that columns do not know.
    check(90, &in_use.graph.snapshot(None));
    let mut reports = 0;
    in_use.insert_with(next..700, &mut |_| {
        reports += 1;
        check(90 + reports, &in_use.graph.snapshot(None));
        ControlFlow::Continue(())
    });
    assert!(reports > 1, "{reports}");
    check(99, &in_use.graph.snapshot(None));
    assert!(with_changes > 8, "{with_changes} of 24 searches used columns that were made before a change");
}

/// Each query of a quantized graph, with and without its vectors.
#[test]
fn each_query_of_a_quantized_graph_is_answered_by_its_own_filter() {
    let both = Both::new(65);
    let mut graph = built(&whole::<f32>(400, 24, 66), 24, Metric::L2, &both);
    set_attributes(&mut graph, 7);
    quantize(&both.cpu, &mut graph, Quantization::Mixed { sectors: 1 }).unwrap();
    let expressions = random_filters(10, 9000, 67);
    let filters: Vec<Filter<'_>> = expressions.iter().map(Filter::from).collect();
    let queries = whole::<f32>(filters.len(), 24, 68);
    let params = SearchParams::new(6).beam_width(30).filter(&filters[..]);
    both.each_agrees(&graph, &queries, params);
    both.each_agrees(&graph, &queries, params.distances(Distances::Quantized { rerank: 10 }));
    graph.drop_vectors();
    both.each_agrees(&graph, &queries, params);
}

/// A beam search whose filter excludes what is near leaves too few results, and a scan completes them.
#[test]
fn queries_that_are_left_short_are_scanned() {
    let both = Both::new(69);
    let set = Clusters::new(16, 70);
    let rows: Vec<u8> = set.rows(900, 0);
    let graph = built(&rows, 16, Metric::L2, &both);
    let queries: Vec<u8> = set.rows_of(&[3; 6], 1);
    let nearest = both.agree(&graph, &queries[..16], SearchParams::new(450).beam_width(900));
    let near: BTreeSet<Key> = nearest.iter().map(|hit| hit.key).collect();
    let far = KeyFilter::from_iter((0..900).filter(|key| !near.contains(key)));
    let all = KeyFilter::from_iter(0..900);
    let filters = [&far, &all, &far, &all, &far, &far].map(Filter::from);
    let params = SearchParams::new(5).beam_width(10).filter(&filters[..]);
    let (found, report) = both.filtered(&graph, &queries, params).unwrap();
    assert!(report.scanned > 0, "{report:?}");
    for (i, hits) in found.chunks(5).enumerate() {
        assert!(
            hits.iter().all(|hit| hit.key != NO_KEY && (filters[i] != filters[0] || far.contains(hit.key)))
        );
    }
}

/// Filters of all kinds of a batch, each query alone and in a batch: the same strategy gives the same results.
#[test]
fn results_do_not_depend_on_the_filters_of_other_queries() {
    let mut both = Both::new(71);
    both.cost_model = CostModel { hop_ns: 0.0, scan_ns: 0.0, small_batch_max: 0, ..AS_CPU };
    let mut graph = built(&whole::<u8>(500, 16, 72), 16, Metric::L2, &both);
    set_attributes(&mut graph, 4);
    let expressions = random_filters(12, 9000, 73);
    let filters: Vec<Filter<'_>> = expressions.iter().map(Filter::from).collect();
    let queries = whole::<u8>(filters.len(), 16, 74);
    let params = SearchParams::new(5).beam_width(12);
    let (together, _) = both.filtered(&graph, &queries, params.filter(&filters[..])).unwrap();
    for (i, query) in queries.chunks(16).enumerate() {
        let (alone, _) = both.filtered(&graph, query, params.filter(&filters[i..=i])).unwrap();
        assert_eq!(alone, together[i * 5..][..5], "query {i}");
    }
}

#[test]
fn errors_of_a_filter_leave_all_queries_unanswered() {
    let both = Both::new(75);
    let mut graph = built(&whole::<u8>(100, 16, 76), 16, Metric::L2, &both);
    set_attributes(&mut graph, 4);
    let copy = DeviceGraph::upload(&both.stream, &graph, MemorySpace::Device).unwrap();
    let all = Expression::all();
    let filters = [Filter::from(&all), Filter::from(&all)];
    let rows = whole::<u8>(3, 16, 77);
    let queries: Vec<_> = rows.chunks(16).map(VectorView::from).collect();
    let params = SearchParams::new(2).filter(&filters[..]);
    let buffers = || EmulatedBuffers::new(&both.stream);
    let mut matches = Matches::new(3, 2).unwrap();
    let queue = QueryQueue::new(&queries, 2, matches.as_mut(), 1).unwrap();
    let search = FilteredSearch {
        host: &graph,
        graph: copy.searched(),
        params,
        cost_model: AS_CPU,
        pool: both.cpu.pool(),
    };
    let error = search.search(&queue, &mut vec![buffers().unwrap()], buffers).unwrap_err();
    assert!(matches!(error, SearchError::Filters { given: 2, queries: 3 }), "{error}");
    let mut left = Vec::new();
    queue.take(usize::MAX, &mut left);
    assert_eq!(left.len(), 3);
}
