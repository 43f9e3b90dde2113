"""Building from every kind of source, and what is refused."""

import threading

import numpy as np
import pytest

import jasper


class Sliced:
    """Vectors that are not an array: what HDF5 data sets and the like have."""

    def __init__(self, vectors, fail_at=None):
        self.shape, self.dtype = vectors.shape, vectors.dtype
        self.vectors, self.fail_at, self.reads = vectors, fail_at, 0

    def __getitem__(self, rows):
        self.reads += 1
        if self.fail_at is not None and rows.stop > self.fail_at:
            raise ConnectionError("the disk is gone")
        return self.vectors[rows]


def same(index, other):
    """Whether two indexes are the same file."""
    return index.__reduce__()[1] == other.__reduce__()[1]


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int8"])
def test_each_type_is_built_and_found(dtype):
    vectors = np.random.default_rng(0).integers(0, 100, (500, 8)).astype(dtype)
    index = jasper.Index.build(vectors)
    assert index.dtype == dtype and len(index) == 500 and index.dim == 8
    keys, distances = index.search(vectors, k=1)
    assert keys.dtype == np.int64 and distances.dtype == np.float32
    assert (distances == 0).all() and (vectors[keys[:, 0]] == vectors).all()


def test_every_source_gives_the_same_index(vectors, tmp_path):
    np.save(tmp_path / "vectors.npy", vectors)
    wide = np.zeros((1000, 32), np.float32)
    wide[:, ::2] = vectors
    sources = [
        np.load(tmp_path / "vectors.npy", mmap_mode="r"),
        wide[:, ::2],
        np.asfortranarray(vectors),
        vectors.astype(">f4"),
        np.frombuffer(b"-" + vectors.tobytes(), np.float32, offset=1).reshape(vectors.shape),
        Sliced(vectors),
        vectors.tolist(),
    ]
    expected = jasper.Index.build(vectors, device="cpu")
    for source in sources:
        assert same(jasper.Index.build(source, device="cpu"), expected)


def test_repeated_rows_of_no_stride_are_read(vectors):
    index = jasper.Index.build(np.broadcast_to(vectors[3], (50, 16)))
    assert (index.vectors(np.arange(50)) == vectors[3]).all()


def test_an_array_that_changes_while_it_is_read_gives_some_sound_index(vectors):
    changing, done = np.tile(vectors, (10, 1)), threading.Event()

    def change():
        while not done.is_set():
            changing[:] = np.roll(changing, 1)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        index = jasper.Index.build(changing, device="cpu")
    finally:
        done.set()
        thread.join()
    assert len(index) == 10_000 and index.check().faults == 0


def test_dtype_converts(vectors):
    index = jasper.Index.build(vectors.astype(np.float64), dtype="float32", device="cpu")
    assert same(index, jasper.Index.build(vectors, device="cpu"))
    assert jasper.Index.build(Sliced(vectors), dtype=np.float16).dtype == np.float16


def test_parameters_reach_the_library(vectors):
    index = jasper.Index.build(vectors, metric="ip", max_degree=24, keys=np.arange(5, 1005), threads=1)
    assert index.metric == "ip" and index.stats.max_degree == 24
    assert sorted(index.keys()) == list(range(5, 1005))
    assert jasper.Index.build(vectors, quantization="rabitq:4").stats.quantization == "rabitq:4"


