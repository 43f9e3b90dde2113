"""The algorithm of VIBE. The benchmark's own `jasper` is that of the paper's authors."""

import jasper
import numpy as np

from ..base.module import BaseANN

# Vectors of the metric "normalized" have unit length.
METRICS = {"cosine": "cosine", "euclidean": "l2", "ip": "ip", "normalized": "cosine"}


class JasperANN(BaseANN):
    """An index in host memory, or on a GPU if `device` is "cuda"."""

    def __init__(self, metric: str, device: str, max_degree: int, build_beam_width: int) -> None:
        self._metric, self._device = METRICS[metric], device
        self._parameters = {"max_degree": max_degree, "build_beam_width": build_beam_width}
        self._beam_width = None

    def fit(self, X: np.ndarray) -> None:
        self._index = jasper.Index.build(
            X, metric=self._metric, skip_zero_vectors=True, device=self._device, **self._parameters
        )

    def set_query_arguments(self, beam_width: int) -> None:
        self._beam_width = beam_width

    def query(self, v: np.ndarray, n: int) -> np.ndarray:
        return present(self._index.search(v, n, beam_width=self._beam_width).keys)

    # The runner times this alone.
    def batch_query(self, X: np.ndarray, n: int) -> None:
        self.res = self._index.search(X, n, beam_width=self._beam_width).keys

    def get_batch_results(self) -> list[np.ndarray]:
        return [present(keys) for keys in self.res]

    def __str__(self) -> str:
        return f"JasperANN({self._parameters}, beam_width={self._beam_width})"


def present(keys: np.ndarray) -> np.ndarray:
    """The keys without the -1 of neighbors that there are not, which the harness would read as the last vector."""
    return keys[keys >= 0] if keys[-1] < 0 else keys
