//! Tuning: the goal is reached with the smallest beam width, and the result is stored.

use std::ops::ControlFlow;

use jasper::ErrorKind;
use jasper::tune::{Goal, TuneQueries, TuneReport};
use jasper_core::Cancelled;
use jasper_vamana::SearchError;

use crate::common::{SearchHits, floats, view};
use jasper::tune::TunedSearch;
use jasper::{
    Element, ElementKind, Index, IndexBuilder, MatrixView, Metric, Progress, SearchParams, Stage, Vectors,
};
use jasper_core::no_progress;
use jasper_core::synthetic::Clusters;
use jasper_data::{GroundTruth, ThreadPoolBuilder, exact_knn};
use jasper_graph::Graph;

const DIMENSION: usize = 24;

fn index<T: Element>(rows: usize, metric: Metric) -> Index {
    let rows: Vec<T> = Clusters::new(DIMENSION, 5).rows(rows, 0);
    // Few edges, so that recall takes a beam.
    let builder = IndexBuilder::new(metric).max_degree(8).build_beam_width(16);
    builder.build(MatrixView::new(&rows, DIMENSION).unwrap()).unwrap()
}

fn sampled(count: usize) -> TuneQueries<'static> {
    TuneQueries::Sampled { count, seed: 1 }
}

fn tuned(index: &Index, goal: Goal, queries: TuneQueries<'_>) -> TunedSearch {
    let found = index.tune(goal, queries).unwrap().searches;
    assert_eq!(found.iter().map(|search| search.batch).collect::<Vec<_>>(), TuneReport::BATCHES);
    assert!(found.iter().all(|search| search.queries_per_second > 0.0 && search.launch.is_none()));
    assert!(found.iter().all(|search| search.beam_width == found[0].beam_width));
    found.into_iter().next().unwrap()
}

/// The edges of every vertex.
fn edges(index: &Index) -> Vec<Vec<u32>> {
    let edges = |graph: &Graph| {
        graph
            .keys()
            .vertices()
            .map(|slot| graph.adjacency().neighbors(slot).iter().map(|id| id.get()).collect())
            .collect()
    };
    index.read_graph(edges).unwrap()
}

/// Queries that are not in the index, and their true neighbors.
fn asked<T: Element>(metric: Metric, rows: usize, k: usize) -> (Vec<T>, GroundTruth) {
    let set = Clusters::new(DIMENSION, 5);
    let (base, queries): (Vec<T>, Vec<T>) = (set.rows(rows, 0), set.rows(300, 1));
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let view = |rows| MatrixView::new(rows, DIMENSION).unwrap();
    let truth = exact_knn(view(&base), view(&queries), k, metric, &pool, &mut no_progress).unwrap();
    (queries, truth)
}

fn reaches_every_goal<T: Element>(metric: Metric) {
    let index = index::<T>(4000, metric);
    let (rows, truth) = asked::<T>(metric, 4000, 20);
    let queries = MatrixView::new(&rows, DIMENSION).unwrap();
    let given = TuneQueries::Given { queries: queries.into(), truth: Some(&truth) };
    let before = edges(&index);
    let goal = |recall| Goal { k: 10, recall };
    let widths = [0.5, 0.9, 0.99].map(|recall| {
        let search = tuned(&index, goal(recall), given);
        assert!(search.recall >= recall && (search.k, search.target) == (10, recall), "{search:?}");
        let params = index.tuned().params(goal(recall), 1).unwrap();
        assert_eq!((params.k, params.beam_width), (10, Some(search.beam_width)));
        search.beam_width
    });
    assert!(widths.is_sorted() && widths[2] > widths[0], "{} {metric}: {widths:?}", T::KIND);
    // The recall found on half of the queries holds on all of them.
    let hits = index.search_hits(queries, index.tuned().params(goal(0.9), queries.len()).unwrap()).unwrap();
    let recall = hits.chunks_exact(10).enumerate().map(|(query, hits)| {
        let keys: Vec<u64> = hits.iter().map(|hit| hit.key).collect();
        jasper_core::recall::recall_at(10, &keys, truth.truth(query))
    });
    let recall = recall.sum::<f64>() / queries.len() as f64;
    assert!((0.85..0.99).contains(&recall), "{} {metric}: {recall}", T::KIND);
    // True neighbors that are not given are found.
    let alone = TuneQueries::Given { queries: queries.into(), truth: None };
    assert_eq!(tuned(&index, goal(0.9), alone).beam_width, widths[1], "{} {metric}", T::KIND);
    // Rows of the index without edges are about as hard to find.
    let sampled = tuned(&index, goal(0.9), sampled(500)).beam_width;
    let near = widths[1] / 2..3 * widths[1];
    assert!(near.contains(&sampled), "{} {metric}: {sampled}, {widths:?}", T::KIND);
    assert_eq!(edges(&index), before, "what was held out is back");
    assert_eq!(index.tuned().len(), 9, "three goals of three batches, each once");
}

