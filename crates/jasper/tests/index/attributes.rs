//! Attributes: filters by them find exactly what passes, whatever changes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use jasper::attributes::{ColumnKind, Expression, Frame, Value, column};
use jasper::{
    DeleteKeys, Filter, Hit, Index, IndexBuilder, Key, KeyFilter, MatrixView, Metric, NewKeys, OpenOptions,
    SearchParams,
};
use jasper_attributes::AttributeError;
use jasper_core::synthetic::Clusters;
use jasper_vamana::SearchError;

const DIMENSION: usize = 12;

fn view(rows: &[f32]) -> MatrixView<'_, f32> {
    MatrixView::new(rows, DIMENSION).unwrap()
}

/// Attributes by key, as a test computes them.
fn attributes(keys: impl Iterator<Item = Key> + Clone) -> Frame {
    let rows = keys.clone().count();
    let tags = |key: Key| -> Vec<String> {
        let tags = (1..=key % 4).map(|tag| format!("t{}", tag * (key % 3)));
        tags.collect()
    };
    Frame::new(rows)
        .column("tenant", keys.clone().map(|key| format!("tenant {}", key % 50)))
        .unwrap()
        .column("year", keys.clone().map(|key| (key % 7 > 0).then_some(1990 + (key % 35) as i64)))
        .unwrap()
        .column_of("tags", ColumnKind::Keywords, keys.map(|key| Value::from(tags(key))))
        .unwrap()
}

/// The exact hits among the keys that `passes` selects.
fn expected(index: &Index, query: &[f32], k: usize, passes: impl Fn(Key) -> bool) -> Vec<Hit> {
    let keys: KeyFilter = index.keys().into_iter().filter(|&key| passes(key)).collect();
    let wide = SearchParams::new(k).beam_width(index.len().max(k));
    index.search(query, wide.filter(&keys)).unwrap()
}

/// Expressions and what they mean.
type Case = (&'static str, fn(Key) -> bool);
const CASES: [Case; 7] = [
    ("tenant = 'tenant 7'", |key| key % 50 == 7),
    ("year >= 2000 and year < 2010", |key| key % 7 > 0 && (10..20).contains(&(key % 35))),
    ("year is null", |key| key % 7 == 0),
    ("tags contains 't2' or tenant in ('tenant 1', 'tenant 2')", |key| {
        key % 50 == 1 || key % 50 == 2 || (1..=key % 4).any(|tag| tag * (key % 3) == 2)
    }),
    ("not tenant = 'tenant 7'", |key| key % 50 != 7),
    ("tenant = 'unknown'", |_| false),
    ("tenant = 'tenant 3' and not year is null and year between 1990 and 2100", |key| {
        key % 50 == 3 && key % 7 > 0
    }),
];

fn check(index: &Index, queries: &[f32]) {
    let k = 6;
    let params = SearchParams::new(k).beam_width(120);
    let expressions: Vec<Expression> = CASES.iter().map(|(text, _)| text.parse().unwrap()).collect();
    let queries: Vec<&[f32]> = queries.chunks_exact(DIMENSION).collect();
    let all = queries.concat();
    let filters: Vec<Filter<'_>> =
        (0..queries.len()).map(|query| (&expressions[query % CASES.len()]).into()).collect();
    let found = index.search_batch(view(&all), params.filter(&filters[..])).unwrap();
    for (number, (query, hits)) in queries.iter().zip(found.iter()).enumerate() {
        let (text, passes) = CASES[number % CASES.len()];
        let expected = expected(index, query, k, passes);
        let hits: Vec<Hit> = hits.collect();
        assert_eq!(hits, expected, "{text}");
        let alone = index.search(*query, params.filter(&expressions[number % CASES.len()])).unwrap();
        assert_eq!(alone, expected, "{text}");
        let submitted = index.submit(*query, params.filter(&expressions[number % CASES.len()])).unwrap();
        assert_eq!(wait(submitted).unwrap(), expected, "{text}");
    }
    // One expression for all queries.
    for (expression, (text, passes)) in expressions.iter().zip(CASES) {
        let found = index.search_batch(view(&all), params.filter(expression)).unwrap();
        for (query, hits) in queries.iter().zip(found.iter()) {
            assert!(hits.eq(expected(index, query, k, passes)), "{text}");
        }
    }
}

fn wait<R>(pending: jasper::Pending<R>) -> Result<R, jasper::Error> {
    let mut pending = std::pin::pin!(pending);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(result) = pending.as_mut().poll(&mut context) {
            return result;
        }
        thread::yield_now();
    }
}

