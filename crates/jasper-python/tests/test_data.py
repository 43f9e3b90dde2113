"""Columns of Arrow, Parquet and data sets, and files of ann-benchmarks."""

import doctest
import tracemalloc

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jasper
import jasper.data

N, DIM = 3000, 8


def rows(dtype, n=N):
    return (np.random.default_rng(1).random((n, DIM)) * 100).astype(dtype)


def fixed(matrix):
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.reshape(-1)), matrix.shape[1])


def ragged(matrix, kind=pa.ListArray):
    offsets = np.arange(0, matrix.size + 1, matrix.shape[1])
    offsets = pa.array(offsets, pa.int32() if kind is pa.ListArray else pa.int64())
    return kind.from_arrays(offsets, pa.array(matrix.reshape(-1)))


def large(matrix):
    return ragged(matrix, pa.LargeListArray)


def tensor(matrix):
    kind = pa.fixed_shape_tensor(pa.from_numpy_dtype(matrix.dtype), [matrix.shape[1]])
    return pa.ExtensionArray.from_storage(kind, fixed(matrix))


def parquet(folder, matrix, make=fixed, files=2, **options):
    """The paths of files that have the rows, one after another."""
    paths = []
    for number, part in enumerate(np.array_split(matrix, files)):
        paths.append(folder / f"{number}.parquet")
        table = pa.table({"id": np.arange(len(part)), "embedding": make(part)})
        pq.write_table(table, paths[-1], **{"row_group_size": 700, **options})
    return paths


PARTS = [(0, 10), (10, 1500), (1500, 1501), (2999, 9000), (5, 5), (40, 20), (100, 2900)]


