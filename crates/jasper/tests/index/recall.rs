//! Recall after a build and after changes, in every metric.

use jasper::{Element, ElementKind, Hit, Index, IndexBuilder, Key, Metric, NewKeys, SearchParams, f16};
use jasper_core::synthetic::Clusters;
use jasper_vamana::unreachable_slots;

use crate::common::{SearchHits, view};

use crate::churn::{self, Churn, Round};

const DIMENSION: usize = 24;
const K: usize = 10;

/// Mean recall of an index that holds the rows `inside` under their numbers.
fn recall<T: Element>(index: &Index, rows: &[T], inside: &[Key], queries: &[T], beam_width: usize) -> f64 {
    let params = SearchParams::new(K).beam_width(beam_width);
    churn::recall(index, view(rows, DIMENSION), inside, view(queries, DIMENSION), params).unwrap()
}

fn numbers<T>(rows: &[T]) -> Vec<Key> {
    (0..(rows.len() / DIMENSION) as Key).collect()
}

fn builder<'a>(metric: Metric) -> IndexBuilder<'a> {
    IndexBuilder::new(metric).max_degree(32).build_beam_width(64).threads(2)
}

/// Inserts a stream of the clusters `labels` into an empty index, in parts and at once.
fn a_stream_is_as_good_as_a_build(what: &str, labels: &[usize]) {
    let set = Clusters::new(DIMENSION, 51);
    let rows: Vec<f32> = set.rows_of(labels, 0);
    let queries: Vec<f32> = set.rows(300, 1);
    let built = builder(Metric::L2).build(view(&rows, DIMENSION)).unwrap();
    let at_once = builder(Metric::L2).empty(ElementKind::F32, DIMENSION).unwrap();
    at_once.insert(view(&rows, DIMENSION), NewKeys::NEXT).unwrap();
    let by_and_by = builder(Metric::L2).empty(ElementKind::F32, DIMENSION).unwrap();
    for rows in rows.chunks(100 * DIMENSION) {
        by_and_by.insert(view(rows, DIMENSION), NewKeys::NEXT).unwrap();
    }
    for beam_width in [12, 24, 48] {
        let [built, at_once, by_and_by] = [&built, &at_once, &by_and_by]
            .map(|index| recall(index, &rows, &numbers(&rows), &queries, beam_width));
        println!(
            "{what}, beam {beam_width}: built {built:.4}, at once {at_once:.4}, by and by {by_and_by:.4}"
        );
        assert!(at_once >= built - 0.01 && by_and_by >= built - 0.01, "{what}, beam {beam_width}");
    }
    assert!(at_once.check().unwrap().is_sound() && by_and_by.check().unwrap().is_sound());
}

#[test]
fn a_sorted_stream_is_as_good_as_a_build() {
    a_stream_is_as_good_as_a_build("sorted", &(0..9000).map(|i| i / 450).collect::<Vec<_>>());
}

/// Eight interleaved sources, each sorted: the sample of a batch must not be all of one source.
#[test]
fn sorted_streams_in_turn_are_as_good_as_a_build() {
    let label = |i: usize| (i % 8 * 5 + i / 1800) % 20;
    a_stream_is_as_good_as_a_build("in turn", &(0..9000).map(label).collect::<Vec<_>>());
}

/// A few rows near each other and far from all others.
#[test]
fn few_rows_apart_are_found() {
    let set = Clusters::new(DIMENSION, 58);
    let index = builder(Metric::L2).build(view(&set.rows::<f32>(9000, 0), DIMENSION)).unwrap();
    let mut rows: Vec<f32> = set.rows(1000, 2);
    for (number, burst) in [2, 4, 8, 16].into_iter().enumerate() {
        let first = 100 + 200 * number;
        for (i, row) in rows.chunks_mut(DIMENSION).skip(first).take(burst).enumerate() {
            row.fill(300.0 * (number + 1) as f32);
            row[i] += 1.0;
        }
    }
    index.insert(view(&rows, DIMENSION), NewKeys::NEXT).unwrap();
    assert!(index.check().unwrap().is_sound());
    for (number, burst) in [2, 4, 8, 16].into_iter().enumerate() {
        let first = 100 + 200 * number;
        for row in first..first + burst {
            let params = SearchParams::new(burst).beam_width(24);
            let found = index.search(&rows[row * DIMENSION..][..DIMENSION], params).unwrap();
            let mut keys: Vec<Key> = found.iter().map(|hit| hit.key - 9000).collect();
            assert_eq!(keys[0], row as Key, "of {burst}");
            keys.sort_unstable();
            assert!(keys.into_iter().eq((first..first + burst).map(|row| row as Key)), "of {burst}");
        }
    }
}

