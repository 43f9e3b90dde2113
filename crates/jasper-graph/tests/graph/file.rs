//! The index file: graphs survive saving and opening, and invalid files are refused with a reason.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::Path;

use crate::common::{assert_same, coded_sample, sample, tuned};
use jasper_core::{BuildParams, Effort, Element, ElementKind, Metric, Slot, f16, no_progress};
use jasper_graph::{FileFault, Graph, IndexInfo, Section, check_file};
use tempfile::TempDir;

fn saved(graph: &Graph) -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.jasper");
    graph.save(&path, &mut no_progress).unwrap();
    (folder, path)
}

fn fault(path: &Path) -> FileFault {
    let error = Graph::open(path, &mut no_progress).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    assert_eq!(error.path(), path);
    error.into_cause()
}

fn round_trip<T: Element>() {
    for metric in Metric::ALL {
        round_trip_of::<T>(&sample::<T>(metric));
        round_trip_of::<T>(&coded_sample::<T>(metric));
    }
}

fn round_trip_of<T: Element>(graph: &Graph) {
    let (_folder, path) = saved(graph);
    let mut opened = Graph::open(&path, &mut no_progress).unwrap();
    let mapped = Graph::map(&path).unwrap();
    assert_same(graph, &opened);
    assert_same(graph, &mapped);
    let bytes = fs::read(&path).unwrap();
    mapped.save(&path, &mut no_progress).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes, "a mapped index can be saved over itself, and is the same");
    assert_same(graph, &mapped);
    opened.keys_mut().restore(1000).unwrap();
    opened.adjacency_mut().set_neighbors(Slot::new(0), &[Slot::new(9)]);
    crate::common::add(&mut opened, &[T::from_f32(1.0); crate::common::DIMENSION]);
    opened.save(&path, &mut no_progress).unwrap();
    assert_same(&opened, &Graph::open(&path, &mut no_progress).unwrap());
}

#[test]
fn what_is_saved_is_opened() {
    round_trip::<f32>();
    round_trip::<f16>();
    round_trip::<u8>();
    round_trip::<i8>();
}

#[test]
fn an_empty_graph_is_saved_and_opened() {
    let graph = Graph::new(ElementKind::I8, Metric::Cosine, 3, BuildParams::default()).unwrap();
    let (_folder, path) = saved(&graph);
    assert_same(&graph, &Graph::open(&path, &mut no_progress).unwrap());
    assert_same(&graph, &Graph::map(&path).unwrap());
    assert!(check_file(&path, &mut no_progress).unwrap().is_intact());
}

#[test]
fn whether_parameters_may_be_raised_stays_with_the_graph() {
    for effort in [Effort::Fixed, Effort::AdaptiveBeam, Effort::Adaptive] {
        let params = BuildParams::builder().effort(effort).build().unwrap();
        let graph = Graph::new(ElementKind::F32, Metric::L2, 3, params).unwrap();
        let (_folder, path) = saved(&graph);
        assert_same(&graph, &Graph::open(&path, &mut no_progress).unwrap());
    }
    let fixed = BuildParams::builder().effort(Effort::Adaptive);
    assert_eq!(fixed.alpha(1.5).build().unwrap().effort(), Effort::AdaptiveBeam);
    assert_eq!(fixed.build_beam_width(64).alpha(1.5).build().unwrap().effort(), Effort::Fixed);
}

#[test]
fn tuned_searches_stay_with_the_graph() {
    let mut graph = sample::<f32>(Metric::L2);
    graph.set_encoded_tuned_searches(tuned());
    let (_folder, path) = saved(&graph);
    let mut opened = Graph::open(&path, &mut no_progress).unwrap();
    assert_eq!(opened.encoded_tuned_searches(), tuned());
    let info = IndexInfo::read(&path).unwrap();
    assert_eq!(
        (&info.encoded_tuned_searches[..], info.fingerprint),
        (opened.encoded_tuned_searches(), graph.fingerprint())
    );
    opened.keys_mut().delete(1007).unwrap();
    opened.save(&path, &mut no_progress).unwrap();
    assert_ne!(IndexInfo::read(&path).unwrap().fingerprint, info.fingerprint, "a change shows");
}

#[test]
fn what_means_nothing_leaves_no_trace() {
    let (a, mut b) = (sample::<f32>(Metric::InnerProduct), sample::<f32>(Metric::InnerProduct));
    b.begin();
    for _ in 0..10 {
        let slot = crate::common::add(&mut b, &[70.0_f32; crate::common::DIMENSION]);
        b.adjacency_mut().set_neighbors(slot, &[Slot::new(1), Slot::new(2)]);
        b.adjacency_mut().set_neighbors(Slot::new(4), &[slot, Slot::new(2)]);
        b.adjacency_mut().set_neighbors(Slot::new(0), &[slot]);
    }
    b.rollback();
    let ((_f, a), (_g, b)) = (saved(&a), saved(&b));
    assert_eq!(fs::read(a).unwrap(), fs::read(b).unwrap());
}

