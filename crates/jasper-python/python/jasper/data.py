"""Vectors in files of other programs: columns of Arrow, Parquet and Hugging Face data sets, and HDF5 benchmark files.

`column` needs pyarrow, and `evaluate` needs h5py.
"""

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from jasper._native import Index, recall
from jasper._typing import Devices, Metric, Path, Progress, Sliceable
from jasper.errors import FormatError, ParameterError
from jasper.results import Matches, Report

METRICS: dict[str, Metric] = {"euclidean": "l2", "angular": "cosine", "ip": "ip", "dot": "ip"}

BATCH_ROWS = 1024
"""Rows of a Parquet file that are decoded at a time."""


def column(source: Any, name: str | None = None) -> Sliceable:
    """The vectors of a column, for Index.build, Index.insert and others that read vectors chunk by chunk.

    source is the path of a Parquet file or a list of paths, read in this order; a data set of the package `datasets`;
    or a table, chunked array or array of pyarrow. name is the name of the column, which arrays do not have. Its type is
    FixedSizeList, or List if all lists have the same length, of float32, float16, float64, uint8 or int8; a build
    converts float64 with dtype="float32".

    Slices are read when they are used: Parquet files a batch of rows at a time, which is fast in the order of the file.
    A slice of a FixedSizeList in memory, or in a mapped file, is not copied.

    Raises ParameterError if there is no such column, or its type is another one. So does a slice if a vector is null or
    has another length.

    >>> import jasper, numpy as np, pyarrow as pa
    >>> rows = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(8, dtype=np.float32)), 2)
    >>> vectors = jasper.column(pa.table({"id": [7, 8, 9, 10], "embedding": rows}), "embedding")
    >>> vectors.shape
    (4, 2)
    >>> jasper.Index.build(vectors, keys=[7, 8, 9, 10]).search([4.0, 5.0], k=1).keys
    array([9])
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(source, (str, os.PathLike)):
        source = [source]
    if isinstance(source, (list, tuple)) and not source:
        raise ParameterError("source is an empty list; give at least one path")
    if isinstance(source, (pa.Array, pa.ChunkedArray)):
        return ArrowColumn(source, len(source))
    if name is None:
        raise ParameterError("name must be the name of a column")
    if isinstance(source, (list, tuple)):
        files = [pq.ParquetFile(path, memory_map=True) for path in source]
        for file in files:
            find(name, file.schema_arrow.names)
        return ParquetColumn(files, name)
    if isinstance(source, pa.Table):
        return ArrowColumn(source.column(find(name, source.column_names)), len(source))
    if hasattr(source, "with_format") and hasattr(source, "column_names"):
        return DatasetColumn(source, find(name, source.column_names))
    raise ParameterError(
        f"source ({type(source).__name__}) must be a path, a list of paths, a table or array of pyarrow, or a data set "
        "of the package datasets"
    )


def find(name: str, names: Sequence[str]) -> str:
    """The name, if it is among the names of the columns."""
    if name not in names:
        raise ParameterError(f"name ({name!r}) must be one of the columns {', '.join(names)}")
    return name


def storage_of(kind: Any) -> Any:
    """The type of Arrow in which values of a type are stored."""
    import pyarrow as pa

    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def is_vectors(kind: Any) -> bool:
    """Whether values of a type of Arrow are lists of numbers."""
    from pyarrow import types

    storage = storage_of(kind)
    listed = types.is_fixed_size_list(storage) or types.is_list(storage) or types.is_large_list(storage)
    return bool(listed and (types.is_floating(storage.value_type) or types.is_integer(storage.value_type)))


class Column:
    """Vectors in Arrow arrays. Subclasses read slices of them."""

    def __init__(self, rows: int, first: Any) -> None:
        """`first` has the first row."""
        import pyarrow as pa

        if not is_vectors(first.type):
            raise ParameterError(f"a column of vectors must have lists of numbers, and has the type {first.type}")
        storage = storage_of(first.type)
        if pa.types.is_fixed_size_list(storage):
            width = storage.list_size
        elif rows > 0 and not first[0].is_valid:
            raise ParameterError("the vector of row 0 is null; fill it, or leave it out")
        else:
            width = len(first[0]) if rows > 0 else 0
        self.shape: tuple[int, int] = rows, width
        self.dtype: np.dtype[Any] = np.dtype(storage.value_type.to_pandas_dtype())

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, step = rows.indices(self.shape[0])
        parts = [self.matrix(array, start) for array in self.arrays(start, max(start, stop))]
        joined = parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, self.shape[1]), self.dtype), *parts])
        return joined[::step]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or self.dtype, copy=False)

    def arrays(self, start: int, stop: int) -> Iterator[Any]:
        """The rows from `start` to `stop`."""
        raise NotImplementedError

    def matrix(self, array: Any, start: int) -> NDArray[Any]:
        """The vectors of an Arrow array of lists."""
        import pyarrow as pa
        import pyarrow.compute as pc

        array = array.storage if isinstance(array, pa.ExtensionArray) else array
        width = self.shape[1]
        if not pa.types.is_fixed_size_list(array.type):
            lengths = pc.list_value_length(array).fill_null(width)
            wrong = np.flatnonzero(lengths.to_numpy(zero_copy_only=False) != width)
            if wrong.size:
                raise ParameterError(
                    f"the vector of row {start} or later has {lengths[int(wrong[0])]} coordinates, and the first one "
                    f"has {width}"
                )
        values = array.flatten()
        if array.null_count or values.null_count:
            raise ParameterError(f"a vector of row {start} or later is null, or one of its coordinates is")
        matrix: NDArray[Any] = values.to_numpy().reshape(-1, width)
        return matrix


class ArrowColumn(Column):
    """A column in memory."""

    def __init__(self, column: Any, rows: int) -> None:
        super().__init__(rows, column[:1].combine_chunks() if hasattr(column, "chunks") else column[:1])
        self._column = column

    def arrays(self, start: int, stop: int) -> Iterator[Any]:
        part = self._column[start:stop]
        yield from getattr(part, "chunks", [part])


class DatasetColumn(Column):
    """A column of a data set of the package `datasets`, with its selection and order of rows."""

    def __init__(self, dataset: Any, name: str) -> None:
        self._dataset, self._name = dataset.with_format("arrow"), name
        super().__init__(len(dataset), self._read(0, 1).combine_chunks())

    def arrays(self, start: int, stop: int) -> Iterator[Any]:
        yield from self._read(start, stop).chunks

    def _read(self, start: int, stop: int) -> Any:
        return self._dataset[start:stop].column(self._name)


class ParquetColumn(Column):
    """A column of Parquet files. Rows that follow the last slice come from the batches that are being read."""

    def __init__(self, files: list[Any], name: str) -> None:
        self._files, self._name = files, name
        self._position, self._batches = 0, self._from(0)
        self._rest: Any = next(self._batches)
        super().__init__(sum(file.metadata.num_rows for file in files), self._rest[:1])

    def arrays(self, start: int, stop: int) -> Iterator[Any]:
        if start != self._position:
            self._batches = self._from(start)
            self._rest = self._rest[:0]
        self._position = stop
        while start < stop:
            if not len(self._rest):
                self._rest = next(self._batches)
            part = self._rest[: stop - start]
            self._rest = self._rest[len(part) :]
            start += len(part)
            yield part

    def _from(self, start: int) -> Iterator[Any]:
        """The rows from `start` on, in batches. Groups of rows before it are not read."""
        for file in self._files:
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if start < rows:
                    for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=[self._name]):
                        array = batch.column(self._name)
                        yield array[min(start, len(array)) :]
                        start = max(0, start - len(array))
                else:
                    start -= rows
        # An empty file has a type.
        yield self._files[0].schema_arrow.empty_table().column(self._name).combine_chunks()


def evaluate(
    path: Path,
    k: int = 10,
    *,
    beam_widths: Sequence[int] = (10, 16, 24, 32, 48, 64, 96, 128, 192, 256),
    dtype: DTypeLike | None = None,
    max_degree: int | None = None,
    build_beam_width: int | None = None,
    quantization: str | None = None,
    threads: int | None = None,
    device: Devices = "auto",
    runs: int = 3,
    progress: Progress | None = None,
) -> Report:
    """Builds an index of a file of ann-benchmarks, and measures recall and speed of its searches.

    The HDF5 file has the attribute distance ("euclidean", "angular" or "ip") and the arrays train, test, neighbors and
    distances. The vectors of train are read chunk by chunk. The index is built and searched on device.

    Zero vectors and queries of an angular file, which some have, have no distance and are left out.

    Returns a report with index, the Index; metric; build_seconds; skipped_vectors and skipped_queries, the numbers of
    those left out; and curve, a report per beam width in ascending
    order, each with beam_width, recall, the mean recall of the first k neighbors, and queries_per_second of searches of
    all queries in one call, the best of runs.

    Raises FormatError if the file lacks one of these, ParameterError, and the errors of Index.build.

    >>> import h5py, jasper, numpy as np, os, tempfile
    >>> train = np.random.default_rng(0).random((500, 8), dtype=np.float32)
    >>> truth = jasper.exact_search(train, train[:20], 100)
    >>> path = os.path.join(tempfile.mkdtemp(), "small.hdf5")
    >>> with h5py.File(path, "w") as file:
    ...     file.attrs["distance"] = "euclidean"
    ...     file["train"], file["test"] = train, train[:20]
    ...     file["neighbors"], file["distances"] = truth.keys, np.sqrt(truth.distances)
    >>> [point] = jasper.evaluate(path, beam_widths=[64]).curve
    >>> point.recall
    1.0
    """
    import h5py

    if runs < 1:
        raise ParameterError(f"runs ({runs}) must be at least 1")
    with h5py.File(path) as file:
        missing = {"train", "test", "neighbors", "distances"} - set(file)
        if missing:
            raise FormatError(f"{path} is not a file of ann-benchmarks: it has no {', '.join(sorted(missing))}")
        if file.attrs.get("type", "dense") != "dense":
            raise FormatError(f"{path} has vectors of the type {file.attrs['type']!r}, which must be 'dense'")
        distance = file.attrs.get("distance")
        if distance not in METRICS:
            raise FormatError(f"{path} has the distance {distance!r}, which must be one of {', '.join(METRICS)}")
        metric = METRICS[distance]
        width = file["neighbors"].shape[1]
        if not 0 < k <= width:
            raise ParameterError(f"k ({k}) must be between 1 and the number of true neighbors in the file ({width})")
        start = time.perf_counter()
        index = Index.build(
            file["train"],
            metric=metric,
            dtype=dtype or ("float32" if file["train"].dtype == np.float64 else None),
            max_degree=max_degree,
            build_beam_width=build_beam_width,
            skip_zero_vectors=True,
            quantization=quantization,
            threads=threads,
            device=device,
            progress=progress,
        )
        build_seconds = time.perf_counter() - start
        skipped = len(file["train"]) - len(index)
        queries = file["test"][:]
        searched = np.any(queries, axis=1) if metric == "cosine" else np.full(len(queries), True)
        queries = queries[searched]
        # The distances only say which neighbors tie.
        truth = Matches(file["neighbors"][:][searched], file["distances"][:][searched])
    if device == "auto":  # a build leaves its index on any other device
        index.to_device(device)
    curve = [measure(index, queries, k, beam_width, truth, runs) for beam_width in sorted(beam_widths)]
    skips = {"skipped_vectors": skipped, "skipped_queries": int((~searched).sum())}
    return Report({"index": index, "metric": metric, "build_seconds": build_seconds, **skips, "curve": curve})


def measure(index: Index, queries: NDArray[Any], k: int, beam_width: int, truth: Matches, runs: int) -> Report:
    """A point of the curve."""
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        found = index.search(queries, k, beam_width=beam_width)
        seconds.append(time.perf_counter() - start)
    fields = {"beam_width": beam_width, "recall": recall(found, truth, k)}
    return Report({**fields, "queries_per_second": len(queries) / min(seconds)})
