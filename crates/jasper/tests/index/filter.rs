//! Filters: only matching keys are returned, all of them if they are few, and nothing changes if all keys match.

use jasper::{Device, Filter, Hit, Index, IndexBuilder, Key, KeyFilter, Metric, SearchParams};
use jasper_core::synthetic::Clusters;

use crate::common::{SearchHits, assert_exact, everything, exact, keys, view};

const DIMENSION: usize = 10;
const ROWS: usize = 5000;

/// A set with copies, so that some vertices have several keys; and queries.
fn set(metric: Metric) -> (Index, Vec<i8>, Vec<i8>) {
    let set = Clusters::new(DIMENSION, 41);
    let mut rows: Vec<i8> = set.rows(ROWS, 0);
    for copy in 0..300 {
        rows.copy_within(copy * DIMENSION..(copy + 1) * DIMENSION, (ROWS - 1 - copy) * DIMENSION);
    }
    let index = IndexBuilder::new(metric)
        .max_degree(24)
        .build_beam_width(48)
        .threads(2)
        .build(view(&rows, DIMENSION));
    (index.unwrap(), rows, set.rows(100, 1))
}

/// Results and report for all queries.
fn answers(index: &Index, queries: &[i8], params: SearchParams<'_>) -> (Vec<Hit>, jasper::SearchReport) {
    let mut hits = vec![Hit::NONE; queries.len() / DIMENSION * params.k];
    let report = index.search_hits_into(view(queries, DIMENSION), params, &mut hits).unwrap();
    (hits, report)
}

#[test]
fn a_filter_that_all_pass_is_no_filter() {
    for metric in Metric::ALL {
        let (index, _, queries) = set(metric);
        let everybody: KeyFilter = (0..ROWS as Key).collect();
        for round in 0..3 {
            let plain = SearchParams::new(10).beam_width(20);
            let (expected, cost) = answers(&index, &queries, plain);
            let all = |_| true;
            for filter in [Filter::Predicate(&all), Filter::Keys(&everybody)] {
                let (hits, report) = answers(&index, &queries, plain.filter(filter));
                assert_eq!(hits, expected, "{metric}, round {round}");
                assert_eq!(report, cost, "{metric}, round {round}: not even the work differs");
            }
            index.delete(&(round * 400..round * 400 + 400).collect::<Vec<_>>()).unwrap();
            if round == 1 {
                index.consolidate().unwrap();
            }
        }
    }
}

#[test]
fn a_filter_that_few_pass_is_answered_exactly() {
    for metric in Metric::ALL {
        let (index, rows, queries) = set(metric);
        for _ in 0..2 {
            for modulus in [100, 250, 1000, 4000] {
                let matches = |key: Key| key % modulus == 3;
                let chosen: KeyFilter = (0..ROWS as Key).filter(|&key| matches(key)).collect();
                let params = SearchParams::new(20).beam_width(40);
                let (hits, report) = answers(&index, &queries, params.filter(&matches));
                assert_eq!((&hits, report), (&answers(&index, &queries, params.filter(&chosen)).0, report));
                assert_eq!(report.scanned, queries.len() / DIMENSION);
                for (query, hits) in queries.chunks_exact(DIMENSION).zip(hits.chunks_exact(20)) {
                    let found: Vec<Hit> = hits.iter().copied().filter(|hit| *hit != Hit::NONE).collect();
                    let allowed = (0..).zip(rows.chunks_exact(DIMENSION));
                    let allowed: Vec<_> =
                        allowed.filter(|(key, _)| matches(*key) && index.contains(*key)).collect();
                    assert_eq!(found.len(), allowed.len().min(20));
                    assert_exact(metric, query, &found, allowed);
                }
            }
            let gone: Vec<Key> = (0..1500).filter(|&key| index.contains(key)).collect();
            index.delete(&gone).unwrap();
        }
    }
}

/// The number of keys that pass is estimated from a sample, which must not alias with periodic keys.
#[test]
fn a_filter_by_residues_is_seen_for_what_it_is() {
    let (index, rows, queries) = set(Metric::L2);
    let beam_width = 8;
    for modulus in 2..=6 {
        for residue in 0..modulus {
            let matches = |key: Key| key % modulus == residue;
            let params = SearchParams::new(1).beam_width(beam_width).filter(&matches);
            let (hits, report) = answers(&index, &queries, params);
            let name = format!("keys that leave {residue} divided by {modulus}");
            assert_eq!(report.scanned, 0, "{name}: so many pass that the graph is cheaper");
            // As many others are expected before the nearest that passes.
            let expected = hits.len() as u64 * (beam_width as u64 + modulus - 1);
            assert!(report.cost.hops * 10 > expected * 8, "{name}: {} hops of {expected}", report.cost.hops);
            let is_right = |(query, hit): (&[i8], &Hit)| {
                let allowed = (0..).zip(rows.chunks_exact(DIMENSION)).filter(|(key, _)| matches(*key));
                matches(hit.key) && f64::from(hit.distance) == exact(Metric::L2, query, allowed)[0].1
            };
            let right = queries.chunks_exact(DIMENSION).zip(&hits).filter(|&pair| is_right(pair)).count();
            assert!(right >= 95, "{name}: {right} of {}", hits.len());
        }
    }
}

