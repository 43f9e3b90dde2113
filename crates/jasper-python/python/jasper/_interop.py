"""Arrays of other libraries: PyTorch, CuPy, Arrow, and what exchanges data by DLPack."""

import sys
from contextlib import ExitStack
from typing import Any

import numpy as np

from jasper.data import ArrowColumn
from jasper.errors import ParameterError
from jasper.results import Matches


def library(array: Any) -> str:
    """The name of the package that an array is of."""
    return type(array).__module__.partition(".")[0]


def to_numpy(array: Any, what: str) -> Any:
    """An array of numpy over the memory of an array of another library on the CPU. A column of vectors of Arrow becomes
    an array, or an `ArrowColumn` if it is in several chunks; other Arrow arrays stay as they are."""
    if hasattr(array, "__arrow_c_array__") or hasattr(array, "__arrow_c_stream__"):
        return _from_arrow(array, what)
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ParameterError(f"{what} of {library(array)} cannot be read: {error}") from None


def matches_like(like: Any, found: Matches) -> Matches:
    """Matches with arrays in the library of `like`."""
    return Matches(from_dlpack(like, found.keys), from_dlpack(like, found.distances))


def from_dlpack(like: Any, array: Any) -> Any:
    """An array in the library of `like`, or as it is if that library does not read DLPack."""
    convert = getattr(sys.modules.get(library(like)), "from_dlpack", None)
    return array if convert is None else convert(array)


def current_stream(queries: Any, device: int) -> Any:
    """The stream that the library of the queries uses in this thread; the legacy default stream if it has no other."""
    match library(queries):
        case "torch":
            return sys.modules["torch"].cuda.current_stream(device)
        case "cupy":
            cupy = sys.modules["cupy"]
            with cupy.cuda.Device(device):
                return cupy.cuda.get_current_stream()
    return 0


class _Stream:
    """A CUDA stream of the current device, by the protocol that libraries share."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._pointer


def prepared(queries: Any, dim: int, row_len: int, dtype: str, normalize: bool, stream: int) -> Any:
    """A copy of queries on their device, of shape (n, row_len): of another type, padded with zeros, and at unit length
    if normalize. Made in the order of the stream."""
    with ExitStack() as stack:
        match library(queries):
            case "torch":
                torch = sys.modules["torch"]
                # 0 and 1 are the legacy default stream.
                place = torch.cuda.default_stream(queries.device)
                if stream > 1:
                    place = torch.cuda.ExternalStream(stream, device=queries.device)
                stack.enter_context(torch.cuda.stream(place))
                rows = queries.detach().reshape(-1, dim)
                if normalize:
                    rows = torch.nn.functional.normalize(rows.to(torch.float32), dim=1, eps=0.0)
                out = torch.zeros((len(rows), row_len), dtype=getattr(torch, dtype), device=queries.device)
            case "cupy":
                cupy = sys.modules["cupy"]
                stack.enter_context(queries.device)
                if hasattr(cupy.cuda.Stream, "from_external"):
                    stack.enter_context(cupy.cuda.Stream.from_external(_Stream(stream)))
                else:
                    stack.enter_context(cupy.cuda.ExternalStream(stream, queries.device.id))
                rows = queries.reshape(-1, dim)
                if normalize:
                    rows = rows.astype(cupy.float32)
                    rows = rows / cupy.linalg.norm(rows, axis=1, keepdims=True)
                out = cupy.zeros((len(rows), row_len), dtype)
            case other:
                raise ParameterError(
                    f"queries of {other} must be contiguous, {dtype}, and in rows of {row_len} numbers for this index; "
                    "give them as a tensor of torch or an array of cupy, or in host memory"
                )
        out[:, :dim] = rows
        return out


def _from_arrow(array: Any, what: str) -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        if hasattr(array, "__array__"):
            return array
        raise ParameterError(f"{what} are of Arrow; install pyarrow to read them") from None
    column = array if isinstance(array, (pa.Array, pa.ChunkedArray)) else _import(pa, array)
    if column is None:
        return array
    try:
        rows = ArrowColumn(column, len(column))
    except ParameterError:
        return array
    in_one_piece = isinstance(column, pa.Array) or column.num_chunks == 1
    return rows[:] if in_one_piece else rows


def _import(pa: Any, array: Any) -> Any:
    """The column of an object with the PyCapsule interface of Arrow; none if it is a table."""
    if hasattr(array, "__arrow_c_array__"):
        return pa.array(array)
    try:
        return pa.chunked_array(array)
    except (pa.ArrowException, TypeError, ValueError):
        return None
