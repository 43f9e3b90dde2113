"""Saving, opening and pickling."""

import base64
import copy
import io
import pickle
import zlib

import numpy as np
import pytest

import jasper


def test_saved_indexes_open_again(shared, vectors, tmp_path):
    path = tmp_path / "vectors.jasper"
    shared.save(path)
    buffer = io.BytesIO()
    shared.save(buffer)
    assert path.read_bytes() == buffer.getvalue()
    with open(path, "rb") as file:
        opened = [
            jasper.Index.open(path),
            jasper.Index.open(str(path), mmap=True, threads=1),
            jasper.Index.open(buffer.getvalue()),
            jasper.Index.open(file),
            pickle.loads(pickle.dumps(shared)),
            copy.copy(shared),
        ]
    for index in opened:
        assert repr(index) == repr(shared)
        assert (index.search(vectors[:50]).keys == shared.search(vectors[:50]).keys).all()
    opened[1].delete([0])
    assert 0 not in opened[1] and 0 in jasper.Index.open(path)


def test_operating_system_errors_pass_through(shared, tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        jasper.Index.open(tmp_path / "none")
    assert raised.value.filename is not None and raised.value.errno == 2
    with pytest.raises(OSError):
        shared.save(tmp_path / "no folder" / "file")
    with pytest.raises(TypeError):
        jasper.Index.open(5)
    with pytest.raises(jasper.ParameterError, match=r"threads \(0\) must be at least 1"):
        jasper.Index.open(tmp_path / "none", threads=0)


def test_damaged_files_are_refused(shared, tmp_path):
    path = tmp_path / "vectors.jasper"
    shared.save(path)
    content = path.read_bytes()
    for damaged in (b"", b"not an index", content[:-1], content[:9000] + b"\xff" + content[9001:]):
        with pytest.raises(jasper.FormatError, match="^<bytes>: "):
            jasper.Index.open(damaged)
        path.write_bytes(damaged)
        with pytest.raises(jasper.FormatError, match="vectors.jasper: "):
            jasper.Index.open(path)


# The index that `jasper build --keys` makes of two vectors under the keys 5 and 2**63, compressed.
LARGE_KEY = (
    "eNrt2T1KA1EQAOBJNP4kiCk8gEfwAIKmSJNqSTqxsLCx8whpRVBLYyWI3sbGJoUXED2A2LlhN/J2wdZA/D4Yhnmzy3u8bnYHvVHW"
    "H261GxHRziNuoqJR5vU8Ls9eHqNb1CflejPJb6/vO7Fb1GWK1TK38ph+Hh/FXlFvJOvz5wbNeIrD6ntrSX7evrqPrKi7ybnS/HOw"
    "qO7zW38zOcdF7+t23p/v3673z6v9Tr0/rvYBAABg0TrXH6fp/N4t5/1Z3E0mB7P1YT8b9Qb5HDx92E/n/br6evndYOyWAQAAYPEa"
    "tcF9xY9rAAAAWL753xUAAADAP5j/fQEAAACAZdeqlmM3AgAAAAAAAAAAAAAAAAAAAH/vG1M7IPc="
)


def test_keys_that_python_lacks_are_refused(tmp_path):
    content = zlib.decompress(base64.b64decode(LARGE_KEY))
    path = tmp_path / "large key.jasper"
    path.write_bytes(content)
    for file, mmap in [(content, False), (path, False), (path, True)]:
        with pytest.raises(jasper.FormatError, match=r"has the key 9223372036854775808, .* below 2\*\*63"):
            jasper.Index.open(file, mmap=mmap)


def test_a_cancelled_save_leaves_the_old_file(shared, tmp_path):
    path = tmp_path / "vectors.jasper"
    path.write_bytes(b"old")
    with pytest.raises(jasper.Cancelled):
        shared.save(path, progress=lambda *_: False)
    with pytest.raises(jasper.Cancelled):
        pickled = io.BytesIO()
        shared.save(pickled, progress=lambda *_: False)
    assert not pickled.getvalue()
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_properties(shared):
    assert repr(shared) == '<jasper.Index of 1000 vectors, dim=16, metric="l2", dtype=float32, device="cpu">'
    assert (shared.dim, shared.metric, shared.dtype, shared.device) == (16, "l2", np.float32, "cpu")
    assert shared.device_bytes == 0 and shared.nbytes > 1000 * 16 * 4
    assert shared.stats.keys == 1000
    with pytest.raises(AttributeError, match="has no field 'size'; it has keys, "):
        shared.stats.size


def test_devices_are_listed():
    for device in jasper.devices():
        assert device.device.startswith("cuda:") and device.memory_bytes > 0


def test_a_durable_index_has_every_change(tmp_path):
    folder = tmp_path / "vectors"
    vectors = np.arange(60, dtype=np.uint8).reshape(20, 3)
    index = jasper.Index.build(vectors)
    index.save(folder, durable=True)
    with pytest.raises(jasper.FormatError, match="not the folder of a durable index"):
        index.snapshot()

    def state():
        buffer = io.BytesIO()
        index.save(buffer)
        return buffer.getvalue()

    index = jasper.Index.open(folder)
    index.insert([[1, 1, 1]], [100])
    index.delete([3])
    with pytest.raises(OSError, match="open already"):
        jasper.Index.open(folder)
    before = state()
    del index
    index = jasper.Index.open(folder)
    assert state() == before and 100 in index and 3 not in index
    index.snapshot()
    with pytest.raises(OSError, match="durable index"):
        jasper.Index.build(vectors).save(folder, durable=True)
