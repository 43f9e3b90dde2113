"""What searches see while entries change, and how filters are answered."""

import gc
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import jasper
import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from jasper_integrations.database import Entry
from jasper_integrations.filters import ALL, combine, compare, negate, one_of
from jasper_integrations.langchain import JasperVectorStore
from jasper_integrations.store import DOCUMENTS, Store, with_ids

N, DIM, TIMEOUT = 40, 8, 20
VECTORS = np.random.default_rng(0).normal(size=(2 * N, DIM)).astype(np.float32)


class Hooked:
    """An index that calls a function before or after one of its methods."""

    def __init__(self, index, **hooks):
        self.index, self.hooks = index, hooks

    def __getattr__(self, name):
        method = getattr(self.index, name)
        if name not in self.hooks:
            return method

        def call(*arguments, **options):
            return self.hooks[name](lambda: method(*arguments, **options))

        return call

    def __len__(self):
        return len(self.index)


def entries(numbers, text="old"):
    return [Entry(str(number), text, {"number": number, "even": number % 2 == 0}) for number in numbers]


@pytest.fixture
def store():
    store = Store()
    store.put(entries(range(N)), VECTORS[:N])
    return store


@pytest.fixture
def pool():
    with ThreadPoolExecutor() as pool:
        yield pool


def wait_until(condition):
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "timeout"
        time.sleep(0.001)


def ids(hits):
    return [hit.entry.id for hit in hits]


def test_searches_do_not_wait_for_one_another(store, pool):
    barrier = threading.Barrier(2)

    def together(search):
        barrier.wait(TIMEOUT)
        return search()

    store.index = Hooked(store.index, search=together)
    found = [pool.submit(store.search, VECTORS[3], 1, compare("number", ">", 1)) for _ in range(2)]
    assert [ids(one.result()) for one in found] == [["3"], ["3"]]


def test_searches_do_not_wait_for_consolidation(store, pool):
    begun, go_on = threading.Event(), threading.Event()

    def consolidate(call):
        begun.set()
        assert go_on.wait(TIMEOUT)
        return call()

    store.index = Hooked(store.index, consolidate=consolidate)
    deletion = pool.submit(store.delete, compare("number", "<", 10))
    try:
        assert begun.wait(TIMEOUT)
        found = pool.submit(store.search, VECTORS[3], N, compare("even", "==", True)).result(TIMEOUT / 4)
        assert sorted(ids(found)) == sorted(str(number) for number in range(10, N, 2))
        assert len(store) == N - 10 and len(store.get(ALL)) == N - 10
    finally:
        go_on.set()
    assert deletion.result() == 10


@pytest.mark.parametrize("where", [None, compare("number", "<", N)], ids=["all", "filtered"])
def test_a_search_sees_what_is_replaced_and_deleted_meanwhile(store, pool, where):
    changes = []

    def search(call):
        if not changes:
            changes.append(pool.submit(store.put, entries([3], "new"), VECTORS[[N]]))
            wait_until(lambda: store.get(with_ids(["3"]))[0].text == "new")
            changes.append(pool.submit(store.delete, with_ids(["4"])))
        return call()

    index = store.index
    store.index = Hooked(index, search=search)
    found = store.search(VECTORS[3], N, where)
    assert sorted(ids(found)) == sorted(str(number) for number in range(N))
    assert found[0].entry.text == "old" and abs(found[0].distance) < 1e-5
    for change in changes:
        change.result(TIMEOUT)
    found = store.search(VECTORS[N], N, where)
    assert sorted(ids(found)) == sorted(str(number) for number in range(N) if number != 4)
    assert (found[0].entry.id, found[0].entry.text) == ("3", "new") and abs(found[0].distance) < 1e-5


def test_a_search_passes_over_vectors_whose_entries_are_not_committed(store):
    found = []

    def insert(call):
        result = call()
        found.extend(store.search(VECTORS[N], 5))
        return result

    store.index = Hooked(store.index, insert=insert)
    store.put(entries(range(N, 2 * N)), VECTORS[N:])
    assert len(found) == 5 and all(int(id) < N for id in ids(found))
    assert ids(store.search(VECTORS[N], 1)) == [str(N)]