#[test]
fn filters_find_what_passes_whatever_changes() {
    let set = Clusters::new(DIMENSION, 3);
    let (rows, queries): (Vec<f32>, Vec<f32>) = (set.rows(3000, 0), set.rows(21, 1));
    for shards in [1, 3] {
        let first = attributes(0..2000);
        let index = IndexBuilder::new(Metric::L2)
            .threads(2)
            .shards(shards)
            .attributes(&first)
            .build(view(&rows[..2000 * DIMENSION]))
            .unwrap();
        check(&index, &queries);
        // Under the next keys, and under given ones; copies, which share a vertex.
        index.insert(view(&rows[2000 * DIMENSION..2500 * DIMENSION]), &attributes(2000..2500)).unwrap();
        let given: Vec<Key> = (5000..5500).collect();
        index.insert(view(&rows[..500 * DIMENSION]), (&given, &attributes(5000..5500))).unwrap();
        check(&index, &queries);
        // One by one: small changes.
        for key in 7000..7030 {
            let row = &rows[(key as usize - 4500) * DIMENSION..][..DIMENSION];
            index.insert(row, (&[key], &attributes(key..key + 1))).unwrap();
        }
        index.delete(&(0..300).collect::<Vec<_>>()).unwrap();
        index.undelete(&[5, 7, 57]).unwrap();
        let again: Vec<Key> = (400..420).collect();
        index
            .upsert(view(&rows[2700 * DIMENSION..2720 * DIMENSION]), (&again, &attributes(400..420)))
            .unwrap();
        check(&index, &queries);
        index.consolidate().unwrap();
        index.compact().unwrap();
        check(&index, &queries);
        let rebuilt = index.rebuild(jasper::Device::CPU).unwrap();
        check(&rebuilt, &queries);
        assert!(rebuilt.attributes(&[]).columns().eq(index.attributes(&[]).columns()));

        // A vector without attributes has none, whatever its key had before.
        index.upsert(&rows[..DIMENSION], &[5007]).unwrap();
        assert_eq!(index.attributes(&[5007]).value(0, "tenant"), Value::Null);
        let mine: Expression = "tenant = 'tenant 7'".parse().unwrap();
        let hits = index.search(&rows[..DIMENSION], SearchParams::new(100).filter(&mine)).unwrap();
        assert!(hits.iter().all(|hit| hit.key % 50 == 7 && hit.key != 5007));
        let moved = Frame::new(1).column("tenant", ["tenant 7"]).unwrap();
        index.set_attributes(&[5007], &moved).unwrap();
        let hits = index.search(&rows[..DIMENSION], SearchParams::new(1).filter(&mine)).unwrap();
        assert_eq!(hits[0].key, 5007);
    }
}

