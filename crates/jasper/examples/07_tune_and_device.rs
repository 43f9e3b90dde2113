//! Tunes a search for a recall, on the fastest device of this machine.

use std::error::Error;

use jasper::tune::{Goal, TuneQueries};
use jasper::{Device, Index, IndexBuilder, MatrixView, Metric};
use jasper_core::synthetic::Clusters;

fn main() -> Result<(), Box<dyn Error>> {
    let set = Clusters::new(24, 6);
    let (rows, queries): (Vec<f32>, Vec<f32>) = (set.rows(4_000, 0), set.rows(100, 1));
    let index = IndexBuilder::new(Metric::L2).max_degree(16).build(MatrixView::new(&rows, 24)?)?;

    // Tune with vectors of the index, each searched for without itself. Queries like those to be served are better.
    let goal = Goal { k: 10, recall: 0.95 };
    let report = index.tune(goal, TuneQueries::sampled())?;
    for search in &report.searches {
        let rate = search.queries_per_second;
        println!("{}: {rate:.0} queries a second in calls of {}", search.device, search.batch);
        assert!(search.recall >= goal.recall);
    }

    // The tuned search is saved with the index.
    let folder = std::env::temp_dir();
    let path = folder.join(format!("tuned-{}.jasper", std::process::id()));
    index.save(&path)?;
    let index = Index::open(&path)?.to_device(Device::AUTO)?;
    std::fs::remove_file(&path)?;
    let params = index.tuned().params(goal, 100).ok_or("this goal was tuned above")?;
    let matches = index.search_batch(MatrixView::new(&queries, 24)?, params)?;
    println!(
        "on {}, beam width {}: {} answers",
        index.device(),
        params.effective_beam_width(),
        matches.keys().len()
    );
    assert_eq!(matches.queries(), 100);
    Ok(())
}
