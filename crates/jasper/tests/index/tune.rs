//! Tuning: the goal is reached, by no more than it takes, and kept.

use std::ops::ControlFlow;

use jasper::tune::{BATCHES, Goal, HeldOut, TuneError};
use jasper::{
    Element, Index, MatrixView, Metric, SearchError, Stage, TunedSearch, silent, synthetic::Clusters,
};
use jasper_data::{GroundTruth, ThreadPoolBuilder, exact_knn};

const DIMENSION: usize = 24;

fn index<T: Element>(rows: usize, metric: Metric) -> Index<T> {
    let rows: Vec<T> = Clusters::new(DIMENSION, 5).rows(rows, 0);
    // Few edges, so that recall takes a beam.
    let builder = Index::builder(metric).max_degree(8).build_beam_width(16);
    builder.build(&MatrixView::new(&rows, DIMENSION).unwrap()).unwrap()
}

fn tuned<T: Element>(index: &mut Index<T>, goal: Goal, held_out: &HeldOut<T>) -> TunedSearch {
    let found = index.tune(goal, held_out, &mut silent).unwrap();
    assert_eq!(found.iter().map(|search| search.batch).collect::<Vec<_>>(), BATCHES);
    assert!(found.iter().all(|search| search.queries_per_second > 0.0 && search.launch.is_none()));
    assert!(found.iter().all(|search| search.beam_width == found[0].beam_width));
    found.into_iter().next().unwrap()
}

/// Queries that are no rows of the index, and their true neighbours.
fn asked<T: Element>(metric: Metric, rows: usize, k: usize) -> (Vec<T>, GroundTruth) {
    let set = Clusters::new(DIMENSION, 5);
    let (base, queries): (Vec<T>, Vec<T>) = (set.rows(rows, 0), set.rows(300, 1));
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let view = |rows| MatrixView::new(rows, DIMENSION).unwrap();
    let truth = exact_knn(view(&base), view(&queries), k, metric, &pool, &mut silent).unwrap();
    (queries, truth)
}

fn reaches_every_goal<T: Element>(metric: Metric) {
    let mut index = index::<T>(4000, metric);
    let (queries, truth) = asked::<T>(metric, 4000, 20);
    let queries = MatrixView::new(&queries, DIMENSION).unwrap();
    let given = HeldOut::new(queries, &truth).unwrap();
    let sampled = HeldOut::sample(&index, 300, 10, 1, &mut silent).unwrap();
    let widths = [(0.5, &sampled), (0.9, &given), (0.99, &given)].map(|(recall, held_out)| {
        let goal = Goal { k: 10, recall };
        let search = tuned(&mut index, goal, held_out);
        assert!(search.recall >= recall && (search.k, search.target) == (10, recall), "{search:?}");
        let params = index.tuned(goal, 1).unwrap();
        assert_eq!((params.k, params.beam_width), (10, search.beam_width));
        search.beam_width
    });
    assert!(widths.is_sorted() && widths[2] > widths[0], "{} {metric}: {widths:?}", T::KIND);
    // Three goals of three batches, each once.
    tuned(&mut index, Goal { k: 10, recall: 0.9 }, &sampled);
    assert_eq!(index.graph().tuned().len(), 9);
    tuned(&mut index, Goal { k: 10, recall: 0.9 }, &given);
    // What was found on some queries holds on all of them.
    let goal = Goal { k: 10, recall: 0.9 };
    let hits = index.search_batch(queries, index.tuned(goal, queries.len()).unwrap()).unwrap();
    let recall = hits.chunks_exact(10).enumerate().map(|(query, hits)| {
        let keys: Vec<u64> = hits.iter().map(|hit| hit.key).collect();
        jasper::recall::recall_at(10, &keys, truth.truth(query))
    });
    let recall = recall.sum::<f64>() / queries.len() as f64;
    assert!((0.85..0.99).contains(&recall), "{} {metric}: {recall}", T::KIND);
}

#[test]
fn every_goal_is_reached() {
    reaches_every_goal::<f32>(Metric::L2);
    reaches_every_goal::<u8>(Metric::Cosine);
}

