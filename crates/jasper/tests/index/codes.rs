//! Codes: searches with estimated distances find what exact searches find, and codes are updated with every change.

use jasper::{
    CostUnit, Device, Distances, Element, ElementKind, ErrorKind, Filter, Hit, Index, IndexBuilder,
    KeyFilter, MatrixView, Metric, NewKeys, OpenOptions, Quantization, QuantizeMode, QuantizeReport,
    SearchParams, TriedQuantization, f16,
};
use jasper_core::synthetic::Clusters;
use jasper_graph::Graph;
use jasper_quant::TrainError;
use jasper_vamana::{SearchError, UpdateError};

use crate::common::{SearchHits, bytes_of, view};

const D: usize = 48;
const K: usize = 10;

fn index<T: Element>(metric: Metric, rows: &[T]) -> Index {
    let builder = IndexBuilder::new(metric).max_degree(32).build_beam_width(64).threads(2);
    builder.build(view(rows, D)).unwrap()
}

/// Rows to index, and queries.
fn set<T: Element>(rows: usize) -> (Vec<T>, Vec<T>) {
    let set = Clusters::new(D, 5);
    (set.rows(rows, 0), set.rows(100, 1))
}

/// Share of the hits of one search that another has as well, at the same distance.
fn overlap(a: &[Hit], b: &[Hit]) -> f64 {
    let same = a.chunks(K).zip(b.chunks(K)).map(|(a, b)| a.iter().filter(|hit| b.contains(hit)).count());
    same.sum::<usize>() as f64 / a.len() as f64
}

fn finds_as_much<T: Element>(metric: Metric) {
    let (rows, queries) = set::<T>(3000);
    let queries = view(&queries, D);
    let index = index(metric, &rows);
    let params = SearchParams::new(K);
    let exact = index.search_hits(queries, params).unwrap();
    let codes = [
        Quantization::Rabitq { bits: 2 },
        Quantization::Rabitq { bits: 7 },
        Quantization::Mixed { sectors: 1 },
        Quantization::Mixed { sectors: 2 },
    ];
    for code in codes {
        index.quantize(code).unwrap();
        assert_eq!(index.search_hits(queries, params.distances(Distances::Exact)).unwrap(), exact);
        assert_eq!(index.search_hits(view::<f32>(&[], D), params).unwrap(), []);
        let found = index.search_hits(queries, params).unwrap();
        let share = overlap(&exact, &found);
        assert!(share > 0.97, "{metric} {code}: {share}");
        for (query, hits) in queries.rows().zip(found.chunks(K)) {
            assert_eq!(index.search(query, params).unwrap(), hits, "alone as in a batch");
        }
    }
}

#[test]
fn searches_by_estimates_find_what_exact_ones_do() {
    for metric in Metric::ALL {
        finds_as_much::<f32>(metric);
    }
    finds_as_much::<u8>(Metric::L2);
    finds_as_much::<i8>(Metric::Cosine);
    finds_as_much::<f16>(Metric::InnerProduct);
}

#[test]
fn a_rerank_buys_recall_and_without_one_distances_are_estimates() {
    let (rows, queries) = set::<f32>(3000);
    let queries = view(&queries, D);
    let index = index(Metric::L2, &rows);
    let params = SearchParams::new(K);
    let exact = index.search_hits(queries, params).unwrap();
    let estimated = |rerank| params.distances(Distances::Quantized { rerank });
    assert!(matches!(
        index.search_hits(queries, estimated(0)).unwrap_err().downcast_ref(),
        Some(SearchError::NoCodes)
    ));
    index.quantize(Quantization::Rabitq { bits: 2 }).unwrap();
    let mut before = -1.0;
    for rerank in [0, 15, 64] {
        let mut hits = vec![Hit::NONE; exact.len()];
        let report = index.search_hits_into(queries, estimated(rerank), &mut hits).unwrap();
        assert_eq!(report.reranked, (rerank * queries.len()) as u64);
        let share = overlap(&exact, &hits);
        assert!(share > before, "{rerank}: {share} after {before}");
        before = share;
        if rerank == 0 {
            // Estimates are near the exact distances, and never equal to them.
            assert_eq!(share, 0.0);
            let error = |(hit, query): (&Hit, &[f32])| {
                let row = index.vector(hit.key).unwrap();
                let distance: f32 = row.iter().zip(query).map(|(x, y)| (x - y).powi(2)).sum();
                f64::from((hit.distance / distance - 1.0).powi(2))
            };
            let squares: f64 = hits.iter().step_by(K).zip(queries.rows()).map(error).sum();
            assert!((squares / queries.len() as f64).sqrt() < 0.3);
        }
    }
}

