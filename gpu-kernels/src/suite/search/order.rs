//! The order of the queries of a batch: a permutation, cell by cell, that changes no result.

use jasper_core::{ElementKind, Slot, synthetic};
use rand::RngExt;

use super::case::{SearchCase, SearchOutput, TO_THE_END};
use super::graph;
use crate::Stream;
use crate::graph::{DistanceForm, DistanceOpKind};
use crate::order::{QueryOrder, cell_of};
use crate::search::Search;

/// Numbers of queries at which warps and blocks end.
const LENGTHS: [usize; 5] = [0, 1, 256, 257, 700];
/// The first start point, and those that queries are compared with: a warp of them at most.
const COMPARED: std::ops::Range<usize> = 1..33;

/// Batches of all lengths, with few start points and more than are compared, in one memory.
///
/// # Panics
/// Panics if a query is missing, a cell is not in one piece, a result depends on the order, or the stream fails.
pub fn orders_hold_every_query_once(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let mut order = QueryOrder::allocate(stream, LENGTHS[LENGTHS.len() - 1]).unwrap();
    for (len, starts) in LENGTHS.into_iter().zip([2, 5, 33, 40, 20]) {
        let form = DistanceForm::SquaredL2;
        let kernel = Search::for_rows(ElementKind::U8, DistanceOpKind::SquaredL2, 16, 40, 1);
        let mut graph = graph::<u8>(&mut rng, kernel, form, 60);
        graph.adjacency_mut().set_start_points((60 - starts..60).rev().map(Slot::from_index).collect());
        let case = SearchCase {
            queries: (0..len).map(|_| Slot::from_index(rng.random_range(0..60))).collect(),
            frontier_len: 40,
            max_hops: TO_THE_END,
            start_points: None,
            is_reversed: false,
            ..SearchCase::random(&mut rng, 40, form, 60)
        };
        // SAFETY: the arguments are of buffers that live until this has run.
        let expected = case.launch(stream, &graph, |args| unsafe { stream.launch(&kernel, args) });
        let found = case.launch(stream, &graph, |args| {
            // SAFETY: as above; the order lives as long.
            let ordered = unsafe { order.find(stream, args, None, ElementKind::U8) };
            // SAFETY: as above.
            ordered.and_then(|args| unsafe { stream.launch(&kernel, args) })
        });
        assert_eq!(found.results, expected.results, "{len} queries");
        let hops = |output: &SearchOutput| output.costs.iter().map(|costs| costs[0]).collect::<Vec<_>>();
        assert_eq!(hops(&found), hops(&expected), "{len} queries");
        assert_eq!(found.rerank_slots, expected.rerank_slots, "{len} queries");
        let order = stream.download_range(&order.order, 0..len).unwrap();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..len as u32), "{len} queries, {order:?}");
        let compared = &graph.adjacency().start_points()[COMPARED.start..COMPARED.end.min(starts)];
        let cell = |&query: &u32| {
            let computer =
                graph.vectors().distance_computer(graph.vectors().padded(case.queries[query as usize]));
            let distance = |&&slot: &&Slot| (computer.distance_to(slot), slot);
            let nearest = compared.iter().min_by(|a, b| distance(a).partial_cmp(&distance(b)).unwrap());
            cell_of(nearest.unwrap().get())
        };
        let mut cells: Vec<u32> = order.iter().map(cell).collect();
        assert!(cells.is_sorted(), "{len} queries, cells {cells:?}");
        cells.dedup();
        assert!(len < 256 || cells.len() > 3, "{len} queries in {cells:?}");
    }
}
