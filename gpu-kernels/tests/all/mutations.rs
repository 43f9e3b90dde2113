//! Every synchronization in every kernel is needed: with any one left out, a test of the suite fails in the emulator.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;
use std::{fs, io};

use cuda_std::emulator::{Emulator, Site};
use gpu_kernels::emulated::EmulatedStream;
use gpu_kernels::suite;

type Test = fn(&EmulatedStream, u64);

macro_rules! as_functions {
    ($($test:ident)*) => { &[$(suite::$test),*] };
}

/// The tests of the suite.
const TESTS: &[Test] = gpu_kernels::tests_of_the_suite!(as_functions);

/// The order of threads: any will do, since a race shows in each.
const SEED: u64 = 0;

/// The places, in the files under `folder`, where a line calls a synchronization.
fn calls(folder: &Path, found: &mut BTreeSet<(String, u32)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            calls(&path, found)?;
            continue;
        }
        for (line, number) in fs::read_to_string(&path)?.lines().zip(1..) {
            let code = line.split("//").next().unwrap_or_default();
            if ["sync_warp(", "sync_threads(", "sync_some("].iter().any(|call| code.contains(call)) {
                found.insert((path.display().to_string(), number));
            }
        }
    }
    Ok(())
}

/// Whether `test` fails when the synchronization at `site` is left out.
fn misses(test: Test, site: Site) -> bool {
    let stream = EmulatedStream::new(Emulator::new(SEED).without(site));
    catch_unwind(AssertUnwindSafe(|| test(&stream, SEED))).is_err()
}

#[test]
fn every_synchronization_is_needed() -> io::Result<()> {
    let visit = |&test: &Test| {
        let stream = EmulatedStream::new(Emulator::new(SEED));
        let start = Instant::now();
        test(&stream, SEED);
        (start.elapsed(), test, stream.emulator().sites())
    };
    let mut visited: Vec<_> = TESTS.iter().map(visit).collect();
    // Short tests come first: most synchronizations are missed by one of them.
    visited.sort_by_key(|(time, ..)| *time);
    let sites: BTreeSet<Site> = visited.iter().flat_map(|(.., sites)| sites).copied().collect();

    let mut written = BTreeSet::new();
    calls(Path::new("src"), &mut written)?;
    let reached = |(file, line): &(String, u32)| {
        sites.iter().any(|site| site.line() == *line && site.file().ends_with(file.as_str()))
    };
    let unreached: Vec<_> = written.iter().filter(|call| !reached(call)).collect();

    let missed =
        |site: Site| visited.iter().any(|(_, test, sites)| sites.contains(&site) && misses(*test, site));
    let needless: Vec<String> = sites.iter().filter(|site| !missed(site)).map(ToString::to_string).collect();
    assert!(
        unreached.is_empty() && needless.is_empty(),
        "no test of the suite comes by {unreached:#?}, and it passes without {needless:#?}"
    );
    Ok(())
}
