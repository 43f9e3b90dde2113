"""The algorithm of big-ann-benchmarks for the track "ood", and what those of other tracks share with it."""

import os
from typing import Any

import jasper
import numpy as np
from benchmark.algorithms.base import BaseANN
from benchmark.datasets import DATASETS
from neurips23.ood.base import BaseOODANN

METRICS = {"euclidean": "l2", "ip": "ip", "angular": "cosine"}


class Searcher(BaseANN):
    """Searches the index `self.index`. Subclasses make it."""

    def __init__(self, metric: str, parameters: dict[str, Any]) -> None:
        self.metric = METRICS[metric]
        self.parameters = dict(parameters)
        self.device = self.parameters.pop("device", "cpu")
        self.arguments: dict[str, Any] = {}
        self.name = "jasper"

    def set_query_arguments(self, arguments: dict[str, Any]) -> None:
        """Keyword arguments of `jasper.Index.search`."""
        self.arguments = arguments

    def query(self, X: np.ndarray, k: int) -> None:
        self.res = self.index.search(X, k, **self.arguments).keys

    def range_query(self, X: np.ndarray, radius: float) -> None:
        found = [self.index.search_within(row, radius, **self.arguments) for row in X]
        ends = np.cumsum([len(one.keys) for one in found])
        keys, distances = (np.concatenate(parts) for parts in zip(*found))
        self.res = np.append(0, ends), distances, keys

    def __str__(self) -> str:
        return f"jasper({self.parameters}, {self.arguments})"


class FileSearcher(Searcher):
    """Builds an index of a data set and keeps it in a file."""

    def fit(self, dataset: str) -> None:
        data = DATASETS[dataset]()
        self.index = jasper.Index.build(
            Rows(data), metric=self.metric, skip_zero_vectors=True, device=self.device, **self.parameters
        )
        os.makedirs(os.path.dirname(self.path(data)), exist_ok=True)
        self.index.save(self.path(data))

    def load_index(self, dataset: str) -> bool:
        path = self.path(DATASETS[dataset]())
        if not os.path.exists(path):
            return False
        self.index = jasper.Index.open(path, device=self.device)
        return True

    def path(self, data: Any) -> str:
        parameters = "_".join(f"{name}={value}" for name, value in sorted(self.parameters.items()))
        return os.path.join("data", "indices", self.track(), "jasper", data.short_name(), f"{parameters}.jasper")

    def index_files_to_store(self, dataset: str) -> list[Any]:
        folder, name = os.path.split(self.path(DATASETS[dataset]()))
        return [folder, name, [""]]


class Rows:
    """The vectors of a data set, read in slices."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.shape = data.nb, data.d
        self.dtype = np.dtype(data.dtype)

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(self.shape[0])
        return self.data.get_data_in_range(start, stop)


class Jasper(FileSearcher, BaseOODANN):
    """The track "ood": queries of another distribution than the vectors, by inner product."""