#[test]
fn attributes_are_saved_and_logged() {
    let folder = tempfile::tempdir().unwrap();
    let set = Clusters::new(DIMENSION, 3);
    let (rows, queries): (Vec<f32>, Vec<f32>) = (set.rows(600, 0), set.rows(14, 1));
    let path = folder.path().join("attributes.jasper");
    let first = attributes(0..400);
    let build = |shards| {
        let builder = IndexBuilder::new(Metric::L2).threads(2).shards(shards).attributes(&first);
        builder.build(view(&rows[..400 * DIMENSION])).unwrap()
    };
    let index = build(1);
    index.save(&path).unwrap();
    for mapped in [false, true] {
        let opened = OpenOptions::new().mapped(mapped).open(&path).unwrap();
        check(&opened, &queries);
        assert!(opened.attributes(&[]).columns().eq(index.attributes(&[]).columns()));
    }
    // A change of attributes alone is appended.
    let tenant = Frame::new(1).column("tenant", ["another"]).unwrap();
    index.set_attributes(&[17], &tenant).unwrap();
    let saved = index.save(&path).unwrap();
    assert!(saved.written < saved.bytes, "{saved:?}");
    assert_eq!(Index::open(&path).unwrap().attributes(&[17]).value(0, "tenant"), "another".into());
    assert!(jasper_graph::check_file(&path, &mut jasper_core::no_progress).unwrap().is_intact());

    let shards = folder.path().join("shards");
    build(3).save(&shards).unwrap();
    check(&Index::open(&shards).unwrap(), &queries);

    let durable = folder.path().join("durable");
    index.save_durable(&durable).unwrap();
    let index = Index::open(&durable).unwrap();
    index.insert(view(&rows[400 * DIMENSION..500 * DIMENSION]), &attributes(400..500)).unwrap();
    let keys: Vec<Key> = (500..600).collect();
    index.upsert(view(&rows[500 * DIMENSION..]), (&keys, &attributes(500..600))).unwrap();
    index.insert(&rows[..DIMENSION], (&[700], &attributes(700..701))).unwrap();
    index.set_attributes(&[17], &attributes(17..18)).unwrap();
    index.delete(&[3, 7]).unwrap();
    let all = index.keys();
    let before = index.attributes(&all);
    drop(index);
    let index = Index::open(&durable).unwrap();
    assert_eq!((index.keys(), index.attributes(&all)), (all, before));
    check(&index, &queries);
}

#[test]
fn ids_name_keys() {
    let set = Clusters::new(DIMENSION, 3);
    let rows: Vec<f32> = set.rows(100, 0);
    let ids = |ids: std::ops::Range<usize>| {
        let values = ids.clone().map(|id| format!("doc {id}"));
        Frame::new(ids.len()).column_of("id", ColumnKind::Id, values).unwrap()
    };
    for shards in [1, 4] {
        let first = ids(0..50);
        let builder = IndexBuilder::new(Metric::L2).shards(shards).attributes(&first);
        let index = builder.build(view(&rows[..50 * DIMENSION])).unwrap();
        assert_eq!((index.key_of("doc 7"), index.key_of("doc 50")), (Some(7), None));
        let taken = index.insert(view(&rows[50 * DIMENSION..60 * DIMENSION]), &ids(45..55));
        assert!(
            matches!(&taken, Err(error) if matches!(error.downcast_ref(), Some(AttributeError::IdTaken { key: 45..50, .. }))),
            "{taken:?}"
        );
        assert_eq!(index.len(), 50);
        let report = index.insert(view(&rows[50 * DIMENSION..60 * DIMENSION]), &ids(50..60)).unwrap();
        assert_eq!((report.keys, index.key_of("doc 59")), (10, Some(59)));
        index.delete(&[7]).unwrap();
        assert_eq!(index.key_of("doc 7"), None);
        // Another key takes the id, so the deleted one cannot come back.
        index.insert(&rows[60 * DIMENSION..61 * DIMENSION], (&[900], &ids(7..8))).unwrap();
        assert_eq!(index.key_of("doc 7"), Some(900));
        assert!(index.set_attributes(&[3], &ids(7..8)).is_err());
        assert!(index.undelete(&[7]).unwrap_err().to_string().contains("another key has its id"));
        // Two deleted keys with one id: neither comes back.
        index.delete(&[900]).unwrap();
        assert!(index.undelete(&[7, 900]).is_err());
        assert!(!index.contains(7) && !index.contains(900));
        index.undelete(&[7]).unwrap();
        assert_eq!(index.key_of("doc 7"), Some(7));
        let twice = Frame::new(2).column_of("id", ColumnKind::Id, ["new", "new"]).unwrap();
        let rows = view(&rows[62 * DIMENSION..64 * DIMENSION]);
        for keys in [[1000, 1001], [1002, 1005]] {
            assert!(index.insert(rows, (&keys, &twice)).is_err());
        }
    }
}

