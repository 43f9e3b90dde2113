//! Compares prunes with the algorithm of the paper, sequential and on plain lists.

mod find_peers;
mod merges;
mod prune_new;
mod repairs;
mod rescored;
mod vertices;

pub use find_peers::peers_agree_with_the_reference;
pub use merges::merges_agree_with_the_reference;
pub use prune_new::new_rows_agree_with_the_reference;
pub use repairs::repaired_rows_agree_with_the_reference;
pub use rescored::rescored_candidates_agree_with_the_reference;

/// Bytes per row: tiles of four lanes, of eight and of all, whole and not, and rows that are not in flight as a whole.
const ROW_BYTES: [usize; 5] = [16, 208, 512, 2416, 6144];

/// Calls `test` with vertices of every element, metric and length.
macro_rules! for_all_vertices {
    ($test:ident($stream:expr, $seed:expr)) => {
        for metric in Metric::ALL {
            for row_bytes in ROW_BYTES {
                $test::<f32>($stream, $seed, metric, row_bytes);
                $test::<f16>($stream, $seed, metric, row_bytes);
                $test::<u8>($stream, $seed, metric, row_bytes);
                $test::<i8>($stream, $seed, metric, row_bytes);
            }
        }
    };
}
use for_all_vertices;
