//! The launches of an exact search by brute force.

use jasper_core::{Element, Metric, padded_len};

use super::{KnnResults, Rank, RankArgs, Scan, ScanArgs, TILE, list_len};
use crate::{Buffer, Stream};

/// The largest k.
pub const MAX_K: usize = 128;

/// Queries of a chunk, which a launch searches for: enough to fill a device many times, and few enough that their lists
/// stay small.
pub(super) const QUERIES_PER_CHUNK: usize = 1 << 14;
/// Maximum number of segments. Each query has a list per segment.
const MAX_SEGMENTS: u32 = 32;
/// Minimum number of tiles of a segment. Filling the lists of a short segment takes many merges, which pays off only if
/// there are few rows, because more blocks run at once.
const SEGMENT_TILES: u32 = 2;
/// Blocks of the scan that a multiprocessor holds at once.
const BLOCKS_PER_MULTIPROCESSOR: u32 = 2;

/// The best rows among which are the true neighbors: k if scores are exact, else 2 k.
fn wanted<T: Element>(metric: Metric, k: usize) -> u32 {
    let exact = T::EXACT_SUMS && metric != Metric::Cosine;
    (if exact { k } else { 2 * k }) as u32
}

/// The number of segments of the rows at which the last wave of blocks leaves the fewest multiprocessors idle.
pub(super) fn segments(queries_len: u32, rows_len: u32, multiprocessors: u32) -> u32 {
    let resident_blocks = multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
    let tiles = queries_len.div_ceil(TILE);
    let max_segments = (rows_len / (SEGMENT_TILES * TILE)).clamp(1, MAX_SEGMENTS);
    let waves = |segments: u32| (tiles * segments).div_ceil(resident_blocks);
    // Time is proportional to waves / segments; of equal times, the fewest segments are chosen.
    (1..=max_segments)
        .reduce(|best, next| if waves(next) * best < waves(best) * next { next } else { best })
        .unwrap_or(1)
}

/// Bytes of device memory that [`exact_knn`] allocates at most, in addition to rows and queries.
pub fn scratch_bytes<T: Element>(queries_len: usize, k: usize) -> usize {
    let wanted = Metric::ALL.map(|metric| wanted::<T>(metric, k)).into_iter().max().unwrap_or(0);
    queries_len.min(QUERIES_PER_CHUNK)
        * (MAX_SEGMENTS as usize * list_len(wanted) as usize * 8 + 4 + k * (4 + 8))
}

/// The `k` nearest of the first `rows_len` rows to each query, exactly: the same rows in the same order as the CPU's
/// exact k-NN.
///
/// `rows` and `queries` hold vectors of `dimension` coordinates, each padded with zeros to
/// [`padded_len`]. Distances are squared L2, the negated inner product, or 1 - cos of vectors that are not zero; no
/// value may be NaN or infinite. Rows that do not fit the device are searched in parts: see [`KnnResults::merge`].
///
/// Each coordinate of each pair costs a multiply-add (two instructions for L2 of floats); bytes are taken four at a
/// time. Rows in the order of descending distance cost many times as much, because each enters the list.
///
/// # Errors
/// Returns the device's error.
///
/// # Panics
/// Panics if k is 0 or above [`MAX_K`], if there are no rows or 2^32, or if a buffer holds no whole rows or fewer than
/// `rows_len`.
pub fn exact_knn<S: Stream, T: Element>(
    stream: &S,
    metric: Metric,
    dimension: usize,
    k: usize,
    rows: &S::Buffer<T>,
    rows_len: usize,
    queries: &S::Buffer<T>,
) -> Result<KnnResults, S::Error> {
    let stride = padded_len::<T>(dimension);
    assert!((1..=MAX_K).contains(&k), "k ({k}) must be between 1 and {MAX_K}");
    assert!(rows_len > 0 && rows_len * stride <= rows.len(), "{rows_len} rows of {stride} in {}", rows.len());
    assert!(queries.len().is_multiple_of(stride), "{} is no multiple of {stride}", queries.len());
    let element = T::KIND;
    let rows_len = u32::try_from(rows_len).expect("numbers of rows have 32 bits");
    let row_bytes = (stride * size_of::<T>()) as u32;
    let wanted = wanted::<T>(metric, k);
    let queries_len = queries.len() / stride;
    let (mut ids, mut distances) = (Vec::new(), Vec::new());
    for first in (0..queries_len).step_by(QUERIES_PER_CHUNK) {
        let len = (queries_len - first).min(QUERIES_PER_CHUNK) as u32;
        let segment_rows =
            rows_len.div_ceil(segments(len, rows_len, stream.multiprocessors())).next_multiple_of(TILE);
        let segments = rows_len.div_ceil(segment_rows);
        let mut lists = stream.allocate::<u64>((segments * len * list_len(wanted)) as usize)?;
        let mut bounds = stream.allocate::<u32>(len as usize)?;
        stream.fill(&mut bounds, u8::MAX)?;
        let mut found = stream.allocate::<u32>(len as usize * k)?;
        let mut at = stream.allocate::<u64>(len as usize * k)?;
        let (rows, queries) = (stream.input(rows).cast(), stream.input(queries).add(first * stride).cast());
        let scan = ScanArgs {
            rows,
            queries,
            lists: stream.output(&mut lists),
            row_bytes,
            rows_len,
            queries_len: len,
            first_row: 0,
            segment_rows,
            wanted,
            bounds: stream.output(&mut bounds),
        };
        let rank = RankArgs {
            rows,
            queries,
            lists: stream.input(&lists),
            ids: stream.output(&mut found),
            distances: stream.output(&mut at),
            row_bytes,
            dimension: dimension as u32,
            queries_len: len,
            segments,
            wanted,
            k: k as u32,
        };
        // SAFETY: rows and queries are as long as checked above; lists and results have the shapes that the arguments
        // say, and live until the downloads have waited for both launches, the second of which reads what the first
        // wrote.
        unsafe {
            stream.launch(&Scan::new(element, metric, false), scan)?;
            stream.launch(&Rank { element, metric }, rank)?;
        }
        ids.extend(stream.download(&found)?);
        distances.extend(stream.download(&at)?.into_iter().map(f64::from_bits));
    }
    Ok(KnnResults::new(k, ids, distances))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::f16;

    #[test]
    fn lists_are_long_enough() {
        let of = |wanted| (wanted, list_len(wanted));
        assert_eq!(of(wanted::<u8>(Metric::L2, 10)), (10, 32));
        assert_eq!(of(wanted::<u8>(Metric::Cosine, 100)), (200, 224));
        assert_eq!(of(wanted::<f16>(Metric::L2, MAX_K)), (256, 256));
    }

    #[test]
    fn segments_fill_the_device() {
        // 79 tiles of queries, 264 blocks at once: 3 waves of 10 segments leave 2 places empty.
        assert_eq!(segments(10_000, 1_000_000, 132), 10);
        // 79 tiles of queries and 7 of rows: all blocks at once.
        assert_eq!(segments(10_000, 1000, 132), 3);
        assert_eq!(segments(10_000, 255, 132), 1);
        assert_eq!(segments(128, 1_000_000, 132), 32);
        // As many tiles as places: one segment does.
        assert_eq!(segments(264 * 128, 1_000_000, 132), 1);
    }
}
