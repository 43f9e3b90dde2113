"""Nearest neighbors of every vector of a set within the set."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jasper._interop import to_numpy
from jasper._native import Index
from jasper._typing import Devices, Metric, Progress
from jasper.errors import ParameterError
from jasper.results import Matches


def knn_graph(
    vectors: ArrayLike,
    k: int = 15,
    *,
    metric: Metric = "l2",
    include_self: bool = False,
    beam_width: int | None = None,
    max_degree: int | None = None,
    build_beam_width: int | None = None,
    threads: int | None = None,
    device: Devices = "auto",
    progress: Progress | bool | None = None,
) -> Matches:
    """Finds the k nearest neighbors of every vector among the others.

    vectors has shape (n, dim) and type float32, float16, uint8 or int8, with n above k. Returns Matches of shape (n, k)
    whose keys are row numbers. With include_self, each vector comes before its neighbors, and the shape is (n, k + 1).
    Distances are those of the metric: for "l2", they are squared.

    A wider beam_width finds more of the true neighbors, and takes longer; build_beam_width does so in the build. By
    default it is the largest of 64, 2 k and max_degree for k below 64, and else that of Index.build. device is where the
    index is built and searched. Raises ParameterError, Cancelled and the other errors of Index.build.

    >>> import jasper, numpy as np
    >>> jasper.knn_graph(np.array([[0.0], [1.0], [3.0], [7.0]], dtype=np.float32), k=1).keys[:, 0]
    array([1, 0, 1, 2])
    """
    if not hasattr(vectors, "dtype"):
        vectors = np.asarray(vectors, np.float32)
    if build_beam_width is None and k < 64:
        build_beam_width = max(64, 2 * k, max_degree or 0)
    shape = np.shape(vectors)
    if shape and not 0 < k < shape[0]:
        raise ParameterError(f"k ({k}) must be between 1 and the number of other vectors ({shape[0] - 1})")
    index = Index.build(
        vectors,
        metric=metric,
        max_degree=max_degree,
        build_beam_width=build_beam_width,
        threads=threads,
        device=device,
        progress=progress,
    ).to_device(device)
    found = without_self(index.search(vectors, k + 1, beam_width=beam_width))
    if not include_self:
        return found
    distances = np.zeros(len(found.keys), np.float32)
    if metric == "ip":
        rows = np.asarray(to_numpy(vectors, "vectors"), np.float32)
        distances -= np.einsum("ij,ij->i", rows, rows)
    return with_self(found, distances)


def without_self(found: Matches) -> Matches:
    """Removes from each row the key that is the number of the row, or else the last one."""
    own = found.keys == np.arange(len(found.keys))[:, None]
    own[~own.any(axis=1), -1] = True
    shape = (found.keys.shape[0], found.keys.shape[1] - 1)
    return Matches(found.keys[~own].reshape(shape), found.distances[~own].reshape(shape))


def with_self(found: Matches, distances: NDArray[np.float32]) -> Matches:
    """Puts the number of the row before each row, at the distance given."""
    keys = np.arange(len(found.keys))[:, None]
    return Matches(np.hstack([keys, found.keys]), np.hstack([distances[:, None], found.distances]))
