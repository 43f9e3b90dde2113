"""A transformer for scikit-learn, in place of its exact `KNeighborsTransformer`. Needs scikit-learn 1.6 or later."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from jasper._native import Index
from jasper.graph import with_self, without_self
from jasper.results import Matches

METRICS = {"euclidean": "l2", "sqeuclidean": "l2", "cosine": "cosine"}


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
        Number of threads; one per CPU by default.

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
        rows = validate_data(self, X, dtype=np.float32, reset=False)
        return self._matrix(self.index_.search(rows, self._width(), beam_width=self.beam_width))

    def fit_transform(self, X: Any, y: None = None) -> csr_matrix:
        """Builds the index, and transforms its vectors. Each is its own first neighbor, even among equal ones."""
        rows = self._fit(X)
        found = without_self(self.index_.search(rows, self._width(), beam_width=self.beam_width))
        return self._matrix(with_self(found, np.zeros(len(rows), np.float32)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _fit(self, X: Any) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = validate_data(self, X, dtype=np.float32)
        for name, allowed in {"mode": ["distance", "connectivity"], "metric": list(METRICS)}.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} ({getattr(self, name)!r}) must be one of {', '.join(allowed)}")
        self.index_ = Index.build(
            rows,
            metric=METRICS[self.metric],  # type: ignore[arg-type]
            max_degree=self.max_degree,
            threads=self.n_jobs if self.n_jobs != -1 else None,
            device=self.device,
        ).to(self.device)
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

    def _matrix(self, found: Matches) -> csr_matrix:
        keys, distances = found
        rows, width = keys.shape
        if self.mode == "connectivity":
            distances = np.ones_like(distances)
        elif self.metric == "euclidean":
            distances = np.sqrt(distances)
        starts = np.arange(0, keys.size + 1, width)
        return csr_matrix((distances.ravel(), keys.ravel(), starts), shape=(rows, self.n_samples_fit_))