#[test]
fn the_front_tells_what_is_inside() {
    let graph = sample::<u8>(Metric::Cosine);
    let (_folder, path) = saved(&graph);
    let info = IndexInfo::read(&path).unwrap();
    assert_eq!(
        (info.element, info.metric, info.dimension),
        (ElementKind::U8, Metric::Cosine, crate::common::DIMENSION)
    );
    assert_eq!(info.params, *graph.params());
    assert_eq!((info.slots, info.live(), info.tombstones, info.free), (45, 36, 4, 5));
    assert_eq!((info.keys, info.deleted_keys), (graph.keys().len(), 3));
    assert_eq!(
        info.edges,
        graph.keys().vertices().map(|slot| graph.adjacency().neighbors(slot).len() as u64).sum::<u64>()
    );
    assert_eq!(info.mean_degree(), info.edges as f64 / 40.0);
    assert_eq!(info.sections[1], (Section::Vectors, 45 * 16));
    assert_eq!(info.file_bytes, fs::metadata(&path).unwrap().len());
    assert_eq!(Graph::open(&path, &mut no_progress).unwrap().element(), info.element);
    assert_eq!(Graph::map(&path).unwrap().element(), info.element);
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let (folder, path) = saved(&sample::<f32>(Metric::Cosine));
    let bytes = fs::read(&path).unwrap();
    let cut = folder.path().join("cut.jasper");
    let lengths = (0..bytes.len()).filter(|length| *length < 100 || length % 509 == 0 || length % 4096 < 2);
    for length in lengths.chain([bytes.len() - 1]) {
        fs::write(&cut, &bytes[..length]).unwrap();
        let fault = fault(&cut);
        assert_eq!(matches!(fault, FileFault::NotAnIndex), length < 8, "{length}: {fault}");
        assert_eq!(matches!(fault, FileFault::Length { actual, .. } if actual == length as u64), length >= 8);
        assert!(Graph::map(&cut).is_err() && IndexInfo::read(&cut).is_err());
        assert!(check_file(&cut, &mut no_progress).is_err());
    }
}

/// Every byte of every section, and some of all padding.
#[test]
fn every_flipped_byte_is_found() {
    let (_folder, path) = saved(&sample::<f32>(Metric::InnerProduct));
    let bytes = fs::read(&path).unwrap();
    let info = IndexInfo::read(&path).unwrap();
    let mut sections = vec![(None, 0, 32 * (1 + info.sections.len() as u64))];
    let mut at = 4096;
    for &(section, length) in &info.sections {
        sections.push((Some(section), at, length));
        at += length.next_multiple_of(4096);
    }
    assert_eq!(at, bytes.len() as u64);
    // In place: a file that is cut and written anew waits for the disk.
    let mut file = fs::File::options().write(true).open(&path).unwrap();
    let mut set = |position: u64, byte: u8| {
        file.seek(SeekFrom::Start(position)).unwrap();
        file.write_all(&[byte]).unwrap();
    };
    for (section, start, length) in sections {
        let end = start + length.next_multiple_of(4096);
        for position in (start..end).filter(|at| *at < start + length || at % 211 == 0 || at + 1 == end) {
            let byte = bytes[position as usize];
            set(position, byte ^ 1 << (position % 8));
            match (section, fault(&path)) {
                (Some(section), FileFault::Damaged(named)) => assert_eq!(section, named, "{position}"),
                (None, FileFault::NotAnIndex) => assert!(position < 8),
                (None, FileFault::Version(_)) => assert!((8..12).contains(&position)),
                (None, FileFault::Header(_)) => assert!(position >= 12),
                (section, fault) => panic!("byte {position} of {section:?}: {fault}"),
            }
            let report = check_file(&path, &mut no_progress);
            match section {
                None | Some(Section::Params) => assert!(report.is_err()),
                Some(section) => assert_eq!(report.unwrap().damaged().collect::<Vec<_>>(), [section]),
            }
            set(position, byte);
        }
    }
}

#[test]
fn other_files_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors.fbin");
    assert!(matches!(Graph::open(&path, &mut no_progress).unwrap_err().cause(), FileFault::Io(_)));
    for content in [&b""[..], b"JASPER\n\n", &[0; 10_000]] {
        fs::write(&path, content).unwrap();
        assert!(matches!(fault(&path), FileFault::NotAnIndex));
    }
    assert!(Graph::open(folder.path(), &mut no_progress).is_err(), "a folder");
    let (_folder, path) = saved(&sample::<f32>(Metric::L2));
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 2;
    fs::write(&path, &bytes).unwrap();
    let error = fault(&path);
    assert!(matches!(error, FileFault::Version(2)));
    assert!(error.to_string().contains("format version 2; this release reads version 1"));
}

#[test]
fn reading_and_saving_can_be_cancelled() {
    let (folder, path) = saved(&sample::<f32>(Metric::L2));
    let mut stop = |_| ControlFlow::Break(());
    let opened = Graph::open(&path, &mut stop);
    assert!(matches!(opened.unwrap_err().cause(), FileFault::Cancelled(_)));
    assert!(check_file(&path, &mut stop).is_err());
    let before = fs::read(&path).unwrap();
    let other = sample::<f32>(Metric::Cosine);
    assert!(matches!(other.save(&path, &mut stop).unwrap_err().cause(), FileFault::Cancelled(_)));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    let mut steps = Vec::new();
    other
        .save(&path, &mut |p| {
            steps.push((p.done, p.total));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(steps.is_sorted() && steps.last() == Some(&(45, 45)), "{steps:?}");
}

#[test]
fn a_place_that_takes_no_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for place in ["missing/index.jasper", "file/index.jasper", "."] {
        let path = folder.path().join(place);
        let error = sample::<f32>(Metric::L2).save(&path, &mut no_progress).unwrap_err();
        assert!(error.to_string().contains(&format!("{}: cannot be written", path.display())), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn a_saved_file_keeps_its_permissions_and_its_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let graph = sample::<f32>(Metric::L2);
    let (folder, path) = saved(&graph);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    fs::write(folder.path().join("plain"), "").unwrap();
    assert_eq!(mode(&path), mode(&folder.path().join("plain")), "as any new file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("link.jasper");
    symlink(&path, &link).unwrap();
    fs::write(&path, "").unwrap();
    graph.save(&link, &mut no_progress).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(mode(&path), 0o640);
    assert_same(&graph, &Graph::open(&path, &mut no_progress).unwrap());
}
