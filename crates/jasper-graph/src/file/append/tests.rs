//! Appends that are stopped anywhere: by a power cut, by a full disk, or by the caller.

use std::ops::ControlFlow;
use std::sync::Arc;

use jasper_core::{BuildParams, ElementKind, MatrixView, Metric, Slot, no_progress};
use jasper_quant::{Rabitq, RabitqParams};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::{CodeChunk, VectorError};

/// What is done to a [`Disk`].
enum Operation {
    Write(u64, Vec<u8>),
    Truncate(u64),
    Sync,
}

/// A file in memory, which logs what is done to it and has room for `room` more bytes.
struct Disk {
    bytes: Vec<u8>,
    position: u64,
    log: Vec<Operation>,
    room: usize,
}

/// What a disk writes as a whole.
const SECTOR: usize = 512;

impl Disk {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, position: 0, log: Vec::new(), room: usize::MAX }
    }
}

fn write_at(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    bytes.resize(bytes.len().max(offset + new.len()), 0);
    bytes[offset..offset + new.len()].copy_from_slice(new);
}

impl Write for Disk {
    fn write(&mut self, new: &[u8]) -> io::Result<usize> {
        let new = &new[..new.len().min(self.room)];
        self.room -= new.len();
        write_at(&mut self.bytes, self.position as usize, new);
        self.log.push(Operation::Write(self.position, new.to_vec()));
        self.position += new.len() as u64;
        Ok(new.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Disk {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Start(position) = to else { unreachable!("positions are absolute") };
        self.position = position;
        Ok(position)
    }
}

impl ReadAt for Disk {
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.bytes[..].read_exact_at(bytes, offset)
    }
}

impl Storage for Disk {
    fn sync(&mut self) -> io::Result<()> {
        self.log.push(Operation::Sync);
        Ok(())
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.bytes.truncate(bytes as usize);
        self.log.push(Operation::Truncate(bytes));
        Ok(())
    }
}

/// The file after a power cut: everything up to the last sync, and any of the sectors written after it.
fn after_power_cut(start: &[u8], log: &[Operation], rng: &mut SmallRng) -> Vec<u8> {
    let mut bytes = start.to_vec();
    let is_sync = |operation: &Operation| matches!(operation, Operation::Sync);
    let synced = log.iter().rposition(is_sync).map_or(0, |last| last + 1);
    for (i, operation) in log.iter().enumerate() {
        match operation {
            Operation::Write(offset, new) => {
                for (j, sector) in new.chunks(SECTOR).enumerate() {
                    if i < synced || rng.random() {
                        write_at(&mut bytes, *offset as usize + j * SECTOR, sector);
                    }
                }
            }
            Operation::Truncate(length) if i < synced || rng.random() => bytes.truncate(*length as usize),
            _ => {}
        }
    }
    bytes
}

/// A graph with codes of `bits` bits, if any, and `tuned` tuned searches.
fn graph(bits: Option<u32>, tuned: usize) -> Graph {
    let params = BuildParams::builder().max_degree(32).build().expect("a valid degree");
    let mut graph = Graph::new(ElementKind::U8, Metric::L2, 16, params).expect("a valid dimension");
    for i in 0..600_u32 {
        let (key, high) = (i as u8, (i >> 8) as u8);
        let vector = [key.wrapping_mul(37), high, 2, 3, key, 5, 6, 7, 8, 9, key ^ 21, 11, 12, 13, 14, 15];
        let slot = graph.add_vector(&vector, 0.0).expect("memory");
        graph.keys_mut().assign(i.into(), slot).expect("a new key");
        graph.adjacency_mut().set_neighbors(slot, &[Slot::new((i + 1) % 600)]);
    }
    if let Some(bits) = bits {
        let rows: Vec<u8> =
            graph.keys().vertices().flat_map(|slot| graph.vectors().get(slot).to_vec()).collect();
        let rows = MatrixView::new(&rows, 16).expect("whole rows");
        let quantizer = Rabitq::train(rows, &RabitqParams::new(Metric::L2, bits)).expect("a quantizer");
        let fill = |chunks: Vec<CodeChunk<'_>>| {
            chunks.into_iter().for_each(CodeChunk::fill);
            Ok::<_, VectorError>(())
        };
        let codes = graph.encode(Arc::new(quantizer), fill).expect("memory");
        graph.set_codes(codes);
    }
    graph.set_encoded_tuned_searches((0..tuned * 128).map(|i| (i + tuned) as u8).collect());
    graph
}