#[test]
fn deleted_and_filtered_keys_are_no_answers_to_estimates() {
    let (rows, queries) = set::<u8>(2000);
    let queries = view(&queries, D);
    let index = index(Metric::L2, &rows);
    index.quantize(Quantization::Mixed { sectors: 1 }).unwrap();
    index.delete(&(0..2000).step_by(3).collect::<Vec<_>>()).unwrap();
    let even = |key| key % 2 == 0;
    let few: KeyFilter = [1, 500, 501].into_iter().collect();
    for (filter, may) in [
        (
            Filter::Predicate(&even),
            &(|key: u64| key.is_multiple_of(2) && !key.is_multiple_of(3)) as &dyn Fn(u64) -> bool,
        ),
        (Filter::Keys(&few), &|key: u64| key == 1 || key == 500),
    ] {
        let params = SearchParams::new(K).filter(filter);
        let (found, exact) = (
            index.search_hits(queries, params).unwrap(),
            index.search_hits(queries, params.distances(Distances::Exact)).unwrap(),
        );
        assert!(found.iter().filter(|hit| **hit != Hit::NONE).all(|hit| may(hit.key)));
        assert!(overlap(&exact, &found) > 0.95);
    }
}

/// Twenty rounds that replace a tenth of the vectors.
fn codes_are_in_step<T: Element>(metric: Metric, code: Quantization) {
    let (rows, _) = set::<T>(1500);
    let index = index(metric, &rows[..1000 * D]);
    index.quantize(code).unwrap();
    for round in 0..20_u64 {
        let gone: Vec<u64> = (0..100).map(|i| i + round * 100).collect();
        index.delete(&gone).unwrap();
        if round % 3 == 0 {
            index.consolidate().unwrap();
        }
        let first = (round as usize * 100) % 1400;
        index.insert(view(&rows[first * D..][..100 * D], D), NewKeys::NEXT).unwrap();
        if round % 7 == 6 {
            index.compact().unwrap();
        }
    }
    let compare = |graph: &Graph| {
        let codes = graph.vectors().codes().unwrap();
        let mut scratch = Default::default();
        for slot in graph.keys().vertices() {
            let mut row = graph.vectors().view(slot).to_f32();
            let mut fresh = vec![0; codes.quantizer().layout().words()];
            codes.quantizer().encode(&mut row, &mut scratch, &mut fresh);
            assert_eq!(codes.table().row(slot.index()), fresh, "{slot}");
        }
    };
    index.read_graph(compare).unwrap();
}

#[test]
fn codes_after_many_changes_are_those_made_afresh() {
    codes_are_in_step::<f32>(Metric::InnerProduct, Quantization::Rabitq { bits: 3 });
    codes_are_in_step::<f32>(Metric::Cosine, Quantization::Mixed { sectors: 1 });
    codes_are_in_step::<u8>(Metric::L2, Quantization::Rabitq { bits: 8 });
}

#[test]
fn the_same_index_has_the_same_codes_on_any_number_of_threads() {
    let (rows, _) = set::<f32>(2000);
    let bytes = [1, 3].map(|threads| {
        let builder = IndexBuilder::new(Metric::L2).max_degree(16).build_beam_width(32).threads(threads);
        let index = builder.build(view(&rows, D)).unwrap();
        index.quantize(Quantization::Mixed { sectors: 2 }).unwrap();
        bytes_of(&index)
    });
    assert!(bytes[0] == bytes[1]);
}

