//! What needs the inside: writers that fail, and files that lie under right checksums.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};

use jasper_core::{BuildParams, ElementKind, Metric, Slot, no_progress};
use jasper_data::AtomicFile;

use super::save::{write, write_file};
use super::{FileFault, Section, check};
use crate::{Graph, VectorError};
use forge::seal;

#[path = "../../tests/graph/forge.rs"]
mod forge;

fn graph() -> Result<Graph, VectorError> {
    let params = BuildParams::builder().max_degree(3).build().expect("a valid degree");
    let mut graph = Graph::new(ElementKind::F32, Metric::InnerProduct, 3, params)?;
    for key in 0..40 {
        let slot = graph.add_vector(&[key as f32, 1.0, 0.5, 0.0], 900.0)?;
        graph.keys_mut().assign(key, slot).expect("a new key");
        graph
            .adjacency_mut()
            .set_neighbors(slot, &[Slot::new((key as u32 + 1) % 30), Slot::new((key as u32 + 7) % 30)]);
    }
    for (key, slot) in [(100, 4), (101, 4), (102, 31)] {
        graph.keys_mut().assign(key, Slot::new(slot)).expect("a new key");
    }
    for key in 35..40 {
        graph.keys_mut().delete(key).expect("a live key");
    }
    graph.release_tombstones();
    for key in [3, 31, 100] {
        graph.keys_mut().delete(key).expect("a live key");
    }
    graph.adjacency_mut().set_start_points(vec![Slot::new(2)]);
    Ok(graph)
}

/// A disk with room for `room` bytes.
struct SmallDisk<W> {
    inner: W,
    room: u64,
}

