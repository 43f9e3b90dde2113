"""UMAP over the neighbors of `knn_graph`."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.manifold import trustworthiness

import jasper

umap = pytest.importorskip("umap", reason="umap-learn is in requirements-frameworks.txt")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_embeddings_are_as_good_as_with_its_own_neighbors(metric):
    images = load_digits().data.astype(np.float32)
    knn = jasper.knn_graph(images, k=14, metric=metric, include_self=True)
    distances = np.sqrt(knn.distances) if metric == "l2" else knn.distances
    name = "euclidean" if metric == "l2" else metric
    ours, theirs = (
        umap.UMAP(n_neighbors=15, metric=name, random_state=0, n_jobs=1, **options).fit_transform(images)
        for options in ({"precomputed_knn": (knn.keys, distances)}, {})
    )
    ours, theirs = (trustworthiness(images, embedding, n_neighbors=15, metric=name) for embedding in (ours, theirs))
    assert theirs > 0.95
    assert ours > theirs - 0.005, f"{ours} against {theirs}"
