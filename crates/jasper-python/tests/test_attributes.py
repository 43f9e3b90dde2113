"""Attributes of keys, filters on them, and ids: against brute force, for all kinds of input."""

import asyncio
import collections
import datetime
import pickle
import threading

import numpy as np
import pytest

import jasper

N, DIM = 1000, 16
LANGS = ["en", "de", "fr", None]
DAY = datetime.timedelta(days=1)
FIRST_DAY = datetime.datetime(2020, 1, 1)


def rows():
    """Attributes of the keys 0 to 999, as dictionaries."""
    return [
        {
            "year": None if key % 11 == 0 else 2000 + key % 25,
            "score": key / 8,
            "lang": LANGS[key % 4],
            "open": key % 3 == 0,
            "tags": None if key % 7 == 0 else ["all", f"t{key % 5}"],
            "day": FIRST_DAY + key * DAY,
            "name": f"doc {key}",
        }
        for key in range(N)
    ]


ROWS = rows()
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
KINDS = {
    "year": "integer",
    "score": "float",
    "lang": "keyword",
    "open": "bool",
    "tags": "keywords",
    "day": "timestamp",
    "name": "id",
}
UTC_DAYS = [day.replace(tzinfo=datetime.timezone.utc) for day in COLUMNS["day"]]


@pytest.fixture
def index(vectors):
    return jasper.Index.build(vectors, attributes=COLUMNS, ids="name", device="cpu")


@pytest.fixture(scope="module")
def shared(vectors):
    return jasper.Index.build(vectors, attributes=COLUMNS, ids="name", device="cpu")


def year(row):
    return row["year"] if row["year"] is not None else -1


# Expressions as texts and as dictionaries, and which rows they select.
CASES = [
    ("year >= 2010", {"year": {"$gte": 2010}}, lambda row: year(row) >= 2010),
    ("year = 2003", {"year": 2003}, lambda row: year(row) == 2003),
    ("year != 2003", {"year": {"$ne": 2003}}, lambda row: year(row) != 2003),
    ("year is null", {"year": None}, lambda row: row["year"] is None),
    ("score < 10.5", {"score": {"$lt": 10.5}}, lambda row: row["score"] < 10.5),
    ("score between 3 and 30", {"score": {"$between": [3, 30]}}, lambda row: 3 <= row["score"] <= 30),
    ("lang in ('en', 'de')", {"lang": {"$in": ["en", "de"]}}, lambda row: row["lang"] in ("en", "de")),
    ("lang not in ('en')", {"lang": {"$nin": ["en"]}}, lambda row: row["lang"] != "en"),
    ("open = true", {"open": True}, lambda row: row["open"]),
    ("tags contains 't2'", {"tags": {"$contains": "t2"}}, lambda row: "t2" in (row["tags"] or [])),
    (
        "tags contains all ('all', 't1')",
        {"tags": {"$contains_all": ["all", "t1"]}},
        lambda row: {"all", "t1"} <= set(row["tags"] or []),
    ),
    (
        "day >= '2021-01-01' and day < '2022-01-01T00:00:00Z'",
        {"day": {"$gte": datetime.date(2021, 1, 1), "$lt": datetime.datetime(2022, 1, 1)}},
        lambda row: row["day"].year == 2021,
    ),
    ("name = 'doc 77'", {"name": "doc 77"}, lambda row: row["name"] == "doc 77"),
    (
        "year >= 2010 and (lang = 'de' or not open = true)",
        {"year": {"$gte": 2010}, "$or": [{"lang": "de"}, {"$not": {"open": True}}]},
        lambda row: year(row) >= 2010 and (row["lang"] == "de" or not row["open"]),
    ),
    ("false", {"$or": []}, lambda row: False),
]


def nearest(vectors, query, k, passes):
    """Keys and distances by brute force, filled up with -1 and infinity."""
    keys = np.array([key for key, row in enumerate(ROWS) if passes(row)], np.int64)
    distances = ((vectors[keys] - query) ** 2).sum(axis=1)
    order = np.argsort(distances, kind="stable")[:k]
    padding = k - len(order)
    return (
        np.concatenate([keys[order], np.full(padding, -1)]),
        np.concatenate([distances[order], np.full(padding, np.inf)]),
    )