def test_searches_among_changes_find_every_entry_once(store, pool):
    stop = threading.Event()

    def change(seed):
        generator = np.random.default_rng(seed)
        while not stop.is_set():
            number = int(generator.integers(N))
            vector = generator.normal(size=DIM).astype(np.float32)
            store.put([Entry(str(number), "", {"number": number, "vector": vector.tolist()})], [vector])
            store.put(entries([N + seed]), VECTORS[[seed]])
            store.delete(with_ids([str(N + seed)]))

    def search(where):
        for query in VECTORS:
            hits = store.search(query, N + 2, where, vectors=True)
            names = ids(hits)
            assert len(names) == len(set(names)) and set(names) >= {str(number) for number in range(N)}
            for hit in hits:
                vector = np.array(hit.entry.metadata.get("vector", VECTORS[int(hit.entry.id) % N]))
                assert hit.vector == pytest.approx(vector / np.linalg.norm(vector), abs=1e-5)

    store.delete(ALL)
    store.put(entries(range(N)), VECTORS[:N])
    changes = [pool.submit(change, seed) for seed in range(2)]
    try:
        searches = [pool.submit(search, where) for where in (None, compare("number", ">=", 0))]
        for one in searches:
            one.result()
    finally:
        stop.set()
    for one in changes:
        one.result()


def test_marginal_relevance_reads_vectors_that_are_deleted_meanwhile(pool):
    store = JasperVectorStore.from_texts(["a", "b", "c"], DeterministicFakeEmbedding(size=DIM))
    deletions = []

    def vectors(call):
        deletions.append(pool.submit(store.delete))
        wait_until(lambda: len(store) == 0)
        time.sleep(0.05)
        return call()

    store._store.index = Hooked(store._store.index, vectors=vectors)
    assert {one.page_content for one in store.max_marginal_relevance_search("a", k=3)} == {"a", "b", "c"}
    assert deletions[0].result(TIMEOUT) and store.max_marginal_relevance_search("a", k=3) == []


@pytest.mark.parametrize("operator", ["==", ">", "<=", "in", "contains", "any", "all", "text_match"])
def test_filters_read_an_index_and_not_the_metadata(store, operator):
    where = compare("number", operator, [7] if operator in ("in", "any", "all") else 6.5 if operator == ">" else 7)
    sql = f"SELECT key FROM entries WHERE {where.sql}"
    plan = [row[-1] for row in store._database.writer.execute(f"EXPLAIN QUERY PLAN {sql}", where.arguments)]
    assert any(step.startswith("SEARCH fields USING PRIMARY KEY (field=?") for step in plan)
    store._database.writer.execute("UPDATE entries SET metadata = 'null'")
    assert 7 in {key - 1 for (key,) in store._database.writer.execute(sql, where.arguments)}


def test_the_index_evaluates_filters(store, monkeypatch):
    """The table of fields is read by none of these."""
    where = [
        compare("number", ">", 30),
        compare("number", "in", [1, 2, 50]),
        compare("even", "==", True),
        compare("even", "!=", 1),
        compare("absent", "==", None),
        compare("absent", "is_empty", None),
        combine([compare("number", "<", 30), negate(compare("even", "==", False))]),
        combine([compare("number", "==", 1.0), compare("number", "nin", range(2, N))], "or"),
    ]
    scanned = [{key - 1 for key in keys_of(store, one)} for one in where]
    monkeypatch.setattr(Store, "_filter", None)
    for one, expected in zip(where, scanned):
        assert {int(id) for id in ids(store.search(VECTORS[0], N, one))} == expected
    with pytest.raises(TypeError):
        store.search(VECTORS[0], N, compare("number", "text_match", "1"))


def keys_of(store, where):
    with store._database.snapshot() as snapshot:
        return snapshot.keys(where)