/// Keys of the cluster of the queries, and of other clusters: the frontier holds more of those allowed than their
/// share, or none of them.
#[test]
fn filters_that_go_with_the_queries_or_against_them_find_the_nearest() {
    let set = Clusters::new(DIMENSION, 43);
    let labels: Vec<usize> = (0..ROWS).map(|row| row * 7 % set.clusters).collect();
    let rows: Vec<i8> = set.rows_of(&labels, 0);
    let index = IndexBuilder::new(Metric::L2).max_degree(24).build_beam_width(48).threads(2);
    let mut index = index.build(view(&rows, DIMENSION)).unwrap();
    let queries: Vec<i8> = set.rows_of(&[3; 100], 1);
    let kinds: [(&str, &dyn Fn(usize) -> bool); 5] = [
        ("theirs", &|label| label == 3),
        ("half, with theirs", &|label| label < 10),
        ("half, without theirs", &|label| label >= 10),
        ("all but theirs", &|label| label != 3),
        ("another", &|label| label == 12),
    ];
    for device in [Device::CPU, Device::AUTO] {
        index = index.to_device(device).unwrap();
        index.warm_up().unwrap();
        for (name, allows) in kinds {
            let allowed = |key: &Key| allows(labels[*key as usize]);
            let filter: KeyFilter = (0..ROWS as Key).filter(allowed).collect();
            let params = SearchParams::new(10).beam_width(40).filter(&filter);
            let (hits, _) = answers(&index, &queries, params);
            let mut right = 0;
            for (query, hits) in queries.chunks_exact(DIMENSION).zip(hits.chunks_exact(10)) {
                let allowed = (0..).zip(rows.chunks_exact(DIMENSION)).filter(|(key, _)| allowed(key));
                let farthest = exact(Metric::L2, query, allowed)[9].1;
                right += hits.iter().filter(|hit| f64::from(hit.distance) <= farthest).count();
                assert!(hits.iter().all(|hit| filter.contains(hit.key)), "{name}");
            }
            assert!(right >= 980, "{name}: {right} of 1000 on {device}");
        }
    }
}

#[test]
fn a_filter_chooses_among_the_keys_of_one_vertex() {
    let (index, rows, _) = set(Metric::L2);
    // Key 7 and key 4992 have the same row.
    let query = &rows[7 * DIMENSION..8 * DIMENSION];
    assert_eq!(query, &rows[4992 * DIMENSION..4993 * DIMENSION]);
    let late = |key| key >= 4000;
    let params = SearchParams::new(1).filter(&late);
    assert_eq!(keys(&index.search(query, params).unwrap()), [4992]);
    index.delete(&[4992]).unwrap();
    assert_ne!(keys(&index.search(query, params).unwrap()), [4992]);
    assert_eq!(keys(&index.search(query, SearchParams::new(1)).unwrap()), [7]);
}

#[test]
fn a_filter_that_none_pass_has_no_answers() {
    let (index, _, queries) = set(Metric::Cosine);
    let nobody = |_| false;
    let strangers: KeyFilter = (ROWS as Key..ROWS as Key + 100).collect();
    let none = KeyFilter::from_iter([]);
    for filter in [Filter::Predicate(&nobody), Filter::Keys(&none), Filter::Keys(&strangers)] {
        let params = SearchParams::new(3).filter(filter);
        assert_eq!(index.search(&queries[..DIMENSION], params).unwrap(), []);
        assert!(answers(&index, &queries, params).0.iter().all(|hit| *hit == Hit::NONE));
    }
    assert_eq!(everything(&index, &queries[..DIMENSION]).len(), ROWS);
}

/// The index caches the slots of a filter, and updates them with every change and compaction.
#[test]
fn a_filter_used_before_answers_as_a_new_one_after_any_change() {
    let (mut index, rows, queries) = set(Metric::L2);
    let sets: [Vec<Key>; 4] = [
        (0..ROWS as Key).filter(|key| key % 500 < 3).collect(),
        (0..ROWS as Key + 3000).step_by(3).collect(),
        (2000..9000).collect(),
        vec![7, 4992, 6000, 6001],
    ];
    let filters: Vec<KeyFilter> = sets.iter().map(|keys| keys.iter().copied().collect()).collect();
    let params = SearchParams::new(10).beam_width(30);
    let check = |index: &Index| {
        for (filter, keys) in filters.iter().zip(&sets) {
            let anew: KeyFilter = keys.iter().copied().collect();
            let expected = answers(index, &queries, params.filter(&anew)).0;
            assert!(answers(index, &queries, params.filter(filter)).0 == expected, "{filter:?}");
            assert!(expected.iter().all(|hit| *hit == Hit::NONE || anew.contains(hit.key)));
            let alone = index.search(&queries[..DIMENSION], params.filter(filter)).unwrap();
            assert_eq!(alone[..], expected[..alone.len()]);
        }
    };
    for (round, device) in (0..).zip([Device::CPU, Device::AUTO, Device::CPU]) {
        index = index.to_device(device).unwrap();
        index.warm_up().unwrap();
        check(&index);
        index.insert(view(&rows[..500 * DIMENSION], DIMENSION), &(6000..6500).collect::<Vec<_>>()).unwrap();
        check(&index);
        index.delete(&(0..3000).filter(|key| key % 500 == round).collect::<Vec<_>>()).unwrap();
        index.delete(&[4992]).unwrap();
        check(&index);
        index.undelete(&[4992]).unwrap();
        index.consolidate().unwrap();
        check(&index);
        index.compact().unwrap();
        check(&index);
        index.upsert(view(&rows[..3 * DIMENSION], DIMENSION), &[6000, 6001, 4]).unwrap();
        check(&index);
        let cancel = |_: jasper::Progress| std::ops::ControlFlow::Break(());
        let more = view(&queries, DIMENSION);
        let keys: Vec<Key> = (7000..7100).collect();
        assert!(index.with_progress(cancel).insert(more, &keys).is_err());
        check(&index);
        index.delete(&(6000..6500).collect::<Vec<_>>()).unwrap();
    }
}