#[test]
fn a_consolidated_index_has_lost_nothing() {
    let set = Clusters::new(DIMENSION, 52);
    let rows: Vec<u8> = set.rows(12_000, 0);
    let queries: Vec<u8> = set.rows(300, 1);
    let index = builder(Metric::L2).build(view(&rows, DIMENSION)).unwrap();
    let all = numbers(&rows);
    let widths = [12, 24, 48];
    let before = widths.map(|width| recall(&index, &rows, &all, &queries, width));
    let gone: Vec<Key> = (0..1200).map(|i| i * 10 + i % 7).collect();
    index.delete(&gone).unwrap();
    let held: Vec<Key> = all.iter().copied().filter(|key| !gone.contains(key)).collect();
    let marked = widths.map(|width| recall(&index, &rows, &held, &queries, width));
    index.consolidate().unwrap();
    let after = widths.map(|width| recall(&index, &rows, &held, &queries, width));
    println!("consolidated: before {before:.4?}, marked {marked:.4?}, after {after:.4?}");
    for ((before, marked), after) in before.into_iter().zip(marked).zip(after) {
        assert!(marked >= before - 0.005 && after >= before - 0.005);
    }
    assert!(index.check().unwrap().is_sound());
}

/// The program `churn` of `benches` does the same with a hundred rounds over a file.
#[test]
fn recall_stays_when_vectors_come_and_go() {
    let set = Clusters::new(DIMENSION, 53);
    let rows: Vec<f32> = set.rows(9000, 0);
    let queries: Vec<f32> = set.rows(200, 1);
    for consolidate_at in [0.0, 0.1] {
        let churn = Churn { live: 6000, rounds: 25, share: 0.02, consolidate_at, k: K, beam_width: 16 };
        let mut seen: Vec<Round> = Vec::new();
        let rows = view(&rows, DIMENSION);
        let fresh = churn
            .play(builder(Metric::L2), rows, view(&queries, DIMENSION), |round| seen.push(round))
            .unwrap();
        let recalls: Vec<f64> = seen.iter().map(|round| round.recall).collect();
        println!("churn, consolidated at {consolidate_at}: {recalls:.4?}, fresh {fresh:.4}");
        for Round { number, recall, unreachable, deleted } in seen {
            assert_eq!(unreachable, 0, "round {number}");
            assert!(deleted as f64 <= consolidate_at * 6000.0, "round {number}: {deleted} deleted");
            assert!(recall >= fresh - 0.01, "round {number}: {recall:.4}, fresh {fresh:.4}");
        }
    }
}

/// Rows of one direction each, at lengths that differ by a factor of up to some fifty.
fn uneven(rows: &[f32], factor: impl Fn(usize) -> f32) -> Vec<f32> {
    rows.iter().enumerate().map(|(i, x)| x * factor(i / DIMENSION)).collect()
}

#[test]
fn inner_products_of_uneven_rows_are_found() {
    let set = Clusters::new(DIMENSION, 54);
    let queries: Vec<f32> = set.rows(300, 1);
    let rows = uneven(&set.rows::<f32>(8000, 0), |row| ((row * 7919 % 1000) as f32 / 250.0 - 2.0).exp());
    // The longest rows are near all others, and need all the edges that they get by default.
    let builder = IndexBuilder::new(Metric::InnerProduct).threads(2);
    let index = builder.build(view(&rows, DIMENSION)).unwrap();
    let built = recall(&index, &rows, &numbers(&rows), &queries, 64);
    // Three times as long as any before: every edge was chosen for another largest length.
    let long = uneven(&set.rows::<f32>(400, 2), |row| 20.0 + row as f32 / 100.0);
    index.insert(view(&long, DIMENSION), NewKeys::NEXT).unwrap();
    let all = [rows, long].concat();
    let grown = recall(&index, &all, &numbers(&all), &queries, 64);
    println!("inner product of uneven rows: {built:.4}, with longer ones {grown:.4}");
    assert!(built >= 0.97 && grown >= 0.97);
    assert!(index.check().unwrap().is_sound());
}

