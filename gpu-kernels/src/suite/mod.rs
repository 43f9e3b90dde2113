//! The tests of the kernels, as functions over any stream: the emulator and a GPU run the same.
//!
//! Each draws shapes and values from `seed`, runs a kernel or a sequence of them, and panics if the result is not that
//! of the [`reference`].

mod back_edges;
mod bits;
mod edges;
mod encode;
mod groups;
mod knn;
mod prune;
pub mod reference;
mod rows;
mod search;
mod sort;

pub use back_edges::back_edges_are_sorted_and_grouped;
pub use bits::lists_agree_with_the_reference;
pub use edges::{
    detached_vertices_agree_with_the_reference, free_places_agree_with_the_reference,
    incoming_edges_agree_with_the_reference, reached_slots_agree_with_the_reference,
    rows_to_repair_agree_with_the_reference,
};
pub use encode::{coded_queries_agree_with_the_quantizer, long_rows_are_rotated_in_place};
pub use groups::groups_agree_with_the_reference;
pub use knn::{exact_knn_agrees_with_the_reference, exact_knn_searches_in_parts};
pub use prune::{
    merges_agree_with_the_reference, new_rows_agree_with_the_reference, peers_agree_with_the_reference,
    repaired_rows_agree_with_the_reference, rescored_candidates_agree_with_the_reference,
};
pub use rows::{
    moved_rows_keep_their_links, saved_rows_equal_the_graph, sq4_rows_agree_with_the_reference,
    sq8_rows_agree_with_the_reference,
};
pub use search::{
    scans_agree_with_a_search_for_each_query, scans_of_lists_agree_with_one_after_another,
    searches_agree_with_the_cpu, searches_begin_at_all_start_points,
    searches_by_estimates_agree_with_the_cpu, searches_by_sq4_agree_with_those_by_sq8,
    searches_do_not_depend_on_the_batch, searches_find_nothing_where_nothing_is,
    wide_searches_agree_with_the_cpu, wide_searches_by_estimates_agree_with_the_cpu,
};
pub use sort::{sorts_agree_with_the_reference, sorts_use_only_their_bits};

/// Passes the names of all tests of the suite to the macro `$each`, so that no runner misses one.
#[macro_export]
macro_rules! tests_of_the_suite {
    ($each:ident) => {
        $each! {
            back_edges_are_sorted_and_grouped
            repaired_rows_agree_with_the_reference
            coded_queries_agree_with_the_quantizer
            detached_vertices_agree_with_the_reference
            exact_knn_agrees_with_the_reference
            exact_knn_searches_in_parts
            groups_agree_with_the_reference
            incoming_edges_agree_with_the_reference
            peers_agree_with_the_reference
            new_rows_agree_with_the_reference
            lists_agree_with_the_reference
            long_rows_are_rotated_in_place
            merges_agree_with_the_reference
            moved_rows_keep_their_links
            sq4_rows_agree_with_the_reference
            sq8_rows_agree_with_the_reference
            rescored_candidates_agree_with_the_reference
            free_places_agree_with_the_reference
            saved_rows_equal_the_graph
            scans_agree_with_a_search_for_each_query
            scans_of_lists_agree_with_one_after_another
            searches_agree_with_the_cpu
            searches_begin_at_all_start_points
            searches_by_estimates_agree_with_the_cpu
            searches_by_sq4_agree_with_those_by_sq8
            searches_do_not_depend_on_the_batch
            searches_find_nothing_where_nothing_is
            sorts_agree_with_the_reference
            sorts_use_only_their_bits
            rows_to_repair_agree_with_the_reference
            reached_slots_agree_with_the_reference
            wide_searches_agree_with_the_cpu
            wide_searches_by_estimates_agree_with_the_cpu
        }
    };
}

use jasper_core::{Element, padded_len};
use rand::{Rng, RngExt};

/// `n` random vectors of `dimension` coordinates, padded with zeros as kernels expect them. With a `grain` of 1, all
/// values of the element near zero are drawn. A coarser grain leaves fewer values, and so more equal distances.
fn vectors<T: Element>(rng: &mut impl Rng, n: usize, dimension: usize, grain: f32) -> Vec<T> {
    let stride = padded_len::<T>(dimension);
    let zero = if T::from_f32(-1.0).to_f32() < 0.0 { 0.0 } else { 128.0 };
    let mut all = vec![T::default(); n * stride];
    for row in all.chunks_mut(stride) {
        for value in &mut row[..dimension] {
            let steps: f32 = rng.random_range(-128.0..128.0) / grain;
            let steps = if grain > 1.0 { steps.round() } else { steps };
            *value = T::from_f32(steps * grain + zero);
        }
    }
    all
}
