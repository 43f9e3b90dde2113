//! Filters on a device: every way to scan, and filters that go with the queries or against them.

use std::sync::Arc;

use jasper_graph::AllowedSlots;
use jasper_vamana::{BeamSize, ProductCost, Strategy};

use super::*;
use crate::search::params::cost_model;

/// Scans are products wherever that is possible.
const PRODUCTS: CostModel = CostModel {
    product: Some(ProductCost {
        max_k: 128,
        ns: -1.0,
        tile: 128,
        least_tiles: 0,
        pair_ns: 0.0,
        f32_ns: 0.0,
        byte_ns: 0.0,
        gather_ns_per_byte: 0.0,
    }),
    ..AS_CPU
};

#[test]
fn filters_decide_which_keys_are_answers() {
    let both = Both::new(6);
    let graph = built(&whole::<u8>(700, 12, 7), 12, Metric::L2, &both);
    let queries = whole::<u8>(6, 12, 8);
    let params = SearchParams::new(8).beam_width(16);
    let third = |key| key % 3 == 0;
    let hits = both.agree(&graph, &queries, params.filter(&third));
    assert!(hits.iter().all(|hit| hit.key % 3 == 0));
    for keys in [vec![], vec![699], vec![3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 5000]] {
        let keys: KeyFilter = keys.into_iter().collect();
        both.agree(&graph, &queries, params.filter(&keys));
    }
}

/// Compares with the CPU, which must scan as well; returns how many distances more the device computed.
fn more_distances<T: Element>(both: &Both, graph: &Graph, queries: &[T], params: SearchParams<'_>) -> u64 {
    both.agree(graph, queries, params);
    let view = MatrixView::new(queries, graph.dimension()).unwrap();
    let mut matches = Matches::new(view.len(), params.k).unwrap();
    let cpu = both
        .cpu
        .search_batch(graph, &view.rows().map(VectorView::from).collect::<Vec<_>>(), params, matches.as_mut())
        .unwrap();
    assert_eq!(cpu.scanned, view.len());
    both.emulated(graph, view, params).unwrap().1.cost.distances - cpu.cost.distances
}

fn products_agree<T: Element>(seed: u64) {
    let mut both = Both::new(seed);
    both.cost_model = PRODUCTS;
    for (metric, dimension) in [(Metric::L2, 19), (Metric::InnerProduct, 32), (Metric::Cosine, 9)] {
        // Copies of some, so that vertices have several keys.
        let mut rows = whole::<T>(300, dimension, seed + 1);
        rows.extend_from_within(..50 * dimension);
        let mut graph = built(&rows, dimension, metric, &both);
        (0..350).step_by(7).for_each(|key| graph.keys_mut().delete(key).unwrap());
        let queries = whole::<T>(5, dimension, seed + 2);
        let third = KeyFilter::from_iter((0..350).step_by(3));
        let few = KeyFilter::from_iter([2, 7, 305, 310]);
        for storage in [MemorySpace::Device, MemorySpace::Host] {
            both.vectors = storage;
            for k in [1, 40] {
                let params = SearchParams::new(k).beam_width(128);
                assert!(more_distances(&both, &graph, &queries, params.filter(&third)) > 0);
                assert!(more_distances(&both, &graph, &queries, params.filter(&few)) > 0);
            }
        }
        both.vectors = MemorySpace::Device;
        let odd = |key: u64| key % 3 == 1;
        let params = SearchParams::new(3).beam_width(128);
        assert!(more_distances(&both, &graph, &queries, params.filter(&odd)) > 0);
        // More hits than a product finds.
        let params = SearchParams::new(129).beam_width(129);
        assert_eq!(more_distances(&both, &graph, &queries, params.filter(&third)), 0);
        // Queries in device memory.
        let params = SearchParams::new(7).beam_width(128).filter(&third);
        let view = MatrixView::new(&queries, dimension).unwrap();
        let (found, costs) =
            both.launched(&graph, &prepared(&graph, &queries), params, SCRATCH_BYTES).unwrap();
        // Where vertices have several keys, the first stands for all.
        let expected = both.emulated(&graph, view, params).unwrap().0;
        for (found, expected) in found.iter().zip(&expected).step_by(7) {
            assert_eq!(found.distance, expected.distance, "{} {metric}", T::KIND);
        }
        assert!(costs.chunks(2).all(|cost| cost[0] == 0 && cost[1] > 90), "{costs:?}");
    }
}

