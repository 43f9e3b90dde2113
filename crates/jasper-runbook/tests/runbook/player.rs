//! Runbooks played on small sets, whose results can be computed by hand.

use std::collections::BTreeMap;
use std::fs;

use jasper::{Element, ElementKind, Index, IndexBuilder, Key, MatrixView, Metric, f16};
use jasper_core::no_progress;
use jasper_core::synthetic::Clusters;
use jasper_data::GroundTruth;
use jasper_runbook::{Event, Operation, PlayError, Player, Runbook, StepReport};

const DIMENSION: usize = 12;
const ROWS: usize = 600;

/// Inserts, deletes, inserts again and replaces, by rows that were in and others that were not.
fn mixed() -> Runbook {
    let steps = [
        Operation::Insert(0..300),
        Operation::Search,
        Operation::Delete(50..200),
        Operation::Search,
        Operation::Insert(50..100),
        Operation::Replace { tags: 0..80, ids: 400..480 },
        Operation::Replace { tags: 40..80, ids: 0..40 },
        Operation::Search,
        Operation::Delete(0..60),
        Operation::Insert(500..600),
        Operation::Search,
    ];
    Runbook::new("mixed", steps).unwrap()
}

/// The row that each tag stands for at each search of [`mixed`].
fn live_at_searches() -> BTreeMap<usize, BTreeMap<Key, usize>> {
    let first: BTreeMap<Key, usize> = (0..300).map(|tag| (tag as Key, tag)).collect();
    let mut deleted = first.clone();
    deleted.retain(|tag, _| !(50..200).contains(tag));
    let mut replaced = deleted.clone();
    replaced.extend((50..100).map(|tag| (tag as Key, tag)));
    replaced.extend((0..40).map(|tag| (tag as Key, 400 + tag)));
    replaced.extend((40..80).map(|tag| (tag as Key, tag - 40)));
    let mut last = replaced.clone();
    last.retain(|tag, _| *tag >= 60);
    last.extend((500..600).map(|tag| (tag as Key, tag)));
    BTreeMap::from([(2, first), (4, deleted), (8, replaced), (11, last)])
}

fn view<T: Element>(rows: &[T], dimension: usize) -> MatrixView<'_, T> {
    MatrixView::new(rows, dimension).unwrap()
}

/// Edges and frontiers small enough that graphs of some hundred vertices are not complete.
fn small<'a>(metric: Metric) -> IndexBuilder<'a> {
    IndexBuilder::new(metric).max_degree(8).build_beam_width(16).threads(2)
}

/// The distance of two vectors by the metric's definition, in f64.
fn distance<T: Element>(metric: Metric, a: &[T], b: &[T]) -> f64 {
    let wide = |row: &[T]| row.iter().map(|x| f64::from(x.to_f32())).collect::<Vec<_>>();
    let (a, b) = (wide(a), wide(b));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    match metric {
        Metric::L2 => a.iter().zip(&b).map(|(x, y)| (x - y).powi(2)).sum(),
        Metric::InnerProduct => -dot(&a, &b),
        Metric::Cosine => 1.0 - dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt(),
    }
}

fn empty<T: Element>(metric: Metric) -> Index {
    small(metric).empty(T::KIND, DIMENSION).unwrap()
}

fn played<T: Element>(player: &Player<'_, T>, index: &Index) -> Vec<StepReport> {
    let mut moments = Vec::new();
    player.play(index, &mut no_progress, &mut |moment| moments.push(moment)).unwrap();
    moments
}

#[test]
fn truths_are_those_of_the_moment() {
    fn case<T: Element>() {
        let set = Clusters::new(DIMENSION, 5);
        let (rows, queries): (Vec<T>, Vec<T>) = (set.rows(ROWS, 0), set.rows(9, 1));
        let (rows, queries) = (view(&rows, DIMENSION), view(&queries, DIMENSION));
        let runbook = mixed();
        for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
            let folder = tempfile::tempdir().unwrap();
            let player = Player::new(&runbook, rows, queries).truths(folder.path()).threads(2);
            played(&player, &empty::<T>(metric));
            for (step, live) in live_at_searches() {
                let truth = GroundTruth::read(folder.path().join(format!("step{step}.gt100"))).unwrap();
                assert_eq!((truth.len(), truth.k()), (queries.len(), 100));
                for (query, row) in queries.rows().enumerate() {
                    let exact = |tag: Key| distance(metric, row, rows.row(live[&tag]));
                    let mut all: Vec<f64> = live.keys().map(|&tag| exact(tag)).collect();
                    all.sort_by(f64::total_cmp);
                    let found = truth.truth(query);
                    for (at, (&tag, &given)) in found.ids.iter().zip(found.distances.unwrap()).enumerate() {
                        let near = |x: f64, y: f64| (x - y).abs() <= 1e-3 * (1.0 + x.abs());
                        assert!(near(exact(tag.into()), given.into()), "{metric}: {tag}");
                        assert!(near(all[at], given.into()), "{metric}: neighbor {at} of query {query}");
                    }
                }
            }
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
        }
    }
    case::<f32>();
    case::<f16>();
    case::<u8>();
    case::<i8>();
}

