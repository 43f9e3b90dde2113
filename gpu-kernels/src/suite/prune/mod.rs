//! Prunes against the algorithm of the paper, sequential and on vertices_len.

mod batch_candidates;
mod link;
mod merges;
mod repairs;
mod vertices;

pub use batch_candidates::batch_candidates_agree_with_the_reference;
pub use link::links_agree_with_the_reference;
pub use merges::merges_agree_with_the_reference;
pub use repairs::repaired_rows_agree_with_the_reference;

/// Bytes per row: lengths with specialized kernels, longer than one load of a warp, and others.
const ROW_BYTES: [usize; 6] = [16, 80, 128, 192, 512, 1920];

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