/// The file that a graph read from `bytes` would be saved to.
fn saved_again(bytes: &[u8]) -> Vec<u8> {
    Graph::read_from(bytes, &mut no_progress).expect("the file can be opened").to_bytes()
}

/// Appends, and returns the file.
fn appended(start: &[u8], graph: &Graph) -> Option<Vec<u8>> {
    let mut disk = Disk::new(start.to_vec());
    append(graph, &mut disk, &mut no_progress).expect("the disk has room")?;
    Some(disk.bytes)
}

/// Cuts the power while `new` is appended to `start`, and returns the files found afterwards that are not whole: with a
/// damaged header page, or with bytes after the sections.
fn cut_everywhere(start: &[u8], new: &Graph, rng: &mut SmallRng) -> Vec<Vec<u8>> {
    let (old_state, new_state) = (saved_again(start), new.to_bytes());
    let mut disk = Disk::new(start.to_vec());
    let stats = append(new, &mut disk, &mut no_progress).unwrap().expect("most sections are there");
    assert_eq!((stats.bytes, saved_again(&disk.bytes)), (disk.bytes.len() as u64, new_state.clone()));
    let (mut seen_old, mut seen_new, mut incomplete) = (0, 0, Vec::new());
    for end in (0..=disk.log.len()).flat_map(|end| [end; 8]) {
        let found = after_power_cut(start, &disk.log[..end], rng);
        let state = saved_again(&found);
        assert!(state == old_state || state == new_state, "operation {end}");
        *if state == old_state { &mut seen_old } else { &mut seen_new } += 1;
        if end == disk.log.len() {
            assert!(state == new_state, "what is reported as saved is saved");
        }
        // Whatever is there, saving works again.
        assert!(appended(&found, new).is_none_or(|bytes| saved_again(&bytes) == new_state));
        if Sections::open(&found[..]).unwrap().size
            != file_bytes(&Sections::open(&found[..]).unwrap().entries)
        {
            incomplete.push(found);
        }
    }
    assert!(seen_old > 10 && seen_new > 10, "{seen_old} {seen_new}");
    incomplete
}

#[test]
fn a_power_cut_leaves_the_old_or_the_new_graph() {
    let mut rng = SmallRng::seed_from_u64(1);
    let (plain, coded) = (graph(None, 0), graph(Some(2), 0));
    let first = plain.to_bytes();
    let second = appended(&first, &coded).unwrap();
    let (other, third) = (graph(Some(1), 2), graph(Some(3), 1));
    let mut torn = 0;
    for (start, new) in [(&first, &coded), (&second, &other)] {
        // A cut while a file is appended to that was left by another cut.
        for found in cut_everywhere(start, new, &mut rng).iter().step_by(5) {
            torn += usize::from(saved_again(found) == new.to_bytes());
            cut_everywhere(found, &third, &mut rng);
        }
    }
    assert!(torn > 3, "some cuts damaged the header page: {torn}");
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let (start, new) = (graph(None, 1).to_bytes(), graph(Some(2), 0));
    let whole = appended(&start, &new).unwrap().len() - start.len();
    for room in (0..whole + 4096).step_by(509) {
        let mut disk = Disk { room, ..Disk::new(start.clone()) };
        let fault = append(&new, &mut disk, &mut no_progress).unwrap_err();
        assert!(matches!(fault, FileFault::Io(_)), "{fault}");
        assert!(disk.bytes == start, "room for {room}");
    }
    // Where even a page that is there cannot be written again, the file is longer and still the old one.
    for room in [whole + 4096, whole + 2 * 4096 - 1] {
        let mut disk = Disk { room, ..Disk::new(start.clone()) };
        append(&new, &mut disk, &mut no_progress).unwrap_err();
        let state = saved_again(&disk.bytes);
        assert!(state == start || state == new.to_bytes());
    }
}