fn quantised<T: Element>(metric: Metric, floor: f64) {
    let set = Clusters::new(DIMENSION, 55);
    let queries: Vec<T> = set.rows(300, 1);
    let rows: Vec<f32> = set.rows::<T>(6000, 0).iter().map(|x| x.to_f32()).collect();
    let rows: Vec<T> = uneven(&rows, |row| (row % 5 + 4) as f32 / 8.0).into_iter().map(T::from_f32).collect();
    let index = builder(metric).build(view(&rows, DIMENSION)).unwrap();
    let found = recall(&index, &rows, &numbers(&rows), &queries, 32);
    println!("{} {metric}: {found:.4}", T::KIND);
    assert!(found >= floor, "{} {metric}: {found}", T::KIND);
}

#[test]
fn every_element_finds_its_neighbors() {
    for metric in Metric::ALL {
        quantised::<f32>(metric, 0.97);
        quantised::<u8>(metric, 0.97);
        quantised::<i8>(metric, 0.97);
    }
    // Rows at unit length in ten bits of mantissa, which do not distinguish neighbors closer than that.
    quantised::<f16>(Metric::L2, 0.97);
    quantised::<f16>(Metric::InnerProduct, 0.97);
    quantised::<f16>(Metric::Cosine, 0.95);
}

#[test]
fn answers_do_not_depend_on_how_many_are_asked() {
    let set = Clusters::new(DIMENSION, 56);
    let rows: Vec<f32> = set.rows(3000, 0);
    let queries: Vec<f32> = set.rows(257, 1);
    let index = builder(Metric::L2).build(view(&rows, DIMENSION)).unwrap();
    for deleted in [0, 300] {
        index.delete(&(0..deleted).collect::<Vec<_>>()).unwrap();
        let params = SearchParams::new(7).beam_width(20);
        let one_by_one: Vec<Hit> =
            queries.chunks_exact(DIMENSION).flat_map(|query| index.search(query, params).unwrap()).collect();
        for size in [1, 2, 8, 9, 100, 257] {
            let batches = queries.chunks(size * DIMENSION);
            let hits: Vec<Hit> = batches
                .flat_map(|batch| index.search_hits(view(batch, DIMENSION), params).unwrap())
                .collect();
            assert_eq!(hits, one_by_one, "batches of {size}");
        }
    }
}

/// Linking SQ8 vectors finds the same neighbors, in every metric.
#[test]
fn sq8_links_find_as_much() {
    let set = Clusters::new(DIMENSION, 55);
    for metric in Metric::ALL {
        // Rows far from the origin, unless the metric is the inner product.
        let moved = |x: f32| x * 1e-3 + if metric == Metric::InnerProduct { 0.0 } else { 7.0 };
        let [rows, queries] = [(9000, 0), (300, 1)].map(|(count, seed)| -> Vec<f32> {
            set.rows::<f32>(count, seed).into_iter().map(moved).collect()
        });
        let exact = builder(metric).exact_linking(true).build(view(&rows, DIMENSION)).unwrap();
        let sq8 = builder(metric).build(view(&rows, DIMENSION)).unwrap();
        assert!(!sq8.stats().build.unwrap().exact_linking);
        for beam_width in [12, 24, 48] {
            let [exact, sq8] =
                [&exact, &sq8].map(|index| recall(index, &rows, &numbers(&rows), &queries, beam_width));
            println!("{metric}, beam {beam_width}: exact {exact:.4}, SQ8 {sq8:.4}");
            assert!(sq8 >= exact - 0.01, "{metric}, beam {beam_width}");
        }
        assert!(sq8.check().unwrap().is_sound());
    }
}

/// Lengths that spread by a factor of 57.
fn length(row: usize) -> f32 {
    1.5_f32.powi((row * 7 % 11) as i32 - 5)
}