def check(found, vectors, query, passes, least_recall=0.9):
    """That keys pass and have their distances, and that most of the nearest are found."""
    expected, expected_distances = nearest(vectors, query, len(found.keys), passes)
    keys = found.keys[found.keys >= 0]
    assert all(passes(ROWS[key]) for key in keys)
    assert found.distances[: len(keys)] == pytest.approx(((vectors[keys] - query) ** 2).sum(axis=1), rel=1e-3, abs=1e-4)
    wanted = np.isfinite(expected_distances).sum()
    assert len(set(keys) & set(expected)) >= least_recall * wanted


@pytest.mark.parametrize(("text", "dictionary", "passes"), CASES, ids=[case[0] for case in CASES])
def test_filters_select_what_brute_force_does(shared, vectors, text, dictionary, passes):
    queries = vectors[:20] + 0.01
    for filter in (text, dictionary, jasper.Filter.where(text), jasper.Filter.where(dictionary)):
        batch = shared.search(queries, 10, filter=filter)
        for query, keys, distances in zip(queries, *batch):
            check(jasper.Matches(keys, distances), vectors, query, passes)
    check(shared.search(queries[0], 10, filter=text), vectors, queries[0], passes)
    # As many as there are.
    expected = {key for key, row in enumerate(ROWS) if passes(row)}
    found = shared.search(vectors[3], N, filter=text, beam_width=2 * N).keys
    assert set(found[found >= 0].tolist()) == expected


def test_columns_and_attributes_are_those_given(shared):
    assert shared.columns == KINDS
    given = shared.attributes([3, 0, 999])
    assert list(given) == list(KINDS)
    for name, values in given.items():
        expected = [UTC_DAYS[key] if name == "day" else ROWS[key][name] for key in (3, 0, 999)]
        assert values == expected
        assert [type(value) for value in values] == [type(value) for value in expected]
    assert shared.attributes([]) == {name: [] for name in KINDS}
    assert shared.attributes([10**6])["lang"] == [None]
    assert jasper.Index(2).columns == {} and jasper.Index(2).attributes([1]) == {}


