//! Builds an index and searches it, for one query and for many at once.

use std::error::Error;

use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
use jasper_core::no_progress;
use jasper_core::recall::mean_recall;
use jasper_core::synthetic::Clusters;
use jasper_data::{ThreadPoolBuilder, exact_knn};

fn main() -> Result<(), Box<dyn Error>> {
    // 5,000 vectors of 32 coordinates, one after another, and 100 queries.
    let set = Clusters::new(32, 1);
    let (rows, queries): (Vec<f32>, Vec<f32>) = (set.rows(5_000, 0), set.rows(100, 1));
    let (rows, queries) = (MatrixView::new(&rows, 32)?, MatrixView::new(&queries, 32)?);

    let index = IndexBuilder::new(Metric::L2).max_degree(32).build(rows)?;
    if let Some(report) = index.stats().build {
        println!("{} vectors with {:.1} edges each", report.vectors, report.mean_degree);
    }

    // One query. Keys are row numbers, unless you give your own.
    let hits = index.search(queries.row(0), SearchParams::new(3))?;
    for hit in &hits {
        println!("row {} at squared distance {:.0}", hit.key, hit.distance);
    }
    assert!(hits.is_sorted_by(|a, b| a.distance <= b.distance));

    // Many at once, on all threads. A wider beam finds more and takes longer.
    let k = 10;
    let matches = index.search_batch(queries, SearchParams::new(k).beam_width(100))?;

    // The share of the true neighbors that was found.
    let truth =
        exact_knn(rows, queries, k, Metric::L2, &ThreadPoolBuilder::new().build()?, &mut no_progress)?;
    let recall = mean_recall(matches.keys(), k, |query| truth.truth(query));
    println!("recall@{k} {recall:.4}");
    assert!(recall > 0.99);
    Ok(())
}