@pytest.mark.parametrize("make", [fixed, ragged, large, tensor])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "uint8", "int8"])
def test_a_column_has_the_rows_of_the_array(tmp_path, make, dtype):
    matrix = rows(dtype)
    half = make(matrix[: N // 2])
    chunked = pa.chunked_array([half, make(matrix[N // 2 :])])
    table = pa.table({"embedding": chunked})
    sources = [(chunked, None), (table, "embedding"), (make(matrix), None)]
    # Arrays that begin within their buffers.
    sources += [(make(np.vstack([matrix[:3], matrix]))[3:], None)]
    sources += [(parquet(tmp_path, matrix, make), "embedding")]
    for source, name in sources:
        column = jasper.column(source, name)
        assert column.shape == (N, DIM) and column.dtype == dtype and len(column) == N
        for part in (slice(*ends) for ends in PARTS):
            assert np.array_equal(column[part], matrix[part]) and column[part].shape == matrix[part].shape


def test_examples_run():
    result = doctest.testmod(jasper.data)
    assert result.attempted > 0 and result.failed == 0


def test_an_index_is_built_from_a_column(tmp_path):
    matrix = rows("float32")
    expected = jasper.Index.build(matrix, device="cpu").search(matrix[:50])
    paths = parquet(tmp_path, matrix, ragged)
    index = jasper.Index.build(jasper.column(paths, "embedding"), device="cpu")
    assert np.array_equal(index.search(matrix[:50]).keys, expected.keys)
    other = jasper.Index(DIM)
    other.insert(jasper.column(str(paths[0]), "embedding"))
    assert len(other) == N // 2 and np.array_equal(other[7], matrix[7])
    wide = jasper.Index.build(jasper.column(fixed(rows("float64"))), dtype="float32", device="cpu")
    assert np.array_equal(wide.search(matrix[:50]).keys, expected.keys)


def test_fixed_lists_in_memory_are_not_copied():
    matrix = rows("float32")
    assert np.shares_memory(jasper.column(fixed(matrix))[10:20], matrix)


def test_a_file_is_read_in_batches(tmp_path):
    matrix = np.random.default_rng(0).random((40_000, 64), dtype=np.float32)
    (path,) = parquet(tmp_path, matrix, files=1, row_group_size=len(matrix))
    column = jasper.column(path, "embedding")
    before, most = pa.total_allocated_bytes(), 0
    tracemalloc.start()
    for start in range(0, len(matrix), 1000):
        assert np.array_equal(column[start : start + 1000], matrix[start : start + 1000])
        most = max(most, pa.total_allocated_bytes() - before)
    python = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most + python < matrix.nbytes / 2


class DataSet:
    """What a data set of the package `datasets` offers: rows in an order of its own, as Arrow tables."""

    column_names = ("text", "embedding")

    def __init__(self, table, order):
        self.table, self.order = table, order

    def __len__(self):
        return len(self.order)

    def with_format(self, kind):
        assert kind == "arrow"
        return self

    def __getitem__(self, part):
        return self.table.take(pa.array(self.order[part]))


def test_a_data_set_keeps_its_order():
    matrix = rows("float32")
    order = np.random.default_rng(2).permutation(N)[:1000]
    column = jasper.column(DataSet(pa.table({"embedding": ragged(matrix)}), order), "embedding")
    assert column.shape == (1000, DIM) and np.array_equal(column[3:700], matrix[order][3:700])


def test_empty_columns(tmp_path):
    for source, name in [(fixed(rows("uint8", 0)), None), (parquet(tmp_path, rows("uint8", 0), files=1), "embedding")]:
        column = jasper.column(source, name)
        assert column.shape == (0, DIM) and column.dtype == np.uint8 and column[0:5].shape == (0, DIM)


def test_wrong_columns_are_refused(tmp_path):
    table = pa.table({"id": [1, 2], "text": ["a", "b"], "words": [["a"], ["b"]], "v": [[1.0], [2.0]]})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        with pytest.raises(jasper.ParameterError, match="'w'.*one of the columns id, text, words, v"):
            jasper.column(source, "w")
        with pytest.raises(jasper.ParameterError, match="name must be the name"):
            jasper.column(source)
        for name, kind in [("id", "int64"), ("text", "string"), ("words", "list<.*string>")]:
            with pytest.raises(jasper.ParameterError, match=f"lists of numbers, and has the type {kind}"):
                jasper.column(source, name)
    with pytest.raises(jasper.ParameterError, match="dict.*must be a path"):
        jasper.column({}, "v")
    with pytest.raises(FileNotFoundError):
        jasper.column(tmp_path / "none.parquet", "v")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, 2.0], [1.0], [3.0]], "1 coordinates, and the first one has 2"),
        ([[1.0, 2.0], None], "null"),
        ([[1.0, 2.0], [None, 1.0]], "null"),
    ],
)
def test_wrong_vectors_are_refused(values, message):
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float32(), 2)):
        if kind.equals(pa.list_(pa.float32(), 2)) and "coordinates" in message:
            continue
        column = jasper.column(pa.array(values, kind))
        assert column[:1].tolist() == [[1.0, 2.0]]
        with pytest.raises(jasper.ParameterError, match=message):
            column[:]
        with pytest.raises(jasper.ParameterError, match=message):
            jasper.Index.build(column, device="cpu")


@pytest.fixture
def hdf5_file(tmp_path):
    """Writes a file as ann-benchmarks does."""

    def write(distance, metric, dtype="float32", **changes):
        train = np.random.default_rng(3).normal(size=(2000, 16)).astype(dtype)
        test = np.random.default_rng(4).normal(size=(60, 16)).astype(dtype)
        truth = jasper.exact_search(train.astype(np.float32), test.astype(np.float32), 100, metric=metric)
        path = tmp_path / f"{distance}.hdf5"
        with h5py.File(path, "w") as file:
            file.attrs.update({"type": "dense", "distance": distance, "dimension": 16, "point_type": "float"})
            distances = np.sqrt(truth.distances) if metric == "l2" else truth.distances
            for name, array in dict(
                train=train, test=test, neighbors=truth.keys.astype(np.int32), distances=distances, **changes
            ).items():
                file[name] = array
        return path

    return write


