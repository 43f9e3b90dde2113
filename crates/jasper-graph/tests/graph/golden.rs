//! Files of every released format version, which must stay readable for ever.
//!
//! `JASPER_WRITE_GOLDENS=1 cargo test -p jasper-graph golden` writes those of the version this release writes; a change
//! of a file that was released is a mistake, not a renewal.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{assert_same, sample, tuned};
use jasper_core::{Element, Metric, no_progress};
use jasper_graph::{FORMAT_VERSION, Graph, IndexInfo, Section, check_file};

fn golden<T: Element>(version: u32, metric: Metric, tuned: Vec<u8>) {
    let name = format!("v{version}-{}-{metric}.jasper", T::KIND);
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let mut expected = sample::<T>(metric);
    expected.set_encoded_tuned_searches(tuned);
    if version == FORMAT_VERSION && std::env::var_os("JASPER_WRITE_GOLDENS").is_some() {
        expected.save(&path, &mut no_progress).unwrap();
    }
    assert!(check_file(&path, &mut no_progress).unwrap().is_intact());
    assert_eq!(IndexInfo::read(&path).unwrap().keys, 39);
    let opened = Graph::open(&path, &mut no_progress).unwrap();
    assert_same(&opened, &expected);
    assert_same(&Graph::map(&path).unwrap(), &expected);
    if version == FORMAT_VERSION {
        let folder = tempfile::tempdir().unwrap();
        let again = folder.path().join("again.jasper");
        opened.save(&again, &mut no_progress).unwrap();
        assert_eq!(fs::read(again).unwrap(), fs::read(path).unwrap(), "the same graph is the same file");
    }
}

#[test]
fn version_1_is_read() {
    golden::<f32>(1, Metric::InnerProduct, Vec::new());
    golden::<u8>(1, Metric::L2, Vec::new());
    golden::<i8>(1, Metric::Cosine, tuned());
}

/// A file whose tuned searches were replaced by an append.
#[test]
fn an_appended_file_of_version_1_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-u8-l2-appended.jasper");
    let save_in_steps = |path: &Path| {
        let mut graph = sample::<u8>(Metric::L2);
        for tuned in [Vec::new(), tuned()[..128].to_vec(), tuned()] {
            graph.set_encoded_tuned_searches(tuned);
            graph.save(path, &mut no_progress).unwrap();
        }
        graph
    };
    if FORMAT_VERSION == 1 && std::env::var_os("JASPER_WRITE_GOLDENS").is_some() {
        fs::remove_file(&path).ok();
        save_in_steps(&path);
    }
    let folder = tempfile::tempdir().unwrap();
    let expected = save_in_steps(&folder.path().join("expected.jasper"));
    let info = IndexInfo::read(&path).unwrap();
    assert_eq!((info.sections[10], info.unused_bytes), ((Section::Unused, 4096), 4096));
    assert!(check_file(&path, &mut no_progress).unwrap().is_intact());
    assert_same(&Graph::open(&path, &mut no_progress).unwrap(), &expected);
    assert_same(&Graph::map(&path).unwrap(), &expected);
    if FORMAT_VERSION == 1 {
        assert_eq!(fs::read(folder.path().join("expected.jasper")).unwrap(), fs::read(path).unwrap());
    }
}

/// The book walks through a golden file; its lines are that file's bytes.
#[test]
fn the_walk_in_the_book_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../docs/src/file-format.md")).unwrap();
    let file = fs::read(root.join("tests/golden/v1-u8-l2.jasper")).unwrap();
    let mut lines = 0;
    for (at, rest) in page.lines().filter_map(|line| line.split_once(": ")) {
        let Ok(mut at) = usize::from_str_radix(at, 16) else { continue };
        let words = rest.split_whitespace().take(4).map_while(|word| {
            let word = Some(word).filter(|word| word.len() == 8)?;
            u32::from_str_radix(word, 16).ok()
        });
        for word in words {
            assert_eq!(file[at..at + 4], word.to_be_bytes(), "at {at:#x}");
            at += 4;
        }
        lines += 1;
    }
    assert_eq!(lines, 17);
}
