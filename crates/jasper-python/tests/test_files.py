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
    assert shared.device_info.bytes == 0 and shared.nbytes > 1000 * 16 * 4
    assert shared.stats.keys == 1000
    with pytest.raises(AttributeError, match="has no field 'size'; it has keys, "):
        shared.stats.size


def test_reports_are_pickled(vectors):
    report = jasper.Index.build(vectors, device="cpu").tune(0.9, 10)
    assert isinstance(report.searches[0], jasper.Report)
    for again in (pickle.loads(pickle.dumps(report)), copy.copy(report), copy.deepcopy(report)):
        assert type(again) is jasper.Report and again == report


def test_devices_are_listed():
    for device in jasper.devices():
        assert device.device.startswith("cuda:") and device.memory_bytes > 0


def test_a_durable_index_has_every_change(tmp_path):
    folder = tmp_path / "vectors"
    vectors = np.arange(60, dtype=np.uint8).reshape(20, 3)
    index = jasper.Index.build(vectors)
    index.save(folder, durable=True)
    with pytest.raises(jasper.ParameterError, match="has no journal"):
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
    follower = jasper.Index.open(folder, follow=True)
    assert 100 in follower and 3 not in follower
    index.delete([4])
    assert index.catch_up() == 0 and follower.catch_up() <= 1 and 4 not in follower
    with pytest.raises(ValueError, match="follows a durable index"):
        follower.delete([5])
    with pytest.raises(jasper.FormatError, match="not the folder of a durable index"):
        jasper.Index.open((folder / "index-0.jasper").read_bytes(), follow=True)
    before = state()
    del index
    index = jasper.Index.open(folder)
    assert state() == before and 100 in index and 3 not in index
    index.snapshot()
    with pytest.raises(OSError, match="open already"):
        jasper.Index.build(vectors).save(folder, durable=True)
    del index, follower
    with pytest.raises(OSError, match="durable index"):
        jasper.Index.build(vectors).save(folder, durable=True)


class Pipe(io.RawIOBase):
    """A file that takes a part at a time, as raw files and sockets do."""

    def __init__(self, part):
        self.part, self.data = part, bytearray()

    def write(self, data):
        taken = self.part if self.part is None else min(self.part, len(data))
        self.data += data[:taken]
        return taken


def test_files_that_take_a_part_get_all(shared):
    whole, pipe = io.BytesIO(), Pipe(10_000)
    shared.save(whole)
    shared.save(pipe)
    assert pipe.data == whole.getvalue()
    for part in (0, None, -1):
        with pytest.raises(OSError, match=f"the file took 0 of {len(pipe.data)} bytes"):
            shared.save(Pipe(part))


def test_a_file_need_not_say_what_it_took(shared):
    class Plain:
        def write(self, data):
            self.data = data

    plain, whole = Plain(), io.BytesIO()
    shared.save(plain)
    shared.save(whole)
    assert plain.data == whole.getvalue()


def test_the_folder_of_a_checkpoint_is_tried_at_once(vectors, tmp_path):
    def read(stage, done, total):
        raise AssertionError("vectors are read")

    for path in (tmp_path / "none" / "checkpoint", tmp_path):
        with pytest.raises(OSError):
            jasper.Index.build(vectors, checkpoint=path, progress=read, device="cpu")
    assert not list(tmp_path.iterdir())


def test_filters_are_pickled(shared, vectors):
    for filter in (jasper.Filter.keys([3, 1 << 40]), jasper.Filter.keys([3], exclude=True), jasper.Filter.mask(np.arange(9) > 2)):
        for again in (pickle.loads(pickle.dumps(filter)), copy.copy(filter), copy.deepcopy(filter)):
            assert repr(again) == repr(filter)
            assert (shared.search(vectors[:9], 3, filter=again).keys == shared.search(vectors[:9], 3, filter=filter).keys).all()
