"""Changes, progress and cancellation."""

import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest

import jasper


def state(index):
    """All that callers see of an index."""
    keys = np.sort(index.keys())
    return keys.tolist(), index.vectors(keys).tolist(), index.stats.deleted_keys


def test_keys_are_those_given_or_the_next(vectors):
    index = jasper.Index(16)
    assert index.insert(vectors[:2]).tolist() == [0, 1]
    assert index.insert(vectors[2:4], keys=[2**63 - 10, 5]).tolist() == [2**63 - 10, 5]
    assert index.insert(vectors[4], keys=7).tolist() == [7]
    assert index.search(vectors[2], 1).keys.tolist() == [2**63 - 10]
    assert index.insert(vectors[:9]).tolist() == list(range(2**63 - 9, 2**63))
    before = state(index)
    with pytest.raises(jasper.ParameterError, match=r"no keys left below 2\*\*63"):
        index.insert(vectors[:1])
    assert state(index) == before


def test_upsert_replaces(index, vectors):
    index.upsert(vectors[:2] + np.float32(9), [0, 5000])
    assert np.allclose(index[0], vectors[0] + 9) and np.allclose(index[5000], vectors[1] + 9)
    assert len(index) == 1001


def test_delete_undelete_consolidate_compact(index, vectors):
    assert index.delete([1, 2]) == 2 and 1 not in index and len(index) == 998
    index.undelete([1])
    assert 1 in index
    del index[7]
    with pytest.raises(KeyError, match="key 7 is deleted already"):
        del index[7]
    assert index.delete([7, 7, 8, 12345], missing="ignore") == 1
    assert index.consolidate().freed == 3
    index.compact()
    assert index.check().is_sound and len(index) == 997
    with pytest.raises(jasper.UnknownKeyError, match="key 2 is not in the index"):
        index.undelete([2])


def test_lookups(index, vectors):
    assert (index[3] == vectors[3]).all() and (index.vectors([4, 2]) == vectors[[4, 2]]).all()
    assert sorted(index) == list(range(1000))
    assert 3 in index and np.int64(3) in index
    assert not any(key in index for key in (1000, -1, 2**70, 0.5, "3", None))
    for wrong in (-1, 2**70, 0.5, None):
        with pytest.raises(jasper.ParameterError, match="must be an integer from 0 to"):
            index[wrong]
    with pytest.raises(jasper.UnknownKeyError, match='id "3" is not in the index'):
        index["3"]
    with pytest.raises(KeyError, match="key 1000 is not in the index"):
        index[1000]
    with pytest.raises(jasper.UnknownKeyError):
        index.vectors([0, 1000])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda index, v: index.insert(v[:2], [5000, 3]), jasper.DuplicateKeyError),
        (lambda index, v: index.insert(v[:2], [5000, 5000]), jasper.DuplicateKeyError),
        (lambda index, v: index.insert(v[:2], [5000]), jasper.ParameterError),
        (lambda index, v: index.insert(v[:2], [5000, -1]), jasper.ParameterError),
        (lambda index, v: index.insert(v[:2], [5000, 2**63]), jasper.ParameterError),
        (lambda index, v: index.insert(v[:2], np.array([5000, 2**64 - 1], np.uint64)), jasper.ParameterError),
        (lambda index, v: index.insert(v[:2, :5]), jasper.ParameterError),
        (lambda index, v: index.insert(v[:2] * np.float64(1e300)), jasper.ParameterError),
        (lambda index, v: index.insert(v[:2].astype(str)), jasper.ParameterError),
        (lambda index, v: index.insert(np.vstack([v[:1], v[:1] * np.inf])), jasper.ParameterError),
        (lambda index, v: index.upsert(v[:2], [1, 1]), jasper.DuplicateKeyError),
        (lambda index, v: index.delete([1, 1]), jasper.DuplicateKeyError),
        (lambda index, v: index.delete([1, 5000]), jasper.UnknownKeyError),
        (lambda index, v: index.delete(1.5), jasper.ParameterError),
        (lambda index, v: index.delete([[1]]), jasper.ParameterError),
        (lambda index, v: index.undelete([1]), jasper.DuplicateKeyError),
        (lambda index, v: index.quantize("zip"), jasper.ParameterError),
        (lambda index, v: index.to_device("tpu"), jasper.ParameterError),
        (lambda index, v: index.to_device("cuda:99"), jasper.DeviceError),
        (lambda index, v: index.to_device("cpu", vector_storage="disk"), jasper.ParameterError),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_call_that_raises_changes_nothing(index, vectors, change, error):
    before = state(index)
    with pytest.raises(error):
        change(index, vectors)
    assert state(index) == before


