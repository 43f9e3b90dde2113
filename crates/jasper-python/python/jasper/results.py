"""What calls return."""

from types import SimpleNamespace
from typing import Any, NamedTuple

from numpy import float32, int64
from numpy.typing import NDArray


class Matches(NamedTuple):
    """Keys and distances of the nearest vectors, nearest first: of shape (k,) for one query and (n, k) for n.

    Where there are fewer than k, keys are -1 and distances inf. Distances are those of the metric: squared L2, the
    negated inner product, or 1 - cos.
    """

    keys: NDArray[int64]
    distances: NDArray[float32]


class Report(SimpleNamespace):
    """What a call did, as attributes."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(**fields)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the report has no field {name!r}; it has {', '.join(vars(self))}")

    def __reduce__(self) -> tuple[type["Report"], tuple[dict[str, Any]]]:
        return type(self), (vars(self),)
