//! The figures of the book's page on quantization: as tables, and of one set also as a plot.
//!
//! ```sh
//! # Seeded sets, errors and formulas.
//! cargo run --release -p jasper-quant --example figures
//! # Rows from vector files: a table, and the plot if a fourth name is given.
//! cargo run --release -p jasper-quant --example figures -- BASE QUERIES l2 codes.svg
//! ```

mod codes;
#[path = "../../tests/common/mod.rs"]
mod common;
mod contenders;
mod errors;
mod formulas;

use std::fs;
use std::path::Path;

use codes::Set;
use common::gaussian;
use jasper_core::synthetic::Clusters;
use jasper_core::{ElementKind, MatrixView, Metric};
use jasper_data::VectorFile;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build()?;
    if let [base, queries, rest @ ..] = &arguments[..] {
        let metric = rest.first().map_or(Ok(Metric::L2), |name| name.parse())?;
        let name = Path::new(base).parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let (base, queries) = (VectorFile::open(base)?, VectorFile::open(queries)?);
        let (rows, of_queries) = (base.load_as::<f32>()?, queries.load_as::<f32>()?);
        let (base, element, queries) = (rows.view(), base.element(), of_queries.view());
        let set = Set { name: name.into(), metric, base, element, queries };
        let measured = codes::table(&set, &pool)?;
        if let Some(file) = rest.get(1) {
            fs::write(file, codes::plot(&set, &measured)?)?;
        }
        return Ok(());
    }
    errors::table(&pool);
    formulas::table();
    for dimension in [128, 960] {
        let set = Clusters::new(dimension, 1);
        let name = format!("clusters in {dimension} dimensions");
        of_floats(name, dimension, &set.rows(20_000, 0), &set.rows(200, 1), &pool)?;
    }
    let name = "a flat spectrum in 384 dimensions".into();
    of_floats(name, 384, &gaussian(20_000, 384, 1), &gaussian(200, 384, 2), &pool)
}

/// The table of rows that are no file.
fn of_floats(
    name: String,
    dimension: usize,
    base: &[f32],
    queries: &[f32],
    pool: &rayon::ThreadPool,
) -> Result<(), Box<dyn std::error::Error>> {
    let (base, queries) = (MatrixView::new(base, dimension)?, MatrixView::new(queries, dimension)?);
    let set = Set { name, metric: Metric::L2, base, element: ElementKind::F32, queries };
    codes::table(&set, pool).map(|_| ())
}