#[test]
fn every_goal_is_reached() {
    reaches_every_goal::<f32>(Metric::L2);
    reaches_every_goal::<u8>(Metric::Cosine);
}

#[test]
fn what_was_tuned_is_saved_and_outlives_changes() {
    let index = index::<f32>(1500, Metric::L2);
    let goal = Goal { k: 5, recall: 0.9 };
    let search = tuned(&index, goal, sampled(100));
    assert_eq!(search.fingerprint, index.read_graph(Graph::fingerprint).unwrap());
    index.delete(&[3]).unwrap();
    index.consolidate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.jasper");
    index.save(&path).unwrap();
    let again = Index::open(&path).unwrap();
    assert_eq!(again.tuned()[..], index.tuned()[..]);
    assert_eq!(again.tuned().params(goal, 1).unwrap().beam_width, Some(search.beam_width));
    assert_ne!(
        search.fingerprint,
        again.read_graph(Graph::fingerprint).unwrap(),
        "tuned before the index changed"
    );
    assert!(again.tuned().params(Goal { k: 5, recall: 0.91 }, 1).is_none());
}

#[test]
fn rows_that_are_many_times_there_are_answers_many_times() {
    let rows: Vec<f32> = Clusters::new(DIMENSION, 5).rows(4000, 0);
    // Half of them are there three times each.
    let half = &rows[..2000 * DIMENSION];
    let many: Vec<f32> = [&rows[..], half, half].concat();
    let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&many, DIMENSION).unwrap()).unwrap();
    let report = index.tune(Goal { k: 10, recall: 0.999 }, sampled(10_000)).unwrap();
    assert_eq!(report.queries, 4000 / 32);
    assert!(report.searches[0].recall >= 0.999);
}

