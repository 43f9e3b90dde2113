//! Measurements that print tables. They are ignored because their times depend on the machine; each names the command that
//! runs it.

use std::time::Instant;

use jasper::{Index, IndexBuilder, Metric, NewKeys};
use jasper_core::synthetic::Clusters;

use crate::view;

/// Prints the time of inserts in batches, with a journal and without.
#[test]
#[ignore = "a measurement: cargo test --release -p jasper --test durable -- --ignored --nocapture cost"]
fn the_cost_of_a_journal() {
    let dimension = 128;
    let vectors: Vec<f32> = Clusters::new(dimension, 3).rows(40_000, 0);
    let (built, more) = vectors.split_at(10_000 * dimension);
    println!("| batch | batches | without, ms per batch | with, ms per batch | more |");
    for (batch, batches) in [(1, 500), (100, 50), (1_000, 10), (10_000, 3)] {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("index");
        IndexBuilder::new(Metric::L2).build(view(built, dimension)).unwrap().save_durable(&path).unwrap();
        let plain = Index::open(path.join("index-0.jasper")).unwrap();
        let durable = Index::open(&path).unwrap();
        let mut seconds = [0.0, 0.0];
        // In turn, so that both see the same load of the machine.
        for vectors in more.chunks(batch * dimension).take(batches) {
            for (index, seconds) in [&plain, &durable].into_iter().zip(&mut seconds) {
                let start = Instant::now();
                index.insert(view(vectors, dimension), NewKeys::NEXT).unwrap();
                *seconds += start.elapsed().as_secs_f64();
            }
        }
        let [plain, durable] = seconds.map(|seconds| seconds * 1e3 / batches as f64);
        println!(
            "| {batch} | {batches} | {plain:.2} | {durable:.2} | {:.1}% |",
            (durable / plain - 1.0) * 100.0
        );
    }
}

/// Prints the time to open a durable index by the length of its journal and the size of its snapshot.
#[test]
#[ignore = "a measurement: cargo test --release -p jasper --test durable -- --ignored --nocapture recovery"]
fn the_time_of_recovery() {
    let (dimension, batch) = (128, 100);
    let vectors: Vec<f32> = Clusters::new(dimension, 3).rows(48_000, 0);
    println!("| snapshot | vectors in the journal | seconds to insert | seconds to open |");
    for built in [10_000, 40_000] {
        let (built, more) = vectors.split_at(built * dimension);
        for batches in [0, 10, 20, 40, 80] {
            let folder = tempfile::tempdir_in(".").unwrap();
            let path = folder.path().join("index");
            let builder = IndexBuilder::new(Metric::L2).max_degree(32).build_beam_width(64);
            builder.build(view(built, dimension)).unwrap().save_durable(&path).unwrap();
            let index = Index::open(&path).unwrap();
            let start = Instant::now();
            for vectors in more.chunks(batch * dimension).take(batches) {
                index.insert(view(vectors, dimension), NewKeys::NEXT).unwrap();
            }
            let inserted = start.elapsed().as_secs_f64();
            drop(index);
            let start = Instant::now();
            let index = Index::open(&path).unwrap();
            let opened = start.elapsed().as_secs_f64();
            assert_eq!(index.len(), built.len() / dimension + batches * batch);
            println!("| {} | {} | {inserted:.2} | {opened:.2} |", built.len() / dimension, batches * batch);
        }
    }
}

/// Prints the rate of inserts of single vectors by the number of threads.
#[test]
#[ignore = "a measurement: cargo test --release -p jasper --test durable -- --ignored --nocapture durable_inserts"]
fn the_rate_of_durable_inserts() {
    let dimension = 128;
    let vectors: Vec<f32> = Clusters::new(dimension, 3).rows(12_000, 0);
    let (built, more) = vectors.split_at(10_000 * dimension);
    let folder = tempfile::tempdir_in(".").unwrap();
    let builder = IndexBuilder::new(Metric::L2).max_degree(32).build_beam_width(64);
    let built = builder.build(view(built, dimension)).unwrap();
    println!("| threads | inserts per second |\n| --- | --- |");
    for threads in [1, 32, 1, 32] {
        let path = folder.path().join(format!("index-{threads}"));
        built.save_durable(&path).unwrap();
        let index = Index::open(&path).unwrap();
        let start = Instant::now();
        let (index, count) = (&index, 800);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || {
                    for number in (thread..count).step_by(threads) {
                        let vector = &more[number * dimension..][..dimension];
                        index.insert(vector, &[1_000_000 + number as u64]).unwrap();
                    }
                });
            }
        });
        println!("| {threads} | {:.0} |", count as f64 / start.elapsed().as_secs_f64());
        std::fs::remove_dir_all(&path).unwrap();
    }
}
