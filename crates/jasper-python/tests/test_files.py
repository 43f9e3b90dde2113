"""Saving, opening and pickling."""

import copy
import io
import pickle

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
        with pytest.raises(jasper.FormatError, match="^the file "):
            jasper.Index.open(damaged)
        path.write_bytes(damaged)
        with pytest.raises(jasper.FormatError, match="vectors.jasper: "):
            jasper.Index.open(path)


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
