//! Bytes of damaged or made-up files are refused in time that is linear in their number.

use std::time::Instant;

use jasper_attributes::{Attributes, Frame};

const MANY: u64 = 150_000;

/// In debug mode and on a busy machine, a pass takes a fraction of this. What compares all with all takes minutes.
const SECONDS: u64 = 15;

fn attributes(bytes: &[u8]) -> Result<Attributes, String> {
    let start = Instant::now();
    let decoded = Attributes::decode(bytes).map_err(|error| error.what.to_string());
    assert!(start.elapsed().as_secs() < SECONDS, "{:?}", start.elapsed());
    decoded
}

/// The version, and the keys: live ones by row, and removed ones with their rows.
fn keys(live: impl Iterator<Item = u64>, removed: impl Iterator<Item = (u64, u32)>) -> Vec<u8> {
    let (live, removed): (Vec<u64>, Vec<(u64, u32)>) = (live.collect(), removed.collect());
    let mut bytes = vec![1];
    bytes.extend((live.len() as u64).to_le_bytes());
    live.into_iter().for_each(|key| bytes.extend(key.to_le_bytes()));
    bytes.extend((removed.len() as u64).to_le_bytes());
    for (key, row) in removed {
        bytes.extend(key.to_le_bytes());
        bytes.extend(row.to_le_bytes());
    }
    bytes
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// A column of its name, the code of its kind, and its values.
fn column(name: &str, kind: u8, values: &[u8]) -> Vec<u8> {
    [&text(name), &[kind][..], &(values.len() as u64).to_le_bytes(), values].concat()
}

#[test]
fn one_key_has_all_rows() {
    let no_columns = [0; 4];
    for bytes in [
        keys((0..MANY).map(|_| 1 << 40), [].into_iter()),
        keys((0..MANY).map(|_| u64::MAX), (0..MANY as u32).map(|row| (1 << 40, row))),
    ] {
        assert_eq!(attributes(&[&bytes[..], &no_columns].concat()).unwrap_err(), "a key has two rows");
    }
}

#[test]
fn one_string_is_all_of_a_dictionary_or_the_id_of_all_keys() {
    const KEYWORD: u8 = 4;
    const ID: u8 = 6;
    let dictionary: Vec<u8> =
        (MANY as u32).to_le_bytes().into_iter().chain((0..MANY).flat_map(|_| text("x"))).collect();
    let words = [keys(0..0, [].into_iter()), vec![1, 0, 0, 0], column("word", KEYWORD, &dictionary)];
    assert_eq!(attributes(&words.concat()).unwrap_err(), "a column has a string twice");
    let lens = (0..MANY).flat_map(|_| 2_u32.to_le_bytes());
    let ids: Vec<u8> = lens.chain((0..MANY).map(|_| b'x')).collect();
    let ids = [keys(0..MANY, [].into_iter()), vec![1, 0, 0, 0], column("id", ID, &ids)];
    assert_eq!(attributes(&ids.concat()).unwrap_err(), "two keys have the same id");
}

#[test]
fn there_are_many_columns() {
    const INTEGER: u8 = 1;
    let name = |number: u64| format!("{number:06}");
    let count = (MANY as u32).to_le_bytes();
    let columns: Vec<u8> = (0..MANY).flat_map(|number| column(&name(number), INTEGER, &[])).collect();
    let decoded = attributes(&[&keys(0..0, [].into_iter())[..], &count, &columns].concat()).unwrap();
    assert_eq!(decoded.columns().count(), MANY as usize);

    let start = Instant::now();
    let columns = (0..MANY).flat_map(|number| text(&name(number)).into_iter().chain([INTEGER]));
    let frame = [&[1][..], &[0; 8], &count].concat().into_iter().chain(columns);
    let frame = Frame::decode(&frame.collect::<Vec<u8>>()).unwrap();
    for mut attributes in [Attributes::default(), decoded] {
        attributes.set(&[], &frame).unwrap();
        assert_eq!(attributes.columns().count(), MANY as usize);
    }
    assert!(start.elapsed().as_secs() < SECONDS, "{:?}", start.elapsed());
}