impl<W: Write> Write for SmallDisk<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = (bytes.len() as u64).min(self.room) as usize;
        self.room -= fits as u64;
        if fits == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.inner.write(&bytes[..fits])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Seek> Seek for SmallDisk<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let graph = graph().unwrap();
    let whole = graph.to_bytes().len() as u64;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.jasper");
    fs::write(&path, "old").unwrap();
    let save_with_room = |room: u64| {
        write_file(&path, AtomicFile::create(&path), |file| {
            write(&graph, &mut SmallDisk { inner: file, room }, &mut no_progress)
        })
    };
    // The first page is written twice: first as zeros.
    for room in (0..whole + 4096).step_by(97).chain([whole, whole + 4095]) {
        let error = save_with_room(room).unwrap_err();
        assert!(
            matches!(error.cause(), FileFault::Write(source) if source.kind() == io::ErrorKind::StorageFull),
            "{room}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }
    assert_eq!(save_with_room(whole + 4096).unwrap().bytes, whole);
    assert_eq!(fs::read(&path).unwrap(), graph.to_bytes());
}

/// Byte `at` of `section`, in the file.
fn position(bytes: &[u8], section: Section, at: usize) -> usize {
    let table = super::table::Sections::open(bytes).unwrap();
    table.get(section).unwrap().offset as usize + at
}

#[test]
fn a_lie_under_right_checksums_is_found() {
    use Section::*;
    let bytes = graph().unwrap().to_bytes();
    let nan = f32::NAN.to_le_bytes();
    let cases: [(Section, usize, &[u8], &str); 34] = [
        (Params, 0, &[9], "element 9"),
        (Params, 0, &[2], "row stride 4, expected 16"),
        (Params, 4, &[3], "metric 3"),
        (Params, 4, &[0], "`terms` is invalid: l2 does not need it"),
        (Params, 8, &[0], "dimension 0"),
        (Params, 8, &[5], "row stride"),
        (Params, 8, &[0xFF; 4], "dimension 4294967295"),
        (Params, 12, &[5], "row stride 5"),
        (Params, 16, &[0], "max_degree (0)"),
        (Params, 16, &[2], "section `adjacency` is invalid: it has 480 bytes, expected 320"),
        (Params, 20, &[0xFF; 4], "build_beam_width"),
        (Params, 24, &nan, "alpha"),
        (Params, 28, &[1], "convention 1"),
        (Params, 40, &nan, "max_batch_share"),
        (Params, 44, &nan, "largest squared norm"),
        (Params, 48, &[39], "section `vectors`"),
        (Params, 48, &[0xFF; 8], "slots, of 2147483647 at most"),
        (Params, 56, &[0xFF; 8], "tombstones"),
        (Params, 56, &[2], "section `tombstones` is invalid: it holds 1 slots, expected 2"),
        (Params, 64, &[6], "section `free slots` is invalid: it holds 5 slots, expected 6"),
        (Params, 72, &[1], "it claims 1 edges, and there are 70"),
        (Vectors, 20, &nan, "not finite"),
        (Terms, 4, &nan, "not finite"),
        (Adjacency, 0, &[40], "not below 40"),
        (Adjacency, 8, &[40], "not below 40"),
        (Degrees, 0, &[4], "degree above 3"),
        (FurtherKeys, 8, &[3], "slot 3 has no such vertex"),
        (FurtherKeys, 8, &[0xFF; 4], "slot 4294967295"),
        (DeletedKeys, 8, &[36], "slot 36"),
        (DeletedKeys, 0, &[31], "key 31 is repeated"),
        (Tombstones, 0, &[0, 0, 0, 0, 8], "slot 35 is a tombstone and free"),
        (Tombstones, 0, &[0, 0, 0, 0, 0, 1], "slot 40 has no such vertex"),
        (FreeSlots, 4, &[0x78, 1], "slot 40 has no such vertex"),
        (StartPoints, 0, &[39], "slot 39"),
    ];
    for (section, at, lie, expected) in cases {
        let mut forged = bytes.clone();
        let at = position(&bytes, section, at);
        forged[at..at + lie.len()].copy_from_slice(lie);
        seal(&mut forged);
        let fault = Graph::read_from(&forged[..], &mut no_progress).unwrap_err();
        assert!(matches!(fault, FileFault::Invalid { .. }), "{section} {at} {fault}");
        assert!(fault.to_string().contains(expected), "{section} {at}: {fault}");
    }
}

#[test]
fn a_table_that_cannot_be_is_refused() {
    let bytes = graph().unwrap().to_bytes();
    let entry = |i: usize| 32 + 32 * i;
    let huge = (1_u64 << 40).to_le_bytes();
    let cases: [(usize, &[u8], &str); 13] = [
        (12, &[0; 12], "a file of 0 bytes, at least 4096 are needed"),
        (12, &[127], "127 sections, at most 126"),
        (12, &[11], "belong to no section"),
        (12, &[13], "section `of kind 0`"),
        (16, &huge, "expected 1099511627776"),
        (entry(1), &[1], "section `params` is repeated"),
        (entry(1), &[99], "needs section `of kind 99`"),
        (entry(1) + 8, &[5], "its items are of type 5, expected 0"),
        (entry(1) + 16, &huge, "should begin at 8192"),
        (entry(1) + 24, &huge, "end within"),
        (entry(1) + 24, &[0xFF; 8], "end within"),
        (entry(0) + 24, &[87], "section `params` is invalid: it has 87 bytes"),
        (entry(11) + 24, &[3], "not a multiple of 4"),
    ];
    for (at, lie, expected) in cases {
        let mut forged = bytes.clone();
        forged[at..at + lie.len()].copy_from_slice(lie);
        seal(&mut forged);
        let fault = Graph::read_from(&forged[..], &mut no_progress).unwrap_err();
        assert!(fault.to_string().contains(expected), "{at} {lie:?}: {fault}");
    }
}

#[test]
fn sections_of_a_later_release_are_skipped_if_they_say_so() {
    let mut bytes = graph().unwrap().to_bytes();
    let sections = bytes[12] as usize;
    let entry = 32 + 32 * sections;
    let end = bytes.len() as u64;
    bytes.resize(end as usize + 4096, 7);
    bytes[12] += 1;
    bytes[16..24].copy_from_slice(&(end + 4096).to_le_bytes());
    bytes[entry] = 200;
    bytes[entry + 16..entry + 24].copy_from_slice(&end.to_le_bytes());
    bytes[entry + 24..entry + 32].copy_from_slice(&4000_u64.to_le_bytes());
    seal(&mut bytes);
    let fault = Graph::read_from(&bytes[..], &mut no_progress).unwrap_err();
    assert!(matches!(fault, FileFault::UnknownSection(Section::Unknown(200))), "{fault}");
    bytes[entry + 4] = 1;
    seal(&mut bytes);
    let opened = Graph::read_from(&bytes[..], &mut no_progress).unwrap();
    assert_eq!(opened.to_bytes(), graph().unwrap().to_bytes());
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let report = check::check_source(&bytes[..], &mut no_progress).unwrap();
    assert_eq!(report.damaged().collect::<Vec<_>>(), [Section::Unknown(200)]);
}

#[test]
fn a_section_that_is_missing_is_named() {
    let bytes = graph().unwrap().to_bytes();
    for i in 0..11 {
        // The section is renamed to one that may be skipped.
        let mut forged = bytes.clone();
        let section = Section::of_index().nth(i).unwrap();
        forged[32 + 32 * i..][..8].copy_from_slice(&[77, 0, 0, 0, 1, 0, 0, 0]);
        seal(&mut forged);
        let fault = Graph::read_from(&forged[..], &mut no_progress).unwrap_err();
        assert!(matches!(fault, FileFault::MissingSection(named) if named == section), "{fault}");
    }
}

/// The mapped form trusts the large sections: what is wrong there must still be found when it is looked for.
#[test]
fn a_mapped_graph_can_be_looked_through_whatever_it_holds() {
    let mut bytes = graph().unwrap().to_bytes();
    for section in [Section::Vectors, Section::Adjacency, Section::Degrees, Section::Keys] {
        let at = position(&bytes, section, 0);
        bytes[at..at + 8].fill(0xFF);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.jasper");
    File::create(&path).unwrap().write_all(&bytes).unwrap();
    assert!(Graph::open(&path, &mut no_progress).is_err());
    let report = Graph::map(&path).unwrap().check_structure();
    assert!(report.faults >= 3, "{report:?}");
}
