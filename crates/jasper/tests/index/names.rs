//! The public API stays small enough to be learned in an hour.

use std::fs;
use std::path::Path;

/// The text of a source file of the crate.
fn source(file: impl AsRef<Path>) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file)).unwrap()
}

/// Number of names that a module exports by `pub use`, or has itself.
fn names(module: &str) -> usize {
    let exported = module.split("pub use ").skip(1).map(|item| {
        let list = item.split(';').next().unwrap();
        let list = list.split_once('{').map_or(list, |(_, names)| names);
        list.trim_end_matches('}').split(',').filter(|name| !name.trim().is_empty()).count()
    });
    let items = ["struct", "enum", "trait", "fn", "const", "type", "mod"].map(|kind| format!("pub {kind} "));
    let own = module.lines().filter(|line| items.iter().any(|item| line.starts_with(item)));
    exported.sum::<usize>() + own.count()
}

#[test]
fn a_user_can_reach_at_most_70_names() {
    let found = names(&source("lib.rs")) + names(&source("tune/mod.rs"));
    assert!((50..=70).contains(&found), "{found} names with the modules; remove one for each that is added");
}

#[test]
fn an_index_has_at_most_45_methods() {
    let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/index")).unwrap();
    let methods = files.map(|file| {
        let text = source(file.unwrap().path());
        let blocks = text.split("\nimpl Index {\n").skip(1).map(|block| block.split("\n}\n").next().unwrap());
        blocks.map(|block| block.matches("\n    pub fn ").count()).sum::<usize>()
    });
    let found: usize = methods.sum();
    assert!((30..=45).contains(&found), "{found} methods; remove one for each that is added");
}
