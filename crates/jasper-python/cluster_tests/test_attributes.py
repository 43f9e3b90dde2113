"""Attributes of keys, and filters on them: against an index, and against brute force while replicas are killed."""

import datetime
import os
import random
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

import jasper
from jasper.ray import Cluster
from jasper.ray._store import bucket_of

pytestmark = pytest.mark.filterwarnings("ignore")

DAY = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)


def row_of(rng):
    """Attributes at random, of which some are None or missing."""
    row = {
        "year": rng.randrange(2000, 2025),
        "price": rng.choice([rng.random(), 1, float("inf")]),
        "lang": rng.choice(["en", "de", "it's"]),
        "open": rng.random() < 0.5,
        "tags": rng.sample(["new", "red", "ü"], rng.randrange(3)),
        "added": DAY + datetime.timedelta(seconds=rng.randrange(10**6)),
    }
    return {name: value if rng.random() < 0.9 else None for name, value in row.items() if rng.random() < 0.9}


def table_of(rows, first=()):
    """Attributes of several keys, with a column for each name that one of them has."""
    names = dict.fromkeys([*first, *(name for row in rows for name in row)])
    return {name: [row.get(name) for row in rows] for name in names}


# Filters, and which rows they select.
FILTERS = [
    ("year >= 2012", lambda row: (row.get("year") or 0) >= 2012),
    ({"lang": "de", "open": True}, lambda row: row.get("lang") == "de" and row.get("open") is True),
    ("tags contains 'ü' or year is null", lambda row: "ü" in (row.get("tags") or []) or row.get("year") is None),
    (
        jasper.Filter.where("price < 0.5 and added >= '2024-01-05'"),
        lambda row: row.get("price") is not None
        and row["price"] < 0.5
        and row.get("added") is not None
        and row["added"] >= DAY + datetime.timedelta(days=4),
    ),
    ("not lang = 'it''s'", lambda row: row.get("lang") != "it's"),
]


def check(cluster, rows, vectors, queries):
    """Searches with each filter, and one with a filter per query: no key may be returned that does not pass."""
    keys = np.fromiter(vectors, np.int64)
    base = np.array([vectors[key] for key in keys.tolist()])
    passing = [np.array([key for key in keys.tolist() if passes(rows[key])], np.int64) for _, passes in FILTERS]
    for (filter, _), allowed in zip(FILTERS, passing):
        found = cluster.search(queries, 10, filter=filter, beam_width=128)
        compare(found, [allowed] * len(queries), keys, base, queries)
        assert sum(report.keys for report in cluster.explain(filter)) == len(keys)
    queries = queries[: len(FILTERS)]
    found = cluster.search(queries, 10, filter=[filter for filter, _ in FILTERS], beam_width=128)
    compare(found, passing, keys, base, queries)
    near = cluster.search_within(queries[0], float("inf"), filter=FILTERS[0][0], beam_width=128).keys
    assert set(near[near >= 0].tolist()) <= set(passing[0].tolist())
    for keys in (keys, [10**9]):
        expected = table_of([rows.get(key, {}) for key in np.asarray(keys).tolist()], cluster.columns)
        assert cluster.attributes(keys) == expected


def compare(found, passing, keys, base, queries):
    hits = wanted = 0
    for query, nearest, allowed in zip(queries, found.keys, passing):
        nearest = nearest[nearest >= 0]
        assert np.isin(nearest, allowed).all(), "a row passes that the filter does not select"
        assert len(nearest) == min(10, len(allowed))
        distances = ((base[np.isin(keys, allowed)] - query) ** 2).sum(1)
        expected = keys[np.isin(keys, allowed)][np.argsort(distances, kind="stable")[:10]]
        hits, wanted = hits + np.isin(expected, nearest).sum(), wanted + len(expected)
    assert hits >= 0.95 * wanted


