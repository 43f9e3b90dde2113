"""Arrays of other libraries: PyTorch, CuPy, and what exchanges data by DLPack."""

import sys
from contextlib import ExitStack
from typing import Any

import numpy as np

from jasper.errors import ParameterError
from jasper.results import Matches


def library(array: Any) -> str:
    """The name of the package that an array is of."""
    return type(array).__module__.partition(".")[0]


def to_numpy(array: Any, what: str) -> Any:
    """An array of numpy over the memory of an array of another library on the CPU. Rows of Arrow, which may be in several
    pieces, become an array or `ArrowRows`; what is not rows stays as it is."""
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


class ArrowRows:
    """A column of Arrow in several pieces, whose values are lists of one length, read piece by piece."""

    def __init__(self, column: Any, width: int, what: str) -> None:
        self._column, self._what = column, what
        self.shape = (len(column), width)
        self.dtype = np.dtype(column.type.value_type.to_pandas_dtype())

    def __getitem__(self, rows: slice) -> Any:
        pieces = self._column[rows].chunks
        return np.concatenate([_rows(piece, self.shape[1], self._what) for piece in pieces])


def _from_arrow(array: Any, what: str) -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        if hasattr(array, "__array__"):
            return array
        raise ParameterError(f"{what} are of Arrow; install pyarrow to read them") from None
    column = array if isinstance(array, (pa.Array, pa.ChunkedArray)) else _import(pa, array)
    if column is None or not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
                              or pa.types.is_fixed_size_list(column.type)):
        return array
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    fixed = pa.types.is_fixed_size_list(column.type)
    width = column.type.list_size if fixed else len(column[0] or []) if len(column) else 0
    if column.num_chunks == 1:
        return _rows(column.chunk(0), width, what)
    return ArrowRows(column, width, what)


def _import(pa: Any, array: Any) -> Any:
    """The column of an object with the PyCapsule interface of Arrow; none if it is a table."""
    if hasattr(array, "__arrow_c_array__"):
        return pa.array(array)
    try:
        return pa.chunked_array(array)
    except (pa.ArrowException, TypeError, ValueError):
        return None


def _rows(piece: Any, width: int, what: str) -> Any:
    """An array of shape (n, width) over the values of a piece."""
    values = piece.flatten()
    if piece.null_count or values.null_count:
        raise ParameterError(f"{what} have nulls; drop or fill them")
    if hasattr(piece, "value_lengths") and not all(n == width for n in np.unique(piece.value_lengths())):
        raise ParameterError(f"{what} are lists of different lengths; they must all have {width} values")
    return values.to_numpy(zero_copy_only=True).reshape(-1, width)
