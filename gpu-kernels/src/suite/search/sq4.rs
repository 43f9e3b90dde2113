//! Compares searches of SQ4 vectors with those of the same numbers as bytes.

use jasper_core::{ElementKind, Slot, padded_len, synthetic};
use rand::RngExt;

use super::case::{SearchCase, SearchOutput};
use super::{forms, graphs, metric};
use crate::search::{Search, SearchArgs};
use crate::suite::rows::sq4_rows;
use crate::suite::vectors;
use crate::{Buffer, RowShape, Stream};

/// The base-2 logarithm of the number of SQ8 steps in a step of SQ4.
const SHIFT: u32 = 4;

/// Every kernel for SQ4 vectors, with rows of several lengths.
///
/// # Panics
/// If a result, a number of hops, a candidate or an expanded vertex differs, or the stream fails.
pub fn searches_by_sq4_agree_with_those_by_sq8(stream: &impl Stream, seed: u64) {
    let kernels = [16, 80, 208, 528, 2416].into_iter().flat_map(Search::all_sq4);
    for (kernel, seed) in kernels.zip(seed << 32..) {
        let mut rng = synthetic::rng(seed);
        let (form, slots) = (forms(kernel)[0], rng.random_range(1..60));
        let row_bytes = kernel.shape.row_bytes();
        let dimension = 2 * row_bytes as usize - rng.random_range(0..32);
        let mut rows = vectors::<i8>(&mut rng, slots, dimension, 1.0);
        rows.iter_mut().for_each(|byte| *byte = *byte >> SHIFT << SHIFT);
        let graph = graphs::of(&mut rng, metric(form), dimension, &rows);
        let max_len = kernel.variant.max_frontier_len();
        let case =
            SearchCase { names_rows: true, ..SearchCase::random(&mut rng, max_len, form, graph.slots()) };
        let width = padded_len::<i8>(dimension);
        let by_bytes = Search::for_rows(ElementKind::I8, kernel.kind.op, width as u32, max_len, 1);
        // SAFETY: the arguments are of buffers that live until this has run.
        let expected = case.launch(stream, &graph, |args| unsafe { stream.launch(&by_bytes, args) });
        let vectors = graphs::rows(&graph, (0..graph.slots()).map(Slot::from_index));
        let sq4 = stream
            .upload(&sq4_rows(bytemuck::cast_slice(&vectors), width, row_bytes as usize, SHIFT))
            .unwrap();
        let found = case.launch(stream, &graph, |args| {
            let mut graph = args.graph;
            (graph.vectors, graph.shape) = (sq4.input().cast(), RowShape::new(row_bytes));
            let args = SearchArgs { queries: graph.vectors, graph, ..args };
            // SAFETY: as above; there is an SQ4 row for each slot.
            unsafe { stream.launch(&kernel, args) }
        });
        let name = format!("{kernel:?}, {dimension} dimensions, {case:?}");
        assert_eq!(found.results, expected.results, "{name}");
        // How many distances are computed twice depends on the order in which lanes insert into the visited cache.
        let hops = |output: &SearchOutput| output.costs.iter().map(|cost| cost[0]).collect::<Vec<_>>();
        assert_eq!(hops(&found), hops(&expected), "{name}");
        assert_eq!(found.candidates, expected.candidates, "{name}");
        assert_eq!(found.expanded, expected.expanded, "{name}");
    }
}
