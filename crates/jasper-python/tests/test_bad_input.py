"""Wrong calls that no other file has: each raises, and changes nothing."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import jasper


def state(index):
    """All of an index."""
    return index.__reduce__()[1]


@pytest.mark.parametrize("call", ["insert", "upsert", "consolidate", "quantize"])
def test_ctrl_c_in_a_long_call_leaves_the_index_as_it_was(call):
    many = np.random.default_rng(1).normal(size=(20_000, 16)).astype(np.float32)
    index = jasper.Index.build(many[:5_000], device="cpu")
    index.delete(np.arange(0, 5_000, 2))
    before, reports = state(index), []

    def interrupt(*report):
        reports.append(report)
        if len(reports) == (1 if call == "consolidate" else 2):
            os.kill(os.getpid(), signal.SIGINT)

    arguments = {"insert": [many], "upsert": [many, np.arange(20_000)], "quantize": ["rabitq:4"]}
    with pytest.raises(KeyboardInterrupt):
        getattr(index, call)(*arguments.get(call, []), progress=interrupt)
    assert state(index) == before and index.check().is_sound


@pytest.mark.parametrize("failure", [ZeroDivisionError, KeyboardInterrupt, SystemExit, None])
@pytest.mark.parametrize("call", ["upsert", "consolidate"])
def test_what_progress_raises_is_raised_and_nothing_changes(index, vectors, call, failure):
    index.delete(np.arange(0, 500))
    before = state(index)

    def stop(stage, done, total):
        if failure is None:
            return False
        raise failure

    with pytest.raises(failure or jasper.Cancelled):
        if call == "upsert":
            index.upsert(vectors + np.float32(1), np.arange(1000), progress=stop)
        else:
            index.consolidate(progress=stop)
    assert state(index) == before


@pytest.mark.parametrize("progress", [5, "bar", lambda: None, lambda stage: True])
def test_a_progress_that_cannot_be_called_is_an_error(index, vectors, progress):
    before = state(index)
    with pytest.raises(TypeError):
        index.insert(vectors, progress=progress)
    assert state(index) == before


def test_progress_true_shows_stages(index, vectors, capsys, monkeypatch):
    index.insert(vectors[:10], progress=True)
    shown = capsys.readouterr().err
    assert "reading" in shown and "linking" in shown and "100%" in shown
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    index.insert(vectors[:10], progress=True)
    assert "reading: 10\n" in capsys.readouterr().err
    index.insert(vectors[:10], progress=False)
    assert capsys.readouterr().err == ""


def test_open_takes_a_device(shared, vectors, tmp_path):
    path = tmp_path / "vectors.jasper"
    shared.save(path)
    for file in (path, path.read_bytes()):
        assert jasper.Index.open(file, device="cpu").device == "cpu"
        if not jasper.devices():
            assert jasper.Index.open(file, device="auto").device == "cpu"
        with pytest.raises(jasper.DeviceError, match="cuda:99 cannot be used"):
            jasper.Index.open(file, device="cuda:99")
        with pytest.raises(jasper.ParameterError, match="device `gpu` is not known"):
            jasper.Index.open(file, device="gpu")
        with pytest.raises(jasper.ParameterError, match="disk"):
            jasper.Index.open(file, vector_storage="disk")
        for devices in ("cuda:61,62", ["cuda:61", "cuda:62"]):
            with pytest.raises(jasper.DeviceError, match="cuda:61 cannot be used"):
                jasper.Index.open(file, device=devices)


def test_shards_are_saved_as_a_folder(vectors, tmp_path):
    index = jasper.Index.build(vectors, shards=3, device="cpu")
    index.save(tmp_path / "durable", durable=True)
    durable = jasper.Index.open(tmp_path / "durable")
    durable.delete([7])
    del durable
    durable = jasper.Index.open(tmp_path / "durable")
    assert durable.stats.shards == 3 and len(durable) == len(vectors) - 1 and 7 not in durable
    assert index.stats.shards == 3 and len(index) == len(vectors)
    assert (index.search(vectors, 1).keys[:, 0] == np.arange(len(vectors))).all()
    index.save(tmp_path / "vectors")
    assert jasper.Index.open(tmp_path / "vectors").stats.shards == 3
    (tmp_path / "vectors" / "shard-0-2.jasper").unlink()
    with pytest.raises(jasper.FormatError, match="shard-0-2.jasper: is missing: it has shard 2 of 3"):
        jasper.Index.open(tmp_path / "vectors")
    with pytest.raises(jasper.ParameterError, match="shards .0. must be between 1 and 256"):
        jasper.Index.build(vectors, shards=0)
    with pytest.raises(jasper.DeviceError, match="not supported on a sharded index"):
        index.quantize("auto")


def test_lists_of_devices_are_of_gpus(index):
    for devices in (["cuda:61", "cuda:62"], "cuda:61,62"):
        with pytest.raises(jasper.DeviceError, match="cuda:61 cannot be used"):
            index.to_device(devices)
    with pytest.raises(jasper.ParameterError, match="must be of GPUs"):
        index.to_device(["cpu", "cuda:0"])
    with pytest.raises(jasper.ParameterError, match="device `cuda:0,0` is not known"):
        index.to_device(["cuda:0", "cuda:0"])
    assert index.device == "cpu" and index.device_info.faults == []


def test_a_filter_of_another_index_selects_by_key(shared, vectors):
    other = jasper.Index.build(vectors[:100], keys=np.arange(950, 1050), device="cpu")
    filter = jasper.Filter.matching(other, lambda keys: keys >= 990)
    assert shared.search(vectors[995], 1, filter=filter).keys.tolist() == [995]
    found = shared.search(vectors[:5], 20, filter=filter).keys
    assert (np.sort(found)[:, 10:] == np.arange(990, 1000)).all() and (np.sort(found)[:, :10] == -1).all()
    assert other.search(vectors[50], 1, filter=filter).keys.tolist() == [1000]


@pytest.mark.parametrize(
    "queries",
    [
        np.broadcast_to(np.float32(1), (5, 16)),
        np.broadcast_to(np.ones(16, np.float32), (5, 16)),
        np.ones((10, 32), np.float32)[::-2, ::2],
        np.ones((5, 16), ">f4"),
        np.frombuffer(b"-" + np.ones((5, 16), np.float32).tobytes(), np.float32, offset=1).reshape(5, 16),
    ],
)
def test_strides_and_byte_orders_are_read_as_numpy_does(shared, vectors, queries):
    expected = shared.search(np.ones((5, 16), np.float32), 3)
    assert (shared.search(queries, 3).keys == expected.keys).all()
    index = jasper.Index(16)
    index.insert(queries)
    assert (index.vectors(np.arange(5)) == 1).all()


def test_keys_change_while_they_are_read_without_harm(index, vectors):
    keys, stop = np.arange(1000), threading.Event()

    def change():
        while not stop.is_set():
            keys[:] = np.random.default_rng().integers(-5, 2**62, 1000)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(50):
            try:
                index.upsert(vectors[:50], keys[:50])
            except jasper.Error:
                pass
            index.search(vectors[:5], 5, filter=keys.copy() % 2**61 + 5)
    finally:
        stop.set()
        thread.join()
    assert index.check().is_sound


SCRIPT = """
import os, sys, warnings
import numpy as np
import jasper
warnings.simplefilter("ignore")
vectors = np.random.default_rng(0).random((500, 8), dtype=np.float32)
if sys.argv[1] == "used":
    jasper.Index.build(vectors)
