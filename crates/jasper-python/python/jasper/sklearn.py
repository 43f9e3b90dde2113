"""A transformer for scikit-learn, in place of its exact `KNeighborsTransformer`. Needs scikit-learn 1.6 or later."""

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from jasper._native import Index
from jasper.graph import with_self, without_self
from jasper.results import Matches

METRICS = {"euclidean": "l2", "sqeuclidean": "l2", "cosine": "cosine"}

EPSILON = 2.0**-24
"""By how much float32 rounds, relatively."""

CHUNK = 1 << 20
"""Coordinates of neighbors that are in memory at a time."""


class JasperTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Transforms vectors into a sparse matrix of distances to their nearest neighbors among the vectors of `fit`.

    Estimators take the matrix with metric="precomputed": Isomap, TSNE, DBSCAN, SpectralClustering, and
    scanpy.pp.neighbors takes the transformer itself. As in KNeighborsTransformer, rows have n_neighbors + 1 entries with
    mode="distance" and n_neighbors with mode="connectivity", nearest first, because each vector of `fit` is its own
    first neighbor.

    n_neighbors
        Neighbors per vector, without itself.
    mode
        "distance" or "connectivity", a matrix of ones.
    metric
        "euclidean", "sqeuclidean" or "cosine".
    beam_width, max_degree
        See Index.search and Index.build: larger values find more of the true neighbors, and take longer.
    device
        Where the index is built and searched: "cpu", "cuda", "cuda:1" or "auto".
    n_jobs
        Number of threads, one per CPU by default; -1 means as many, and -2 one less.

    Rows of float64 are indexed as float32, after the mean is subtracted unless the metric is "cosine". Distances are then
    computed in float64. If float32 cannot tell neighbors from other rows, there is a warning.

    >>> import numpy as np
    >>> from sklearn.manifold import Isomap
    >>> from sklearn.pipeline import make_pipeline
    >>> from jasper.sklearn import JasperTransformer
    >>> rows = np.random.default_rng(0).random((200, 8))
    >>> pipeline = make_pipeline(JasperTransformer(n_neighbors=10), Isomap(n_neighbors=10, metric="precomputed"))
    >>> pipeline.fit_transform(rows).shape
    (200, 2)
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        mode: Literal["distance", "connectivity"] = "distance",
        metric: Literal["euclidean", "sqeuclidean", "cosine"] = "euclidean",
        beam_width: int | None = None,
        max_degree: int | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.mode = mode
        self.metric = metric
        self.beam_width = beam_width
        self.max_degree = max_degree
        self.device = device
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: None = None) -> "JasperTransformer":
        """Builds the index."""
        self._fit(X)
        return self

    def transform(self, X: Any) -> csr_matrix:
        """The distances of vectors to their neighbors, of shape (rows, rows of fit)."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=precision(X), reset=False)
        return self._matrix(self._search(rows))

    def fit_transform(self, X: Any, y: None = None) -> csr_matrix:
        """Builds the index, and transforms its vectors. Each is its own first neighbor, even among equal ones."""
        rows = self._fit(X)
        found = without_self(self._search(rows))
        return self._matrix(with_self(found, np.zeros(len(rows), found.distances.dtype)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _fit(self, X: Any) -> NDArray[Any]:
        rows: NDArray[Any] = validate_data(self, X, dtype=precision(X))
        for name, allowed in {"mode": ["distance", "connectivity"], "metric": list(METRICS)}.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} ({getattr(self, name)!r}) must be one of {', '.join(allowed)}")
        self._rows = rows if rows.dtype == np.float64 else None
        self._center, self._scale = np.zeros(rows.shape[1]), 1.0
        if self._rows is not None and self.metric != "cosine":
            self._center = rows.mean(axis=0)
            self._scale = float(np.abs(rows - self._center).max()) or 1.0
        self.index_ = Index.build(
            self._stored(rows),
            metric=METRICS[self.metric],  # type: ignore[arg-type]
            max_degree=self.max_degree,
            threads=None if self.n_jobs is None else effective_n_jobs(self.n_jobs),
            device=self.device,
        ).to_device(self.device)
        self.n_samples_fit_ = len(rows)
        self._n_features_out = self.n_samples_fit_
        return rows

    def _width(self) -> int:
        """Entries per row."""
        width = self.n_neighbors + (self.mode == "distance")
        if not 0 < self.n_neighbors <= width <= self.n_samples_fit_:
            raise ValueError(
                f"n_neighbors ({self.n_neighbors}) must be at least 1 and below the number of vectors of fit "
                f"(n_samples={self.n_samples_fit_})"
            )
        return width

    def _stored(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Rows as the index has them. Those of float64 are moved and scaled such that float32 rounds little."""
        if self._rows is None:
            return rows.astype(np.float32, copy=False)
        if self.metric == "cosine":
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        return ((rows - self._center) / self._scale).astype(np.float32)

    def _search(self, rows: NDArray[Any]) -> Matches:
        """The neighbors of rows. If the rows of `fit` are float64, so are the distances."""
        stored = self._stored(rows)
        found = self.index_.search(stored, self._width(), beam_width=self.beam_width)
        if self._rows is None:
            return found
        distances: NDArray[Any] = exact_distances(rows, self._rows, found.keys, METRICS[self.metric])
        self._warn_of_rounding(stored, distances)
        order = np.argsort(distances, axis=1, kind="stable")
        return Matches(np.take_along_axis(found.keys, order, 1), np.take_along_axis(distances, order, 1))

    def _warn_of_rounding(self, stored: NDArray[np.float32], distances: NDArray[np.float64]) -> None:
        """Warns if float32 does not tell neighbors from other rows."""
        farthest = distances.max(axis=1)
        # The distance of two rows on the sphere, for cosine.
        farthest = np.sqrt(2 * farthest) if self.metric == "cosine" else np.sqrt(farthest) / self._scale
        rounding = 2 * EPSILON * np.linalg.norm(stored, axis=1)
        unsure = int(((farthest > 0) & (farthest < 100 * rounding)).sum())
        if unsure:
            warnings.warn(
                f"the neighbors of {unsure} of {len(stored)} rows are so near that float32, in which the index has the "
                "rows, rounds their distances by more than 1%: others may be nearer. Transform groups of rows that are "
                "far apart one by one, or use KNeighborsTransformer",
                stacklevel=4,
            )

    def _matrix(self, found: Matches) -> csr_matrix:
        keys, distances = found
        rows, width = keys.shape
        if self.mode == "connectivity":
            distances = np.ones_like(distances)
        elif self.metric == "euclidean":
            distances = np.sqrt(distances)
        starts = np.arange(0, keys.size + 1, width)
        return csr_matrix((distances.ravel(), keys.ravel(), starts), shape=(rows, self.n_samples_fit_))


def precision(rows: Any) -> Any:
    """The type in which rows are read: float32 if it has all of their values, and else float64."""
    dtype = getattr(rows, "dtype", None)
    is_small = isinstance(dtype, np.dtype) and np.result_type(dtype, np.float32) == np.float32
    return np.float32 if is_small else np.float64


def exact_distances(
    queries: NDArray[Any], rows: NDArray[np.float64], keys: NDArray[np.int64], metric: str
) -> NDArray[np.float64]:
    """The distances of queries to the rows of keys, of which each query has some, computed in float64."""
    distances = np.empty(keys.shape)
    step = max(1, CHUNK // (keys.shape[1] * rows.shape[1]))
    for start in range(0, len(queries), step):
        part = slice(start, start + step)
        near, query = rows[keys[part]], queries[part, None].astype(np.float64, copy=False)
        if metric == "cosine":
            lengths = np.linalg.norm(near, axis=2) * np.linalg.norm(query, axis=2)
            distances[part] = np.clip(1 - np.einsum("qnd,qed->qn", near, query) / lengths, 0, 2)
        else:
            near -= query
            distances[part] = np.einsum("qnd,qnd->qn", near, near)
    return distances
