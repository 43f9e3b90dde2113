"""Types of arguments."""

from collections.abc import Callable
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jasper._native import Filter

Path: TypeAlias = str | PathLike[str]
Metric: TypeAlias = Literal["l2", "ip", "cosine"]
Distances: TypeAlias = Literal["auto", "exact", "quantized"]
Progress: TypeAlias = Callable[[str, int, int], bool | None]
Out: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float32]]


class Sliceable(Protocol):
    """Vectors that are read piece by piece, such as an HDF5 data set."""

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


Vectors: TypeAlias = ArrayLike | Sliceable
FilterLike: TypeAlias = Filter | ArrayLike