@pytest.mark.parametrize("given", ["float32", "float16", "float64", ">f4", "uint8", "int8", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int8"])
def test_numbers_become_the_type_of_the_index(given, dtype):
    rows = np.random.default_rng(0).integers(0, 100, (200, 8))
    vectors, index = rows.astype(given), jasper.Index(8, dtype=dtype)
    index.insert(vectors[:100])
    index.insert(vectors[100:150:2], range(100, 150, 2))  # Read in chunks.
    index.upsert(vectors[101:150:2].tolist(), range(101, 150, 2))
    index.insert(vectors[150], 150)
    assert index.vectors(range(151)).dtype == index[7].dtype == dtype
    assert (index.vectors(range(151)) == rows[:151]).all() and (index[7] == rows[7]).all()
    for queries in (vectors[:151], np.asfortranarray(vectors[:151])):
        assert (index.search(queries, 1).distances == 0).all()
    assert index.search(vectors[7], 1).distances == 0 and index.search_within(vectors[7], 0).keys[0] == 7
    base = rows[:151].astype(dtype)
    assert (jasper.exact_search(base, vectors[:9], 1).distances == 0).all()


def test_numbers_must_fit_the_type_of_the_index():
    index = jasper.Index(2, dtype="uint8")
    index.insert([[0, 255]])
    for wrong in ([[0, 256]], [[0, 0.5]], [[0, -1]], [[0, 1e9]]):
        for given in (wrong, np.array(wrong), np.array(wrong, np.float32), np.array([wrong[0]] * 2)[::2]):
            for call in (index.insert, index.search, lambda one: index.upsert(one, [0])):
                with pytest.raises(jasper.ParameterError, match="(which uint8 cannot hold|rounded to uint8)"):
                    call(given)
    assert len(index) == 1 and (index[0] == [0, 255]).all()


def test_progress_is_reported(index, vectors):
    calls = []
    index.insert(vectors + np.float32(1), progress=lambda *call: calls.append(call))
    assert {stage for stage, _, _ in calls} >= {"reading", "linking"}
    assert all(0 <= done <= total for _, done, total in calls)


def test_false_cancels(index, vectors):
    before = state(index)
    with pytest.raises(jasper.Cancelled, match="cancelled while reading"):
        index.insert(vectors, progress=lambda *_: False)
    assert state(index) == before


def test_an_exception_in_progress_is_raised(index, vectors):
    before = state(index)
    with pytest.raises(ZeroDivisionError):
        index.insert(vectors, progress=lambda stage, done, total: stage == "reading" or 1 // 0)
    assert state(index) == before


def test_progress_cannot_call_the_index(index, vectors):
    with pytest.raises(jasper.Error, match="cannot be called from a progress callback"):
        index.insert(vectors, progress=lambda *_: index.insert(vectors))
    assert len(index) == 1000 and len(index.insert(vectors)) == 1000


@pytest.mark.parametrize("call", ["build", "search"])
def test_ctrl_c_stops_a_long_call(vectors, shared, call):
    many = np.random.default_rng(1).normal(size=(200_000, 16)).astype(np.float32)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        if call == "build":
            jasper.Index.build(many, device="cpu")
        else:
            while True:
                shared.search(many, 10, beam_width=500)
    assert time.monotonic() - began < 5


def test_a_forked_process_is_told(shared, vectors):
    if not hasattr(os, "fork"):
        pytest.skip("no fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            shared.search(vectors[0])
        except jasper.Error as error:
            status = 0 if "before this process was forked" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def test_an_index_is_merged_into_another_with_keys_and_attributes(vectors):
    index = jasper.Index.build(vectors[:600], attributes={"name": [f"a{row}" for row in range(600)]}, ids="name")
    other = jasper.Index.build(vectors[600:], keys=range(600, len(vectors)), dtype="float16")
    other.set_attributes([700], {"year": [2024]})
    assert index.merge(other).keys == len(vectors) - 600 and len(other) == len(vectors) - 600
    assert index.attributes([700, 5]) == {"name": [None, "a5"], "year": [2024, None]}
    assert (index.search(vectors, 1, filter=None).keys[:, 0] == np.arange(len(vectors))).mean() > 0.99
    for wrong, error in [
        (other, jasper.DuplicateKeyError),
        (index, jasper.ParameterError),
        (jasper.Index(3), jasper.ParameterError),
        (jasper.Index(vectors.shape[1], metric="ip"), jasper.ParameterError),
    ]:
        with pytest.raises(error):
            index.merge(wrong)
    assert len(index) == len(vectors) and index.check().is_sound