#[test]
fn what_was_tuned_is_saved_and_outlives_changes() {
    let mut index = index::<f32>(1500, Metric::L2);
    let goal = Goal { k: 5, recall: 0.9 };
    let held_out = HeldOut::sample(&index, 100, 5, 1, &mut silent).unwrap();
    let search = tuned(&mut index, goal, &held_out);
    assert_eq!(search.state, index.graph().state());
    index.delete(&[3]).unwrap();
    index.consolidate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.jasper");
    index.save(&path).unwrap();
    let again = Index::<f32>::open(&path).unwrap();
    assert_eq!(again.graph().tuned(), index.graph().tuned());
    assert_eq!(again.tuned(goal, 1).unwrap().beam_width, search.beam_width);
    assert_ne!(search.state, again.graph().state(), "tuned before the index changed");
    assert!(again.tuned(Goal { k: 5, recall: 0.91 }, 1).is_none());
}

/// A row finds itself at once: a search that is credited with it would reach anything.
#[test]
fn a_sampled_row_is_no_answer_to_itself() {
    let mut index = index::<f32>(3000, Metric::L2);
    let held_out = HeldOut::sample(&index, 400, 1, 3, &mut silent).unwrap();
    let width = tuned(&mut index, Goal { k: 1, recall: 0.999 }, &held_out).beam_width;
    assert!(width > 2, "{width}");
}

#[test]
fn rows_that_are_many_times_there_are_answers_many_times() {
    let rows: Vec<f32> = Clusters::new(DIMENSION, 5).rows(200, 0);
    // The first hundred are there three times each.
    let many: Vec<f32> = [&rows[..], &rows[..100 * DIMENSION], &rows[..100 * DIMENSION]].concat();
    let mut index = Index::builder(Metric::L2).build(&MatrixView::new(&many, DIMENSION).unwrap()).unwrap();
    let held_out = HeldOut::sample(&index, 1000, 10, 1, &mut silent).unwrap();
    assert_eq!(held_out.len(), 100, "rows with one key");
    assert_eq!(tuned(&mut index, Goal { k: 10, recall: 1.0 }, &held_out).recall, 1.0);
}

#[test]
fn what_cannot_be_tuned_is_told() {
    let mut index = index::<f32>(2000, Metric::L2);
    let (queries, truth) = asked::<f32>(Metric::L2, 2000, 10);
    let view = |rows| MatrixView::new(&queries[..rows * DIMENSION], DIMENSION).unwrap();
    let short = HeldOut::new(view(299), &truth).unwrap_err();
    assert!(matches!(short, TuneError::Truths { queries: 299, truths: 300 }), "{short}");
    let one = HeldOut::new(view(1), &GroundTruth::new(1, vec![0], None).unwrap()).unwrap_err();
    assert!(matches!(one, TuneError::Queries(1)), "{one}");

    let held_out = HeldOut::new(view(300), &truth).unwrap();
    let before = index.graph().tuned().to_vec();
    let mut refused = |k, recall| index.tune(Goal { k, recall }, &held_out, &mut silent).unwrap_err();
    for recall in [0.0, -1.0, 1.5, f64::NAN] {
        assert!(matches!(refused(10, recall), TuneError::Recall(_)));
    }
    assert!(matches!(refused(0, 0.9), TuneError::Search(SearchError::NoAnswers)));
    assert!(matches!(refused(11, 0.9), TuneError::Depth { k: 11, depth: 10 }));
    // Neighbours that no search can find.
    let wrong = GroundTruth::new(1, (0..300).map(|query| 1_000_000 + query).collect(), None).unwrap();
    let wrong = HeldOut::new(view(300), &wrong).unwrap();
    let error = index.tune(Goal { k: 1, recall: 0.9 }, &wrong, &mut silent).unwrap_err();
    assert!(
        error.to_string().starts_with("recall@1 is 0.0000 at beam_width 2000, the widest tried"),
        "{error}"
    );

    let stopped = index.tune(Goal { k: 10, recall: 0.9 }, &held_out, &mut |news| {
        assert_eq!((news.stage, news.total), (Stage::Tuning, 4));
        if news.done < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert!(matches!(stopped, Err(TuneError::Cancelled(_))), "{stopped:?}");
    assert_eq!(index.graph().tuned(), before, "nothing is kept of what failed");

    let empty = Index::<f32>::builder(Metric::L2);
    let empty = empty.build(&MatrixView::new(&queries[..DIMENSION], DIMENSION).unwrap()).unwrap();
    let error = HeldOut::sample(&empty, 100, 10, 1, &mut silent).unwrap_err();
    assert!(matches!(error, TuneError::Queries(1)), "{error}");
}
