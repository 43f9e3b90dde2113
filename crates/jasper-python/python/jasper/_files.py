"""Files that callers have opened."""

import io
from typing import Any


def write_all(file: Any, data: bytes) -> None:
    """Writes all of the data, for which raw files and sockets need several calls. An object whose `write` does not say
    how many bytes it has taken has taken all."""
    rest: Any = data
    while len(rest):
        taken = file.write(rest)
        if taken is None and isinstance(file, io.RawIOBase):
            taken = 0  # A file that does not block takes none now.
        if not isinstance(taken, int) or isinstance(taken, bool):
            return
        if not 0 < taken <= len(rest):
            done = len(data) - len(rest)
            raise OSError(f"the file took {done} of {len(data)} bytes, and then {taken}; give one that takes all of them")
        rest = memoryview(rest)[taken:]