def frames():
    """The same attributes in all forms in which they are taken, by name."""
    yield "dictionary", lambda: COLUMNS
    yield "mapping", lambda: collections.OrderedDict(COLUMNS)
    yield "list of dictionaries", lambda: ROWS
    yield "arrays", lambda: {
        "year": np.array(COLUMNS["year"], object),
        "score": np.array(COLUMNS["score"], np.float32),
        "lang": np.array(COLUMNS["lang"], object),
        "open": np.array(COLUMNS["open"]),
        "tags": COLUMNS["tags"],
        "day": np.array(COLUMNS["day"], "datetime64[ns]"),
        "name": np.array(COLUMNS["name"]),
    }

    def scalars():
        columns = dict(COLUMNS)
        columns["year"] = [None if value is None else np.int16(value) for value in COLUMNS["year"]]
        columns["score"] = [np.float64(value) for value in COLUMNS["score"]]
        columns["open"] = [np.bool_(value) for value in COLUMNS["open"]]
        columns["lang"] = [None if value is None else np.str_(value) for value in COLUMNS["lang"]]
        columns["day"] = [np.datetime64(value, unit) for value, unit in zip(COLUMNS["day"], ["D", "s", "us", "ns"] * N)]
        columns["tags"] = [None if value is None else tuple(value) for value in COLUMNS["tags"]]
        return columns

    yield "scalars of numpy", scalars

    def pandas():
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(COLUMNS)
        frame["year"] = frame["year"].astype("Int64")
        frame["lang"] = frame["lang"].astype("category")
        return frame

    yield "pandas", pandas

    def zoned():
        frame = pandas()
        frame["day"] = frame["day"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
        return frame

    yield "pandas with time zones", zoned
    yield "polars", lambda: pytest.importorskip("polars").DataFrame(COLUMNS, strict=False)
    yield "arrow", lambda: pytest.importorskip("pyarrow").table(COLUMNS)
    yield "arrow batch", lambda: pytest.importorskip("pyarrow").table(COLUMNS).to_batches()[0]
    yield "columns of arrow", lambda: {
        name: pytest.importorskip("pyarrow").array(values) for name, values in COLUMNS.items()
    }


@pytest.mark.parametrize("frame", [make for _, make in frames()], ids=[name for name, _ in frames()])
def test_attributes_have_many_forms(vectors, frame):
    index = jasper.Index.build(vectors, attributes=frame(), ids="name", device="cpu", max_degree=8, build_beam_width=16)
    assert index.columns == KINDS
    got = index.attributes(np.arange(N))
    for name, values in got.items():
        assert values == (UTC_DAYS if name == "day" else COLUMNS[name]), name


def test_nan_and_nat_are_no_values(vectors):
    pd = pytest.importorskip("pandas")
    columns = {
        "score": [1.5, float("nan"), np.nan, np.float32("nan"), None],
        "day": np.array(["2024-01-01", "NaT", "2024-01-02", "NaT", "NaT"], "datetime64[ns]"),
        "other": [pd.NaT, pd.NA, pd.Timestamp("2024-01-01"), None, np.datetime64("NaT")],
        "none": [None] * 5,
    }
    index = jasper.Index.build(vectors[:5], attributes=columns, device="cpu")
    assert index.columns == {"score": "float", "day": "timestamp", "other": "timestamp"}
    got = index.attributes(np.arange(5))
    assert got["score"] == [1.5, None, None, None, None]
    assert [value is None for value in got["day"]] == [False, True, False, True, True]
    assert [value is None for value in got["other"]] == [True, True, False, True, True]
    assert sorted(index.search(vectors[0], 5, filter="day is null").keys.tolist()) == [-1, -1, 1, 3, 4]


def test_dates_are_times_and_offsets_count(vectors):
    tokyo = datetime.timezone(datetime.timedelta(hours=9))
    days = [
        datetime.date(2024, 3, 1),
        datetime.datetime(2024, 3, 1, 9, tzinfo=tokyo),
        datetime.datetime(2024, 3, 1, microsecond=1),
    ]
    index = jasper.Index.build(vectors[:3], attributes={"day": days}, device="cpu")
    found = index.search(vectors[0], 3, filter="day = '2024-03-01'").keys
    assert sorted(found.tolist()) == [-1, 0, 1]
    assert index.attributes([2])["day"] == [datetime.datetime(2024, 3, 1, 0, 0, 0, 1, datetime.timezone.utc)]
    later = {"day": {"$gt": np.datetime64("2024-03-01", "ns")}}
    assert index.search(vectors[0], 1, filter=later).keys.tolist() == [2]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"year": [1, "two", 3]}, "column \"year\".*'two' in row 1"),
        ({"year": [1, 2.5, 3], "x": [None] * 3}, None),
        ({"year": [1, object(), 3]}, "column \"year\" has <class 'object'> in row 1"),
        ({"year": [1, 2**80, 3]}, 'column "year" has the integer 1208925819614629174706176, beyond 64 bits, in row 1'),
        ({"tags": [["a"], [1], None]}, "column \"tags\" has <class 'list'> in row 1"),
        ({"year": [1, 2]}, 'column "year" has 2 values for 3 rows'),
        ({"year": 1}, "column 'year' must be a list or array"),
        ({"year": "abc"}, "column 'year' must be a list or array"),
        ({"": [1, 2, 3]}, "empty name"),
        (3, "must be a dictionary of columns"),
        ([{"year": 1}] * 2, "2 values for 3 rows"),
    ],
)
def test_wrong_attributes_name_the_column_and_the_row(vectors, attributes, message):
    def call():
        return jasper.Index.build(vectors[:3], attributes=attributes, device="cpu")

    if message is None:
        assert call().attributes([0, 1])["year"] == [1, 2.5]
        return
    with pytest.raises(jasper.errors.ParameterError, match=message):
        call()