#[test]
fn expressions_without_columns_select_keys() {
    let rows: Vec<f32> = Clusters::new(DIMENSION, 3).rows(50, 0);
    let index = IndexBuilder::new(Metric::L2).build(view(&rows)).unwrap();
    let keys = |expression: &Expression| {
        let params = SearchParams::new(50).filter(expression);
        let mut keys: Vec<Key> =
            index.search(&rows[..DIMENSION], params).unwrap().iter().map(|hit| hit.key).collect();
        let in_batch = index.search_batch(view(&rows[..2 * DIMENSION]), params).unwrap();
        assert!(in_batch.hits(0).map(|hit| hit.key).eq(keys.iter().copied()));
        keys.sort_unstable();
        keys
    };
    assert_eq!(keys(&Expression::all()), (0..50).collect::<Vec<_>>());
    assert_eq!(keys(&Expression::keys([3, 8, 99])), [3, 8]);
    assert_eq!(keys(&Expression::keys(3..50).not()), [0, 1, 2]);
    // A frame without values adds no column.
    index.set_attributes(&[7], &Frame::new(1).column("year", [None::<i64>]).unwrap()).unwrap();
    assert_eq!(index.attributes(&[]).columns().count(), 0);
    assert!(index.set_attributes(&[99], &Frame::new(1)).is_err());
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let set = Clusters::new(DIMENSION, 3);
    let rows: Vec<f32> = set.rows(60, 0);
    let frame = attributes(0..50);
    let builder = IndexBuilder::new(Metric::L2).attributes(&frame);
    let index = builder.build(view(&rows[..50 * DIMENSION])).unwrap();
    let search = |text: &str| {
        let filter: Expression = text.parse().unwrap();
        let found = index.search(&rows[..DIMENSION], SearchParams::new(3).filter(&filter));
        found.unwrap_err().to_string()
    };
    assert!(search("price > 3").contains("price"));
    assert!(search("year > 'x'").contains("year"));
    let wrong = Frame::new(1).column("year", ["x"]).unwrap();
    let error = index.insert(&rows[50 * DIMENSION..51 * DIMENSION], (&[50], &wrong)).unwrap_err();
    assert!(error.to_string().contains("year"), "{error}");
    let two = Frame::new(2).column("year", [1, 2]).unwrap();
    let next = (NewKeys::NEXT, &two);
    assert!(index.insert(&rows[50 * DIMENSION..51 * DIMENSION], next).is_err());
    assert!(index.set_attributes(&[77], &Frame::new(1).column("year", [1]).unwrap()).is_err());
    assert_eq!((index.len(), index.attributes(&[50]).value(0, "year")), (50, Value::Null));
    let filter = column("year").gt(0);
    let filters = [Filter::from(&filter)];
    let batch = index.search_batch(view(&rows[..2 * DIMENSION]), SearchParams::new(1).filter(&filters[..]));
    assert!(
        matches!(&batch, Err(error) if matches!(error.downcast_ref(), Some(SearchError::Filters { given: 1, queries: 2 })))
    );
    let none: [Filter<'_>; 0] = [];
    let params = SearchParams::new(1).filter(&none[..]);
    assert!(index.explain(params, 1).is_err() && index.submit(&rows[..DIMENSION], params).is_err());
    assert!(builder.build(view(&rows)).is_err(), "50 rows for 60 vectors");
}

/// Each vector is near the center of its tenant, far from those of the others, so that a distance tells whose it is.
#[test]
fn no_search_finds_a_vector_of_another_tenant_while_keys_change_theirs() {
    const TENANTS: u64 = 8;
    const KEYS: u64 = 400;
    let vector = |key: Key, tenant: u64| -> [f32; 2] { [1000.0 * tenant as f32, key as f32 / KEYS as f32] };
    let of_tenant = |tenant: u64| Frame::new(1).column("tenant", [tenant as i64]).unwrap();
    let rows: Vec<f32> = (0..KEYS).flat_map(|key| vector(key, key % TENANTS)).collect();
    let first = Frame::new(KEYS as usize).column("tenant", (0..KEYS as i64).map(|key| key % TENANTS as i64));
    let index = IndexBuilder::new(Metric::L2)
        .threads(2)
        .attributes(&first.unwrap())
        .build(MatrixView::new(&rows, 2).unwrap())
        .unwrap();
    let stop = AtomicBool::new(false);
    let check = |found: &[Hit]| assert!(found.iter().all(|hit| hit.distance < 4.0), "{found:?}");
    let filters: Vec<Expression> = (0..TENANTS as i64).map(|tenant| column("tenant").eq(tenant)).collect();
    let params = SearchParams::new(40).beam_width(20);
    thread::scope(|scope| {
        let searchers = [0, 1].map(|batches| {
            let (index, stop, filters) = (&index, &stop, &filters);
            scope.spawn(move || {
                let mut searches = 0;
                while !stop.load(Ordering::Relaxed) {
                    if batches == 1 {
                        let queries: Vec<f32> = (0..TENANTS).flat_map(|tenant| vector(0, tenant)).collect();
                        let each: Vec<Filter<'_>> = filters.iter().map(Filter::from).collect();
                        let queries = MatrixView::new(&queries, 2).unwrap();
                        let found = index.search_batch(queries, params.filter(&each[..])).unwrap();
                        found.iter().for_each(|hits| check(&hits.collect::<Vec<_>>()));
                    } else {
                        let tenant = searches % TENANTS;
                        let filter = params.filter(&filters[tenant as usize]);
                        check(&index.search(&vector(7, tenant), filter).unwrap());
                    }
                    searches += 1;
                }
                searches
            })
        });
        for round in 1..4 {
            for key in (0..KEYS).step_by(3) {
                let tenant = (key + round) % TENANTS;
                match key % 4 {
                    0 => drop(index.delete(DeleteKeys::Present(&[key])).unwrap()),
                    _ => drop(index.upsert(&vector(key, tenant), (&[key], &of_tenant(tenant))).unwrap()),
                }
                if key % 60 == 0 {
                    // Nothing of a change that fails is ever seen.
                    let refused = index.upsert(&[0.0_f32; 3], (&[key], &of_tenant(0)));
                    assert!(refused.is_err());
                }
            }
            index.consolidate().unwrap();
            index.compact().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        assert!(searchers.into_iter().all(|searcher| searcher.join().unwrap() > 0));
    });
    for key in index.keys() {
        let Value::Integer(tenant) = index.attributes(&[key]).value(0, "tenant") else { panic!("key {key}") };
        assert_eq!(index.vector(key).unwrap(), vector(key, tenant as u64));
    }
}

#[test]
fn stats_count_the_bytes_of_attributes() {
    let rows = Clusters::new(DIMENSION, 1).rows(600, 0);
    for shards in [1, 2] {
        let index = IndexBuilder::new(Metric::L2).shards(shards).build(view(&rows)).unwrap();
        assert_eq!(index.stats().attribute_bytes, 0);
        let keys: Vec<Key> = (0..600).collect();
        index.set_attributes(&keys, &Frame::new(600).column("year", 0..600).unwrap()).unwrap();
        // A key and a number, and the number with its row in the order of numbers.
        assert!(index.stats().attribute_bytes >= 600 * (8 + 8 + 12));
    }
}
