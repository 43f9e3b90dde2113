//! What changes of an index cost, and what they do to recall: one line of JSON a step.
//!
//! `cargo run --release -p jasper --features cuda --example updates -- DEVICE VECTORS METRIC QUERIES [BEAM_WIDTH]`
//!
//! DEVICE is `cpu` or `cuda:0`. Nine tenths of the vectors are built, and the rest inserted in their order; a tenth is
//! deleted, consolidated and compacted; then a twentieth is replaced, twenty times. Recall is that of searches where
//! the index is, among the vectors that it holds, and each figure stands beside that of a fresh build over these.

#![forbid(unsafe_code)]

mod bench;

use std::error::Error;

use bench::Bench;
use jasper::data::VectorFile;
use jasper::synthetic::permutation;
use jasper::{Device, Element, ElementKind, Key, f16};

/// Rounds of replacing.
const ROUNDS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [device, vectors, metric, queries, rest @ ..] = &args[..] else {
        return Err("give DEVICE VECTORS METRIC QUERIES [BEAM_WIDTH]".into());
    };
    let (device, file) = (device.parse()?, VectorFile::open(vectors)?);
    let beam_width = rest.first().map_or(Ok(64), |width| width.parse())?;
    let (metric, queries) = (metric.parse()?, VectorFile::open(queries)?);
    match file.element() {
        ElementKind::F32 => run::<f32>(&Bench::new(device, &file, &queries, metric, beam_width)?),
        ElementKind::F16 => run::<f16>(&Bench::new(device, &file, &queries, metric, beam_width)?),
        ElementKind::U8 => run::<u8>(&Bench::new(device, &file, &queries, metric, beam_width)?),
        ElementKind::I8 => run::<i8>(&Bench::new(device, &file, &queries, metric, beam_width)?),
    }
}

fn run<T: Element>(bench: &Bench<T>) -> Result<(), Box<dyn Error>> {
    let all: Vec<Key> = (0..bench.rows.view().len() as Key).collect();
    let tenth = bench.rows.view().len() / 10;
    let (built, added) = all.split_at(all.len() - tenth);

    let index = bench.fresh("build", built)?;
    let rows = bench.gather(added);
    bench.step("insert", tenth, || Ok(index.insert(&bench.view(&rows), added)?))?;
    bench.search("after insert", &index, &all)?;
    drop(bench.fresh("fresh build", &all)?);

    let order = permutation(all.len(), 1);
    let (gone, stay) = order.split_at(tenth);
    let keys = |numbers: &[u32]| numbers.iter().map(|&number| Key::from(number)).collect::<Vec<Key>>();
    let (gone, stay) = (keys(gone), keys(stay));
    bench.step("delete", tenth, || Ok(index.delete(&gone)?))?;
    bench.search("after delete", &index, &stay)?;
    bench.step("consolidate", tenth, || Ok(index.consolidate()?))?;
    bench.search("after consolidate", &index, &stay)?;
    bench.step("compact", tenth, || Ok(index.compact()?))?;
    bench.search("after compact", &index, &stay)?;

    let (mut inside, mut outside) = (stay, gone);
    let replaced = inside.len() / 20;
    for round in 0..ROUNDS {
        // Those that were out for the longest come back; any may go.
        let order = permutation(inside.len(), round as u64);
        let go: Vec<Key> = order[..replaced].iter().map(|&place| inside[place as usize]).collect();
        let come: Vec<Key> = outside.drain(..replaced).collect();
        let rows = bench.gather(&come);
        bench.step("replace", replaced, || {
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