def test_wrong_ids_are_refused(vectors, index):
    build = jasper.Index.build
    with pytest.raises(jasper.errors.ParameterError, match=r"ids \(\"name\"\) must be a column"):
        build(vectors[:2], attributes={"year": [1, 2]}, ids="name")
    with pytest.raises(jasper.errors.ParameterError, match="give attributes"):
        build(vectors[:2], ids="name")
    with pytest.raises(jasper.errors.ParameterError, match='id "a" in column "name" is given twice, in rows'):
        build(vectors[:2], attributes={"name": ["a", "a"]}, ids="name")
    with pytest.raises(jasper.errors.ParameterError, match='column "name".* 1 in row 0'):
        build(vectors[:2], attributes={"name": [1, 2]}, ids="name")
    with pytest.raises(jasper.errors.ParameterError, match='id "doc 5" .*is that of key 5 already'):
        index.insert(vectors[0], attributes={"name": ["doc 5"]})
    assert len(index) == N


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ("yaer > 3", 'no column "yaer"; there are .*"year"'),
        ({"yaer": 3}, 'no column "yaer"; there are .*"year"'),
        ("year > ", "at character 8"),
        ("year >= 2020 and", "at character 17"),
        ("year ~ 3", "at character 6"),
        ("lang > 3", "of kind keyword"),
        ("year = 'x'", "of kind integer, with which 'x' cannot be compared"),
        ("year contains 'x'", "contains.* is not for column"),
        ({"year": {"$above": 3}}, r"\$\.year\.\$above"),
        ({"year": {"$gt": object()}}, "no column stores a object"),
        ({"year": {"$gt": float("nan")}}, "the value nan"),
        ({"year": [1, 2]}, r"\$\.year"),
    ],
)
def test_wrong_filters_say_where(shared, vectors, filter, message):
    for search in (shared.search, shared.search_within):
        with pytest.raises(jasper.errors.ParameterError, match=message):
            search(vectors[0], 3, filter=filter)
    with pytest.raises(jasper.errors.ParameterError, match=message):
        shared.search(vectors[:3], 3, filter=["year > 2000", filter, "year > 2000"])


def test_each_query_may_have_its_filter(shared, vectors):
    filters = ["year >= 2010", {"lang": "de"}, jasper.Filter.where("open = true"), np.array([1, 2, 3]), [5, 7]]
    passes = [
        lambda row: year(row) >= 2010,
        lambda row: row["lang"] == "de",
        lambda row: row["open"],
        lambda row: row["name"] in ("doc 1", "doc 2", "doc 3"),
        lambda row: row["name"] in ("doc 5", "doc 7"),
    ]
    found = shared.search(vectors[:5], 10, filter=filters)
    for query, keys, distances, one in zip(vectors, *found, passes):
        check(jasper.Matches(keys, distances), vectors, query, one)
    masks = [np.arange(N) % 2 == remainder for remainder in (0, 1)]
    found = shared.search(vectors[:2], 10, filter=masks)
    assert (found.keys % 2 == [[0], [1]]).all()
    for wrong in (filters[:4], [*filters, "true"]):
        with pytest.raises(jasper.errors.ParameterError, match="filters"):
            shared.search(vectors[:5], 10, filter=wrong)
    assert shared.search(vectors[0], 3, filter=["lang = 'de'"]).keys.shape == (3,)


def test_batches_longer_than_a_part_have_their_filters(shared, vectors):
    queries = np.concatenate([vectors] * 3)
    filters = [f"year = {2000 + number % 25}" for number in range(len(queries))]
    found = shared.search(queries, 3, filter=filters)
    for number in range(0, len(queries), 97):
        expected = shared.search(queries[number], 3, filter=filters[number])
        assert found.keys[number].tolist() == expected.keys.tolist()


def test_search_async_takes_expressions(shared, vectors):
    async def main():
        one = await shared.search_async(vectors[0], 10, filter="lang = 'de'")
        several = await shared.search_async(vectors[:2], 10, filter=[{"lang": "de"}, "open = true"])
        with pytest.raises(jasper.errors.ParameterError, match='no column "yaer"'):
            await shared.search_async(vectors[0], 10, filter="yaer = 3")
        many = await asyncio.gather(
            *(shared.search_async(vectors[key], 5, filter=f"year = {2000 + key % 25}") for key in range(1, 100))
        )
        return one, several, many

    one, several, many = asyncio.run(main())
    check(one, vectors, vectors[0], lambda row: row["lang"] == "de")
    check(jasper.Matches(several.keys[1], several.distances[1]), vectors, vectors[1], lambda row: row["open"])
    for key, found in enumerate(many, 1):
        check(found, vectors, vectors[key], lambda row: year(row) == 2000 + key % 25)


