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
//! over them. Options are `--beam-widths N,..` of searches (default 32,64,128), `--build-beam-width N` (default 128)
//! and `--exact-linking`, with which float vectors are linked themselves, not rounded to bytes.

#![forbid(unsafe_code)]

mod bench;
mod growth;

use std::error::Error;

use bench::{Bench, Settings};
use jasper::bench::synthetic::permutation;
use jasper::data::VectorFile;
use jasper::{Device, Element, Key, with_element};
use jasper_benches::step;

/// Rounds of replacing.
const ROUNDS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [part, device, vectors, metric, queries, options @ ..] = &args[..] else {
        return Err("give PART DEVICE VECTORS METRIC QUERIES".into());
    };
    let (file, queries) = (VectorFile::open(vectors)?, VectorFile::open(queries)?);
    let (device, metric) = (device.parse()?, metric.parse()?);
    let beam_widths = vec![32, 64, 128];
    let mut settings = Settings { device, metric, beam_widths, build_beam_width: 128, exact_linking: false };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let mut value = || options.next().ok_or_else(|| format!("{option} needs a value"));
        match &option[..] {
            "--beam-widths" => {
                settings.beam_widths = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--build-beam-width" => settings.build_beam_width = value()?.parse()?,
            "--exact-linking" => settings.exact_linking = true,
            other => return Err(format!("no such option: {other}").into()),
        }
    }
    with_element!(file.element(), T => run::<T>(part, &Bench::new(settings, &file, &queries)?))
}

fn run<T: Element>(part: &str, bench: &Bench<T>) -> Result<(), Box<dyn Error>> {
    let all: Vec<Key> = (0..bench.rows.view().len() as Key).collect();
    match part {
        "changes" => changes(bench, &all),
        "growth" => growth::grow(bench, &all),
        "sorted" => growth::grow(bench, &growth::sorted(bench)),
        other => Err(format!("no such part: {other}").into()),
    }
}

fn changes<T: Element>(bench: &Bench<T>, all: &[Key]) -> Result<(), Box<dyn Error>> {
    let tenth = bench.rows.view().len() / 10;
    let (built, added) = all.split_at(all.len() - tenth);
    // Enough for the vectors to be rounded, as for the changes that follow.
    let (built, few) = built.split_at(built.len() - tenth / 10);

    let index = bench.fresh("build", built)?;
    let rows = bench.gather(few);
    // The first change of its kind waits for the driver to compile the kernels.
    step("first changes", few.len(), || {
        index.insert(&bench.view(&rows), few)?;
        index.delete(few)?;
        index.consolidate()?;
        Ok(index.insert(&bench.view(&rows), few)?)
    })?;
    let rows = bench.gather(added);
    step("insert", tenth, || Ok(index.insert(&bench.view(&rows), added)?))?;
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
            index.insert(&bench.view(&rows), &come)?;
            Ok(index.consolidate()?)
        })?;
        order[..replaced].iter().zip(&come).for_each(|(&place, &key)| inside[place as usize] = key);
        outside.extend(go);
    }
    bench.search("after replacing", &index, &inside)?;
    if let Device::Cuda(_) = index.device() {
        println!("{{\"what\": \"device memory\", \"bytes\": {}}}", index.device_bytes());
    }
    drop(index);
    drop(bench.fresh("fresh build", &inside)?);
    Ok(())
}
