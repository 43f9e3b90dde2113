//! Sorts the rows of a vector file by cluster, and writes a runbook that inserts one cluster after another and searches
//! after each. This is the hardest stream for a graph, since each insert is far from all vectors in it.
//!
//! `cargo run --release -p jasper-benches --bin sort_by_cluster -- BASE CLUSTERS SORTED RUNBOOK`
//!
//! Clusters are those of a few rounds of k-means on squared L2 distances, from a seeded choice of rows.

use std::error::Error;

use jasper_core::synthetic::permutation;
use jasper_core::{Element, MatrixView, Metric, no_progress, with_element};
use jasper_data::{ThreadPoolBuilder, VectorFile, exact_knn, write_vectors};
use jasper_runbook::{Operation, Runbook};

const ROUNDS: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [base, clusters, sorted, runbook] = &args[..] else {
        return Err("give BASE CLUSTERS SORTED RUNBOOK".into());
    };
    let file = VectorFile::open(base)?;
    let labels = labels(file.load_as::<f32>()?.view(), clusters.parse()?)?;
    let mut order: Vec<usize> = (0..file.len()).collect();
    order.sort_by_key(|&row| labels[row]);
    with_element!(file.element(), T => write::<T>(&file, &order, sorted))?;
    let mut start = 0;
    let steps = order.chunk_by(|&a, &b| labels[a] == labels[b]).flat_map(|cluster| {
        let ids = start..start + cluster.len() as u32;
        start = ids.end;
        [Operation::Insert(ids), Operation::Search]
    });
    Runbook::new("clustered", steps)?.write(runbook)?;
    Ok(())
}

/// The cluster of each row.
fn labels(rows: MatrixView<'_, f32>, clusters: usize) -> Result<Vec<u32>, Box<dyn Error>> {
    let (pool, dimension) = (ThreadPoolBuilder::new().build()?, rows.dimension());
    let seeds = permutation(rows.len(), 1).into_iter().take(clusters);
    let mut centers: Vec<f32> = seeds.flat_map(|row| rows.row(row as usize)).copied().collect();
    let mut labels = Vec::new();
    for _ in 0..ROUNDS {
        let nearest =
            exact_knn(MatrixView::new(&centers, dimension)?, rows, 1, Metric::L2, &pool, &mut no_progress)?;
        labels = nearest.ids().to_vec();
        let (mut sums, mut counts) = (vec![0.0; centers.len()], vec![0_u32; clusters]);
        for (row, &label) in rows.rows().zip(&labels) {
            counts[label as usize] += 1;
            let sum = &mut sums[label as usize * dimension..][..dimension];
            sum.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        // A center without rows keeps its position.
        let means = centers.chunks_exact_mut(dimension).zip(sums.chunks_exact(dimension)).zip(counts);
        for ((center, sum), count) in means.filter(|(_, count)| *count > 0) {
            center.iter_mut().zip(sum).for_each(|(x, sum)| *x = (sum / f64::from(count)) as f32);
        }
    }
    Ok(labels)
}

fn write<T: Element>(file: &VectorFile, order: &[usize], path: &str) -> Result<(), Box<dyn Error>> {
    let rows = file.load::<T>()?;
    let sorted: Vec<T> = order.iter().flat_map(|&row| rows.view().row(row)).copied().collect();
    Ok(write_vectors(path, MatrixView::new(&sorted, file.dimension())?)?)
}