def test_search_by_key_and_within_take_expressions(shared, vectors):
    found = shared.search_by_key(3, 10, filter="lang = 'de'")
    assert 3 not in found.keys
    check(found, vectors, vectors[3], lambda row: row["lang"] == "de" and row["name"] != "doc 3")
    assert shared.search_by_key("doc 3", 10, filter="lang = 'de'").keys.tolist() == found.keys.tolist()
    radius = 2.0
    within = shared.search_within(vectors[3], radius, filter={"lang": "de"}, beam_width=500)
    keys, distances = nearest(vectors, vectors[3], N, lambda row: row["lang"] == "de")
    assert within.keys.tolist() == keys[distances <= radius].tolist()


def test_filters_pickle_as_their_text():
    filter = jasper.Filter.where({"year": {"$gte": 2020}, "lang": {"$in": ["en", "it's"]}})
    again = pickle.loads(pickle.dumps(filter))
    assert repr(again) == repr(filter) == "<jasper.Filter where year >= 2020 and lang in ('en', 'it''s')>"
    with pytest.raises(jasper.errors.ParameterError, match="a str or a dict"):
        jasper.Filter.where([1, 2])


def test_attributes_are_saved(index, vectors, tmp_path):
    index.delete([4])
    index.save(tmp_path / "index")
    pickled = pickle.loads(pickle.dumps(index))
    for opened in (jasper.Index.open(tmp_path / "index"), jasper.Index.open(tmp_path / "index", mmap=True), pickled):
        assert opened.columns == KINDS and opened.key_of("doc 9") == 9 and opened.key_of("doc 4") is None
        assert opened.attributes([7]) == index.attributes([7])
        check(opened.search(vectors[0], 10, filter="year >= 2010"), vectors, vectors[0], lambda row: year(row) >= 2010)


def test_a_durable_index_keeps_attributes(index, vectors, tmp_path):
    index.save(tmp_path / "folder", durable=True)
    durable = jasper.Index.open(tmp_path / "folder")
    durable.set_attributes(["doc 1"], {"lang": ["xx"], "new": [1]})
    durable.insert(vectors[0] + 1, 5000, attributes={"name": ["doc 5000"], "lang": ["yy"]})
    keys = durable.upsert(vectors[:2] + 2, attributes={"name": ["doc 2", "doc 6000"]})
    assert keys.tolist() == [2, 5001]
    del durable
    again = jasper.Index.open(tmp_path / "folder")
    assert again.attributes([1, 2, 5000, 5001])["lang"] == ["xx", None, "yy", None]
    assert again.attributes(["doc 1"])["new"] == [1] and again.key_of("doc 6000") == 5001
    assert again.search(vectors[0], 2, filter="lang in ('xx', 'yy')").keys.tolist() in ([1, 5000], [5000, 1])


def test_an_upsert_replaces_attributes(index, vectors):
    index.upsert(vectors[:2] + 1, [0, 1], attributes={"lang": ["it", None], "name": ["doc 0", None]})
    got = index.attributes([0, 1])
    assert got["lang"] == ["it", None] and got["year"] == [None, None] and got["name"] == ["doc 0", None]
    assert index.key_of("doc 1") is None
    index.upsert(vectors[2] + 1, 2)
    assert index.attributes([2])["lang"] == [None] and index.key_of("doc 2") is None


def test_set_attributes_changes_only_what_is_given(index, vectors):
    index.set_attributes([3, 5], {"lang": ["it", None], "extra": [1.5, 2]})
    got = index.attributes([3, 5])
    assert got["lang"] == ["it", None] and got["extra"] == [1.5, 2.0] and got["name"] == ["doc 3", "doc 5"]
    assert index.search(vectors[0], 1, filter="lang = 'it'").keys.tolist() == [3]
    index.set_attributes(["doc 7"], [{"lang": "xx"}])
    assert index.attributes("doc 7")["lang"] == ["xx"]
    with pytest.raises(jasper.errors.UnknownKeyError, match="5000"):
        index.set_attributes([5000], {"lang": ["it"]})
    with pytest.raises(jasper.errors.UnknownKeyError, match="doc 5000"):
        index.set_attributes(["doc 5000"], {"lang": ["it"]})
    with pytest.raises(jasper.errors.ParameterError, match='id "doc 1" .*key 1 already'):
        index.set_attributes([3], {"name": ["doc 1"]})
    index.set_attributes([3, 1], {"name": ["doc 1", "doc 3"]})
    assert index.key_of("doc 1") == 3 and index.key_of("doc 3") == 1


