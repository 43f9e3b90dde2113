//! Rows copied, moved and quantized, against slices.

use std::collections::BTreeSet;

use jasper_core::{Element, f16, padded_len, synthetic};
use jasper_vamana::ScalarQuantizer;
use rand::RngExt;
use rand::seq::SliceRandom;

use super::edges::Edges;
use crate::graph::NO_SLOT;
use crate::rows::{
    CopyRows, CopyRowsArgs, QuantizeSq4, QuantizeSq4Args, QuantizeSq8, QuantizeSq8Args, RenameEdges,
    RenameEdgesArgs,
};
use crate::{Buffer, DevicePtr, Stream};

/// Copies of some rows. A row of `NO_SLOT` is not written.
///
/// # Panics
/// Panics if they are not the rows, or the stream fails.
pub fn saved_rows_equal_the_graph(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    for rows in [0, 1, 9, 50] {
        let edges = Edges::random(&mut rng, 50, 40);
        let mut vertices: Vec<u32> = (0..50).collect();
        vertices.shuffle(&mut rng);
        vertices.truncate(rows);
        let mut expected = Vec::new();
        for vertex in &mut vertices {
            let place = *vertex as usize * edges.stride;
            *vertex = if rng.random_range(0..4) == 0 { NO_SLOT } else { *vertex };
            let row = &edges.places()[place..place + edges.stride];
            expected.extend_from_slice(if *vertex == NO_SLOT { &[7; 96][..edges.stride] } else { row });
        }
        let (on_device, vertices) =
            (stream.upload(&edges.places()).unwrap(), stream.upload(&vertices).unwrap());
        let mut ids = stream.upload(&vec![7; expected.len()]).unwrap();
        let args = CopyRowsArgs {
            from: on_device.input(),
            to: ids.output(),
            from_slots: vertices.input(),
            to_slots: DevicePtr::null(),
            rows_len: rows as u32,
            row_words: edges.stride as u32,
        };
        // SAFETY: the buffers have the shapes that the arguments say, and live until the download has waited.
        unsafe { stream.launch(&CopyRows, args).unwrap() };
        assert_eq!(stream.download(&ids).unwrap(), expected, "{rows} rows");
    }
}

/// Moves the last vertices to free slots before them: tables with rows of any length, and all edges.
///
/// # Panics
/// Panics if a table is not that of the reference, or the stream fails.
pub fn moved_rows_keep_their_links(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    for (slots, free) in [(1, 0), (30, 1), (200, 60), (200, 170)] {
        let mut order: Vec<u32> = (0..slots).collect();
        order.shuffle(&mut rng);
        let free: BTreeSet<u32> = order.into_iter().take(free).collect();
        let kept = slots - free.len() as u32;
        let holes = free.iter().copied().filter(|&slot| slot < kept);
        let beyond = (kept..slots).filter(|slot| !free.contains(slot));
        let moves: Vec<(u32, u32)> = beyond.zip(holes).collect();
        let mut renamed: Vec<u32> = (0..slots).collect();
        moves.iter().for_each(|&(from, to)| renamed[from as usize] = to);

        let mut edges = Edges::random(&mut rng, slots, 33);
        for row in &mut edges.rows {
            row.retain(|to| !free.contains(to));
        }
        let [from, to] = [0, 1].map(|side| {
            let slots: Vec<u32> = moves.iter().map(|&(from, to)| if side == 0 { from } else { to }).collect();
            stream.upload(&slots).unwrap()
        });
        for row_words in [1, 2, 37, edges.stride] {
            let is_links = row_words == edges.stride;
            let mut table = if is_links { edges.places() } else { Vec::new() };
            table.resize_with(slots as usize * row_words, || rng.random());
            let mut on_device = stream.upload(&table).unwrap();
            let args = CopyRowsArgs {
                from: on_device.input(),
                to: on_device.output(),
                from_slots: from.input(),
                to_slots: to.input(),
                rows_len: moves.len() as u32,
                row_words: row_words as u32,
            };
            // SAFETY: as above; slots are moved to free ones, each to one of its own.
            unsafe { stream.launch(&CopyRows, args).unwrap() };
            for &(from, to) in &moves {
                let from = from as usize * row_words;
                table.copy_within(from..from + row_words, to as usize * row_words);
            }
            if is_links {
                let targets = stream.upload(&renamed[kept as usize..]).unwrap();
                let args = RenameEdgesArgs {
                    edges: on_device.output(),
                    renamed: targets.input(),
                    kept,
                    slots,
                    edges_stride: edges.stride as u32,
                };
                // SAFETY: as above; the table is of all slots that do not remain.
                unsafe { stream.launch(&RenameEdges, args).unwrap() };
                let remain = table[..kept as usize * row_words].iter_mut().filter(|edge| **edge != NO_SLOT);
                remain.for_each(|edge| *edge = renamed[*edge as usize]);
            }
            assert!(stream.download(&on_device).unwrap() == table, "{row_words} words, {kept} of {slots}");
        }
    }
}