#[test]
fn a_trial_keeps_a_code_that_finds_enough_for_less_and_leaves_the_graph_alone() {
    let set = Clusters::new(128, 9);
    let rows = set.rows::<f32>(4000, 0);
    let index =
        IndexBuilder::new(Metric::L2).max_degree(32).build_beam_width(64).build(view(&rows, 128)).unwrap();
    let before = bytes_of(&index);
    let queries = set.rows::<f32>(200, 1);
    let queries = view(&queries, 128);
    let exact = index.search_hits(queries, SearchParams::new(K).distances(Distances::Exact)).unwrap();
    // The choice for a device does not need the device.
    for (device, unit) in [(Device::cuda(0), CostUnit::Bytes), (Device::CPU, CostUnit::Nanoseconds)] {
        let report = index.quantize(QuantizeMode::Auto(device)).unwrap();
        assert_eq!(index.stats().quantization, report.quantization);
        assert_eq!(index.quantize(QuantizeMode::Auto(device)).unwrap(), report);
        let (chosen, trial) = (chosen(&report), report.trial.as_ref().unwrap());
        assert_eq!(trial.unit, unit);
        let least = trial.tried.iter().filter_map(|tried| tried.cost).fold(f64::INFINITY, f64::min);
        // Costs are estimates, and several codes may take the least.
        assert!(chosen.cost.unwrap() <= 1.1 * least, "{trial:?}");
        let may_be_least =
            trial.tried.iter().filter(|tried| tried.cost.is_some_and(|cost| cost <= 1.1 * least));
        let narrowest = may_be_least.min_by_key(|tried| tried.beam_width).unwrap();
        assert!(unit != CostUnit::Bytes || chosen == narrowest, "{trial:?}");
        assert!(chosen.cost.unwrap() < trial.exact_cost / 1.2, "{trial:?}");
        let found = index.search_hits(queries, SearchParams::new(K).beam_width(chosen.beam_width.unwrap()));
        assert!(overlap(&exact, &found.unwrap()) > trial.recall - 0.02);
        index.quantize(None).unwrap();
        assert!(bytes_of(&index) == before);
    }
}

/// The trial of the quantization that was chosen.
fn chosen(report: &QuantizeReport) -> &TriedQuantization {
    let tried = &report.trial.as_ref().unwrap().tried;
    tried.iter().find(|tried| Some(tried.quantization) == report.quantization).expect("codes cost less")
}

#[test]
fn a_trial_on_the_cpu_keeps_exact_distances_of_bytes() {
    let rows: Vec<u8> = Clusters::new(128, 9).rows(4000, 0);
    let index =
        IndexBuilder::new(Metric::L2).max_degree(32).build_beam_width(64).build(view(&rows, 128)).unwrap();
    let before = bytes_of(&index);
    index.quantize(Quantization::Rabitq { bits: 1 }).unwrap();
    let report = index.quantize(QuantizeMode::Auto(Device::CPU)).unwrap();
    assert_eq!(report.quantization, None);
    let trial = report.trial.unwrap();
    assert!(trial.tried.iter().filter_map(|tried| tried.cost).all(|cost| cost >= trial.exact_cost));
    assert!(bytes_of(&index) == before);
}

