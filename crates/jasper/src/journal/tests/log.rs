//! What a reader finds in a log that was cut, damaged, or is being written.

use super::super::segment::Beginning;
use super::super::store::Writer;
use super::*;

fn change(number: u64, vectors: &[u8]) -> StoredChange {
    StoredChange {
        number,
        kind: "insert",
        argument: vec![number as u8; 9],
        vectors: vec![(0, vectors.to_vec())],
    }
}

/// Reads a log as a process does that is about to write it.
fn open_log(disk: &Disk) -> io::Result<Log> {
    let mut log = read_log(disk);
    log.copy_unsynced(log.snapshots().last().copied().unwrap_or(SNAPSHOT))?;
    Ok(log)
}

const SNAPSHOT: SnapshotId = SnapshotId { number: 0, checksum: Some(7) };

fn store(disk: &Disk) -> Store {
    let log = open_log(disk).unwrap();
    let snapshot = log.snapshots().last().copied().unwrap_or(SNAPSHOT);
    let next = log.numbers().last().map_or(0, |last| last + 1);
    Store::new(Arc::new(disk.clone()), snapshot, log.end(), next).unwrap()
}

/// The number, kind, argument and chunks of vectors of a change.
type Content = (u64, String, Vec<u8>, Vec<(u64, Vec<u8>)>);

fn contents(log: &Log) -> Vec<Content> {
    let read = |number| {
        let (kind, argument) = log.change(number).unwrap();
        (number, kind, argument, log.chunks(number).unwrap())
    };
    log.numbers().into_iter().map(read).collect()
}

fn cut(disk: &Disk, segment: u64, len: usize) -> Disk {
    let disk = disk.after_crash();
    disk.state().segments.get_mut(&segment).unwrap().bytes.truncate(len);
    disk
}

#[test]
fn a_log_that_is_cut_at_any_byte_has_the_changes_before() {
    let disk = Disk::default();
    let mut writer = store(&disk);
    let mut ends = Vec::new();
    for number in 0..4 {
        writer.commit(&[number], |segment| segment.write(&change(number, b"vectors"))).unwrap();
        ends.push(disk.state().segments[&0].bytes.len());
    }
    let all = contents(&read_log(&disk));
    assert_eq!(all.len(), 4);
    for len in 0..=*ends.last().unwrap() {
        let disk = cut(&disk, 0, len);
        let whole = ends.iter().filter(|&&end| end <= len).count();
        assert!(contents(&read_log(&disk)) == all[..whole], "{len}");
        // What is written later is in another segment, and is read.
        let number = whole as u64;
        store(&disk).commit(&[number], |segment| segment.write(&change(number, b"others"))).unwrap();
        let log = contents(&read_log(&disk));
        assert!(log[..whole] == all[..whole] && log.len() == whole + 1, "{len}");
    }
}

/// Of what is not synced, any prefix may be there.
#[test]
fn a_power_cut_leaves_what_was_committed() {
    let disk = Disk::default();
    let mut writer = store(&disk);
    writer.commit(&[0], |segment| segment.write(&change(0, b"first"))).unwrap();
    writer.set_ended(1);
    disk.fail(1..2);
    writer
        .commit(&[1, 2], |segment| {
            segment.write(&change(1, b"second"))?;
            segment.write(&change(2, b"third"))
        })
        .unwrap_err();
    for kept in 0..400 {
        assert_eq!(read_log(&disk.after_power_cut(kept)).numbers(), [0], "{kept}");
    }
    assert_eq!(read_log(&disk.after_crash()).numbers(), [0]);
    writer.commit(&[2], |segment| segment.write(&change(2, b"again"))).unwrap();
    for kept in 0..400 {
        let log = read_log(&disk.after_power_cut(kept));
        assert_eq!(log.numbers(), [0, 2], "{kept}");
        assert_eq!(log.chunks(2).unwrap(), [(0, b"again".to_vec())]);
    }
}

/// After a sync that failed, others read what it did not write, and no sync of theirs writes it.
#[test]
fn what_a_log_is_opened_with_is_on_disk() {
    let mut copied = 0;
    for call in 0..12 {
        let disk = Disk::default();
        let mut writer = store(&disk);
        writer.commit(&[0], |segment| segment.write(&change(0, b"first"))).unwrap();
        writer.set_ended(1);
        disk.fail(call..u64::MAX);
        let _ = writer.commit(&[1], |segment| segment.write(&change(1, b"second")));
        let _ = writer.fail(&[1]);
        let _ = writer.commit(&[2], |segment| segment.write(&change(2, b"third")));
        let _ = writer.set_snapshot(SnapshotId { number: 0, checksum: Some(8) });
        // A process is killed while it opens the log.
        for failing in 0..4 {
            let disk = disk.after_crash();
            let found = (contents(&read_log(&disk)), read_log(&disk).snapshots().last().copied());
            disk.fail(failing..u64::MAX);
            let _ = open_log(&disk);
            let disk = disk.after_crash();
            let log = open_log(&disk).unwrap();
            copied += usize::from(log.end().unwrap().0 > 0);
            assert!((contents(&log), log.snapshots().last().copied()) == found, "call {call}");
            let segments = disk.list().unwrap();
            assert_eq!(open_log(&disk).unwrap().end(), log.end(), "call {call}: copied again");
            assert_eq!(disk.list().unwrap(), segments);
            store(&disk).commit(&[9], |segment| segment.write(&change(9, b"later"))).unwrap();
            for kept in [0, 50, 1000] {
                let log = read_log(&disk.after_power_cut(kept));
                let (mut left, snapshot) = (contents(&log), log.snapshots().last().copied());
                assert_eq!(left.pop().map(|(number, ..)| number), Some(9));
                assert!((left, snapshot) == found, "call {call}, {kept} bytes kept");
            }
        }
    }
    assert!(copied > 10, "{copied}");
}

