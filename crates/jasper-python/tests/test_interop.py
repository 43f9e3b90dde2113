"""Arrays of other libraries: DLPack, the CUDA array interface, Arrow, HDF5. Real tensors on a device: test_gpu.py."""

import sys
import types

import h5py
import ml_dtypes
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
        (Tensor(np.zeros(16, complex)), "queries are complex128"),
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


BFLOAT16 = ml_dtypes.bfloat16


class Jax(Tensor):
    """What has DLPack and becomes an array of numpy, and whose type the DLPack reader of numpy lacks."""

    def __dlpack__(self, **arguments):
        raise BufferError("unsupported dtype")

    def __array__(self, dtype=None, copy=None):
        return self.array


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (lambda x: x, "float16"),
        # Beyond float16; and so short that float16 would round them more.
        (lambda x: x * 1e6, "float32"),
        (lambda x: x * 1e-6, "float32"),
        # A few small coordinates are rounded by less than the others have been.
        (lambda x: np.where(np.arange(16) == 3, 1e-7 * x, x), "float16"),
        (np.zeros_like, "float16"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda array: array, Jax])
def test_bfloat16_is_stored_as_the_type_that_holds_it(vectors, values, dtype, wrap):
    rows = values(vectors).astype(BFLOAT16)
    index = jasper.Index.build(wrap(rows), device="cpu")
    assert index.dtype == dtype
    exact = rows.astype(np.float32)
    assert (index.vectors(np.arange(1000)) == exact.astype(dtype)).all()
    assert (np.abs(index.vectors(np.arange(1000)) - exact).max(axis=1) <= 2.0**-9 * np.abs(exact).max(axis=1)).all()
    found = index.search(wrap(rows[:50]), 3)
    assert (found.keys == index.search(exact[:50], 3).keys).all()
    assert (index.search(wrap(rows[4]), 1).keys == found.keys[4, :1]).all()
    empty = jasper.Index(16)
    empty.insert(wrap(rows[:10]))
    assert (empty.vectors(np.arange(10)) == exact[:10]).all()
    assert (jasper.exact_search(wrap(rows), wrap(rows[:9]), 1).keys == jasper.exact_search(exact, exact[:9], 1).keys).all()


def test_bfloat16_that_an_index_cannot_have_is_refused(vectors):
    rows = (vectors * 1e6).astype(BFLOAT16)
    index = jasper.Index(16, dtype="float16")
    with pytest.raises(jasper.ParameterError, match="row 0 has the value .*, which float16 cannot hold"):
        index.insert(rows)
    with pytest.raises(jasper.ParameterError, match="row 0 has the value .*, which uint8 cannot hold"):
        jasper.Index(16, dtype="uint8").insert(rows)
    rows[3, 1] = np.nan
    with pytest.raises(jasper.ParameterError, match="row 3 holds a value that is not finite"):
        jasper.Index.build(rows)
    assert jasper.Index.build(vectors.astype(BFLOAT16), dtype="float32").dtype == "float32"
    assert jasper.Index.build(list(vectors[:9].astype(BFLOAT16))).dtype == "float32"


@pytest.mark.parametrize(
    "vectors",
    [
        np.ones((4, 3)),
        np.ones((4, 3), np.int64),
        np.ones((4, 3), bool),
        np.ones((4, 3), object),
        np.ones((4, 3), np.longdouble),
        np.ones((4, 3)).astype(ml_dtypes.float8_e4m3fn),
    ],
    ids=lambda one: str(one.dtype),
)
def test_what_messages_advise_works(vectors):
    with pytest.raises(jasper.ParameterError) as raised:
        jasper.Index.build(vectors)
    advice = str(raised.value).partition("convert them with ")[2].partition(", or pass ")[0]
    assert len(jasper.Index.build(eval(advice, {"numpy": np, "vectors": vectors}))) == len(vectors)
    assert len(jasper.Index.build(vectors, dtype="float32")) == len(vectors)


@pytest.mark.parametrize("vectors", [np.ones((2, 2), complex), [["1", "2"]], np.ones((2, 2), "M8[s]"), [[None, 1]]])
def test_what_are_not_numbers_is_refused_whatever_the_type(vectors):
    for options in ({}, {"dtype": "float32"}):
        with pytest.raises(jasper.ParameterError, match="vectors"):
            jasper.Index.build(vectors, **options)


def test_bytes_of_another_sign_are_not_to_be_cast():
    with pytest.raises(jasper.ParameterError, match="row 0 has the value 200 at coordinate 1, which int8 cannot hold"):
        jasper.Index(2, dtype="int8").insert(np.array([[1, 200]], np.uint8))


def test_numbers_that_a_type_has_not_are_named(vectors):
    for wide in (vectors * np.float32(1e6), np.full((10, 16), 70_000)):
        with pytest.raises(jasper.ParameterError, match="vectors have the value .*, and float16 ends at 65504"):
            jasper.Index.build(wide, dtype="float16")


@pytest.mark.parametrize("kind", ["csr", "coo"])
def test_sparse_matrices_are_refused_by_name(shared, kind):
    sparse = pytest.importorskip("scipy.sparse").random(100, 16, 0.1, kind, dtype="f4")
    for call in (jasper.Index.build, shared.search, jasper.Index(16).insert, lambda one: jasper.exact_search(one, one)):
        with pytest.raises(jasper.ParameterError, match=r"sparse matrix, .*\.toarray\(\)"):
            call(sparse)


def test_masked_arrays_are_what_is_not_masked(shared, vectors):
    whole = np.ma.array(vectors)
    assert same(jasper.Index.build(whole, device="cpu"), shared)
    assert (shared.search(whole[:5], 2).keys == shared.search(vectors[:5], 2).keys).all()
    part = np.ma.array(vectors, mask=vectors < -1)
    for call in (jasper.Index.build, shared.search, jasper.Index(16).insert, lambda one: jasper.exact_search(one, vectors)):
        with pytest.raises(jasper.ParameterError, match="have masked values; fill them"):
            call(part)
    assert len(jasper.Index.build(np.ma.compress_rows(part))) < 1000
    keys = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    for call in (shared.vectors, lambda keys: shared.search(vectors[0], filter=keys)):
        with pytest.raises(jasper.ParameterError, match=r"masked values; .*\.compressed\(\)"):
            call(keys)


def test_what_only_has_slices_may_be_queries(shared, vectors):
    class Sliced:
        shape, dtype = vectors.shape, vectors.dtype

        def __getitem__(self, rows):
            return vectors[rows]

    for rows in (Sliced(), jasper.column(column(vectors)), jasper.column(column(vectors, 3))):
        assert (shared.search(rows, 2).keys == shared.search(vectors, 2).keys).all()
        assert (jasper.exact_search(rows, rows, 1).keys[:, 0] == np.arange(1000)).all()
