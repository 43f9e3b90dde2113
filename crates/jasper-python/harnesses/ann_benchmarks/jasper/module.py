"""The algorithm of ann-benchmarks."""

from typing import Any

import jasper
import numpy as np

from ..base.module import BaseANN

METRICS = {"angular": "cosine", "euclidean": "l2", "ip": "ip"}


class Jasper(BaseANN):
    """An index in host memory, or on a GPU where `device` says so."""

    def __init__(self, metric: str, parameters: dict[str, Any]) -> None:
        self._metric = METRICS[metric]
        self._parameters = dict(parameters)
        self._device = self._parameters.pop("device", "cpu")
        self._beam_width = None
        self.name = f"jasper({parameters})"

    def fit(self, X: np.ndarray) -> None:
        # Angular sets of float64 exist; an index has float32.
        X = np.ascontiguousarray(X, dtype=np.float32)
        # Some of them have zero vectors, which have no angle to anything.
        self._index = jasper.Index.build(
            X, metric=self._metric, skip_zero_vectors=True, device=self._device, **self._parameters
        )

    def set_query_arguments(self, beam_width: int) -> None:
        self._beam_width = beam_width
        self.name = f"jasper({self._parameters}, beam_width={beam_width})"

    def query(self, q: np.ndarray, n: int) -> np.ndarray:
        try:
            return present(self._index.search(q, n, beam_width=self._beam_width).keys)
        except jasper.ParameterError:
            if np.any(q):
                raise
            return np.empty(0, np.int64)

    # The runner times `run_batch_query` alone.
    def prepare_batch_query(self, X: np.ndarray, n: int) -> None:
        X = np.ascontiguousarray(X, dtype=np.float32)
        self._searched = np.any(X, axis=1) if self._metric == "cosine" else np.full(len(X), True)
        self._queries = X[self._searched], n

    def run_batch_query(self) -> None:
        queries, n = self._queries
        self._found = self._index.search(queries, n, beam_width=self._beam_width)

    def batch_query(self, X: np.ndarray, n: int) -> None:
        self.prepare_batch_query(X, n)
        self.run_batch_query()

    def get_batch_results(self) -> list[np.ndarray]:
        found = iter(self._found.keys)
        return [present(next(found)) if searched else np.empty(0, np.int64) for searched in self._searched]

    def done(self) -> None:
        del self._index


def present(keys: np.ndarray) -> np.ndarray:
    """The keys without the -1 of neighbors that there are not, which the harness would read as the last vector."""
    return keys[keys >= 0] if keys[-1] < 0 else keys