def test_random_changes_while_replicas_are_killed(cluster, vectors):
    rng, random_vectors = random.Random(3), np.random.default_rng(3)
    table = dict(enumerate(vectors[:3999]))
    rows = {key: {} for key in table}

    def some(count):
        return rng.sample(list(table), count)

    def new_vectors(count):
        return random_vectors.normal(size=(count, 16)).astype(np.float32)

    def given(count):
        return [row_of(rng) for _ in range(count)]

    def insert(count):
        made, attributes = new_vectors(count), given(count)
        keys = cluster.insert(made, attributes=table_of(attributes)).tolist()
        table.update(zip(keys, made))
        rows.update(zip(keys, attributes))

    def upsert(count):
        keys, made, attributes = some(count), new_vectors(count), given(count)
        cluster.upsert(made, keys, attributes=table_of(attributes))
        table.update(zip(keys, made))
        rows.update(zip(keys, attributes))

    def set_attributes(count):
        keys, attributes = some(count), given(count)
        given_columns = table_of(attributes)
        cluster.set_attributes(keys, given_columns)
        for place, key in enumerate(keys):
            rows[key] = {**rows[key], **{name: values[place] for name, values in given_columns.items()}}

    def delete(count):
        keys = some(count)
        cluster.delete(keys)
        for key in keys:
            del table[key], rows[key]

    def kill(count):
        running = [replica for replica in cluster.replicas(timeout=60) if replica.ready]
        victim = rng.choice(running)
        for replica in running:
            if replica.pid == victim.pid or (count % 3 == 0 and replica.shard == victim.shard):
                os.kill(replica.pid, signal.SIGKILL)

    changes = [insert, upsert, set_attributes, set_attributes, delete, kill]
    insert(300)
    set_attributes(1500)
    for turn in range(40):
        rng.choice(changes)(rng.randrange(1, 40))
        if turn % 10 == 9:
            cluster.snapshot() if turn % 20 == 9 else cluster.rebalance(5 if turn == 19 else 2)
        if turn % 4 == 0:
            check(cluster, rows, table, vectors[rng.sample(range(4000), 8)])
    assert cluster.columns == {
        "year": "integer",
        "price": "float",
        "lang": "keyword",
        "open": "bool",
        "tags": "keywords",
        "added": "timestamp",
    }
    report = cluster.check()
    assert report.is_sound and report.are_equal
    cluster.close()
    cluster = Cluster.open(cluster.path)
    check(cluster, rows, table, vectors[:8])
    report = cluster.check()
    assert report.is_sound and report.are_equal
    cluster.close()


def state(index):
    keys = np.sort(index.keys())
    return keys.tolist(), index.columns, index.attributes(keys)


def test_changes_are_those_of_an_index(cluster, vectors):
    index = jasper.Index.build(vectors[:3999], device="cpu")
    ray.kill(cluster._sequencer, no_restart=False)
    for made in (cluster, index):
        # One key, so that other shards have no value of the columns.
        made.insert(vectors[0], [5000], attributes=[{"n": 3, "tags": ["a"], "nothing": None, "nan": float("nan")}])
        made.insert(vectors[:2], [5001, 5002], attributes={"n": [4.0, 5.0], "tags": ["b", None]})
        made.set_attributes(np.arange(100), pa.table({"x": pa.array([None, *range(99)]), "day": [DAY.date()] * 100}))
        made.set_attributes([3], {"day": ["2024-02-03T04:05:06Z"], "x": [None], "mixed": [1]})
        made.set_attributes([4, 5], {"both": [1, 2.5], "size": [1.5, float("nan")]})
        made.set_attributes([6], {"both": [7], "size": [2]})
        made.upsert(vectors[:2], [5001, 7], attributes={"n": [6, 7]})
        made.upsert(vectors[:1], [5002])
        made.delete([5000, 8])
        made.set_attributes([], {})
        made.insert(vectors[:0], attributes={"n": []})
    assert state(cluster) == state(index)
    assert cluster.columns["both"] == "float" and "nothing" not in cluster.columns
    filters = ["n = 7", "both >= 2.5", "day > '2024-01-15'", "x between 5 and 30", "mixed is not null", "size is null"]
    for filter in filters:
        found = cluster.search(vectors[9], 50, filter=filter)
        assert (found.keys == index.search(vectors[9], 50, filter=filter).keys).all(), filter
        assert sum(report.allowed for report in cluster.explain(filter)) == index.explain(filter).allowed
    for filter in ("nothing = 1", "n = 'x'", {"n": {"$near": 3}}, "n >="):
        with pytest.raises(jasper.ParameterError):
            cluster.search(vectors[9], filter=filter)
    assert cluster.check().are_equal


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda c, v: c.set_attributes([1, 5000], {"year": [1, 2]}), jasper.UnknownKeyError, "key 5000"),
        (lambda c, v: c.set_attributes([1, 1], {"year": [1, 2]}), jasper.DuplicateKeyError, "key 1 is given twice"),
        (lambda c, v: c.set_attributes([1, 2], {"year": [1]}), jasper.ParameterError, '"year" has 1 values for 2 rows'),
        (lambda c, v: c.set_attributes([1, 2], {"year": [1, "x"]}), jasper.ParameterError, "'x' in row 1 is not"),
        (lambda c, v: c.set_attributes([1, 2], {"new": [1, object()]}), jasper.ParameterError, "row 1, which no"),
        (lambda c, v: c.set_attributes([1], {"new": 3}), jasper.ParameterError, "column 'new' must be a list"),
        (lambda c, v: c.insert(v[:9], attributes={"new": [*range(8), "x"]}), jasper.ParameterError, "'x' in row 8"),
        (lambda c, v: c.insert(v[:9], attributes={"new": [0.5] * 8 + [2**53 + 1]}), jasper.ParameterError, "row 8"),
        (lambda c, v: c.insert(v[:9], range(9), attributes={"new": range(9)}), jasper.DuplicateKeyError, "key"),
        (lambda c, v: c.upsert(v[:9] * np.nan, range(9), attributes={"new": range(9)}), jasper.ParameterError, "fini"),
    ],
)
def test_what_is_refused_changes_nothing(shared, vectors, change, error, message):
    before = state(shared)
    with pytest.raises(error, match=message):
        change(shared, vectors)
    assert state(shared) == before and shared.check().are_equal


