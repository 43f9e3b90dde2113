"""Vector indexes for approximate nearest-neighbor search, on CPUs and NVIDIA GPUs.

>>> import jasper, numpy as np
>>> vectors = np.random.default_rng(0).random((2000, 32), dtype=np.float32)
>>> index = jasper.Index.build(vectors)
>>> keys, distances = index.search(vectors[:5], k=10)
>>> keys[:, 0]
array([0, 1, 2, 3, 4])
"""

from jasper import errors
from jasper._native import Filter, Index, __version__, devices, exact_search, recall
from jasper.data import column, evaluate
from jasper.errors import (
    Cancelled,
    DeviceError,
    DuplicateKeyError,
    Error,
    FormatError,
    OutOfMemoryError,
    ParameterError,
    UnknownKeyError,
)
from jasper.graph import knn_graph
from jasper.results import Matches, Report

__all__ = [
    "Cancelled",
    "DeviceError",
    "DuplicateKeyError",
    "Error",
    "Filter",
    "FormatError",
    "Index",
    "Matches",
    "OutOfMemoryError",
    "ParameterError",
    "Report",
    "UnknownKeyError",
    "column",
    "devices",
    "errors",
    "evaluate",
    "exact_search",
    "knn_graph",
    "recall",
]
