//! Searches that are started and polled.

use super::super::started::{POLLS, StartedQueries, UNWRITTEN, can_start};
use super::*;

/// What a search that was started answers in some polls, in the order of the queries.
fn poll(
    started: &mut StartedQueries,
    graph: &Graph,
    buffers: &EmulatedBuffers<'_>,
    polls: u32,
) -> (Vec<(usize, Vec<Hit>)>, bool) {
    let (mut answers, mut is_complete) = (Vec::new(), false);
    for _ in 0..polls {
        let answer = &mut |query, hits| answers.push((query, hits));
        is_complete = started.poll(buffers, graph, answer).unwrap();
    }
    answers.sort_by_key(|(query, _)| *query);
    (answers, is_complete)
}

#[test]
fn a_started_search_answers_each_query_when_its_results_are_written() {
    let both = Both::new(13);
    let rows = whole::<u8>(400, 16, 3);
    let graph = built(&rows, 16, Metric::L2, &both);
    let queries = whole::<u8>(9, 16, 4);
    let rows: Vec<_> = queries.chunks_exact(16).map(VectorView::from).collect();
    let params = SearchParams::new(5).beam_width(20);
    let expected = both.agree(&graph, &queries, params);
    let expected: Vec<(usize, Vec<Hit>)> = expected.chunks(5).map(<[Hit]>::to_vec).enumerate().collect();

    let copy = DeviceGraph::upload(&both.stream, &graph, MemorySpace::Device).unwrap();
    let plan = SearchPlan::new(&graph, params, rows.len(), AS_CPU).unwrap();
    let search = BatchSearch { plans: Plans::One(&plan), graph: copy.searched(), pool: both.cpu.pool() };
    assert!(can_start(&plan));
    let mut buffers = EmulatedBuffers::new(&both.stream).unwrap();
    // SAFETY: the emulator runs a launch before it returns.
    let mut started = unsafe { search.start(&rows, &mut buffers) }.unwrap();
    // One word of two results does not arrive, until the launch is complete.
    let results = &mut buffers.device.as_mut().unwrap().results.array;
    let whole = results.read().unwrap();
    results.write_from(3 * 5 + 4, &[DeviceHit { slot: UNWRITTEN.slot, ..whole[3 * 5 + 4] }]);
    results.write_from(7 * 5, &[DeviceHit { key: UNWRITTEN.key >> 32 << 32, ..whole[7 * 5] }]);
    let (answers, is_complete) = poll(&mut started, &graph, &buffers, 1);
    assert!(!is_complete);
    let is_whole = |(query, _): &&(usize, Vec<Hit>)| ![3, 7].contains(query);
    assert_eq!(answers, expected.iter().filter(is_whole).cloned().collect::<Vec<_>>());
    buffers.device.as_mut().unwrap().results.array.write_from(7 * 5, &whole[7 * 5..][..1]);
    assert_eq!(poll(&mut started, &graph, &buffers, 1), (vec![expected[7].clone()], false));
    assert_eq!(poll(&mut started, &graph, &buffers, POLLS), (vec![expected[3].clone()], true));
    assert_eq!(poll(&mut started, &graph, &buffers, 1), (vec![], true));

    let all = |_| true;
    let plan = SearchPlan::new(&graph, params.filter(&all), rows.len(), AS_CPU).unwrap();
    assert!(!can_start(&plan));
}

/// A scan has to find the others.
#[test]
fn a_started_search_does_not_answer_what_tombstones_leave_short() {
    let both = Both::new(14);
    let mut graph = built(&whole::<i8>(300, 6, 9), 6, Metric::L2, &both);
    let queries = whole::<i8>(6, 6, 10);
    let near = both.agree(&graph, &queries, SearchParams::new(290).beam_width(300));
    near[..280].iter().for_each(|hit| graph.keys_mut().delete(hit.key).unwrap());
    let copy = DeviceGraph::upload(&both.stream, &graph, MemorySpace::Device).unwrap();
    let narrow = CostModel { max_beam_width: 20, ..CostModel::CPU };
    let plan = SearchPlan::new(&graph, SearchParams::new(20).beam_width(20), 1, narrow).unwrap();
    assert!(can_start(&plan));
    let search = BatchSearch { plans: Plans::One(&plan), graph: copy.searched(), pool: both.cpu.pool() };
    let mut buffers = EmulatedBuffers::new(&both.stream).unwrap();
    // SAFETY: the emulator runs a launch before it returns.
    let mut started = unsafe { search.start(&[queries[..6].into()], &mut buffers) }.unwrap();
    assert_eq!(poll(&mut started, &graph, &buffers, 2), (vec![], true));
}

#[test]
fn a_started_search_finds_all_keys_of_a_vertex() {
    let both = Both::new(15);
    // Every vector twice, and one of them 40 times.
    let mut rows = whole::<u8>(200, 16, 5);
    rows.extend_from_within(..);
    (0..40).for_each(|_| rows.extend_from_within(16..32));
    let graph = built(&rows, 16, Metric::L2, &both);
    let queries = [whole::<u8>(5, 16, 6), rows[16..32].to_vec()].concat();
    let params = SearchParams::new(6).beam_width(20);
    let expected = both.agree(&graph, &queries, params);
    let expected: Vec<(usize, Vec<Hit>)> = expected.chunks(6).map(<[Hit]>::to_vec).enumerate().collect();
    let keys: Vec<_> = expected[5].1.iter().map(|hit| hit.key).collect();
    assert_eq!(keys, [1, 201, 400, 401, 402, 403]);

    let rows: Vec<_> = queries.chunks_exact(16).map(VectorView::from).collect();
    let copy = DeviceGraph::upload(&both.stream, &graph, MemorySpace::Device).unwrap();
    let plan = SearchPlan::new(&graph, params, rows.len(), AS_CPU).unwrap();
    assert!(can_start(&plan));
    let search = BatchSearch { plans: Plans::One(&plan), graph: copy.searched(), pool: both.cpu.pool() };
    let mut buffers = EmulatedBuffers::new(&both.stream).unwrap();
    // SAFETY: as above.
    let mut started = unsafe { search.start(&rows, &mut buffers) }.unwrap();
    assert_eq!(poll(&mut started, &graph, &buffers, POLLS + 1), (expected, true));
}
