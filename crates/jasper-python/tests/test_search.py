"""Searches: shapes, types, filters, and what is refused."""

import sysconfig
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import jasper


def test_batches_and_single_queries_agree(shared, vectors):
    keys, distances = batch = shared.search(vectors[:50], k=7)
    assert isinstance(batch, jasper.Matches) and keys.shape == distances.shape == (50, 7)
    for query, row_keys, row_distances in zip(vectors, keys, distances):
        one = shared.search(query, k=7)
        assert (one.keys == row_keys).all() and (one.distances == row_distances).all()
    assert (np.diff(distances, axis=1) >= 0).all()


def test_a_batch_in_many_parts_is_one_result(shared, vectors):
    queries = np.tile(vectors, (9, 1))
    keys, _ = shared.search(queries, k=3)
    assert (keys.reshape(9, 1000, 3) == keys[:1000]).all()


def test_recall_is_high(shared, vectors):
    queries = vectors[:200] + np.float32(0.05)
    truth = jasper.exact_search(vectors, queries, k=10)
    found = shared.search(queries, k=10)
    assert jasper.recall(found, truth) > 0.98
    assert jasper.recall(found.keys, truth.keys, k=5) > 0.98
    assert jasper.recall(truth.keys[:, ::-1], truth, k=1) < 0.5


@pytest.mark.parametrize(
    "convert",
    [np.float64, np.float16, np.asfortranarray, np.ndarray.tolist, list, lambda queries: queries.astype(">f4")],
)
def test_floats_are_converted(shared, vectors, convert):
    assert (shared.search(convert(vectors[:9]), k=1).keys[:, 0] == np.arange(9)).all()


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (np.zeros(3, np.float32), "query: row 0 has 3 coordinates where the index has 16"),
        (np.zeros((2, 3, 16), np.float32), "queries have shape [2, 3, 16]"),
        (np.float32(1), "queries have shape []"),
        (np.full(16, np.nan, np.float32), "not finite (NaN)"),
        (np.full(16, 1e300), "queries have the value 1e+300, and float32 ends at 3.40282e+38"),
        (np.array(["storm"] * 16, object), "queries are object, and must be numbers to become float32"),
        ([[1.0], [2.0, 3.0]], "queries cannot be read as an array"),
        ("storm", "queries are <U5"),
        (None, "queries are object"),
    ],
)
def test_wrong_queries_are_refused(shared, queries, message):
    with pytest.raises(jasper.ParameterError) as raised:
        shared.search(queries)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(k=0), jasper.ParameterError, "k (0) must be at least 1"),
        (dict(k=-1), jasper.ParameterError, "k (-1) must be at least 0"),
        (dict(beam_width=-1), jasper.ParameterError, "beam_width (-1) must be at least 0"),
        (dict(k=1 << 62), jasper.OutOfMemoryError, "no memory for the results of 1 queries of k (4611686018427387904)"),
        (dict(beam_width=0), jasper.ParameterError, "beam_width (0) must be at least 1"),
        (dict(beam_width=64, recall=0.9), jasper.ParameterError, "give one of recall and beam_width"),
        (dict(recall=2.0), jasper.ParameterError, "recall (2) must be above 0 and at most 1"),
        (dict(recall=0.9), jasper.Error, "no search is tuned for recall 0.9 at k 10; call Index.tune(0.9, 10)"),
        (dict(distances="best"), jasper.ParameterError, 'distances ("best") must be'),
        (dict(distances="exact", rerank=3), jasper.ParameterError, "rerank is for quantized distances"),
        (dict(distances="quantized"), jasper.ParameterError, "the index has no codes"),
        (dict(filter="a"), jasper.ParameterError, "expected an operator"),
        (dict(filter=[-1]), jasper.ParameterError, "key -1"),
        (dict(out=(np.zeros(3), np.zeros(3))), jasper.ParameterError, "out must be"),
    ],
)
def test_wrong_arguments_are_refused(shared, vectors, arguments, error, message):
    with pytest.raises(error) as raised:
        shared.search(vectors[0], **arguments)
    assert message in str(raised.value)
    with pytest.raises(error):
        shared.search(vectors[:5], **arguments)


def test_missing_matches_are_minus_one():
    index = jasper.Index(2)
    assert index.search([0, 0], k=2).keys.tolist() == [-1, -1]
    index.insert([[1, 1]])
    keys, distances = index.search([[0, 0], [1, 1]], k=3)
    assert keys.tolist() == [[0, -1, -1]] * 2
    assert distances.tolist() == [[2, np.inf, np.inf], [0, np.inf, np.inf]]
    assert index.search(np.zeros((0, 2), np.float32), k=3).keys.shape == (0, 3)


