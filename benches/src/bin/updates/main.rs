//! Measures the cost of updates and their effect on recall. Prints one line of JSON per step.
//!
//! `cargo run --release -p jasper-benches --bin updates -- PART DEVICE VECTORS METRIC QUERIES [OPTION..]`
//!
//! | PART | steps |
//! | --- | --- |
//! | `changes` | build nine tenths of the vectors and insert the rest, after a warm-up with a few; delete, consolidate and compact a tenth; then replace a twentieth, twenty times |
//! | `growth` | build a twentieth of the vectors, and insert the rest, a fiftieth of all at a time |
//! | `sorted` | the same, in an order sorted by cluster |
//!
//! DEVICE is `cpu` or `cuda:0`. Recall is among the vectors in the index, and is compared with that of a fresh build
//! over them. `--help` lists the options.

#![forbid(unsafe_code)]

mod bench;
mod growth;

use std::error::Error;

use bench::{Bench, Part, Settings};
use jasper::{Device, Element, Key, VectorFile};
use jasper_benches::step;
use jasper_core::synthetic::permutation;
use jasper_core::with_element;

/// Rounds of replacing.
const ROUNDS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let settings: Settings = clap::Parser::parse();
    let (file, queries) = (VectorFile::open(&settings.vectors)?, VectorFile::open(&settings.queries)?);
    with_element!(file.element(), T => run::<T>(&Bench::new(settings, &file, &queries)?))
}

fn run<T: Element>(bench: &Bench<T>) -> Result<(), Box<dyn Error>> {
    let all: Vec<Key> = (0..bench.rows.view().len() as Key).collect();
    match bench.settings.part {
        Part::Changes => changes(bench, &all),
        Part::Growth => growth::grow(bench, &all),
        Part::Sorted => growth::grow(bench, &growth::sorted(bench)),
    }
}

fn changes<T: Element>(bench: &Bench<T>, all: &[Key]) -> Result<(), Box<dyn Error>> {
    let tenth = bench.rows.view().len() / 10;
    let (built, added) = all.split_at(all.len() - tenth);
    // Enough for SQ8 linking, as for the changes that follow.
    let (built, few) = built.split_at(built.len() - tenth / 10);

    let index = bench.fresh("build", built)?;
    let rows = bench.gather(few);
    // The first change of its kind waits for the driver to compile the kernels.
    step("first changes", few.len(), || {
        index.insert(bench.view(&rows), few)?;
        index.delete(few)?;
        index.consolidate()?;
        Ok(index.insert(bench.view(&rows), few)?)
    })?;
    let rows = bench.gather(added);
    step("insert", tenth, || Ok(index.insert(bench.view(&rows), added)?))?;
    bench.search("after insert", &index, all)?;
    drop(bench.fresh("fresh build", all)?);

    let order = permutation(all.len(), 1);
    let (gone, stay) = order.split_at(tenth);
    let keys = |numbers: &[u32]| numbers.iter().map(|&number| Key::from(number)).collect::<Vec<Key>>();
    let (gone, stay) = (keys(gone), keys(stay));
    step("delete", tenth, || Ok(index.delete(&gone)?))?;
    bench.search("after delete", &index, &stay)?;
    step("consolidate", tenth, || Ok(index.consolidate()?))?;
    bench.search("after consolidate", &index, &stay)?;
    step("compact", tenth, || Ok(index.compact()?))?;
    bench.search("after compact", &index, &stay)?;

    let (mut inside, mut outside) = (stay, gone);
    let replaced = inside.len() / 20;
    for round in 0..ROUNDS {
        // Those that were out for the longest come back; any may go.
        let order = permutation(inside.len(), round as u64);
        let go: Vec<Key> = order[..replaced].iter().map(|&place| inside[place as usize]).collect();
        let come: Vec<Key> = outside.drain(..replaced).collect();
        let rows = bench.gather(&come);
        step("replace", replaced, || {
            index.delete(&go)?;
            index.insert(bench.view(&rows), &come)?;
            Ok(index.consolidate()?)
        })?;
        order[..replaced].iter().zip(&come).for_each(|(&place, &key)| inside[place as usize] = key);
        outside.extend(go);
    }
    bench.search("after replacing", &index, &inside)?;
    if index.device() != Device::CPU {
        println!("{{\"what\": \"device memory\", \"bytes\": {}}}", index.device_info().bytes);
    }
    drop(index);
    drop(bench.fresh("fresh build", &inside)?);
    Ok(())
}