#[test]
fn scans_as_products_answer_as_the_cpu() {
    products_agree::<f32>(40);
    products_agree::<f16>(41);
    products_agree::<u8>(42);
    products_agree::<i8>(43);
}

#[test]
fn a_scan_for_one_query_is_shared_out() {
    let both = Both::new(44);
    let graph = built(&whole::<u8>(1100, 12, 45), 12, Metric::L2, &both);
    let queries = whole::<u8>(5, 12, 46);
    let many = KeyFilter::from_iter(20..1100);
    for k in [1, 7, 60] {
        let params = SearchParams::new(k).beam_width(300).filter(&many);
        assert!(more_distances(&both, &graph, &queries[..12], params) > 0, "k {k}");
        assert!(more_distances(&both, &graph, &queries[..24], params) > 0, "k {k}");
        let (found, _) =
            both.launched(&graph, &prepared(&graph, &queries[..12]), params, SCRATCH_BYTES).unwrap();
        assert_eq!(found, both.agree(&graph, &queries[..12], params), "k {k}");
        // Every query has a team of its own.
        assert_eq!(more_distances(&both, &graph, &queries, params), 0);
    }
    let few = KeyFilter::from_iter(0..300);
    let params = SearchParams::new(3).beam_width(300).filter(&few);
    assert_eq!(more_distances(&both, &graph, &queries[..12], params), 0);
}

/// Whatever is quantized, a scan computes exact distances, unless there are codes only.
#[test]
fn scans_of_quantized_graphs_are_exact() {
    let mut both = Both::new(47);
    both.cost_model = PRODUCTS;
    let mut graph = built(&whole::<f32>(300, 19, 48), 19, Metric::L2, &both);
    quantize(&both.cpu, &mut graph, Quantization::Mixed { sectors: 1 }).unwrap();
    let (queries, filter) = (whole::<f32>(5, 19, 49), KeyFilter::from_iter(0..100));
    let params = SearchParams::new(9).beam_width(60).filter(&filter);
    assert!(more_distances(&both, &graph, &queries, params) > 0);
    graph.drop_vectors();
    assert_eq!(more_distances(&both, &graph, &queries, params), 0);
}

/// The slots of a filter are on the device once, in either form, and follow its changes.
#[test]
fn searches_reuse_the_slots_of_a_filter() {
    let mut both = Both::new(50);
    let mut graph = built(&whole::<u8>(400, 12, 51), 12, Metric::L2, &both);
    let queries = whole::<u8>(3, 12, 52);
    let filters = [KeyFilter::from_iter(0..9), KeyFilter::from_iter((0..400).step_by(4))];
    let copy = DeviceGraph::upload(&both.stream, &graph, MemorySpace::Device).unwrap();
    let kept = |slots: &Arc<AllowedSlots>, format, len| {
        let absent = || unreachable!("the slots are there");
        copy.searched()
            .filters
            .get(&both.stream, &copy.searched().async_readers, slots, format, len, absent)
            .unwrap()
    };
    for round in 0..2_u64 {
        for cost_model in [AS_CPU, PRODUCTS] {
            both.cost_model = cost_model;
            for filter in &filters {
                let params = SearchParams::new(5).beam_width(100).filter(filter);
                let view = MatrixView::new(&queries, 12).unwrap();
                let mut expected = Matches::new(3, 5).unwrap();
                both.cpu
                    .search_batch(
                        &graph,
                        &view.rows().map(VectorView::from).collect::<Vec<_>>(),
                        params,
                        expected.as_mut(),
                    )
                    .unwrap();
                for _ in 0..2 {
                    let (found, _) = both.searched(&graph, &copy, view, params).unwrap();
                    assert_eq!(found, entries(&expected), "{filter:?}, round {round}");
                }
            }
        }
        // The short list, and the bitmap of the other, which is shorter than its list.
        let [few, many] = filters.each_ref().map(|filter| graph.keys().allowed_slots(filter));
        kept(&few, SlotFormat::List, few.slots().len());
        kept(&many, SlotFormat::Bitmap, 13);
        graph.keys_mut().delete(4 + round).unwrap();
    }
}

