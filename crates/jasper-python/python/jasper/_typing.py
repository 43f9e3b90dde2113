"""Types of arguments."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jasper._native import Filter

Path: TypeAlias = str | PathLike[str]
GraphFormat: TypeAlias = Literal["diskann", "hnswlib", "faiss", "parlayann"]
Metric: TypeAlias = Literal["l2", "ip", "cosine"]
Devices: TypeAlias = str | Sequence[str]
VectorStorage: TypeAlias = Literal["device", "host"]
Distances: TypeAlias = Literal["auto", "exact", "quantized"]
Progress: TypeAlias = Callable[[str, int, int], bool | None]
Out: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float32]]


class Sliceable(Protocol):
    """Vectors that are read chunk by chunk, such as an HDF5 data set."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    def __getitem__(self, rows: slice, /) -> ArrayLike: ...


class Readable(Protocol):
    """A file that is open for reading bytes."""

    def read(self) -> bytes: ...


class Writable(Protocol):
    """A file that is open for writing bytes."""

    def write(self, data: bytes, /) -> object: ...


class DLPackArray(Protocol):
    """An array of a library that exchanges data by DLPack, in host memory or on a device."""

    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, int]: ...


class CudaArray(Protocol):
    """An array on a device, of a library with the CUDA array interface."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


class ArrowArray(Protocol):
    """A column of Arrow."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> Any: ...


class ArrowStream(Protocol):
    """A column of Arrow in several chunks."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...


class TorchStream(Protocol):
    """A stream of PyTorch."""

    @property
    def cuda_stream(self) -> int: ...


class CupyStream(Protocol):
    """A stream of CuPy."""

    @property
    def ptr(self) -> int: ...


class CudaStream(Protocol):
    """A stream of cuda.core and others."""

    def __cuda_stream__(self) -> tuple[int, int]: ...


class Frame(Protocol):
    """A data frame of pandas or polars, or a table of Arrow."""

    @property
    def columns(self) -> Any: ...


Queries: TypeAlias = ArrayLike | DLPackArray | CudaArray | ArrowArray | ArrowStream
Vectors: TypeAlias = Queries | Sliceable
Stream: TypeAlias = int | TorchStream | CupyStream | CudaStream
FilterLike: TypeAlias = Filter | ArrayLike | str | Mapping[str, Any] | Sequence[Filter | ArrayLike | str | Mapping[str, Any]]
Attributes: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | Frame
