//! Fuzz targets in one program: every reader of files, and the operations of the index.
//!
//! `cargo xtask fuzz` compiles it with libFuzzer, which calls the target that the environment variable
//! `JASPER_FUZZ_TARGET` names. Without libFuzzer, `cargo run -p jasper-fuzz -- TARGET FILE...` calls a target on the
//! files, for example on an input that failed. The tests call every target on its corpus.

#![cfg_attr(fuzzing, no_main)]

#[path = "../../jasper-data/tests/data/fuzz.rs"]
mod data;
#[path = "../../jasper-graph/tests/graph/fuzz.rs"]
mod graph;
#[path = "../../jasper-interop/tests/interop/fuzz.rs"]
mod interop;
mod model;
mod operations;
#[path = "../../jasper-runbook/tests/runbook/fuzz.rs"]
mod runbook;

/// A target: it panics if an input shows a fault.
type Target = fn(&[u8]);

/// The names of all targets, and the targets.
fn targets() -> impl Iterator<Item = (&'static str, Target)> {
    let others: [(&str, Target); 7] = [
        ("index", |bytes| _ = graph::index(bytes)),
        ("diskann", |bytes| _ = interop::diskann(bytes)),
        ("parlay", |bytes| _ = interop::parlay(bytes)),
        ("hnswlib", |bytes| _ = interop::hnswlib(bytes)),
        ("faiss", |bytes| _ = interop::faiss(bytes)),
        ("operations", operations::run),
        ("runbook", runbook::runbook),
    ];
    data::TARGETS.into_iter().chain(others)
}

/// The target of this name.
fn find(name: &str) -> Option<Target> {
    targets().find(|(known, _)| *known == name).map(|(_, target)| target)
}

/// The target that the environment names.
#[cfg(fuzzing)]
static CHOSEN: std::sync::LazyLock<Target> = std::sync::LazyLock::new(|| {
    let name = std::env::var("JASPER_FUZZ_TARGET").expect("JASPER_FUZZ_TARGET names a target");
    find(&name).unwrap_or_else(|| panic!("no target `{name}`"))
});

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| CHOSEN(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    let mut words = std::env::args().skip(1);
    let Some((target, name)) = words.next().and_then(|name| Some((find(&name)?, name))) else {
        eprintln!("usage: jasper-fuzz TARGET FILE...; a target is a folder of `corpus`");
        return std::process::ExitCode::from(2);
    };
    for file in words {
        match std::fs::read(&file) {
            Ok(bytes) => target(&bytes),
            Err(error) => {
                eprintln!("error: {file} cannot be read: {error}");
                return std::process::ExitCode::FAILURE;
            }
        }
        println!("{name}: {file} passes");
    }
    std::process::ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// A folder of files for each target.
    const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");

    #[test]
    fn every_target_passes_its_corpus() {
        for (name, target) in targets() {
            let files = fs::read_dir(Path::new(CORPUS).join(name)).expect("a corpus for every target");
            let mut count = 0;
            for file in files {
                let path = file.expect("a readable folder").path();
                println!("{name}: {}", path.display());
                target(&fs::read(&path).expect("a readable file"));
                count += 1;
            }
            assert!(count > 0, "the corpus of {name} is empty");
        }
    }

    #[test]
    fn every_corpus_has_a_target() {
        let folders = fs::read_dir(CORPUS).expect("a corpus");
        let folders =
            folders.map(|folder| folder.expect("a readable folder").file_name().into_string().unwrap());
        assert_eq!(folders.collect::<BTreeSet<_>>(), targets().map(|target| target.0.to_owned()).collect());
        assert!(find("no such target").is_none());
    }
}