/// Vectors quantized to bytes, some of them clamped.
///
/// # Panics
/// If a byte is not the nearest to its coordinate, or the stream fails.
pub fn sq8_rows_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    for dimension in [1, 4, 16, 33, 300] {
        sq8_rows_agree::<f32>(stream, seed, dimension);
        sq8_rows_agree::<f16>(stream, seed, dimension);
    }
}

fn sq8_rows_agree<T: Element>(stream: &impl Stream, seed: u64, dimension: usize) {
    let mut rng = synthetic::rng(seed);
    let (rows, width, scale) = (19, padded_len::<T>(dimension), 0.75);
    let vectors = super::vectors::<T>(&mut rng, rows, dimension, 1.0);
    let mut centers = vec![0.0; width];
    centers[..dimension].fill_with(|| rng.random_range(-90.0_f32..90.0));
    let bytes_width = padded_len::<i8>(dimension);
    let mut expected = vec![0_i8; rows * bytes_width];
    for (row, vector) in expected.chunks_exact_mut(bytes_width).zip(vectors.chunks_exact(width)) {
        for ((byte, x), center) in row[..dimension].iter_mut().zip(vector).zip(&centers) {
            *byte = ((x.to_f32() - center) * scale).clamp(-127.0, 127.0).round_ties_even() as i8;
        }
    }
    let (vectors, centers) = (stream.upload(&vectors).unwrap(), stream.upload(&centers).unwrap());
    let mut bytes = stream.allocate::<i8>(expected.len()).unwrap();
    let args = QuantizeSq8Args {
        vectors: vectors.input().cast(),
        centers: centers.input(),
        bytes: bytes.output().cast(),
        rows_len: rows as u32,
        row_bytes: (width * size_of::<T>()) as u32,
        row_words: (bytes_width / 4) as u32,
        scale,
    };
    // SAFETY: the buffers have the shapes that the arguments say, and live until the download has waited.
    unsafe { stream.launch(&QuantizeSq8 { element: T::KIND }, args).unwrap() };
    assert_eq!(stream.download(&bytes).unwrap(), expected, "{dimension} {}", T::KIND);
}

/// SQ8 vectors quantized to SQ4, by every shift.
///
/// # Panics
/// If a coordinate is not the nearest to its byte, or the stream fails.
pub fn sq4_rows_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    for (dimension, shift) in [(1, 1), (16, 2), (33, 3), (300, 4), (1000, 3)] {
        let (rows, width) = (19, padded_len::<i8>(dimension));
        let vectors: Vec<i8> = super::vectors(&mut rng, rows, dimension, 1.0);
        let row_bytes = width.div_ceil(2).next_multiple_of(16);
        let expected = sq4_rows(&vectors, width, row_bytes, shift);
        let bytes = stream.upload(&vectors).unwrap();
        let mut sq4 = stream.allocate::<u32>(expected.len()).unwrap();
        let args = QuantizeSq4Args {
            bytes: bytes.input().cast(),
            sq4: sq4.output(),
            rows_len: rows as u32,
            byte_words: (width / 4) as u32,
            row_words: (row_bytes / 4) as u32,
            shift,
        };
        // SAFETY: the buffers have the shapes that the arguments say, and live until the download has waited.
        unsafe { stream.launch(&QuantizeSq4, args).unwrap() };
        assert_eq!(stream.download(&sq4).unwrap(), expected, "{dimension} dimensions, shift {shift}");
    }
}

/// Rows of `width` bytes as SQ4 rows of `row_bytes`: word `i` has the coordinates of words `2 i` and
/// `2 i + 1`, in the upper and in the lower halves of its bytes.
pub(super) fn sq4_rows(vectors: &[i8], width: usize, row_bytes: usize, shift: u32) -> Vec<u32> {
    let row = |row: &[i8]| {
        let value =
            |at: usize| row.get(at).map_or(0, |&byte| ScalarQuantizer::sq4_value(byte, shift) as u8 & 0xf);
        let byte = |at: usize| {
            let (word, byte) = (at / 4, at % 4);
            value(8 * word + byte) << 4 | value(8 * word + 4 + byte)
        };
        let words = (0..row_bytes).step_by(4);
        words.map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|i| byte(at + i)))).collect::<Vec<_>>()
    };
    vectors.chunks(width).flat_map(row).collect()
}
