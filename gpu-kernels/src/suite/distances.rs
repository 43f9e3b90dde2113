//! Distances by id, against their twin.

use jasper_core::{Element, ElementKind, f16, padded_len, synthetic};
use rand::RngExt;

use super::{twin, vectors};
use crate::distances::{DistanceArgs, Distances, NO_ROW};
use crate::{Buffer, Stream};

/// Every kernel of the family over random shapes: rows of any length, no ids, one id, more than a warp takes, ids that
/// name no row. Floats must agree to the bit.
///
/// # Panics
/// If a kernel and its twin differ, or the stream fails.
pub fn distances_agree_with_the_twin(stream: &impl Stream, seed: u64) {
    for kernel in Distances::all() {
        match kernel.element() {
            ElementKind::F32 => agrees::<f32>(stream, kernel, seed),
            ElementKind::F16 => agrees::<f16>(stream, kernel, seed),
            ElementKind::U8 => agrees::<u8>(stream, kernel, seed),
            ElementKind::I8 => agrees::<i8>(stream, kernel, seed),
        }
    }
}

fn agrees<T: Element>(stream: &impl Stream, kernel: Distances, seed: u64) {
    let mut rng = synthetic::rng(seed);
    for (queries_len, ids_per_query) in [(1, 300), (3, 41), (5, 1), (2, 0)] {
        let dimension = match kernel.row_bytes() {
            Some(bytes) => bytes as usize / size_of::<T>(),
            None => rng.random_range(1..200),
        };
        let stride = padded_len::<T>(dimension);
        let rows_len = rng.random_range(1..50);
        let rows = vectors::<T>(&mut rng, rows_len, dimension, 1.0);
        let queries = vectors::<T>(&mut rng, queries_len, dimension, 1.0);
        let mut id =
            || if rng.random_range(0..8) == 0 { NO_ROW } else { rng.random_range(0..rows_len as u32) };
        let ids: Vec<u32> = (0..queries_len * ids_per_query).map(|_| id()).collect();

        let on_device =
            (stream.upload(&rows).unwrap(), stream.upload(&queries).unwrap(), stream.upload(&ids).unwrap());
        let mut found = stream.allocate::<f32>(ids.len()).unwrap();
        let args = DistanceArgs {
            rows: on_device.0.input().cast(),
            queries: on_device.1.input().cast(),
            ids: on_device.2.input(),
            distances: found.output(),
            row_bytes: (stride * size_of::<T>()) as u32,
            queries_len: queries_len as u32,
            ids_per_query: ids_per_query as u32,
        };
        // SAFETY: the buffers have just been made in these shapes, and live until the download has waited.
        unsafe { stream.launch(&kernel, args).unwrap() };
        let found = stream.download(&found).unwrap();

        for (i, (&id, found)) in ids.iter().zip(found).enumerate() {
            let query = &queries[i / ids_per_query * stride..][..stride];
            let expected = match id {
                NO_ROW => f32::INFINITY,
                _ => twin::distance(kernel, query, &rows[id as usize * stride..][..stride]),
            };
            assert_eq!(
                found.to_bits(),
                expected.to_bits(),
                "{kernel:?}, dimension {dimension}, pair {i}: {found} for {expected}"
            );
        }
    }
}