/// The ten nearest rows of each query, by brute force.
fn nearest(rows: MatrixView<'_, f32>, queries: MatrixView<'_, f32>) -> Vec<Vec<u64>> {
    let distance = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum::<f32>();
    let of_query = |query| {
        let mut order: Vec<(f32, u64)> =
            rows.rows().zip(0..).map(|(row, key)| (distance(query, row), key)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        order.into_iter().take(K).map(|(_, key)| key).collect()
    };
    queries.rows().map(of_query).collect()
}

/// Independent coordinates of equal variance, which are the worst case for codes of few bytes.
#[test]
fn a_trial_on_a_flat_spectrum_keeps_recall() {
    let set = Clusters { clusters: 1, latent: 0, ..Clusters::new(64, 9) };
    let (rows, queries) = (set.rows::<f32>(3000, 0), set.rows::<f32>(200, 1));
    let (rows, queries) = (view(&rows, 64), view(&queries, 64));
    let builder = IndexBuilder::new(Metric::L2).max_degree(32).build_beam_width(64);
    let index = builder.build(rows).unwrap();
    let trial = index.quantize(QuantizeMode::Auto(Device::cuda(0))).unwrap();
    assert_eq!(index.stats().quantization, trial.quantization);
    let width = chosen(&trial).beam_width.unwrap();
    let truth = nearest(rows, queries);
    let recall = |width, distances| {
        let params = SearchParams::new(K).beam_width(width).distances(distances);
        let hits = index.search_hits(queries, params).unwrap();
        let found =
            |(hits, truth): (&[Hit], &Vec<u64>)| hits.iter().filter(|hit| truth.contains(&hit.key)).count();
        hits.chunks(K).zip(&truth).map(found).sum::<usize>() as f64 / hits.len() as f64
    };
    let by_codes = recall(width, Distances::Quantized { rerank: usize::MAX });
    let exact = recall(64, Distances::Exact);
    assert!(by_codes > exact - 0.02, "{trial:?}: {by_codes}, {exact}");
}

#[test]
fn without_vectors_an_index_answers_deletes_and_is_saved_and_refuses_the_rest() {
    let (rows, queries) = set::<f32>(2000);
    let queries = view(&queries, D);
    let index = index(Metric::L2, &rows);
    assert!(matches!(index.drop_vectors().unwrap_err().downcast_ref(), Some(UpdateError::NoCodes)));
    index.quantize(Quantization::Rabitq { bits: 6 }).unwrap();
    let estimated = SearchParams::new(K).distances(Distances::Quantized { rerank: 0 });
    let before = index.search_hits(queries, estimated).unwrap();
    let whole = index.stats();
    index.drop_vectors().unwrap();
    assert_eq!((index.stats().vector_bytes, index.stats().code_bytes), (0, whole.code_bytes));
    assert_eq!(index.search_hits(queries, SearchParams::new(K)).unwrap(), before);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codes.jasper");
    index.save(&path).unwrap();
    for index in [Index::open(&path).unwrap(), OpenOptions::new().mapped(true).open(&path).unwrap()] {
        assert_eq!(index.search_hits(queries, SearchParams::new(K)).unwrap(), before);
        assert!(index.check().unwrap().is_sound() && index.vector(7).is_none());
        index.delete(&[before[0].key]).unwrap();
        let after = index.search_hits(queries, SearchParams::new(K)).unwrap();
        assert_eq!(after[0], before[1]);
        let few: KeyFilter = [5, 6].into_iter().collect();
        let hits = index.search(queries.row(0), SearchParams::new(2).filter(&few)).unwrap();
        assert_eq!(hits.iter().map(|hit| hit.key).collect::<std::collections::BTreeSet<_>>(), [5, 6].into());
        let message = |error: &dyn std::error::Error| {
            assert!(error.to_string().contains("stores codes only"), "{error}");
        };
        message(&index.insert(view(&rows[..D], D), &[90_000]).unwrap_err());
        message(&index.consolidate().unwrap_err());
        message(&index.quantize(Quantization::Mixed { sectors: 1 }).unwrap_err());
        message(&index.quantize(QuantizeMode::Auto(Device::CPU)).unwrap_err());
        message(&index.quantize(None).unwrap_err());
        message(&index.search(queries.row(0), SearchParams::new(1).distances(Distances::Exact)).unwrap_err());
        let goal = jasper::tune::Goal { k: 1, recall: 0.5 };
        let sampled = jasper::tune::TuneQueries::sampled();
        message(&index.tune(goal, sampled).unwrap_err());
        assert_eq!(index.check().unwrap().codes, None);
        index.undelete(&[before[0].key]).unwrap();
        assert_eq!(index.search_hits(queries, SearchParams::new(K)).unwrap(), before);
    }
}

/// More rows of 48 bytes than a reader checks at once, and one outlier, whose error has no bound.
#[test]
fn what_is_saved_with_codes_of_any_length_is_opened() {
    let mut rows = Clusters::new(D, 5).rows::<f32>(7000, 0);
    let index = IndexBuilder::new(Metric::L2)
        .max_degree(4)
        .build_beam_width(8)
        .quantize(Quantization::Rabitq { bits: 4 })
        .build(view(&rows, D))
        .unwrap();
    rows[..D].fill(1e15);
    rows[1] = 0.0;
    index.insert(view(&rows[..D], D), &[90_000]).unwrap();
    assert_eq!(index.stats().code_bytes, 7001 * 48);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coded.jasper");
    index.save(&path).unwrap();
    let opened = Index::open(&path).unwrap();
    assert!(bytes_of(&opened) == bytes_of(&index));
}

#[test]
fn a_trial_that_cannot_begin_leaves_codes() {
    let rows = Clusters::new(D, 5).rows::<f32>(20, 0);
    let index = index(Metric::L2, &rows);
    index.quantize(Quantization::Rabitq { bits: 4 }).unwrap();
    assert!(index.quantize(QuantizeMode::Auto(Device::CPU)).is_err(), "one row is no sample");
    assert_eq!(index.stats().quantization, Some(Quantization::Rabitq { bits: 4 }));
}

#[test]
fn codes_of_data_that_drifted_are_told_from_codes_made_anew() {
    let rows = Clusters::new(D, 5).rows::<f32>(2000, 0);
    let index = index(Metric::L2, &rows);
    assert_eq!(index.check().unwrap().codes, None);
    index.quantize(Quantization::Rabitq { bits: 2 }).unwrap();
    let fitting = index.check().unwrap().codes.unwrap();
    assert_eq!(fitting.error, fitting.retrained_error, "the same rows teach the same");
    assert!(!fitting.has_drifted());
    // Other clusters, elsewhere.
    let others: Vec<f32> = Clusters::new(D, 77).rows::<f32>(2000, 0).iter().map(|x| x + 500.0).collect();
    index.delete(&(0..2000).collect::<Vec<_>>()).unwrap();
    index.insert(view(&others, D), NewKeys::NEXT).unwrap();
    index.consolidate().unwrap();
    let drifted = index.check().unwrap().codes.unwrap();
    assert!(drifted.error > 1.5 * drifted.retrained_error && drifted.has_drifted(), "{drifted:?}");
    index.quantize(Quantization::Rabitq { bits: 2 }).unwrap();
    let again = index.check().unwrap().codes.unwrap();
    assert_eq!([again.error, again.retrained_error], [drifted.retrained_error; 2]);
}

#[test]
fn a_build_makes_codes_and_plans_for_them() {
    let rows = Clusters::new(D, 5).rows::<f32>(1000, 0);
    let builder = IndexBuilder::new(Metric::L2).max_degree(16).build_beam_width(32);
    let with = builder.clone().quantize(Quantization::Rabitq { bits: 4 });
    let index = with.build(view(&rows, D)).unwrap();
    assert!(
        builder
            .clone()
            .quantize(Quantization::Rabitq { bits: 64 })
            .memory_plan(ElementKind::F32, 10, D)
            .is_err()
    );
    let plan = with.memory_plan(ElementKind::F32, 1000, D).unwrap();
    let codes = plan.parts().iter().find(|part| part.name == "codes").unwrap();
    assert_eq!(codes.bytes, index.stats().code_bytes as u64);
    assert!(
        !builder
            .memory_plan(ElementKind::F32, 1000, D)
            .unwrap()
            .parts()
            .iter()
            .any(|part| part.name == "codes")
    );
    for code in [
        Quantization::Rabitq { bits: 1 },
        Quantization::Rabitq { bits: 7 },
        Quantization::Mixed { sectors: 3 },
    ] {
        let with = builder.clone().quantize(code);
        let index = with.build(view(&rows, D)).unwrap();
        assert_eq!(index.stats().code_bytes, 1000 * code.bytes(D), "{code}");
        let bytes = planned(with, D);
        let learnt = index
            .read_graph(|graph| graph.vectors().codes().unwrap().quantizer().to_bytes().len() as u64)
            .unwrap();
        assert!(
            bytes[0] == 1000 * code.bytes(D) as u64 && bytes[1] + 64 > learnt,
            "{code}: {bytes:?}, {learnt}"
        );
    }
}

/// The planned bytes of codes and of their quantizer.
fn planned(builder: IndexBuilder<'_>, dimension: usize) -> Vec<u64> {
    let plan = builder.memory_plan(ElementKind::F32, 1000, dimension).unwrap();
    let of = |name| plan.parts().iter().find(|part| part.name == name).map(|part| part.bytes);
    ["codes", "quantizer"].into_iter().filter_map(of).collect()
}

#[test]
fn a_build_finds_a_code_by_a_trial_and_plans_for_the_largest() {
    // Long enough that a CPU, too, gains by codes.
    const LONG: usize = 256;
    let rows = Clusters::new(LONG, 5).rows::<f32>(2000, 0);
    let builder = IndexBuilder::new(Metric::L2).max_degree(16).build_beam_width(32);
    let behind = builder.build(view(&rows, LONG)).unwrap();
    let trial = behind.quantize(QuantizeMode::Auto(behind.stats().build.unwrap().device)).unwrap();
    assert!(trial.quantization.is_some(), "{trial:?}");
    let index = builder.clone().quantize(QuantizeMode::Auto(Device::AUTO)).build(view(&rows, LONG)).unwrap();
    assert!(bytes_of(&index) == bytes_of(&behind), "as a trial behind the build");
    let largest = 1000 * Quantization::Rabitq { bits: 4 }.bytes(LONG) as u64;
    assert_eq!(planned(builder.clone().quantize(QuantizeMode::Auto(Device::AUTO)), LONG)[0], largest);
    let few =
        builder.quantize(QuantizeMode::Auto(Device::AUTO)).build(view(&rows[..20 * LONG], LONG)).unwrap_err();
    assert_eq!(few.kind(), ErrorKind::InvalidInput, "{few}");
}

#[test]
fn what_nothing_can_be_learnt_from_is_refused() {
    let empty: Index = IndexBuilder::new(Metric::L2).empty(ElementKind::F32, D).unwrap();
    let error = empty.quantize(Quantization::Rabitq { bits: 4 }).unwrap_err();
    assert!(error.to_string().contains("training vectors are too few"), "{error}");
    let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&[1.0_f32, 2.0], 2).unwrap()).unwrap();
    assert!(index.quantize(Quantization::Rabitq { bits: 9 }).is_err());
    assert!(index.quantize(Quantization::Mixed { sectors: 1 }).is_err(), "components of one row");
    index.quantize(Quantization::Rabitq { bits: 1 }).unwrap();
    assert_eq!(index.search(&[1.0, 2.0], SearchParams::new(1)).unwrap()[0].distance, 0.0);
}