@pytest.mark.parametrize(("distance", "metric"), [("euclidean", "l2"), ("angular", "cosine"), ("ip", "ip")])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_benchmark_file_is_evaluated_in_one_call(hdf5_file, distance, metric, dtype):
    path = hdf5_file(distance, metric, dtype)
    report = jasper.evaluate(path, k=20, beam_widths=[200, 20], max_degree=24, device="cpu", threads=1)
    assert report.metric == report.index.metric == metric and report.build_seconds > 0
    assert len(report.index) == 2000 and report.index.stats.max_degree == 24
    narrow, wide = report.curve
    assert (narrow.beam_width, wide.beam_width) == (20, 200)
    assert 0.5 < narrow.recall < wide.recall and wide.recall > 0.98
    assert narrow.queries_per_second > wide.queries_per_second
    with h5py.File(path) as file:
        found = report.index.search(file["test"][:], 20, beam_width=20)
        assert narrow.recall == jasper.recall(found, file["neighbors"][:], 20)


def test_equally_near_neighbors_count(tmp_path):
    train = np.repeat(np.eye(8, dtype=np.float32), 2, axis=0)
    with h5py.File(tmp_path / "ties.hdf5", "w") as file:
        file.attrs["distance"] = "euclidean"
        file["train"], file["test"] = train, train[:1]
        # The second copy of the nearest vector, which comes first in searches, ties with the first.
        file["neighbors"], file["distances"] = [[1, 0]], [[0.0, 0.0]]
    (point,) = jasper.evaluate(tmp_path / "ties.hdf5", 1, beam_widths=[16]).curve
    assert point.recall == 1.0


def test_other_files_are_refused(hdf5_file, tmp_path):
    path = hdf5_file("euclidean", "l2")
    for arguments, message in [(dict(k=101), r"k \(101\) must be between 1 and .* \(100\)"), (dict(runs=0), "runs")]:
        with pytest.raises(jasper.ParameterError, match=message):
            jasper.evaluate(path, **arguments)
    with pytest.raises(jasper.Cancelled):
        jasper.evaluate(path, progress=lambda *_: False)
    with h5py.File(path, "a") as file:
        file.attrs["distance"] = "jaccard"
    with pytest.raises(jasper.FormatError, match="'jaccard'.*euclidean, angular"):
        jasper.evaluate(path)
    with h5py.File(path, "a") as file:
        file.attrs["type"] = "sparse"
    with pytest.raises(jasper.FormatError, match="'sparse'"):
        jasper.evaluate(path)
    with h5py.File(path, "a") as file:
        del file["neighbors"]
    with pytest.raises(jasper.FormatError, match="no neighbors"):
        jasper.evaluate(path)
    (tmp_path / "text.hdf5").write_text("text")
    with pytest.raises(OSError):
        jasper.evaluate(tmp_path / "text.hdf5")


def test_zero_vectors_of_an_angular_file_are_left_out(hdf5_file):
    path = hdf5_file("angular", "cosine")
    with h5py.File(path, "a") as file:
        found = file["neighbors"][:, :10]
        unneeded = np.setdiff1d(np.arange(2000), found)[:20]
        train, test = file["train"][:], file["test"][:]
        train[unneeded] = 0
        test[5] = 0
        file["train"][:], file["test"][:] = train, test
    report = jasper.evaluate(path, beam_widths=[200], device="cpu")
    assert (report.skipped_vectors, report.skipped_queries) == (20, 1) and len(report.index) == 1980
    assert report.curve[0].recall > 0.98


def test_a_column_whose_first_row_is_null_is_refused_by_name(tmp_path):
    lists = pa.array([None, [1.0, 2.0]], pa.list_(pa.float32()))
    pq.write_table(pa.table({"v": lists}), tmp_path / "v.parquet")
    for source in (lists, pa.table({"v": lists}), tmp_path / "v.parquet"):
        with pytest.raises(jasper.ParameterError, match="row 0 is null"):
            jasper.column(source, "v")
    with pytest.raises(jasper.ParameterError, match="row 0 is null"):
        jasper.Index.build(lists)


def test_columns_of_files_may_be_queries(tmp_path):
    matrix = rows("float32", 300)
    column = jasper.column(parquet(tmp_path, matrix), "embedding")
    index = jasper.Index.build(column, device="cpu")
    for queries in (column, jasper.column(fixed(matrix))):
        assert (index.search(queries, 1).keys[:, 0] == np.arange(300)).all()
        assert np.array_equal(np.asarray(queries), matrix)


def test_a_column_of_no_files_is_refused():
    with pytest.raises(jasper.ParameterError, match="source is an empty list"):
        jasper.column([], "v")
