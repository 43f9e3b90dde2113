//! Several devices that take from one queue, some of which fail.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use super::*;

#[test]
fn queries_that_a_failing_device_took_are_answered_by_another() {
    let both = Both::new(37);
    let mut graph = built(&whole::<u8>(150, 6, 9), 6, Metric::L2, &both);
    // All vertices near the queries are deleted, so that a frontier holds no live one, and each query needs a scan.
    let query: Vec<u8> = whole(1, 6, 10);
    for hit in &both.agree(&graph, &query, SearchParams::new(140).beam_width(150))[..130] {
        graph.keys_mut().delete(hit.key).unwrap();
    }
    let (rows, params) = (query.repeat(300), SearchParams::new(10).beam_width(10));
    let view = MatrixView::new(&rows, 6).unwrap();
    let (expected, report) = both.emulated(&graph, view, params).unwrap();
    assert!(report.scanned > 100, "{report:?}");

    let copy = DeviceGraph::upload(&both.stream, &graph, MemorySpace::Device).unwrap();
    let plan = SearchPlan::new(&graph, params, 150, AS_CPU).unwrap();
    let search = |queue: &QueryQueue<'_>, waits: &AtomicUsize| {
        let buffers = || EmulatedBuffers::new(&both.stream).map(|buffers| buffers.failing_after(waits));
        BatchSearch { plans: Plans::One(&plan), graph: copy.searched(), pool: both.cpu.pool() }.search(
            queue,
            &mut vec![buffers()?],
            buffers,
        )
    };
    let never = AtomicUsize::new(usize::MAX);
    let queries: Vec<_> = view.rows().map(VectorView::from).collect();
    let mut matches = Matches::new(300, 10).unwrap();
    // Ten chunks are searched, then at least four are scanned.
    for waits in [0, 1, 5, 9, 10, 11, 13] {
        matches.as_mut().rows(10).for_each(|mut row| _ = row.fill([].into_iter()));
        let queue = QueryQueue::new(&queries, 10, matches.as_mut(), 2).unwrap();
        assert!(matches!(search(&queue, &AtomicUsize::new(waits)), Err(SearchError::Device(_))));
        assert!(!queue.is_empty());
        let rest = search(&queue, &never).unwrap();
        assert!(queue.is_empty());
        assert_eq!(queue.failed_report().scanned + rest.scanned, 300);
        drop(queue);
        assert_eq!(entries(&matches), expected, "{waits}");
    }
    // At the same time. What the first puts back after the second has ended is left for a third.
    for waits in [2, 4, usize::MAX] {
        let queue = QueryQueue::new(&queries, 10, matches.as_mut(), 2).unwrap();
        let waits = AtomicUsize::new(waits);
        let (failing, other) = thread::scope(|scope| {
            let other = scope.spawn(|| search(&queue, &never).unwrap());
            (search(&queue, &waits), other.join().unwrap())
        });
        assert_eq!(failing.is_err(), waits.load(Relaxed) == 0);
        let rest = search(&queue, &never).unwrap();
        if let Ok(report) = failing {
            assert_eq!((report.scanned + other.scanned, rest), (300, SearchReport::default()));
        }
        drop(queue);
        assert_eq!(entries(&matches), expected);
    }
}