VALUES = [
    None, True, False, 0, 1, -1, 7, 7.0, 7.5, -0.0, 2**53 + 1, 2**63 - 1, -(2**63), 2**70, 1e300, float("inf"), float("nan"),
    "", "a", "7", "\0a", "a" * 300, "a" * 299 + "b", "a" * 70_000, "ß'\"", [], [None], ["a"], ["a", "b", "a"], [1, "1", 1.0],
    ["a" * 300, True], [["nested"], {"x": 1}], {"x": "a", "y": 7}, ["b"], [2**70],
]  # fmt: skip


def comparable(value):
    return not isinstance(value, (list, dict))


@pytest.mark.parametrize("operator", ["==", "!=", ">", "<", ">=", "<=", "in", "nin", "contains", "any", "all", "is_empty"])
def test_values_of_all_types_are_filtered_as_sqlite_does(operator, monkeypatch):
    store = Store(max_degree=8)
    vectors = np.random.default_rng(1).normal(size=(2 * len(VALUES), DIM))
    # Two calls, the first of which has made all columns.
    for half in range(2):
        rows = slice(half * len(VALUES), (half + 1) * len(VALUES))
        named = [Entry(f"{half} {number}", "", {"field": value}) for number, value in enumerate(VALUES)]
        store.put(named, vectors[rows])
    scalars = [value for value in VALUES if comparable(value)]
    lists = [[], [7], ["a", "b"], ["a", 7, None], [1, True], ["a" * 300], scalars[:8], ["nope"], [2**70, 0]]
    operands = lists if operator in ("in", "nin", "any", "all") else scalars
    tested = 0
    for operand in operands:
        where = compare("field", operator, operand)
        expected = {key for key in keys_of(store, where)}
        if (filter := store._expression(where)) is not None:
            found = store.index.search(vectors[0], len(vectors), filter=filter).keys
            assert set(found[found >= 0].tolist()) == expected, operand
            tested += 1
    assert tested >= len(operands) / 2


def test_fields_without_columns_are_scanned(store):
    many = {f"field {number}": number for number in range(300)}
    store.put([Entry("many", "", {**many, "x" * 1000: 1, "long": [str(one) for one in range(70_000)]})], VECTORS[[N]])
    assert {"field 299", "x" * 1000, "long"} <= store._scanned and "field 3" not in store._scanned
    for field, operator, value in [("field 3", "==", 3), ("field 299", "==", 299), ("x" * 1000, ">", 0), ("long", "any", ["69999"])]:
        assert ids(store.search(VECTORS[N], N, compare(field, operator, value))) == ["many"]


def test_what_fails_first_leaves_no_columns():
    store = Store()
    with pytest.raises(ValueError):
        store.put([Entry("1", "", {"first": 1})], [[float("nan")] * DIM])
    assert store.search(VECTORS[0], 1, compare("first", "==", 1)) == []
    store.put([Entry("2", "", {"second": 1})], VECTORS[:1])
    assert store.search(VECTORS[0], 1, compare("first", "==", 1)) == []
    assert ids(store.search(VECTORS[0], 1, compare("second", "==", 1))) == ["2"]


def test_deeply_nested_conditions_are_scanned(store):
    where = compare("number", "==", 3)
    for _ in range(30):
        where = combine([combine([where, compare("number", ">", 1)]), compare("number", "==", N)], "or")
    assert store._expression(where) is None
    assert ids(store.search(VECTORS[0], N, where)) == ["3"]


def test_functions_select_entries(store):
    found = store.search(VECTORS[0], N, lambda entry: entry.metadata["number"] % 7 == 3)
    assert sorted(map(int, ids(found))) == list(range(3, N, 7))