#[test]
fn a_large_entry_is_not_buffered() {
    let disk = Disk::default();
    let mut writer = Writer::new(0, disk.create(0).unwrap());
    writer.begin(Beginning::default(), SNAPSHOT).unwrap();
    let keys = vec![7; 20 << 20];
    writer.write_argument(0, "delete", &keys).unwrap();
    assert!(writer.buffer.capacity() < 4 << 20, "{}", writer.buffer.capacity());
    writer.finish(1).unwrap();
    assert!(read_log(&disk).change(0).unwrap() == ("delete".to_owned(), keys));
}

/// A follower reads changes again that another process has copied.
#[test]
fn changes_that_were_taken_do_not_come_back() {
    let disk = Disk::default();
    store(&disk).commit(&[0], |segment| segment.write(&change(0, b"first"))).unwrap();
    let mut reader = Log::new(Arc::new(disk.clone()));
    reader.read_on().unwrap();
    assert_eq!(reader.numbers(), [0]);
    reader.remove_below(1);
    store(&disk).commit(&[1], |segment| segment.write(&change(1, b"second"))).unwrap();
    assert_eq!(disk.list().unwrap(), [0, 1, 2]);
    reader.read_on().unwrap();
    assert_eq!(reader.numbers(), [1]);
}

#[test]
fn each_byte_of_what_was_on_disk_is_checked() {
    let disk = Disk::default();
    let mut writer = store(&disk);
    writer.commit(&[0], |segment| segment.write(&change(0, b"first"))).unwrap();
    writer.set_ended(1);
    let synced = disk.state().segments[&0].synced;
    writer.end_segment();
    writer.commit(&[1], |segment| segment.write(&change(1, b"second"))).unwrap();
    writer.set_ended(2);
    let later = disk.state().segments[&1].synced;
    for (segment, len) in [(0, synced), (1, later)] {
        for at in 0..len {
            let disk = disk.after_crash();
            disk.state().segments.get_mut(&segment).unwrap().bytes[at] ^= 1;
            let error = Log::read(Arc::new(disk)).map(|log| contents(&log)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "segment {segment}, byte {at}");
        }
    }
}

#[test]
fn a_reader_takes_changes_that_have_ended_and_not_failed() {
    let disk = Disk::default();
    let (mut writer, mut reader) = (store(&disk), Log::new(Arc::new(disk.clone())));
    let mut read = || {
        reader.read_on().unwrap();
        let ended = reader.ended();
        let numbers: Vec<u64> = reader.numbers().into_iter().filter(|&number| number < ended).collect();
        reader.remove_below(ended);
        numbers
    };
    assert!(read().is_empty());
    let commit = |writer: &mut Store, number| {
        writer.commit(&[number], |segment| segment.write(&change(number, b"vectors")))
    };
    commit(&mut writer, 0).unwrap();
    commit(&mut writer, 1).unwrap();
    assert!(read().is_empty());
    writer.set_ended(1);
    assert_eq!(read(), [0]);
    writer.fail(&[1]).unwrap();
    writer.set_ended(2);
    assert!(read().is_empty());
    // The disk fails: nothing of the change counts, in whatever segment it is.
    disk.fail(0..4);
    commit(&mut writer, 2).unwrap_err();
    writer.set_ended(3);
    assert!(read().is_empty());
    disk.fail(0..0);
    commit(&mut writer, 3).unwrap();
    assert!(read().is_empty());
    writer.set_ended(4);
    assert_eq!(read(), [3]);
    // Another process goes on, in another segment.
    let mut writer = store(&disk);
    commit(&mut writer, 4).unwrap();
    commit(&mut writer, 5).unwrap();
    writer.set_ended(6);
    assert_eq!(read(), [4, 5]);
}

#[test]
fn segments_are_kept_for_their_readers() {
    let disk = Disk::default();
    let mut writer = store(&disk);
    let mut next = 0;
    let mut commit_and_snapshot = |writer: &mut Store| {
        writer.commit(&[next], |segment| segment.write(&change(next, b"vectors"))).unwrap();
        next += 1;
        writer.set_ended(next);
        let first = writer.end_segment();
        writer.set_snapshot(SnapshotId { number: next, checksum: None }).unwrap();
        disk.remove_below(first).unwrap();
    };
    commit_and_snapshot(&mut writer);
    let mut reader = Log::new(Arc::new(disk.clone()));
    reader.read_on().unwrap();
    reader.remove_below(1);
    for _ in 0..3 {
        commit_and_snapshot(&mut writer);
    }
    assert!(disk.list().unwrap().len() > 3);
    reader.read_on().unwrap();
    assert_eq!(reader.numbers(), [1, 2, 3]);
    // It does not read from here on.
    let mut behind = Log::new(Arc::new(disk.clone()));
    behind.read_on().unwrap();
    behind.remove_below(4);
    drop(reader);
    commit_and_snapshot(&mut writer);
    assert!(disk.list().unwrap().len() <= 2);

    // Where readers have no locks, one finds that it is behind.
    let last = *disk.list().unwrap().last().unwrap();
    commit_and_snapshot(&mut writer);
    commit_and_snapshot(&mut writer);
    disk.state().segments.retain(|&number, _| number < last || number > last + 1);
    assert_eq!(behind.read_on().unwrap_err().kind(), io::ErrorKind::NotFound);
}