/// Long rows are the results, with both kinds of linking, and also if a much longer one was deleted.
#[test]
fn inner_products_of_uneven_lengths_are_found() {
    let set = Clusters::new(DIMENSION, 56);
    let rows = uneven(&set.rows::<f32>(9000, 0), length);
    let queries: Vec<f32> = set.rows(300, 1);
    let sq8 = builder(Metric::InnerProduct);
    for builder in [sq8.clone(), sq8.exact_linking(true)] {
        let index = builder.build(view(&rows, DIMENSION)).unwrap();
        let found = recall(&index, &rows, &numbers(&rows), &queries, 48);
        println!("uneven lengths: {found:.4}");
        assert!(found >= 0.99);
    }
    let mut long = rows;
    long[..DIMENSION].iter_mut().for_each(|x| *x *= 1e5);
    let index = builder(Metric::InnerProduct).build(view(&long, DIMENSION)).unwrap();
    index.delete(&[0]).unwrap();
    index.consolidate().unwrap();
    let found = recall(&index, &long, &numbers(&long)[1..], &queries, 48);
    println!("beside a long one: {found:.4}");
    assert!(found >= 0.99);
}

/// All vectors are reachable when an insert returns, the new ones alone or with others near them.
#[test]
fn short_rows_stay_reachable() {
    let set = Clusters::new(DIMENSION, 57);
    let index = builder(Metric::InnerProduct)
        .build(view(&uneven(&set.rows::<f32>(9000, 0), length), DIMENSION))
        .unwrap();
    let insert = |rows: &[f32], first: Key| {
        let keys: Vec<Key> = (first..).take(rows.len() / DIMENSION).collect();
        index.insert(view(rows, DIMENSION), &keys).unwrap();
        let lost = index.read_graph(unreachable_slots).unwrap();
        assert!(lost.is_empty(), "{lost:?} cannot be found");
    };
    for (row, key) in uneven(&set.rows::<f32>(100, 2), length).chunks(DIMENSION).zip(20_000..) {
        insert(row, key);
    }
    // Short rows near each other: they have edges to each other, and no other row has an edge to them.
    let beside = |i: usize| 1e-3 * (1.0 + (i % 7 + i / DIMENSION) as f32 * 1e-2);
    let few: Vec<f32> = (0..10 * DIMENSION).map(beside).collect();
    insert(&few, 30_000);
}

/// Vectors of very different lengths, on which rows of few edges lost half of the neighbors.
#[test]
fn builds_follow_heavy_tails() {
    let draw = |n: usize, stream: u64| {
        let normal: Vec<f32> =
            Clusters { clusters: 1, latent: DIMENSION, ..Clusters::new(DIMENSION, 61) }.rows(n, stream);
        let scale: Vec<f32> = Clusters { clusters: 1, latent: 1, ..Clusters::new(1, 62) }.rows(n, stream);
        let mean = scale.iter().sum::<f32>() / n as f32;
        let rows = normal.chunks(DIMENSION).zip(&scale);
        rows.flat_map(|(row, scale)| row.iter().map(move |x| x / ((scale - mean).abs() / 20.0 + 0.01)))
            .collect::<Vec<f32>>()
    };
    let (rows, queries) = (draw(18_000, 0), draw(200, 1));
    let build = |builder: IndexBuilder<'_>| builder.threads(2).build(view(&rows, DIMENSION)).unwrap();
    let index = build(IndexBuilder::new(Metric::L2));
    let recall = recall(&index, &rows, &numbers(&rows), &queries, 64);
    let report = index.stats().build.unwrap();
    let thin = |graph: &jasper_graph::Graph| {
        let degrees = graph.keys().live_slots().map(|slot| graph.adjacency().neighbors(slot).len());
        degrees.filter(|&degree| degree < 16).count()
    };
    assert_eq!(index.read_graph(thin).unwrap(), 0);
    assert!(recall > 0.99, "{recall}");
    // Rows that are filled miss none of so few vectors: L and alpha stay.
    assert_eq!((report.missed_neighbors, report.build_beam_width, report.alpha), (Some(0.0), 128, 1.2));
    // A width that is given stays, and nothing is measured.
    let fixed = build(IndexBuilder::new(Metric::L2).build_beam_width(32));
    let report = fixed.stats().build.unwrap();
    assert_eq!((report.build_beam_width, report.missed_neighbors), (32, None));
}