#[test]
fn what_cannot_be_tuned_is_told() {
    let index = index::<f32>(2000, Metric::L2);
    let (rows, truth) = asked::<f32>(Metric::L2, 2000, 10);
    let given = |count: usize, truth| TuneQueries::Given {
        queries: view(&rows[..count * DIMENSION], DIMENSION).into(),
        truth: Some(truth),
    };
    let before = edges(&index);
    let refused = |k, recall, queries| index.tune(Goal { k, recall }, queries).unwrap_err();
    let short = refused(10, 0.9, given(299, &truth));
    assert_eq!(short.kind(), ErrorKind::InvalidInput);
    let message = short.to_string();
    assert!(message.starts_with("there are 299 queries and the true neighbors of 300"), "{message}");
    let alone = GroundTruth::new(1, vec![0], None).unwrap();
    let one = refused(1, 0.9, given(1, &alone));
    assert!(one.to_string().starts_with("there are 1 queries to tune with"), "{one}");
    for recall in [0.0, -1.0, 1.5, f64::NAN] {
        assert_eq!(refused(10, recall, given(300, &truth)).kind(), ErrorKind::InvalidParameter);
    }
    assert!(matches!(refused(0, 0.9, sampled(100)).downcast_ref(), Some(SearchError::ZeroK)));
    let deep = refused(11, 0.9, given(300, &truth)).to_string();
    assert!(deep.starts_with("k (11) must be at most the 10 true neighbors"), "{deep}");
    for k in [2000, usize::MAX] {
        let error = refused(k, 0.9, sampled(100));
        assert!(error.to_string().contains("must be at most the 1999 true neighbors"), "{error}");
    }
    // Neighbors that no search can find.
    let wrong = GroundTruth::new(1, (0..300).map(|query| 1_000_000 + query).collect(), None).unwrap();
    let error = refused(1, 0.9, given(300, &wrong)).to_string();
    assert!(error.starts_with("recall@1 is 0.0000 at beam_width 2000, the widest tried"), "{error}");

    for stage in [Stage::Scanning, Stage::Tuning] {
        let stop = move |news: Progress| match news.stage == stage {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let stopped = index.with_progress(stop).tune(Goal { k: 10, recall: 0.9 }, sampled(100));
        let expected = match stopped {
            Err(error) => error.downcast::<Cancelled>().unwrap().stage,
            other => panic!("{other:?}"),
        };
        assert_eq!(expected, stage);
    }
    assert!(index.tuned().is_empty(), "nothing is kept of what failed");
    assert_eq!(edges(&index), before, "what was held out is back");

    let few = IndexBuilder::new(Metric::L2)
        .build(MatrixView::new(&rows[..40 * DIMENSION], DIMENSION).unwrap())
        .unwrap();
    let alone = |queries| TuneQueries::Given { queries, truth: None };
    let error = few.tune(Goal { k: 41, recall: 0.9 }, alone(view(&rows, DIMENSION).into())).unwrap_err();
    assert!(error.to_string().starts_with("k (41) must be at most the 40 true neighbors"), "{error}");
    let error = few.tune(Goal { k: 1, recall: 0.9 }, alone(view(&rows, 1).into())).unwrap_err();
    assert!(error.to_string().contains("row 0 has 1 coordinates where the index has 24"), "{error}");
    let empty = IndexBuilder::new(Metric::L2).empty(ElementKind::F32, DIMENSION).unwrap();
    let error = empty.tune(Goal { k: 1, recall: 0.9 }, alone(view(&rows, DIMENSION).into())).unwrap_err();
    assert!(error.to_string().starts_with("k (1) must be at most the 0 true neighbors"), "{error}");
    let error = few.tune(Goal { k: 1, recall: 0.9 }, sampled(100)).unwrap_err();
    assert!(error.to_string().starts_with("there are 1 queries to tune with"), "{error}");
}

#[test]
fn queries_of_any_element_tune_an_index() {
    let index = index::<u8>(1000, Metric::L2);
    let (goal, (queries, truth)) = (Goal { k: 10, recall: 0.9 }, asked::<u8>(Metric::L2, 1000, 10));
    let tuned = |queries: Vectors<'_>| index.tune(goal, TuneQueries::Given { queries, truth: Some(&truth) });
    let report = tuned(view(&queries, DIMENSION).into()).unwrap();
    assert_eq!(report.searches, index.tuned()[..]);
    let width =
        |report: &TuneReport| report.searches.iter().map(|search| search.beam_width).collect::<Vec<_>>();
    let rounded = tuned(view(&floats(&queries), DIMENSION).into()).unwrap();
    assert_eq!(width(&rounded), width(&report));
    let beyond = vec![1000.0_f32; queries.len()];
    let refused = tuned(view(&beyond, DIMENSION).into()).unwrap_err().to_string();
    assert!(refused.contains("1000") && refused.contains("u8"), "{refused}");
}

/// A batch costs the same whoever owns the arrays.
#[test]
fn results_have_a_report_of_what_they_took() {
    let index = index::<f32>(1000, Metric::L2);
    let queries: Vec<f32> = Clusters::new(DIMENSION, 5).rows(20, 1);
    let (queries, params) = (MatrixView::new(&queries, DIMENSION).unwrap(), SearchParams::new(5));
    let (mut keys, mut distances) = ([0; 100], [0.0; 100]);
    let expected = index.search_batch_into(queries, params, &mut keys, &mut distances).unwrap();
    let matches = index.search_batch(queries, params).unwrap();
    assert!(expected.cost.hops > 0 && *matches.report() == expected);
    assert_eq!(matches.keys(), keys);
}