def test_a_checkpoint_is_resumed(vectors, tmp_path):
    path = tmp_path / "checkpoint"
    parameters = dict(checkpoint=path, checkpoint_interval=0, device="cpu")
    stop = lambda stage, done, total: not (stage == "linking" and done > 500)  # noqa: E731
    with pytest.raises(jasper.Cancelled):
        jasper.Index.build(vectors, progress=stop, **parameters)
    assert path.exists()
    assert len(jasper.Index.build(vectors, **parameters)) == 1000


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (dict(metric="l3"), "unknown metric `l3`; use l2, ip or cosine"),
        (dict(device="gpu"), "device `gpu` is not known; use auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all"),
        (dict(device=["cpu", "cuda:0"]), "a list of devices (cpu, cuda:0) must be of GPUs"),
        (dict(max_degree=0), "max_degree (0) must be between"),
        (dict(alpha=0.5), "alpha (0.5) must be"),
        (dict(dtype="float64"), "dtype (float64) must be float32, float16, uint8 or int8"),
        (dict(dtype="float"), "dtype (float) must be"),
        (dict(dtype="text"), "dtype (text) must be"),
        (dict(threads=0), "threads"),
        (dict(keys=[1, 2]), "2 keys for 1000 vectors"),
        (dict(keys=np.full(1000, 0.5)), "keys are float64 of shape"),
        (dict(keys=-np.arange(1000)), "key -1 must be from 0 to 2**63 - 1"),
        (dict(quantization="rabitq:9"), "unknown quantization `rabitq:9`"),
        (dict(checkpoint="x", checkpoint_interval=-1), "checkpoint_interval (-1) must be"),
    ],
)
def test_wrong_parameters_are_refused(vectors, parameters, message):
    with pytest.raises(jasper.ParameterError) as raised:
        jasper.Index.build(vectors, **parameters)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.astype(np.float64), 'vectors are float64, and an index stores float32, float16, uint8 or int8; '
                                         'convert them with numpy.asarray(vectors, "float32")'),
        (lambda v: v.astype(np.int64), "vectors are int64"),
        (lambda v: v[..., None], "vectors have shape [1000, 16, 1]"),
        (lambda v: v[0], "vectors are in one dimension; they must have shape (n, dim)"),
        (lambda v: v * np.nan, "row 0 holds a value that is not finite (NaN) at coordinate 0"),
        (lambda v: v[:, :0], "dimension (0) must be between 1 and 32768"),
        (lambda v: [["a"]], "vectors are <U1"),
        (lambda v: None, "vectors are object"),
    ],
)
def test_wrong_vectors_are_refused(vectors, change, message):
    with pytest.raises(jasper.ParameterError) as raised:
        jasper.Index.build(change(vectors))
    assert message in str(raised.value)


def test_repeated_keys_are_refused(vectors):
    with pytest.raises(jasper.DuplicateKeyError, match="key 3"):
        jasper.Index.build(vectors, keys=np.full(1000, 3))


def test_a_source_that_raises_stops_the_build(vectors):
    with pytest.raises(ConnectionError, match="the disk is gone"):
        jasper.Index.build(Sliced(vectors, fail_at=10))


def test_a_source_of_another_shape_is_refused(vectors):
    source = Sliced(vectors)
    source.vectors = vectors[:, :3]
    with pytest.raises(jasper.ParameterError, match=r"has shape \(\d+, 3\), expected \(\d+, 16\)"):
        jasper.Index.build(source)


def test_a_memory_plan_has_the_parts_of_the_build():
    plan = jasper.Index.memory_plan(1_000_000, 96, device="cpu", quantization="rabitq:4")
    assert plan.host_bytes == sum(part.bytes for part in plan.parts) > 1_000_000 * 96 * 4
    assert {part.name for part in plan.parts} >= {"vectors", "codes"} and plan.device_bytes == 0
    with pytest.raises(jasper.ParameterError, match=r"rows \(-1\) must be at least 0"):
        jasper.Index.memory_plan(-1, 4)
    with pytest.raises(jasper.ParameterError, match="shards"):
        jasper.Index.memory_plan(1000, 4, shards=0)


@pytest.mark.parametrize(
    ("option", "takes_more"),
    [
        (dict(dtype="float16"), False),
        (dict(metric="ip"), True),
        (dict(max_degree=65), True),
        (dict(build_beam_width=600), True),
        (dict(max_batch_share=0.05), True),
        (dict(shards=3), True),
        (dict(exact_linking=True), False),
        (dict(quantization="rabitq:4"), True),
    ],
)
def test_a_memory_plan_depends_on_each_option(option, takes_more):
    plan = jasper.Index.memory_plan(1_000_000, 96, device="cpu")
    other = jasper.Index.memory_plan(1_000_000, 96, device="cpu", **option)
    assert other.host_bytes != plan.host_bytes
    assert (other.host_bytes > plan.host_bytes) == takes_more


def test_more_memory_than_there_is_is_refused_at_once():
    rows = np.broadcast_to(np.zeros((1, 32768), np.float32), (1 << 31, 32768))
    with pytest.raises(jasper.OutOfMemoryError):
        jasper.Index.build(rows, device="cpu")
