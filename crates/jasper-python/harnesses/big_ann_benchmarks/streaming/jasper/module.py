"""The algorithm of big-ann-benchmarks for the track "streaming"."""

import jasper
import numpy as np
from neurips23.ood.jasper.module import Searcher
from neurips23.streaming.base import BaseStreamingANN


class Jasper(Searcher, BaseStreamingANN):
    """Inserts, deletes and replaces vectors between searches, as a runbook says."""

    # Deleted vectors stay in the graph until it is consolidated, which pays off when they are a tenth of it.
    CONSOLIDATE = 0.1

    def setup(self, dtype: str, max_pts: int, ndims: int) -> None:
        self.index = jasper.Index(ndims, metric=self.metric, dtype=dtype, **self.parameters).to_device(self.device)
        self.deleted = 0

    def insert(self, X: np.ndarray, ids: np.ndarray) -> None:
        self.index.insert(X, ids)

    def delete(self, ids: np.ndarray) -> None:
        self.deleted += self.index.delete(ids)
        self.consolidate()

    def replace(self, X: np.ndarray, ids: np.ndarray) -> None:
        self.index.upsert(X, ids)
        self.deleted += len(ids)
        self.consolidate()

    def consolidate(self) -> None:
        if self.deleted > self.CONSOLIDATE * len(self.index):
            self.index.consolidate()
            self.deleted = 0