def test_deleted_keys_lose_and_regain_their_attributes(index, vectors):
    index.delete([3])
    assert index.key_of("doc 3") is None and "doc 3" not in index
    assert index.search(vectors[3], 1, filter="name = 'doc 3'").keys.tolist() == [-1]
    index.undelete([3])
    assert index.key_of("doc 3") == 3 and index.attributes([3])["lang"] == [ROWS[3]["lang"]]


IDS = ["doc 5", "doc 999", "doc 0"]


def many_ids():
    yield "list", lambda: IDS
    yield "tuple", lambda: tuple(IDS)
    yield "numpy", lambda: np.array(IDS)
    yield "objects", lambda: np.array(IDS, object)
    if hasattr(np.dtypes, "StringDType"):
        yield "strings", lambda: np.array(IDS, np.dtypes.StringDType())
    yield "pandas", lambda: pytest.importorskip("pandas").Series(IDS)
    yield "polars", lambda: pytest.importorskip("polars").Series(IDS)
    yield "arrow", lambda: pytest.importorskip("pyarrow").array(IDS)


@pytest.mark.parametrize("ids", [make for _, make in many_ids()], ids=[name for name, _ in many_ids()])
def test_ids_stand_for_keys(index, vectors, ids):
    keys = [5, 999, 0]
    assert (index.vectors(ids()) == vectors[keys]).all()
    assert index.attributes(ids()) == index.attributes(keys)
    index.set_attributes(ids(), {"extra": [1, 2, 3]})
    assert index.attributes(keys)["extra"] == [1, 2, 3]
    assert index.delete(ids()) == 3 and not {5, 999, 0} & set(index.keys().tolist())
    with pytest.raises(jasper.errors.UnknownKeyError, match='id "doc 5" is not in the index'):
        index.delete(ids())
    assert index.delete(ids(), missing="ignore") == 0


def test_an_id_stands_for_a_key(index, vectors):
    assert (index["doc 8"] == vectors[8]).all() and index.key_of("doc 8") == 8 and index.key_of("none") is None
    assert "doc 8" in index and "none" not in index and 8 in index and None not in index
    assert index.search_by_key("doc 8", 3).keys.tolist() == index.search_by_key(8, 3).keys.tolist()
    del index["doc 8"]
    for call in (
        lambda: index["doc 8"],
        lambda: index.search_by_key("doc 8"),
        lambda: index.vectors("doc 8"),
        lambda: index.attributes(["doc 1", "doc 8"]),
        lambda: index.__delitem__("doc 8"),
    ):
        with pytest.raises(jasper.errors.UnknownKeyError, match='id "doc 8" is not in the index'):
            call()
    assert index.delete("doc 9") == 1
    with pytest.raises(jasper.errors.ParameterError, match="either all are, or none"):
        index.delete(["doc 1", 2])
    assert jasper.Index.build(vectors).key_of("doc 1") is None


def test_delete_async_takes_ids(index):
    async def main():
        return await index.delete_async(["doc 1", "doc 2"])

    assert asyncio.run(main()) == 2 and "doc 1" not in index


def test_insert_async_and_upsert_async_take_attributes(index, vectors):
    async def main():
        await index.insert_async(vectors[0], 2000, attributes={"lang": ["it"], "name": ["doc 2000"]})
        await index.upsert_async(vectors[:2], [2000, 2001], attributes=[{"lang": "xx"}, {"lang": "yy"}])
        with pytest.raises(jasper.errors.ParameterError, match='id "doc 1" .*key 1 already'):
            await index.insert_async(vectors[0], 3000, attributes={"name": ["doc 1"]})

    asyncio.run(main())
    assert index.attributes([2000, 2001])["lang"] == ["xx", "yy"] and index.key_of("doc 2000") is None