child = os.fork()
if child == 0:
    index = jasper.Index.build(vectors, device="cpu")
    assert (index.search(vectors, 1).keys[:, 0] == np.arange(500)).all()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("before", ["imported", "used"])
def test_a_forked_process_makes_its_own_indexes(before):
    subprocess.run([sys.executable, "-c", SCRIPT, before], check=True, timeout=60)


X = np.random.default_rng(0).random((100, 8), dtype=np.float32)
INTEGERS = {
    "dim": lambda n: jasper.Index(n),
    "max_degree": lambda n: jasper.Index.build(X, max_degree=n),
    "build_beam_width": lambda n: jasper.Index.build(X, build_beam_width=n),
    "seed": lambda n: jasper.Index.build(X, seed=n),
    "threads": lambda n: jasper.Index.build(X, threads=n),
    "shards": lambda n: jasper.Index.build(X, shards=n),
    "k": lambda n: jasper.Index.build(X).search(X[0], n),
    "beam_width": lambda n: jasper.Index.build(X).search(X[0], 3, beam_width=n),
    "rerank": lambda n: jasper.Index.build(X).search(X[0], 3, rerank=n),
    "rows": lambda n: jasper.Index.memory_plan(n, 8),
    "max_k": lambda n: jasper.Index(8).set_limits(max_k=n),
    "max_queries": lambda n: jasper.Index(8).set_limits(max_queries=n),
}
OTHERS = {
    "k": [
        lambda n: jasper.Index.build(X).search_by_key(0, n),
        lambda n: jasper.Index.build(X).tune(0.9, n),
        lambda n: jasper.exact_search(X, X, n),
        lambda n: jasper.recall([[1, 2]], [[1, 2]], n),
        lambda n: jasper.knn_graph(X, n),
    ],
    "threads": [
        lambda n: jasper.Index(8, threads=n),
        lambda n: jasper.exact_search(X, X, 1, threads=n),
        lambda n: jasper.Index.open(b"", threads=n),
        lambda n: jasper.knn_graph(X, 1, threads=n),
    ],
}