@pytest.fixture(scope="module")
def shared(nodes, vectors, tmp_path_factory):
    """A cluster that is built from an array, for tests that leave it as it is."""
    path = str(tmp_path_factory.mktemp("shared") / "cluster")
    attributes = {"year": [2000 + key % 20 for key in range(500)], "day": [DAY] * 500, "tags": [["a"], None] * 250}
    cluster = Cluster.build(vectors[:500], path, attributes=attributes, shards=2, replicas=2, num_cpus=0.5)
    yield cluster
    cluster.close()


def test_attributes_of_an_array(shared, vectors):
    assert shared.columns == {"year": "integer", "day": "timestamp", "tags": "keywords"}
    assert shared.attributes([499, 0]) == {"year": [2019, 2000], "day": [DAY] * 2, "tags": [None, ["a"]]}
    found = shared.search(vectors[:5], 10, filter="year = 2007 and tags is null")
    assert (found.keys % 20 == 7).all()


def test_attributes_of_parquet(nodes, vectors, tmp_path):
    keys = np.arange(300)
    shard = bucket_of(keys) % 3
    keys = keys[shard != 1]
    columns = {
        "embedding": list(vectors[keys]),
        "id": keys,
        "lang": pa.array(np.where(keys % 2, "en", "de")).dictionary_encode(),
        # Only shard 2 has values.
        "rare": pa.array(keys, mask=shard[keys] != 2),
        "none": pa.nulls(len(keys)),
        "unused": keys,
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    given = {"vector": "embedding", "key": "id", "shards": 3, "replicas": 2, "num_cpus": 0.5}
    with pytest.raises(jasper.ParameterError, match="attributes .'year'. must be one of the columns"):
        rows = ray.data.from_arrow(pa.table({"embedding": list(vectors[:9]), "id": range(9)}))
        Cluster.build(rows, str(tmp_path / "cluster"), attributes=["year"], **given)
    names = ["lang", "rare", "none"]
    cluster = Cluster.build(str(tmp_path / "rows.parquet"), str(tmp_path / "cluster"), attributes=names, **given)
    try:
        assert cluster.columns == {"lang": "keyword", "rare": "integer"}
        found = cluster.search(vectors[0], 300, filter="lang = 'en' and rare is null").keys
        assert set(found[found >= 0]) == set(keys[(keys % 2 == 1) & (bucket_of(keys) % 3 == 0)])
        with pytest.raises(jasper.ParameterError, match="'x' in row 0 is not"):
            cluster.set_attributes(keys[:1], {"rare": ["x"]})
        cluster.insert(vectors[:300][shard == 1], np.arange(300)[shard == 1], attributes=None)
        assert len(cluster.search(vectors[0], 300, filter="rare is null").keys) == 300
        assert cluster.check().are_equal
    finally:
        cluster.close()


def test_a_column_with_two_types_is_refused(nodes, vectors, tmp_path):
    shard = bucket_of(np.arange(100)) % 2
    tables = []
    for number, kind in enumerate((pa.int64(), pa.float64())):
        keys = np.flatnonzero(shard == number)
        tables.append(pa.table({"vector": list(vectors[keys]), "key": keys, "x": pa.array(keys).cast(kind)}))
    options = {"attributes": ["x"], "shards": 2, "replicas": 1, "num_cpus": 0.5}
    with pytest.raises(jasper.ParameterError, match="column 'x' is of kind integer in some shards and of kind float"):
        Cluster.build(ray.data.from_arrow(tables), str(tmp_path / "cluster"), **options)