/// A frontier as wide as the index visits every reachable vertex, so the results are exact.
#[test]
fn an_index_that_misses_nothing_has_full_recall_and_goes_the_same_way_again() {
    let set = Clusters::new(DIMENSION, 5);
    let (rows, queries): (Vec<i8>, Vec<i8>) = (set.rows(ROWS, 0), set.rows(9, 1));
    let runbook = mixed();
    let player = Player::new(&runbook, view(&rows, DIMENSION), view(&queries, DIMENSION)).search(20, 400);
    let index = empty::<i8>(Metric::L2);
    let moments = played(&player, &index);
    let message = |moment: &StepReport| {
        let (recall, cost) = match moment.event {
            Event::Search { recall, cost, .. } => (Some(recall), Some(cost)),
            _ => (None, None),
        };
        (moment.step, moment.count, moment.stats.clone(), recall, cost)
    };
    let again = played(&player, &empty::<i8>(Metric::L2));
    assert_eq!(
        moments.iter().map(message).collect::<Vec<_>>(),
        again.iter().map(message).collect::<Vec<_>>()
    );

    let counts: Vec<_> =
        moments.iter().map(|moment| (moment.step, moment.count, moment.stats.keys)).collect();
    let mended = |step| moments.iter().any(|m| m.step == step && m.event == Event::Consolidate);
    assert!(mended(3), "half of the vertices went");
    let steps = [
        (1, 300, 300),
        (2, 9, 300),
        (3, 150, 150),
        (4, 9, 150),
        (5, 50, 200),
        (6, 80, 200),
        (7, 40, 200),
        (8, 9, 200),
        (9, 60, 140),
        (10, 100, 240),
        (11, 9, 240),
    ];
    assert!(steps.iter().all(|step| counts.contains(step)), "{counts:?}");
    for moment in &moments {
        if let Event::Search { recall, .. } = moment.event {
            assert_eq!(recall, 1.0, "step {}", moment.step);
        }
    }
    assert!(index.check().unwrap().is_sound(), "{:?}", index.check().unwrap());
}

#[test]
fn the_graph_is_mended_when_it_was_said() {
    let set = Clusters::new(DIMENSION, 5);
    let (rows, queries): (Vec<f32>, Vec<f32>) = (set.rows(ROWS, 0), set.rows(9, 1));
    let runbook = Runbook::sliding_window("set", ROWS as u32, 20).unwrap();
    let player = Player::new(&runbook, view(&rows, DIMENSION), view(&queries, DIMENSION));
    let tombstones = |share| {
        let moments = played(&player.consolidate_at(share), &empty::<f32>(Metric::L2));
        let searches = moments.iter().filter(|moment| matches!(moment.event, Event::Search { .. }));
        searches.map(|moment| moment.stats.tombstones).collect::<Vec<_>>()
    };
    assert_eq!(tombstones(0.0), [0; 11]);
    assert_eq!(tombstones(1.1), [0, 30, 60, 90, 120, 150, 180, 210, 240, 270, 300]);
    // 300 points: 60 tombstones are 0.17 of what is there, 90 are 0.23.
    assert_eq!(tombstones(0.2), [0, 30, 60, 0, 30, 60, 0, 30, 60, 0, 30]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let rows: Vec<f32> = Clusters::new(DIMENSION, 5).rows(ROWS, 0);
    let (base, queries) = (view(&rows, DIMENSION), view(&rows[..5 * DIMENSION], DIMENSION));
    let runbook = mixed();
    let empty = |dimension| small(Metric::L2).empty(ElementKind::F32, dimension).unwrap();
    let refused = |player: Player<'_, f32>, index: Index, wanted: &str| {
        let error: PlayError = player.play(&index, &mut no_progress, &mut |_| ()).unwrap_err();
        assert!(error.to_string().starts_with(wanted), "{error}");
    };
    let short = base.slice(0..599);
    refused(Player::new(&runbook, short, queries), empty(12), "step 10: needs row 599, the base has 599");
    let dimensions = "base, queries and index have dimensions 12, 12 and 11";
    refused(Player::new(&runbook, base, queries), empty(11), dimensions);
    refused(Player::new(&runbook, base, base.slice(0..0)), empty(12), "there are no queries");
    let used = small(Metric::L2).build(base.slice(0..3)).unwrap();
    refused(Player::new(&runbook, base, queries), used, "the index holds 3 keys");
    let narrow = Player::new(&runbook, base, queries).search(10, 0);
    refused(narrow, empty(12), "step 2: beam_width (0) must be at least 1");
    let index = empty(12);
    let stopped = index.with_progress(|_| std::ops::ControlFlow::Break(()));
    let error = Player::new(&runbook, base, queries).play(&stopped, &mut no_progress, &mut |_| ());
    assert!(error.unwrap_err().to_string().starts_with("step 1: cancelled"));

    let folder = tempfile::tempdir().unwrap();
    let known = Player::new(&runbook, base, queries).truths(folder.path());
    played(&known, &empty(12));
    let path = |step: usize| folder.path().join(format!("step{step}.gt100"));
    refused(
        Player::new(&runbook, base, base.slice(0..4)).truths(folder.path()),
        empty(12),
        &format!("step 2: {}: holds the truth of 5 queries, there are 4", path(2).display()),
    );
    refused(
        known.search(101, 150),
        empty(12),
        &format!("step 2: {}: holds 100 neighbors a query, k is 101", path(2).display()),
    );
    fs::copy(path(2), path(4)).unwrap();
    refused(known, empty(12), &format!("step 4: {}: names tag", path(4).display()));
    fs::write(path(2), [1, 2, 3]).unwrap();
    refused(known, empty(12), &format!("step 2: {}: header takes 8 bytes", path(2).display()));
}
