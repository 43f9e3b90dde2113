//! The fuzz bodies over slightly damaged files.

use crate::damaged::damage;
use crate::{fuzz, hnsw};

/// 12 vertices, as many as the fuzz bodies have vectors, with edges to the next four.
fn edges() -> Vec<Vec<u32>> {
    (0..12).map(|v| (1..=v % 5).map(|i| (v + i) % 12).collect()).collect()
}

#[test]
fn damaged_graphs_are_refused_or_sound() {
    let mut words: Vec<u32> = vec![0, 0, 4, 3, 1, 0];
    for row in edges() {
        words.push(row.len() as u32);
        words.extend(row);
    }
    words[0] = 4 * words.len() as u32;
    let offsets: Vec<usize> = (0..4 * words.len()).collect();
    damage(fuzz::diskann, bytemuck::cast_slice(&words), &offsets, 20_000);

    let mut words: Vec<u32> = vec![12, 4];
    words.extend(edges().iter().map(|row| row.len() as u32));
    words.extend(edges().concat());
    let offsets: Vec<usize> = (0..4 * words.len()).collect();
    damage(fuzz::parlay, bytemuck::cast_slice(&words), &offsets, 20_000);
}

#[test]
fn damaged_hnsw_indexes_are_refused_or_sound() {
    let file = hnsw::hnswlib_file();
    let offsets: Vec<usize> = (0..file.len()).collect();
    damage(fuzz::hnswlib, &file, &offsets, 20_000);

    let file = hnsw::faiss_file(Some(b"IxMp"), b"IHNf", 1, &hnsw::flat(b"IxF2", 1));
    let offsets: Vec<usize> = (0..file.len()).collect();
    damage(fuzz::faiss, &file, &offsets, 20_000);
}