@pytest.mark.parametrize("value", [-1, -(10**30), 2**64, 10**30])
def test_integers_out_of_range_are_named(value):
    calls = [*INTEGERS.items(), *((name, call) for name, calls in OTHERS.items() for call in calls)]
    for name, call in calls:
        with pytest.raises(jasper.ParameterError, match=rf"\b{name} \({value}\) must be "):
            call(value)
    with pytest.raises(TypeError, match="threads"):
        jasper.Index(8, threads=1.5)


def test_more_threads_than_cpus_are_not_started():
    before = len(os.listdir("/proc/self/task"))
    index = jasper.Index.build(X, threads=100_000, device="cpu")
    assert len(os.listdir("/proc/self/task")) <= before + 2 * os.cpu_count()
    assert (index.search(X, 1).keys[:, 0] == np.arange(100)).all()
    jasper.exact_search(X, X, 1, threads=100_000)
    script = "import jasper, numpy; print(len(jasper.Index.build(numpy.eye(9, dtype='f4'), device='cpu')))"
    environment = {**os.environ, "RAYON_NUM_THREADS": "2000"}
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, env=environment)


def test_messages_speak_of_python(index, vectors, tmp_path):
    calls = [
        lambda: jasper.Index.open(b"not an index"),
        lambda: jasper.Index.open(tmp_path),
        lambda: index.search(vectors[0], distances="quantized"),
        lambda: jasper.Index.build(vectors[:20]).tune(),
        lambda: jasper.Index.build(vectors[:20]).quantize(),
        lambda: jasper.Index.build(np.zeros((2, 2), np.float32), metric="cosine"),
    ]
    for call in calls:
        with pytest.raises((jasper.Error, OSError)) as raised:
            call()
        words = ("::", "--", "jasper build", "jasper quantize", "save_durable", "KeyFilter")
        assert not any(word in str(raised.value) for word in words), raised.value


def test_zero_vectors_of_cosine_are_skipped_by_choice(vectors):
    rows = vectors.copy()
    rows[[3, 500]] = 0
    keys = np.arange(1000, 2000)
    with pytest.raises(jasper.ParameterError, match="row 3 is a zero vector.*skip_zero_vectors"):
        jasper.Index.build(rows, metric="cosine", keys=keys)
    for given, number in [(None, np.arange(1000)), (keys, keys)]:
        index = jasper.Index.build(rows, metric="cosine", keys=given, skip_zero_vectors=True, device="cpu")
        assert sorted(index) == sorted(set(number.tolist()) - {number[3], number[500]})
    assert len(jasper.Index.build(rows, skip_zero_vectors=True)) == 1000
    with pytest.raises(jasper.ParameterError, match="9 keys"):
        jasper.Index.build(rows, metric="cosine", keys=keys[:9], skip_zero_vectors=True)


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int8"])
def test_cosine_distances_are_from_0_to_2(dtype):
    rng = np.random.default_rng(0)
    rows = (rng.random((2000, 16)) * 100).astype(dtype)
    queries = np.vstack([rows[:200], rows[:200] * (3 if dtype == "uint8" else -1)]).astype(dtype)
    index = jasper.Index.build(rows, metric="cosine", device="cpu")
    for found in (index.search(queries, 2000), jasper.exact_search(rows, queries, 2000, metric="cosine")):
        assert found.distances.min() >= 0 and found.distances.max() <= 2