#[test]
fn cancelling_leaves_the_old_file() {
    let (start, new) = (graph(None, 1).to_bytes(), graph(Some(2), 0));
    let mut stages = Vec::new();
    for calls in 0.. {
        let mut disk = Disk::new(start.clone());
        let (mut left, mut stage) = (calls, None);
        let result = append(&new, &mut disk, &mut |progress| {
            stage = Some(progress.stage);
            left -= 1;
            if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let Err(fault) = result else { break };
        assert!(matches!(fault, FileFault::Cancelled(_)));
        assert!(disk.bytes == start);
        stages.extend(stage);
    }
    stages.dedup();
    assert_eq!(stages, [Stage::Checking, Stage::Saving]);
}

#[test]
fn unused_sections_are_merged_and_bounded() {
    let mut bytes = graph(None, 0).to_bytes();
    let mut kinds = Vec::new();
    for (bits, tuned) in [(None, 1), (Some(1), 0), (Some(1), 2), (Some(1), 3), (Some(2), 1)] {
        let Some(next) = appended(&bytes, &graph(bits, tuned)) else { break };
        bytes = next;
        let sections = Sections::open(&bytes[..]).unwrap();
        assert!(sections.unused_bytes() <= bytes.len() as u64 / UNUSED_DIVISOR);
        kinds.push(
            sections.entries.iter().skip(10).map(|entry| entry.section().to_string()).collect::<Vec<_>>(),
        );
    }
    let kinds: Vec<String> = kinds.iter().map(|kinds| kinds.join(", ")).collect();
    assert_eq!(
        kinds,
        [
            "tuned searches",
            "unused, quantizer, codes",
            "unused, quantizer, codes, tuned searches",
            "unused, quantizer, codes, unused, tuned searches",
            "unused, tuned searches, quantizer, codes",
        ]
    );
    let report = crate::file::check_source(&bytes[..], &mut no_progress).unwrap();
    assert!(report.is_intact(), "checksums of unused sections are combined from those of what was there");
    // The next one would be too many.
    let mut replaced = 0;
    while let Some(next) = appended(&bytes, &graph(Some(1 + replaced % 2), 5 + replaced as usize)) {
        (bytes, replaced) = (next, replaced + 1);
    }
    assert!(replaced < 10);
}

#[test]
fn what_differs_elsewhere_is_not_appended_to() {
    let start = graph(Some(2), 0).to_bytes();
    let coded = || graph(Some(1), 0);
    assert!(appended(&start, &coded()).is_some());
    let changes: [fn(&mut Graph); 6] = [
        |graph| assert!(graph.keys_mut().delete(7).is_ok()),
        |graph| graph.adjacency_mut().set_neighbors(Slot::new(3), &[Slot::new(50)]),
        |graph| graph.adjacency_mut().set_start_points(vec![Slot::new(9)]),
        |graph| graph.keys_mut().assign(5_000, Slot::new(4)).expect("a new key"),
        |graph| graph.drop_vectors(),
        |graph| assert!(graph.add_vector(&[4_u8; 16], 0.0).is_ok()),
    ];
    for change in changes {
        let mut changed = coded();
        change(&mut changed);
        assert!(appended(&start, &changed).is_none());
    }
    assert!(
        appended(&start, &graph(None, 0)).is_none(),
        "codes that are removed need no space in a new file"
    );
    assert!(appended(&[0; 9000], &coded()).is_none());
    let mut damaged = start;
    damaged[40] ^= 1;
    assert!(appended(&damaged, &coded()).is_none());
}

/// A sound graph saved to its own file repairs it.
#[test]
fn a_damaged_file_is_not_taken_for_the_graph() {
    let saved = graph(Some(2), 0);
    let start = saved.to_bytes();
    assert!(appended(&start, &saved).is_some_and(|file| file == start));
    for new in [saved, graph(Some(1), 0)] {
        let mut damaged = start.clone();
        damaged[5000] ^= 1;
        assert!(appended(&damaged, &new).is_none());
    }
}
