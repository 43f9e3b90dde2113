"""Arrays of other libraries: DLPack, the CUDA array interface, Arrow, HDF5. Real tensors on a device: test_gpu.py."""

import sys
import types

import h5py
import numpy as np
import pyarrow as pa
import pytest

import jasper

NO_DEVICE = not jasper.devices()


class Tensor:
    """What only has DLPack, in host memory or, as it says, elsewhere."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.device


class OnDevice:
    """What only has the CUDA array interface."""

    __cuda_array_interface__ = dict(shape=(1, 16), typestr="<f4", data=(4096, False), version=3, strides=None)


class Capsules:
    """What only has the PyCapsule interface of Arrow."""

    def __init__(self, array):
        name = "__arrow_c_stream__" if isinstance(array, pa.ChunkedArray) else "__arrow_c_array__"
        self.export, self.name = getattr(array, name), name

    def __getattr__(self, name):
        if name == self.__dict__.get("name"):
            return self.export
        raise AttributeError(name)


def same(index, other):
    return index.__reduce__()[1] == other.__reduce__()[1]


def column(vectors, chunks=1):
    """Vectors as a column of Arrow."""
    pieces = [pa.FixedSizeListArray.from_arrays(piece.ravel(), 16) for piece in np.array_split(vectors, chunks)]
    return pieces[0] if chunks == 1 else pa.chunked_array(pieces)


def test_tensors_in_host_memory_are_arrays(shared, vectors):
    expected = shared.search(vectors[:9], 4)
    found = shared.search(Tensor(vectors[:9]), 4)
    assert isinstance(found.keys, np.ndarray) and (found.keys == expected.keys).all()
    assert (shared.search(Tensor(vectors[4]), 4).keys == expected.keys[4]).all()
    assert same(jasper.Index.build(Tensor(vectors), device="cpu"), shared)
    index = jasper.Index(16)
    assert index.insert(Tensor(vectors[:3]), Tensor(np.array([4, 5, 6]))).tolist() == [4, 5, 6]
    exact = jasper.exact_search(Tensor(vectors), Tensor(vectors[:9]), 4)
    assert jasper.recall(found, exact) > 0.9
    # Not contiguous: columns of a wider array, and rows in reverse.
    wide = np.zeros((9, 32), np.float32)
    wide[:, ::2] = vectors[:9]
    assert (shared.search(Tensor(wide[:, ::2]), 4).keys == expected.keys).all()
    assert (shared.search(Tensor(vectors[8::-1]), 4).keys == expected.keys[::-1]).all()


def test_results_are_of_the_library_of_the_queries(shared, vectors, monkeypatch):
    library = types.ModuleType("some_library")
    library.Tensor = type("Tensor", (Tensor,), {"__module__": "some_library.tensors"})
    library.from_dlpack = lambda array: library.Tensor(np.from_dlpack(array))
    monkeypatch.setitem(sys.modules, "some_library", library)
    queries = library.Tensor(vectors[:5])
    for found in (shared.search(queries, 3), jasper.exact_search(vectors, queries, 3)):
        assert isinstance(found, jasper.Matches)
        assert type(found.keys) is type(found.distances) is library.Tensor
        assert (found.keys.array[:, 0] == np.arange(5)).all() and found.distances.array.dtype == np.float32


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (Tensor(np.zeros(16, np.int32)), "queries are int32"),
        (Tensor(np.zeros((2, 3), np.float32)), "row 0 has 3 coordinates"),
        (Tensor(np.full(16, np.nan, np.float32)), "not finite"),
        (Tensor(np.zeros(16, np.float32), device=(2, 0)), "queries are on cuda:0 and the index on cpu"),
        (Tensor(np.zeros(16, np.float32), device=(2, 5)), "queries are on cuda:5 and the index on cpu"),
        (Tensor(np.zeros(16, np.float32), device=(10, 0)), "queries are on a device of DLPack type 10"),
        (Tensor(np.zeros(16, ">f4")), "queries of test_interop cannot be read"),
    ],
)
def test_wrong_tensors_are_refused(shared, queries, message):
    with pytest.raises(jasper.ParameterError) as raised:
        shared.search(queries)
    assert message in str(raised.value)


@pytest.mark.skipif(not NO_DEVICE, reason="needs a machine without a device")
@pytest.mark.parametrize("vectors", [OnDevice(), Tensor(np.zeros((1, 16), np.float32), device=(2, 0))])
def test_arrays_on_a_device_that_does_not_exist_are_refused(vectors):
    index = jasper.Index(16)
    with pytest.raises(jasper.DeviceError, match="cuda:0 cannot be used"):
        jasper.Index.build(vectors)
    with pytest.raises(jasper.DeviceError, match="cuda:0 cannot be used"):
        index.insert(vectors)
    assert len(index) == 0


def test_streams_are_for_queries_on_a_device(shared, vectors):
    with pytest.raises(jasper.ParameterError, match="stream is for queries on a CUDA device"):
        shared.search(vectors[:3], stream=0)
    queries = Tensor(vectors, device=(2, 0))
    with pytest.raises(jasper.ParameterError, match="out is for queries in host memory"):
        shared.search(queries, out=(np.zeros(3, np.int64), np.zeros(3, np.float32)))


@pytest.mark.parametrize("wrap", [lambda array: array, Capsules])
@pytest.mark.parametrize("chunks", [1, 7])
def test_columns_of_arrow_are_vectors(shared, vectors, wrap, chunks):
    assert same(jasper.Index.build(wrap(column(vectors, chunks)), device="cpu"), shared)
    index = jasper.Index(16)
    index.insert(wrap(column(vectors, chunks)[100:300]))
    assert (index.vectors(np.arange(200)) == vectors[100:300]).all()
    if chunks == 1:
        expected = shared.search(vectors[5:9], 3)
        assert (shared.search(wrap(column(vectors)[5:9]), 3).keys == expected.keys).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int8"])
def test_columns_of_arrow_have_all_types(dtype):
    vectors = np.random.default_rng(0).integers(0, 100, (50, 16)).astype(dtype)
    for chunks in (1, 3):
        index = jasper.Index.build(column(vectors, chunks), device="cpu")
        assert index.dtype == dtype and (index[7] == vectors[7]).all()


def test_lists_of_one_length_are_vectors(shared, vectors):
    # What parquet gives back unless the schema was kept.
    lists = column(vectors).cast(pa.list_(pa.float32()))
    assert same(jasper.Index.build(lists, device="cpu"), shared)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)), "is null"),
        (pa.array([[1.0, None]], pa.list_(pa.float32(), 2)), "is null"),
        (pa.array([[1.0], [1.0, 2.0]], pa.list_(pa.float32())), "has 2 coordinates, and the first one has 1"),
        (pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2)), "vectors are float64"),
        (pa.array(["a", "b"]), "vectors"),
        (pa.table({"a": [1.0]}), "vectors"),
    ],
)
def test_wrong_columns_are_refused(vectors, message):
    with pytest.raises(jasper.ParameterError, match=message):
        jasper.Index.build(vectors)
    if isinstance(vectors, pa.Array):
        with pytest.raises(jasper.ParameterError, match=message):
            jasper.Index.build(pa.chunked_array([vectors, vectors]))


def test_hdf5_and_memory_maps_are_read_piece_by_piece(shared, vectors, tmp_path):
    mapped = np.memmap(tmp_path / "vectors.bin", np.float32, "w+", shape=vectors.shape)
    mapped[:] = vectors
    with h5py.File(tmp_path / "vectors.hdf5", "w") as file:
        data = file.create_dataset("train", data=vectors, chunks=(100, 16), compression="gzip")
        for source in (data, mapped):
            assert same(jasper.Index.build(source, device="cpu"), shared)
            index = jasper.Index(16)
            index.insert(source)
            assert (index.vectors(np.arange(1000)) == vectors).all()
        assert (shared.search(data, 1).keys[:, 0] == np.arange(1000)).all()
    # The file is closed: what the library raises is raised.
    with pytest.raises(RuntimeError):
        jasper.Index.build(data)
