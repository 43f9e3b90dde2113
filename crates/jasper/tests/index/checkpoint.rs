//! An interrupted build resumes and gives the same index, or reports why it cannot.

use std::error::Error;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jasper::{Device, Element, ErrorKind, Index, IndexBuilder, Metric, Progress, Stage};
use jasper_core::synthetic::Clusters;

use crate::common::{bytes_of, for_each_element, view};

const DIMENSION: usize = 9;
/// Enough for a second start point.
const ROWS: usize = 2200;

fn rows<T: Element>(seed: u64) -> Vec<T> {
    let mut rows: Vec<T> = Clusters::new(DIMENSION, seed).rows(ROWS, 0);
    rows.copy_within(0..40 * DIMENSION, 500 * DIMENSION);
    rows
}

fn builder(metric: Metric) -> IndexBuilder<'static> {
    IndexBuilder::new(metric).max_degree(10).build_beam_width(20).seed(3).threads(2)
}

/// Stops a build when the given number of vertices are linked.
fn stop_at(linked: usize) -> impl FnMut(Progress) -> ControlFlow<()> {
    move |progress| match progress.stage {
        Stage::Linking if progress.done >= linked => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    }
}

/// Stops the build at `linked`, which leaves a checkpoint at `path`.
fn stopped<T: Element>(builder: IndexBuilder<'_>, rows: &[T], path: &Path, linked: usize, every: Duration) {
    let builder = builder.checkpoint(path, every);
    let error = builder.with_progress(stop_at(linked)).build(view(rows, DIMENSION)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    assert!(path.exists());
}

fn goes_on<T: Element>() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let rows = rows::<T>(1);
    for metric in Metric::ALL {
        let index = builder(metric).build(view(&rows, DIMENSION)).unwrap();
        let whole = index.stats().build.unwrap();
        for every in [Duration::ZERO, Duration::MAX] {
            // In each pass over the vertices, and between two.
            for linked in [1, 300, ROWS / 3, ROWS / 2, ROWS / 3 * 2, ROWS - 100] {
                stopped(builder(metric), &rows, &path, linked, every);
            }
            let first = Arc::new(OnceLock::<usize>::new());
            let found = builder(metric)
                .threads(1)
                .checkpoint(&path, every)
                .with_progress({
                    let first = Arc::clone(&first);
                    move |progress| {
                        if progress.stage == Stage::Linking {
                            first.get_or_init(|| progress.done);
                        }
                        ControlFlow::Continue(())
                    }
                })
                .build(view(&rows, DIMENSION))
                .unwrap();
            assert!(*first.get().unwrap() >= ROWS - 100, "it begins where the last was stopped");
            assert!(bytes_of(&found) == bytes_of(&index), "{} {metric}", T::KIND);
            // On a device, how many distances are computed twice depends on the order in which lanes write.
            let report = found.stats().build.unwrap();
            if report.device == Device::CPU {
                assert_eq!(report.cost, whole.cost);
            }
            fs::remove_file(&path).unwrap();
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_build_that_was_stopped_goes_on_to_the_same_index() {
    for_each_element!(goes_on);
}

/// The error of a build whose checkpoint has `content`. The file is unchanged.
fn refusal(builder: IndexBuilder<'_>, rows: &[f32], path: &Path) -> String {
    let content = fs::read(path).unwrap();
    let builder = builder.checkpoint(path, Duration::MAX);
    let error = builder.build(view(rows, DIMENSION)).unwrap_err();
    assert!(fs::read(path).unwrap() == content);
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    message
}

#[test]
fn a_checkpoint_of_another_build_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let ours = rows::<f32>(2);
    let exact = |metric| builder(metric).exact_linking(true);
    stopped(exact(Metric::L2), &ours, &path, 500, Duration::MAX);
    let message = refusal(exact(Metric::L2).max_degree(12), &ours, &path);
    let remedy = "not 12; build with 10, or remove the file to build from the start";
    assert!(message.contains("whose max_degree is 10") && message.contains(remedy), "{message}");
    let message = refusal(exact(Metric::Cosine), &ours, &path);
    assert!(message.contains("whose metric is l2, not cosine"), "{message}");
    for (other, name) in [
        (exact(Metric::L2).build_beam_width(21), "build_beam_width"),
        (exact(Metric::L2).alpha(1.3), "alpha"),
        (exact(Metric::L2).seed(4), "seed"),
        (exact(Metric::L2).max_batch_share(0.03), "max_batch_share"),
    ] {
        let message = refusal(other, &ours, &path);
        assert!(message.contains(&format!("whose {name} is")), "{message}");
    }
    let mut theirs = ours.clone();
    *theirs.last_mut().unwrap() += 1.0;
    for (other, vectors) in [
        (exact(Metric::L2), &theirs[..]),
        (exact(Metric::L2), &ours[DIMENSION..]),
        (builder(Metric::L2), &ours),
    ] {
        let message = refusal(other, vectors, &path);
        let reason = "of a build of other vectors, or with another setting of exact linking";
        assert!(message.contains(reason), "{message}");
    }
    let error = Index::open(&path).unwrap_err().to_string();
    assert!(error.contains("is the checkpoint of a build, not an index"), "{error}");
    let index = builder(Metric::L2).build(view(&ours, DIMENSION)).unwrap();
    index.save(&path).unwrap();
    let message = refusal(builder(Metric::L2), &ours, &path);
    assert!(message.contains("lacks section `checkpoint`"), "{message}");
}

#[test]
fn a_damaged_checkpoint_is_refused_and_its_section_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let rows = rows::<f32>(3);
    stopped(builder(Metric::L2), &rows, &path, 500, Duration::MAX);
    let whole = fs::read(&path).unwrap();
    // Header, params and checkpoint take a page each, degrees two; edges the rest.
    for (at, named) in [
        (9, "version"),
        (40, "damaged header"),
        (4096 + 10, "section `params` is damaged"),
        (2 * 4096 + 10, "section `checkpoint` is damaged"),
        (3 * 4096 + 100, "section `degrees` is damaged"),
        (5 * 4096 + 100, "section `edges`"),
        (whole.len() - 1, "section `edges` is damaged"),
    ] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let message = refusal(builder(Metric::L2), &rows, &path);
        assert!(message.contains(named) && message.contains("remove it to start over"), "{message}");
    }
    fs::write(&path, &whole[..whole.len() - 4096]).unwrap();
    let message = refusal(builder(Metric::L2), &rows, &path);
    assert!(message.contains("expected"), "{message}");
    fs::write(&path, &whole).unwrap();
    builder(Metric::L2).checkpoint(&path, Duration::MAX).build(view(&rows, DIMENSION)).unwrap();
}

#[test]
fn what_a_kill_left_of_a_checkpoint_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    fs::write(folder.path().join(".jasper-abc123.tmp"), "half").unwrap();
    let rows = rows::<f32>(4);
    stopped(builder(Metric::L2), &rows, &path, 500, Duration::MAX);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    fs::write(folder.path().join(".jasper-abc123.tmp"), "half").unwrap();
    let builder = builder(Metric::L2).checkpoint(&path, Duration::MAX);
    builder.remove_checkpoint().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    builder.remove_checkpoint().unwrap();
}

#[test]
fn a_checkpoint_that_cannot_be_written_ends_the_build() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none/checkpoint");
    let rows = rows::<f32>(5);
    let error =
        builder(Metric::L2).checkpoint(&path, Duration::ZERO).build(view(&rows, DIMENSION)).unwrap_err();
    assert!(error.to_string().starts_with("the checkpoint cannot be written"), "{error}");
}
