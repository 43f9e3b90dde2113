//! Repaired rows.

use std::collections::BTreeSet;

use jasper_core::{Element, Metric, Neighbor, f16, synthetic};
use rand::RngExt;

use super::vertices::Vertices;
use super::{ROW_BYTES, for_all_vertices};
use crate::prune::{Repair, RepairArgs};
use crate::suite::bits::{some, words};
use crate::{Buffer, Stream};

/// Repaired rows per case: among them that of vertex 0, all of whose neighbors are deleted.
const MAX_ROWS: usize = 12;

/// Rows with few deleted neighbors, with many, and with only deleted ones, which have more replacement candidates than
/// a prune considers.
///
/// # Panics
/// Panics if a row differs from the reference, or the stream fails.
pub fn repaired_rows_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    for_all_vertices!(repairs_agree(stream, seed));
}

fn repairs_agree<T: Element>(stream: &impl Stream, seed: u64, metric: Metric, row_bytes: usize) {
    let mut rng = synthetic::rng(seed);
    let mut vertices = Vertices::<T>::new(&mut rng, metric, row_bytes);
    let slots = vertices.len() as u32;
    let one_in = rng.random_range(2..10);
    let mut deleted = some(&mut rng, slots, one_in);
    deleted.remove(&0);
    deleted.insert(1);
    let mut rows: Vec<Vec<u32>> = Vec::new();
    for vertex in 0..slots {
        let mut row = vertices.some(&mut rng, vertices.max_degree);
        if vertex == 0 {
            row = deleted.iter().copied().take(vertices.max_degree).collect();
        }
        row.retain(|&slot| slot != vertex);
        let first = rng.random_range(0..=row.len());
        let (first, second) = row.split_at_mut(first);
        let kept_before = rng.random_range(0..=second.len());
        first.sort_unstable_by_key(|&slot| vertices.neighbor(vertex, slot));
        second[..kept_before].sort_unstable_by_key(|&slot| vertices.neighbor(vertex, slot));
        vertices.edges[vertex as usize * vertices.edges_stride..][..row.len()].copy_from_slice(&row);
        rows.push(row);
    }
    let live: BTreeSet<u32> = (0..slots).filter(|slot| !deleted.contains(slot)).collect();
    let to_repair: Vec<u32> = live
        .iter()
        .copied()
        .filter(|&slot| rows[slot as usize].iter().any(|slot| deleted.contains(slot)))
        .take(MAX_ROWS)
        .collect();
    let mut expected = Vec::new();
    for &vertex in &to_repair {
        let (deleted_ids, live_ids): (Vec<u32>, Vec<u32>) =
            rows[vertex as usize].iter().copied().partition(|slot| deleted.contains(slot));
        let replacements: BTreeSet<u32> =
            deleted_ids.into_iter().flat_map(|slot| rows[slot as usize].clone()).collect();
        let replacements = replacements
            .into_iter()
            .filter(|slot| live.contains(slot) && *slot != vertex && !live_ids.contains(slot));
        let mut replacements: Vec<Neighbor> =
            replacements.map(|slot| vertices.neighbor(vertex, slot)).collect();
        replacements.sort_unstable();
        let live_ids: Vec<Neighbor> =
            live_ids.iter().map(|&slot| vertices.neighbor(vertex, slot).kept_before()).collect();
        let [first, kept_before] = vertices.kept_ends(&live_ids);
        let most = rows[vertex as usize].len().max(vertices.max_degree / 2);
        let (rounds, _) = vertices.prune_in_order(vertex, [&live_ids[..], &replacements].concat(), most, &[]);
        let mut parts = [&live_ids[..first], &live_ids[first..kept_before]].map(<[_]>::to_vec);
        for (part, round) in parts.iter_mut().zip(rounds) {
            part.extend(round.into_iter().filter(|neighbor| !neighbor.is_kept_before()));
            part.sort_unstable();
        }
        let row = parts.concat().into_iter().chain(live_ids[kept_before..].iter().copied());
        expected.push(vertices.padded(row.map(|neighbor| neighbor.slot().get()).collect()));
    }

    let mut device = vertices.upload(stream);
    let live = stream.upload(&words(&live, slots)).unwrap();
    let on_device = stream.upload(&to_repair).unwrap();
    let mut neighbors = stream.allocate(to_repair.len() * vertices.edges_stride).unwrap();
    let args = RepairArgs {
        prune: vertices.args(&mut device),
        live: live.input(),
        row_vertices: on_device.input(),
        neighbors: neighbors.output(),
        rows_len: to_repair.len() as u32,
    };
    // SAFETY: the buffers have the shapes that the arguments say, and live until the downloads have waited.
    unsafe {
        stream.launch(&Repair::for_rows(T::KIND, vertices.form, vertices.row_bytes()), args).unwrap();
    }

    let what = format!("{} {metric}, {row_bytes} bytes, {} deleted", T::KIND, deleted.len());
    let neighbors = stream.download(&neighbors).unwrap();
    for ((vertex, row), expected) in
        to_repair.iter().zip(neighbors.chunks(vertices.edges_stride)).zip(expected)
    {
        assert_eq!(row, expected, "the row of {vertex}: {what}");
    }
}