/// Two clusters so far apart that the errors of codes, in proportion to this distance, hide what is near in one.
fn far_clusters() -> Vec<f32> {
    let mut rows = Clusters::new(16, 5).rows::<f32>(2000, 0);
    rows[1000 * 16..].iter_mut().for_each(|x| *x += 1e6);
    rows
}

#[test]
fn codes_by_which_neighbors_are_lost_are_refused_unless_forced() {
    let code = Quantization::Rabitq { bits: 8 };
    let rows = far_clusters();
    let builder = || IndexBuilder::new(Metric::L2).max_degree(8).build_beam_width(16);
    assert!(matches!(
        builder().quantize(code).build(view(&rows, 16)).unwrap_err().downcast_ref(),
        Some(UpdateError::CodesLose { .. })
    ));
    let index = builder().build(view(&rows, 16)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("durable");
    index.save_durable(&folder).unwrap();
    let index = Index::open(&folder).unwrap();
    index.quantize(Quantization::Rabitq { bits: 1 }).unwrap_err();
    let error = index.quantize(code).unwrap_err();
    assert!(
        matches!(error.downcast_ref(), Some(UpdateError::CodesLose { recall, .. }) if *recall < 0.5),
        "{error}"
    );
    assert_eq!(index.stats().quantization, None);
    index.quantize(QuantizeMode::Forced(code)).unwrap();
    assert!(index.quantize(Quantization::Mixed { sectors: 1 }).is_err());
    assert_eq!(index.stats().quantization, Some(code), "a refusal leaves the codes");
    drop(index);
    // Neither a replay of the journal nor a rebuild refuses what was forced.
    let index = Index::open(&folder).unwrap();
    assert_eq!(index.stats().quantization, Some(code));
    assert_eq!(index.rebuild(Device::CPU).unwrap().stats().quantization, Some(code));
}

/// A tenth of the vectors lie so close together that codes cannot distinguish them. The graph has so few edges that exact
/// searches miss neighbors of the other vectors too. A wider beam finds those, so the mean recall by codes is high enough,
/// and only the check of each vector refuses the codes.
#[test]
fn a_trial_refuses_codes_by_which_a_part_of_the_vectors_is_lost() {
    const DIMENSION: usize = 128;
    let set = Clusters { clusters: 1, latent: 0, ..Clusters::new(DIMENSION, 9) };
    let mut rows = set.rows::<f32>(3000, 0);
    let index_of = |rows: &[f32]| {
        let builder = IndexBuilder::new(Metric::L2).max_degree(6).build_beam_width(12);
        builder.build(view(rows, DIMENSION)).unwrap()
    };
    let by_trial = |index: &Index| index.quantize(QuantizeMode::Auto(Device::cuda(0))).unwrap();
    assert!(by_trial(&index_of(&rows)).quantization.is_some());
    rows[..300 * DIMENSION].iter_mut().for_each(|x| *x *= 1e-3);
    let report = by_trial(&index_of(&rows));
    assert_eq!(report.quantization, None, "{report:?}");
    let tried = report.trial.unwrap().tried;
    assert!(!tried.is_empty() && tried.iter().all(|tried| tried.beam_width.is_none()));
}

#[test]
fn codes_of_usual_vectors_are_not_refused() {
    for (rows, dimension) in [(60, 16), (3000, 16), (3000, 200)] {
        let vectors = Clusters::new(dimension, 5).rows::<f32>(rows, 0);
        for metric in Metric::ALL {
            let builder = IndexBuilder::new(metric).max_degree(8).build_beam_width(16);
            let index = builder.build(view(&vectors, dimension)).unwrap();
            for code in ["rabitq:1", "rabitq:8", "mixed:1"] {
                index.quantize(code.parse::<Quantization>().unwrap()).unwrap();
            }
        }
    }
}

/// Values of any size, in many shapes: what is quantized can be saved and opened, and the rest is refused by name.
#[test]
fn codes_of_odd_values_can_be_opened_or_are_refused() {
    let rows = Clusters::new(D, 5).rows::<f32>(100, 0);
    let with = |change: &dyn Fn(usize, f32) -> f32| -> Vec<f32> {
        rows.iter().enumerate().map(|(i, &x)| change(i, x)).collect()
    };
    let sets = [1e-42, 1e-32, 1e-20, 1e10, 1e16].map(|scale| with(&|_, x| x * scale));
    let one_long = with(&|i, x| if i < D { x * 1e16 } else { x });
    let nearly_constant = with(&|i, _| 1e15 + if i % 17 == 0 { 1e8 } else { 0.0 });
    let one_hot = with(&|i, _| f32::from(i % D == i / D % D));
    for rows in sets.into_iter().chain([one_long, nearly_constant, one_hot]) {
        for metric in Metric::ALL {
            let Ok(index) = IndexBuilder::new(metric).max_degree(8).build(view(&rows, D)) else { continue };
            for code in ["rabitq:1", "rabitq:4", "rabitq:8", "mixed:1", "mixed:2", "mixed:4"] {
                let code: Quantization = code.parse().unwrap();
                if let Err(error) = index.quantize(QuantizeMode::Forced(code)) {
                    assert!(
                        matches!(error.downcast_ref(), Some(TrainError::Range(refused)) if *refused == code)
                    );
                    continue;
                }
                let bytes = index.to_bytes().unwrap();
                let opened: Index = OpenOptions::new().open_bytes(&bytes).unwrap();
                assert_eq!(opened.stats().quantization, Some(code));
                assert!(opened.search(&rows[..D], SearchParams::new(K)).is_ok());
            }
        }
    }
}