def test_results_are_written_to_the_arrays_given(shared, vectors):
    out = (np.zeros((5, 3), np.int64), np.zeros((5, 3), np.float32))
    found = shared.search(vectors[:5], 3, out=out)
    assert found.keys is out[0] and found.distances is out[1]
    assert (out[0] == shared.search(vectors[:5], 3).keys).all()
    one = (np.zeros(3, np.int64), np.zeros(3, np.float32))
    assert (shared.search(vectors[4], 3, out=one).keys == out[0][4]).all()
    read_only = np.zeros((5, 3), np.int64)
    read_only.flags.writeable = False
    with pytest.raises(jasper.ParameterError, match="writeable"):
        shared.search(vectors[:5], 3, out=(read_only, out[1]))
    with pytest.raises(jasper.ParameterError):
        shared.search(vectors[:5], 3, out=(np.zeros((5, 6), np.int64)[:, ::2], out[1]))


def test_filters(shared, vectors):
    even = np.arange(0, 1000, 2)
    mask = np.arange(1000) % 2 == 0
    filters = [
        even,
        mask,
        even.tolist(),
        jasper.Filter.keys(even),
        jasper.Filter.mask(mask),
        jasper.Filter.keys(even + 1, exclude=True),
        jasper.Filter.matching(shared, lambda keys: keys % 2 == 0),
    ]
    expected = shared.search(vectors[:20], 5, filter=filters[0])
    assert (expected.keys % 2 == 0).all()
    for filter in filters:
        assert (shared.search(vectors[:20], 5, filter=filter).keys == expected.keys).all()
    assert shared.search(vectors[0], 5, filter=[3, 5, 1 << 62]).keys.tolist()[2:] == [-1] * 3
    with pytest.raises(jasper.ParameterError, match="one bool per key"):
        jasper.Filter.matching(shared, lambda keys: [True])
    with pytest.raises(ZeroDivisionError):
        jasper.Filter.matching(shared, lambda keys: 1 // 0)


def test_search_by_key_and_within_a_radius(shared, vectors):
    keys, distances = shared.search_by_key(3, 5)
    assert 3 not in keys and (keys == shared.search(vectors[3], 6).keys[1:]).all()
    radius = float(distances[2])
    assert shared.search_within(vectors[3], radius).keys.tolist() == [3, *keys[:3]]
    assert len(shared.search_within(vectors[3], 1e9).keys) == 1000
    with pytest.raises(jasper.UnknownKeyError):
        shared.search_by_key(5000)


def test_a_batch_within_a_radius_has_a_row_for_each_query(shared, vectors):
    everything = jasper.exact_search(vectors, vectors[:20], len(vectors))
    radius = float(np.sort(everything.distances.ravel())[600])
    found = shared.search_within(vectors[:20], radius, beam_width=300)
    expected = [keys[distances <= radius] for keys, distances in zip(*everything)]
    assert found.keys.shape == found.distances.shape == (20, max(map(len, expected)))
    for query, keys in enumerate(expected):
        row = found.keys[query]
        assert (row[: len(keys)] == keys).mean() >= 0.99 and (row[len(keys) :] == -1).all()
        assert (shared.search_within(vectors[query], radius, beam_width=300).keys == row[row >= 0]).all()
    filters = [[query] for query in range(20)]
    assert (shared.search_within(vectors[:20], radius, filter=filters).keys == np.arange(20)[:, None]).all()
    assert shared.search_within(vectors[:20] + 1e6, 0.5).keys.shape == (20, 1)


def test_pages_have_every_key_once(shared, vectors):
    everything = shared.search(vectors[3], len(vectors))
    pages = list(shared.pages(vectors[3], 300))
    assert [len(page.keys) for page in pages] == [300, 300, 300, 100]
    assert (np.concatenate([page.keys for page in pages]) == everything.keys).all()
    assert (np.concatenate([page.distances for page in pages]) == everything.distances).all()
    even = jasper.Filter.matching(shared, lambda keys: keys % 2 == 0)
    pages = shared.pages(vectors[3], 7, filter=even, after=everything.keys[:10])
    assert (next(pages).keys == [key for key in everything.keys[10:] if key % 2 == 0][:7]).all()
    with pytest.raises(jasper.ParameterError, match="query has shape"):
        shared.pages(vectors[:2])
    with pytest.raises(jasper.ParameterError, match="k"):
        shared.pages(vectors[0], 0)


def test_a_rerank_of_exact_searches_has_no_effect(shared, vectors):
    found, exact = shared.search(vectors, 10, rerank=20), shared.search(vectors, 10)
    assert (found.keys == exact.keys).all() and (found.distances == exact.distances).all()


def test_codes_that_lose_neighbors_are_refused_unless_forced():
    rows = np.random.default_rng(0).standard_normal((2000, 16)).astype("f4")
    rows[1000:] += 1e4
    index = jasper.Index.build(rows)
    with pytest.raises(jasper.ParameterError, match="rabitq:8.*`force`"):
        index.quantize("rabitq:8")
    assert index.quantize("rabitq:8", force=True) == "rabitq:8"


def test_quantized_searches(index, vectors):
    assert index.quantize("rabitq:4") == "rabitq:4"
    truth = index.search(vectors[:100], 10, distances="exact")
    assert jasper.recall(index.search(vectors[:100], 10), truth) > 0.95
    reranked = index.search(vectors[:100], 10, distances="quantized")
    assert (reranked.keys == index.search(vectors[:100], 10).keys).all()
    for distances in ("auto", "quantized"):
        estimated = index.search(vectors[:100], 10, distances=distances, rerank=0)
        assert (estimated.distances != reranked.distances).any()
    index.drop_vectors()
    with pytest.raises(jasper.Error, match="stores codes only"):
        index.insert(vectors[:1])
    with pytest.raises(jasper.Error, match="dropped"):
        index[0]


def test_tuned_searches(index, vectors):
    report = index.tune(0.9, k=10)
    assert {"searches", "queries"} <= vars(report).keys()
    assert index.search(vectors[0], 10, recall=0.9).keys[0] == 0
    queries = vectors[:100] + np.float32(0.05)
    truth = jasper.exact_search(vectors, queries, k=10)
    index.tune(0.8, 5, queries=queries, truth=truth)
    assert jasper.recall(index.search(queries, 5, recall=0.8), truth.keys) >= 0.75
    given = index.tune(0.8, 5, queries=queries, truth=truth).searches[0].beam_width
    assert index.tune(0.8, 5, queries=queries).searches[0].beam_width == given
    with pytest.raises(jasper.ParameterError, match="truth is of queries"):
        index.tune(truth=truth)


def test_many_threads_search_while_one_changes(index, vectors):
    stop, errors = threading.Event(), []

    def search():
        while not stop.is_set():
            keys = index.search(vectors[:20], 5).keys
            if (keys < 0).any():
                errors.append(keys)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for start in range(0, 500, 100):
        keys = index.insert(vectors[start : start + 100] + np.float32(0.01))
        index.delete(keys[::2])
    index.consolidate()
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors and len(index) == 1250 and index.check().is_sound


def test_limits_bound_what_clients_ask_for(vectors):
    index = jasper.Index.build(vectors[:100])
    index.set_limits(max_k=10, max_beam_width=100, max_queries=50)
    assert index.search(vectors[:50], k=10, beam_width=100).keys.shape == (50, 10)
    for refused, message in [
        (lambda: index.search(vectors[0], k=11), "k (11) must be at most 10"),
        (lambda: index.search(vectors[0], k=2**62), f"k ({2**62}) must be at most 10"),
        (lambda: index.search(vectors[0], beam_width=101), "beam_width (101) must be at most 100"),
        (lambda: index.search(vectors[:51]), "the number of queries (51) must be at most 50"),
        (lambda: index.search_by_key(0, k=11), "k (11) must be at most 10"),
    ]:
        with pytest.raises(jasper.ParameterError) as raised:
            refused()
        assert message in str(raised.value)
    index.set_limits()
    assert index.search(vectors[:60], k=20).keys.shape == (60, 20)
    with pytest.raises(jasper.ParameterError):
        index.set_limits(max_k=-1)


@pytest.mark.parametrize(
    "part",
    [
        lambda found: found.keys,
        lambda found: found.distances[3:, 1],
        lambda found: found.keys.T.base,
        lambda found: memoryview(found.distances),
        lambda found: np.from_dlpack(found.keys),
    ],
)
def test_results_stay_as_they_are_while_a_part_is_used(shared, vectors, part):
    queries = np.split(vectors[:400], 10)
    parts = [part(shared.search(few, k=5)) for few in queries]
    for few, found in zip(queries, parts):
        out = (np.empty((40, 5), np.int64), np.empty((40, 5), np.float32))
        assert np.array_equal(np.ravel(found), np.ravel(part(shared.search(few, k=5, out=out))))


@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="counts of references are not exact there")
def test_memory_of_results_is_used_again(shared, vectors):
    def addresses():
        keys, distances = shared.search(vectors[:123], k=3)
        return keys.ctypes.data, distances.ctypes.data

    first = addresses()
    occupied = np.empty((123, 3), np.int64)  # where a freed array would have been
    assert addresses() == first and occupied.ctypes.data != first[0]


@pytest.mark.parametrize(
    "make",
    [
        list,
        lambda mask: mask.astype(object),
        lambda mask: mask[::-1][::-1],
        lambda mask: np.ma.array(mask),
        lambda mask: pa.array(mask),
        lambda mask: pa.chunked_array([mask[:500], mask[500:]]),
        lambda mask: pd.Series(mask),
        lambda mask: pd.Series(mask, dtype="boolean"),
        lambda mask: pd.DataFrame({"passes": mask}),
    ],
)
def test_bools_are_a_mask_whatever_has_them(shared, vectors, make):
    mask = np.arange(1000) % 3 == 0
    expected = shared.search(vectors[:20], 5, filter=mask)
    for filter in (make(mask), jasper.Filter.mask(make(mask)), jasper.Filter.matching(shared, lambda keys: make(mask[keys]))):
        assert (shared.search(vectors[:20], 5, filter=filter).keys == expected.keys).all()


def test_what_is_neither_keys_nor_a_mask_is_refused(shared, vectors):
    for filter in (True, [["a"]], pd.DataFrame({"a": [True], "b": [False]}), [True, None], ["a"]):
        with pytest.raises(jasper.ParameterError):
            shared.search(vectors[0], filter=filter)