/// Rows of positive coordinates, and queries of negative ones: the results are the shortest rows.
#[test]
fn negative_inner_products_are_found() {
    let set = Clusters { clusters: 1, latent: DIMENSION, ..Clusters::new(DIMENSION, 64) };
    let draw = |n, stream, sign: f32| -> Vec<f32> {
        set.rows::<f32>(n, stream).iter().map(|x| sign * x.abs()).collect()
    };
    let (rows, queries) = (draw(6000, 0, 1.0), draw(100, 1, -1.0));
    let keys = numbers(&rows);
    let builder = IndexBuilder::new(Metric::InnerProduct).threads(2);
    let built = builder.clone().build(view(&rows, DIMENSION)).unwrap();
    let grown = builder.empty(ElementKind::F32, DIMENSION).unwrap();
    // One at a time at first, before there is a center.
    for range in (0..10).map(|i| i..i + 1).chain([10..300, 300..2000, 2000..6000]) {
        let new = &rows[range.start * DIMENSION..range.end * DIMENSION];
        grown.insert(view(new, DIMENSION), &keys[range]).unwrap();
    }
    for index in [&built, &grown] {
        let found = recall(index, &rows, &keys, &queries, 64);
        assert!(found > 0.95, "{found}");
    }
}

/// The neighbors of deleted hubs are hubs, which are deleted too.
#[test]
fn recall_survives_the_consolidation_of_hubs() {
    let set = Clusters { clusters: 1, latent: DIMENSION, ..Clusters::new(DIMENSION, 63) };
    // A mean of some times the spread.
    let mean: Vec<f32> = set.rows(1, 2);
    let draw = |n, stream| -> Vec<f32> {
        set.rows::<f32>(n, stream).iter().zip(mean.iter().cycle()).map(|(x, mean)| x + 2.0 * mean).collect()
    };
    let (rows, queries) = (draw(8000, 0), draw(100, 1));
    let index = IndexBuilder::new(Metric::InnerProduct).threads(2).build(view(&rows, DIMENSION)).unwrap();
    let mut by_length = numbers(&rows);
    let length = |key: Key| rows[key as usize * DIMENSION..][..DIMENSION].iter().map(|x| x * x).sum::<f32>();
    by_length.sort_by(|&a, &b| length(b).total_cmp(&length(a)));
    let (deleted, left) = by_length.split_at(2400);
    index.delete(deleted).unwrap();
    index.consolidate().unwrap();
    let recall = recall(&index, &rows, left, &queries, 64);
    assert!(recall > 0.97, "{recall}");
}

/// Clusters move away from where they were, step by step. Each is nearest to where it was before, and what led from one
/// to another is deleted.
#[test]
fn clusters_that_move_are_found() {
    const ROWS: usize = 2400;
    const STEPS: usize = 10;
    let set = Clusters { clusters: 40, latent: 6, ..Clusters::new(DIMENSION, 71) };
    let moved = |step: usize, rows: &mut [f32]| {
        for row in rows.chunks_exact_mut(DIMENSION) {
            row.iter_mut()
                .enumerate()
                .for_each(|(i, x)| *x += if i % 2 == 0 { 60.0 } else { -60.0 } * step as f32);
        }
    };
    let mut rows: Vec<f32> = set.rows(2 * STEPS * ROWS, 0);
    let mut queries: Vec<f32> = set.rows(320, 1);
    let half = STEPS * ROWS;
    for step in 0..STEPS {
        moved(step + 1, &mut rows[(half + step * ROWS) * DIMENSION..][..ROWS * DIMENSION]);
        moved(step + 1, &mut queries[step * 32 * DIMENSION..][..32 * DIMENSION]);
    }
    let index = builder(Metric::L2).build(view(&rows[..half * DIMENSION], DIMENSION)).unwrap();
    let keys = numbers(&rows);
    let (old, new) = keys.split_at(half);
    for (old, new) in old.chunks(ROWS).zip(new.chunks(ROWS)) {
        index.insert(view(&rows[new[0] as usize * DIMENSION..][..ROWS * DIMENSION], DIMENSION), new).unwrap();
        index.delete(old).unwrap();
        index.consolidate().unwrap();
    }
    let recall = recall(&index, &rows, new, &queries, 32);
    assert!(recall > 0.995, "{recall}");
}