def test_attributes_are_saved_and_filled(store, tmp_path, monkeypatch):
    store.put([Entry("listed", "", {"tags": ["a", "b"], "number": "text"}, "document")], VECTORS[[N]])
    store.save(tmp_path)
    loaded = [Store.load(tmp_path)]
    # As stores were saved before the index had attributes.
    file = sqlite3.connect(tmp_path / DOCUMENTS)
    file.execute("DELETE FROM settings WHERE name = 'scanned'")
    (name,) = file.execute("SELECT json_extract(value, '$') FROM settings WHERE name = 'index'").fetchone()
    file.commit()
    file.close()
    old = jasper.Index(DIM, metric="cosine")
    old.insert(store.index.vectors(store.index.keys()), store.index.keys())
    old.save(tmp_path / name)
    loaded.append(Store.load(tmp_path))
    monkeypatch.setattr(Store, "_filter", None)
    for one in loaded:
        assert one.index.columns == store.index.columns
        assert ids(one.search(VECTORS[N], N, compare("tags", "contains", "b"))) == ["listed"]
        assert ids(one.search(VECTORS[N], N, compare("number", "==", "text"))) == ["listed"]
        assert ids(one.search(VECTORS[N], N, one_of("document", ["document"]))) == ["listed"]
        assert sorted(map(int, ids(one.search(VECTORS[0], N, compare("number", "<", 9))))) == list(range(9))


def test_fields_follow_the_entries(store):
    store.put([Entry("1", "", {"tags": ["x", "x", None, 1], "number": 2**70, "none": None})], VECTORS[:1])
    assert ids(store.search(VECTORS[0], N, compare("tags", "contains", "x"))) == ["1"]
    assert ids(store.search(VECTORS[0], N, compare("number", "==", 2**70))) == ["1"]
    assert ids(store.search(VECTORS[0], N, compare("number", "==", 1))) == []
    assert len(store.search(VECTORS[0], N, compare("none", "==", None))) == N
    store.delete(ALL)
    assert store._database.writer.execute("SELECT count(*) FROM fields").fetchone() == (0,)


def test_a_database_without_fields_gets_them(store, tmp_path):
    store.save(tmp_path)
    file = sqlite3.connect(tmp_path / DOCUMENTS)
    file.executescript("DROP TRIGGER entries_deleted; DROP TABLE fields; DELETE FROM settings WHERE name = 'changes'")
    file.close()
    loaded = Store.load(tmp_path)
    assert ids(loaded.search(VECTORS[0], 9, compare("number", "in", [7, 9]))) == ids(
        store.search(VECTORS[0], 9, compare("number", "in", [7, 9]))
    )
    loaded.delete(compare("even", "==", True))
    assert len(loaded) == N // 2 and loaded.search(VECTORS[0], 9, compare("number", "==", 8)) == []


def test_filters_are_prepared_once_while_nothing_changes(store):
    filters = []
    real = store.index

    class Recorder(Hooked):
        def search(self, *arguments, **options):
            filters.append(options["filter"])
            return real.search(*arguments, **options)

    store.index = Recorder(real)
    for _ in range(2):
        store.search(VECTORS[0], N, compare("even", "==", True))
    assert filters[0] is filters[1]
    store.put(entries([N]), VECTORS[[N]])
    assert str(N) in ids(store.search(VECTORS[N], N, compare("even", "==", True)))


def test_a_transaction_that_fails_leaves_no_vectors(store):
    store._database.writer.executescript(
        "PRAGMA foreign_keys = ON; CREATE TABLE child (parent INTEGER REFERENCES entries DEFERRABLE INITIALLY DEFERRED);"
        "CREATE TRIGGER fail AFTER INSERT ON entries BEGIN INSERT INTO child VALUES (-1); END;"
    )
    with pytest.raises(sqlite3.IntegrityError):
        store.put(entries([3, N], "new"), VECTORS[[N, N + 1]])
    assert len(store) == len(store.index) == N and store.get(with_ids(["3"]))[0].text == "old"
    store._database.writer.execute("DROP TRIGGER fail")
    store.put(entries([N]), VECTORS[[N]])
    assert ids(store.search(VECTORS[N], 1)) == [str(N)]


def test_the_temporary_file_goes_with_the_store():
    other = Store()
    folder = other._database.path.parent
    assert folder.is_dir()
    del other
    gc.collect()
    assert not folder.exists()