/// A filter of the keys near the queries, and one of those far away: the frontier holds more of the allowed than their
/// share, or none.
#[test]
fn filters_that_go_with_the_queries_or_against_them_answer_as_the_cpu() {
    let mut both = Both::new(53);
    let set = Clusters::new(16, 54);
    let rows: Vec<u8> = set.rows(900, 0);
    let graph = built(&rows, 16, Metric::L2, &both);
    let queries: Vec<u8> = set.rows_of(&[3; 6], 1);
    let nearest = both.agree(&graph, &queries[..16], SearchParams::new(450).beam_width(900));
    let near: Vec<u64> = nearest.iter().map(|hit| hit.key).collect();
    let far: Vec<u64> = (0..900).filter(|key| !near.contains(key)).collect();
    let rows: Vec<&[u8]> = rows.chunks(16).collect();
    for (keys, beam_width) in [(&near[..90], 10), (&near, 10), (&far, 10), (&far, 40)] {
        let filter = KeyFilter::from_iter(keys.iter().copied());
        let params = SearchParams::new(5).beam_width(beam_width).filter(&filter);
        for cost_model in [AS_CPU, PRODUCTS, cost_model(2, MemorySpace::Device)] {
            both.cost_model = cost_model;
            let view = MatrixView::new(&queries, 16).unwrap();
            let found = both.emulated(&graph, view, params).unwrap().0;
            let distance = |query: &[u8], key: u64| -> f32 {
                let pairs = query.iter().zip(rows[key as usize]);
                pairs.map(|(&x, &y)| (f32::from(x) - f32::from(y)).powi(2)).sum()
            };
            let mut right = 0;
            for (query, found) in queries.chunks(16).zip(found.chunks(5)) {
                let mut distances: Vec<f32> = keys.iter().map(|&key| distance(query, key)).collect();
                distances.sort_unstable_by(f32::total_cmp);
                right += found.iter().filter(|hit| hit.distance <= distances[4]).count();
                assert!(found.iter().all(|hit| filter.contains(hit.key)));
            }
            assert!(right >= 28, "{right} of 30 with {} keys allowed on {cost_model:?}", keys.len());
        }
    }
}

/// The strategies for an H200: products for batches, scans for one query, beam searches where many keys are allowed.
#[test]
fn strategies_of_a_large_device_depend_on_the_batch() {
    let both = Both::new(55);
    let graph = built(&whole::<f32>(3000, 16, 56), 16, Metric::L2, &both);
    let device = cost_model(132, MemorySpace::Device);
    let filter = KeyFilter::from_iter(0..300);
    let params = SearchParams::new(10).beam_width(20).filter(&filter);
    let plan = |queries| SearchPlan::new(&graph, params, queries, device).unwrap();
    for (queries, is_product) in [(1, false), (1000, false), (100_000, true)] {
        assert_eq!(plan(queries).strategy, Strategy::Scan);
        assert_eq!(plan(queries).prefers_product(queries, 300), is_product, "{queries} queries");
    }
    let most = KeyFilter::from_iter(0..2900);
    let params = SearchParams::new(1).beam_width(1).filter(&most);
    let plan = SearchPlan::new(&graph, params, 1, device).unwrap();
    assert_eq!(plan.strategy, Strategy::Beam(BeamSize { width: 2, frontier_len: 3 }));
    // Rows that come over PCIe are gathered once for all queries.
    let host = cost_model(132, MemorySpace::Host);
    let params = SearchParams::new(10).filter(&filter);
    assert!(SearchPlan::new(&graph, params, 1000, host).unwrap().prefers_product(1000, 300));
}
