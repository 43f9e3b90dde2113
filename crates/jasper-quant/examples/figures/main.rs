//! The figures of the book's page on quantization, as tables.
//!
//! ```sh
//! cargo run --release -p jasper-quant --example figures                        # seeded sets
//! cargo run --release -p jasper-quant --example figures -- BASE QUERIES [l2]   # rows from vector files
//! ```

mod codes;
#[path = "../../tests/common/mod.rs"]
mod common;
mod errors;
mod formulas;

use common::gaussian;
use jasper_core::synthetic::Clusters;
use jasper_core::{MatrixView, Metric};
use jasper_data::VectorFile;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build()?;
    if let [base, queries, metric @ ..] = &arguments[..] {
        let metric = metric.first().map_or(Ok(Metric::L2), |name| name.parse())?;
        let (base, queries) =
            (VectorFile::open(base)?.load_as::<f32>()?, VectorFile::open(queries)?.load_as::<f32>()?);
        return codes::table("the files", metric, base.view(), queries.view(), &pool);
    }
    errors::table(&pool);
    formulas::table();
    for dimension in [128, 960] {
        let set = Clusters::new(dimension, 1);
        let (base, queries) = (set.rows::<f32>(20_000, 0), set.rows::<f32>(200, 1));
        let name = format!("clusters in {dimension} dimensions");
        let view = |rows| MatrixView::new(rows, dimension);
        codes::table(&name, Metric::L2, view(&base)?, view(&queries)?, &pool)?;
    }
    let (base, queries) = (gaussian(20_000, 384, 1), gaussian(200, 384, 2));
    let view = |rows| MatrixView::new(rows, 384);
    codes::table("a flat spectrum in 384 dimensions", Metric::L2, view(&base)?, view(&queries)?, &pool)
}
