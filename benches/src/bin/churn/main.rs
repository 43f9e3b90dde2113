//! Measures recall over many updates: replaces 2% of an index a hundred times, and prints the recall of each round.
//!
//! `cargo run --release -p jasper-benches --bin churn -- VECTORS METRIC [ROUNDS] [BEAM_WIDTH]`
//!
//! Two thirds of the vectors of the file are in the index at any time, and 1000 of them are the queries. The last line
//! compares with a fresh build over what the index then holds.

#![forbid(unsafe_code)]

/// The test suite of `jasper` replaces vectors in the same way.
#[path = "../../../../crates/jasper/tests/index/churn.rs"]
mod rounds;

use std::error::Error;

use jasper::data::VectorFile;
use jasper::{Element, ElementKind, IndexBuilder, f16};
use rounds::Churn;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [vectors, metric, rest @ ..] = &args[..] else {
        return Err("give VECTORS METRIC [ROUNDS] [BEAM_WIDTH]".into());
    };
    let number = |i: usize, default: usize| rest.get(i).map_or(Ok(default), |number| number.parse());
    let file = VectorFile::open(vectors)?;
    let churn = Churn {
        live: file.len() / 3 * 2,
        rounds: number(0, 100)?,
        share: 0.02,
        consolidate_at: 0.1,
        k: 10,
        beam_width: number(1, 32)?,
    };
    let builder = IndexBuilder::new(metric.parse()?);
    match file.element() {
        ElementKind::F32 => run::<f32>(churn, builder, &file),
        ElementKind::F16 => run::<f16>(churn, builder, &file),
        ElementKind::U8 => run::<u8>(churn, builder, &file),
        ElementKind::I8 => run::<i8>(churn, builder, &file),
    }
}

fn run<T: Element>(churn: Churn, builder: IndexBuilder<'_>, file: &VectorFile) -> Result<(), Box<dyn Error>> {
    let rows = file.load::<T>()?;
    let queries = rows.view().slice(0..rows.view().len().min(1000));
    println!("round  recall@{}  deleted  unreachable", churn.k);
    let mut last = 0.0;
    let fresh = churn.play(builder, rows.view(), queries, |round| {
        last = round.recall;
        println!("{:5}  {:9.4}  {:7}  {:11}", round.number, round.recall, round.deleted, round.unreachable);
    })?;
    println!("a fresh build: {fresh:.4}; {:.4} less after {} rounds", fresh - last, churn.rounds);
    Ok(())
}
