"""Arrays of other libraries: PyTorch, CuPy, Arrow, JAX, and what exchanges data by DLPack."""

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import date, datetime, timedelta, timezone
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from jasper.data import ArrowColumn, is_vectors
from jasper.errors import ParameterError
from jasper.results import Matches

ROWS = 1 << 14
"""Vectors that are read at a time to choose their type."""


def library(array: Any) -> str:
    """The name of the package that an array is of."""
    return type(array).__module__.partition(".")[0]


def to_numpy(array: Any, what: str) -> Any:
    """An array of numpy over the memory of an array of another library on the CPU. A column of vectors of Arrow becomes
    an array, or an `ArrowColumn` if it is in several chunks; vectors of bfloat16 become `BFloat16`; other objects stay as
    they are."""
    if isinstance(array, np.ma.MaskedArray):
        if np.ma.is_masked(array):
            remove = f"{what}.compressed()" if array.ndim == 1 else f"numpy.ma.compress_rows({what})"
            raise ParameterError(f"{what} have masked values; fill them with {what}.filled(0), or remove them with {remove}")
        array = array.data
    elif isinstance(array, np.ndarray):
        array = np.asarray(array)
    elif hasattr(array, "__arrow_c_array__") or hasattr(array, "__arrow_c_stream__"):
        return _from_arrow(array, what)
    elif hasattr(array, "__dlpack__"):
        array = _from_dlpack(array, what)
    elif method := next((name for name in ("toarray", "todense") if hasattr(array, name)), None):
        raise ParameterError(f"{what} are a sparse matrix, and vectors are dense; give {what}.{method}()")
    return BFloat16(array) if getattr(getattr(array, "dtype", None), "name", None) == "bfloat16" else array


def converted(array: Any, dtype: str, what: str) -> Any:
    """A contiguous copy of numbers as another type. Raises ParameterError if there are other things, or numbers that the
    type has not."""
    try:
        if array.dtype.kind not in "biufOV" or array.dtype.names:
            raise TypeError("this type has none")
        # numpy makes numbers of these.
        if array.dtype.kind == "O" and any(one is None or isinstance(one, (str, bytes)) for one in array.flat):
            raise TypeError("some are text or None")
        with np.errstate(all="ignore"):
            made = array.astype(dtype, order="C")
            wide = array.astype(np.float64) if made.dtype.kind == "f" and np.isinf(made).any() else None
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{what} are {array.dtype}, and must be numbers to become {dtype}: {error}") from None
    if made.dtype.kind != "f" and (made != array).any():
        raise ParameterError(f"{what} must be whole numbers that fit {dtype}")
    if wide is not None and (beyond := wide[np.isinf(made) & np.isfinite(wide)]).size:
        other = ", or use an index of float32" if dtype == "float16" else ""
        largest = np.finfo(dtype).max
        raise ParameterError(f"{what} have the value {beyond[0]:g}, and {dtype} ends at {largest:g}; scale them down{other}")
    return made


def selection(given: Any) -> NDArray[Any]:
    """What selects keys, as an array: of bools, of which a data frame may have one column, or of keys."""
    array = np.asarray(to_numpy(given, "filter"))
    if array.dtype == object and array.size and all(isinstance(one, (bool, np.bool_)) for one in array.flat):
        array = array.astype(bool)
    return array.ravel() if array.dtype == bool and array.ndim == 2 and array.shape[1] == 1 else array


class BFloat16:
    """Vectors of bfloat16, which numpy has not: as float32, where they are read."""

    def __init__(self, rows: Any) -> None:
        """`rows` has the vectors, or their bits as uint16, and may be what is read slice by slice."""
        self._rows = rows
        self.shape: tuple[int, ...] = tuple(rows.shape)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type to store them as: float16 if it rounds no coordinate by more than bfloat16 has rounded the largest of
        its vector, or else float32."""
        for start in range(0, self.shape[0], ROWS):
            # The order of magnitudes is that of their bits.
            largest = (self._bits(slice(start, start + ROWS)) & 0x7FFF).max(axis=-1, initial=0)
            # float16 ends at 65504, and rounds by 2**-25 near 0, as bfloat16 does at 2**-16.
            if ((largest > bits_of(65504)) | (largest > 0) & (largest < bits_of(2.0**-16))).any():
                return np.dtype(np.float32)
        return np.dtype(np.float16)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        return (self._bits(rows).astype(np.uint32) << 16).view(np.float32)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return self[...].astype(dtype or np.float32, copy=False)

    def _bits(self, rows: Any) -> NDArray[np.uint16]:
        return np.ascontiguousarray(self._rows[rows]).view(np.uint16)


def bits_of(number: float) -> int:
    """The bits of the bfloat16 at or below a positive number."""
    return int(np.float32(number).view(np.uint32)) >> 16


def _from_dlpack(array: Any, what: str) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and getattr(array, "dtype", None) is torch.bfloat16:
        return BFloat16(_from_dlpack(array.view(torch.int16), what))
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError) as error:
        try:
            # Types that DLPack or numpy's reader of it has not.
            return np.asarray(array.__array__())
        except (AttributeError, RuntimeError, TypeError):
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
    if not is_vectors(column.type):
        return array
    rows = ArrowColumn(column, len(column))
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


def columns(given: Any) -> list[tuple[str, list[Any], bool]]:
    """The columns of attributes, by name, each with its values and whether they are times: of a dictionary, a data frame, a
    table of Arrow, or a list of dictionaries."""
    if isinstance(given, (list, tuple)) and all(isinstance(row, Mapping) for row in given):
        given = {name: [row.get(name) for row in given] for name in dict.fromkeys(name for row in given for name in row)}
    elif hasattr(given, "to_pydict"):
        given = given.to_pydict()
    elif hasattr(given, "get_columns"):
        given = given.to_dict(as_series=False)
    elif hasattr(given, "columns") and hasattr(given, "to_dict"):
        given = {name: given[name] for name in given.columns}
    if not isinstance(given, Mapping):
        raise ParameterError("attributes must be a dictionary of columns, a data frame, or a list of dictionaries")
    return [(str(name), *_values(name, column)) for name, column in given.items()]


def _values(name: Any, column: Any) -> tuple[list[Any], bool]:
    """The values of a column as Python has them, and whether they are times."""
    if isinstance(column, (str, bytes)) or not hasattr(column, "__iter__"):
        raise ParameterError(f"column {name!r} must be a list or array of values, one per vector")
    if getattr(getattr(column, "dtype", None), "kind", "") == "M":
        # Of numpy or pandas, with or without a time zone.
        return [_value(time) for time in np.asarray(column, "datetime64[us]")], True
    method = next((name for name in ("to_pylist", "to_list", "tolist") if hasattr(column, name)), None)
    values = [_value(value) for value in (column if method is None else getattr(column, method)())]
    return values, any(isinstance(value, date) for value in values)


def _value(value: Any) -> Any:
    """A value as Python has it. None stands for what is missing: NaT of numpy and pandas, and NA of pandas."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    elif isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, (set, frozenset, tuple)):
        value = list(value)
    elif hasattr(value, "tolist"):
        value = value.tolist()
    return None if type(value).__name__ in ("NaTType", "NAType") else value


def time(micros: int) -> datetime:
    """A time from microseconds since 1970."""
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)


def plain(value: Any) -> Any:
    """A part of an expression in the types of JSON, with times as text."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    value = _value(value)
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, date):
        return value.isoformat()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ParameterError(f"a filter has the value {value!r}, and no column stores a {type(value).__name__}")