def test_an_upsert_without_keys_goes_by_ids(index, vectors):
    attributes = {"name": ["doc 5", "new", None, "doc 7"], "lang": ["it", "it", "xx", "it"]}
    keys = index.upsert(vectors[:4] + 5, attributes=attributes)
    assert keys.tolist() == [5, 1000, 1001, 7] and len(index) == N + 2
    assert (index.vectors(["doc 5", "new"]) == vectors[:2] + 5).all()
    assert index.attributes([5])["year"] == [None]
    # Enough for a long call.
    keys = index.upsert(vectors, attributes={"name": COLUMNS["name"]})
    assert keys.tolist() == list(range(N)) and len(index) == N + 2
    for wrong in (None, {"lang": ["it"]}):
        with pytest.raises(jasper.errors.ParameterError, match='give keys, or attributes with the column of ids .*"name"'):
            index.upsert(vectors[0], attributes=wrong)
    with pytest.raises(jasper.errors.DuplicateKeyError):
        index.upsert(vectors[:2], attributes={"name": ["doc 5", "doc 5"]})


def test_an_empty_index_gets_ids(vectors):
    index = jasper.Index(DIM)
    with pytest.raises(jasper.errors.ParameterError, match="the argument ids"):
        index.upsert(vectors[:2], attributes={"name": ["a", "b"]})
    assert index.upsert(vectors[:2], attributes={"name": ["a", "b"]}, ids="name").tolist() == [0, 1]
    assert index.upsert(vectors[:2], attributes={"name": ["b", "c"]}).tolist() == [1, 2]
    other = jasper.Index(DIM)
    other.insert(vectors[:2], attributes={"name": ["a", "b"]}, ids="name")
    assert other.columns == {"name": "id"} and other.key_of("b") == 1


def test_threads_search_and_change_attributes(index, vectors):
    stop, errors = threading.Event(), []

    def search():
        try:
            while not stop.is_set():
                found = index.search(vectors[:20], 10, filter="state = 'on' and year >= 2000")
                assert (found.keys < N).all()
                assert index.search(vectors[0], 3, filter={"state": "off"}).keys.shape == (3,)
        except BaseException as error:
            errors.append(error)

    def change(first):
        try:
            for number in range(30):
                index.set_attributes(np.arange(first, N, 2), {"state": ["on" if number % 2 else "off"] * (N // 2)})
                index.upsert(vectors[first] + 1, attributes={"name": [f"thread {first} {number % 3}"], "state": ["new"]})
        except BaseException as error:
            errors.append(error)

    index.set_attributes(np.arange(N), {"state": ["on"] * N})
    searches = [threading.Thread(target=search) for _ in range(2)]
    changes = [threading.Thread(target=change, args=(first,)) for first in range(2)]
    for thread in searches + changes:
        thread.start()
    for thread in changes:
        thread.join()
    stop.set()
    for thread in searches:
        thread.join()
    assert not errors, errors[0]
    assert len(index) == N + 6
    assert sorted(index.search(vectors[0], 10, filter="state = 'new'").keys.tolist()) == [-1] * 4 + list(range(N, N + 6))


def test_threads_that_upsert_one_id_make_one_key(vectors):
    index = jasper.Index(DIM)
    index.insert(vectors[:100], attributes={"name": [f"old {key}" for key in range(100)]}, ids="name")
    barrier, errors = threading.Barrier(4), []

    def upsert(seed):
        try:
            barrier.wait(20)
            for number in range(20):
                index.upsert(vectors[seed], attributes={"name": [f"new {number}"]})
                index.insert(vectors[seed])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=upsert, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]
    assert len(index) == 100 + 20 + 80 and len({index.key_of(f"new {number}") for number in range(20)}) == 20


def test_a_quantized_index_filters(vectors):
    index = jasper.Index.build(vectors, attributes=COLUMNS, device="cpu", quantization="rabitq:4")
    check(index.search(vectors[0], 10, filter="lang = 'de'"), vectors, vectors[0], lambda row: row["lang"] == "de")
    assert index.rebuild().columns == {**KINDS, "name": "keyword"}
