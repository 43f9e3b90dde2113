"""The algorithm of big-ann-benchmarks for the track "filter"."""

from typing import Any

import jasper
import numpy as np
from benchmark.datasets import DATASETS
from neurips23.filter.base import BaseFilterANN
from neurips23.ood.jasper.module import FileSearcher
from scipy.sparse import csr_matrix


class Jasper(FileSearcher, BaseFilterANN):
    """Each query has tags; its neighbors are vectors that have all of them.

    Queries with the same tags are one search with one filter.
    """

    def fit(self, dataset: str) -> None:
        super().fit(dataset)
        self.read_tags(dataset)

    def load_index(self, dataset: str) -> bool:
        if not super().load_index(dataset):
            return False
        self.read_tags(dataset)
        return True

    def read_tags(self, dataset: str) -> None:
        data = DATASETS[dataset]()
        if data.search_type() == "knn_filtered":
            # One sorted row of keys per tag.
            self.keys = data.get_dataset_metadata().T.tocsr()
            self.keys.sort_indices()

    def filtered_query(self, X: np.ndarray, filter: csr_matrix, k: int) -> None:
        groups: dict[tuple[int, ...], list[int]] = {}
        for query in range(len(X)):
            groups.setdefault(tuple(sorted(row(filter, query))), []).append(query)
        self.res = np.full((len(X), k), -1, np.int64)
        for tags, queries in groups.items():
            self.res[queries] = self.index.search(X[queries], k, filter=self.filter(tags), **self.arguments).keys

    def filter(self, tags: tuple[int, ...]) -> jasper.Filter:
        """The filter of the keys that have all of `tags`, the rarest first."""
        rows = sorted((row(self.keys, tag) for tag in tags), key=len)
        keys = rows[0]
        for others in rows[1:]:
            keys = np.intersect1d(keys, others, assume_unique=True)
        return jasper.Filter.keys(keys)


def row(matrix: csr_matrix, number: int) -> Any:
    """The columns of the entries of a row."""
    if number >= matrix.shape[0]:
        return np.empty(0, matrix.indices.dtype)
    return matrix.indices[matrix.indptr[number] : matrix.indptr[number + 1]]
