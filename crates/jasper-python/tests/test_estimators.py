"""`JasperTransformer` in place of `KNeighborsTransformer`, in front of the estimators of scikit-learn."""

import pickle

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import DBSCAN, HDBSCAN
from sklearn.datasets import load_digits
from sklearn.manifold import Isomap, trustworthiness
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer, LocalOutlierFactor
from sklearn.pipeline import make_pipeline

import jasper
from jasper.sklearn import JasperTransformer

# Wide enough to find all true neighbors of the digits.
BEAM = 256


@pytest.fixture(scope="module")
def digits():
    """1,797 images of 64 pixels, and the digit that each shows. Some noise, so that no distances tie."""
    images, labels = load_digits(return_X_y=True)
    noise = np.random.default_rng(0).normal(scale=0.01, size=images.shape)
    return (images + noise).astype(np.float32), labels


def both(estimator, n_neighbors, **options):
    """The same pipeline with either transformer."""
    return [
        make_pipeline(transformer, clone(estimator))
        for transformer in (
            JasperTransformer(n_neighbors=n_neighbors, beam_width=BEAM, **options),
            KNeighborsTransformer(n_neighbors=n_neighbors, **options),
        )
    ]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_graphs_are_equal(digits, metric):
    ours, theirs = (
        transformer.fit_transform(digits[0])
        for transformer in (
            JasperTransformer(n_neighbors=10, metric=metric, beam_width=BEAM),
            KNeighborsTransformer(n_neighbors=10, metric=metric),
        )
    )
    # Where the last bits of distances differ, so may the order of neighbors.
    assert (ours.indptr == theirs.indptr).all() and (ours.indices == theirs.indices).mean() > 0.999
    assert np.allclose(ours.data, theirs.data, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("estimator", "n_neighbors"),
    [
        (DBSCAN(metric="precomputed", eps=22, min_samples=8), 60),
        (LocalOutlierFactor(metric="precomputed", n_neighbors=20, contamination=0.05), 20),
    ],
    ids=lambda one: type(one).__name__,
)
def test_clusters_are_equal(digits, estimator, n_neighbors):
    images = digits[0][:900]
    ours, theirs = (pipeline.fit_predict(images) for pipeline in both(estimator, n_neighbors))
    assert len(set(theirs)) > 1
    assert adjusted_rand_score(ours, theirs) > 0.999


def test_hdbscan_takes_the_symmetric_graph(digits):
    found = []
    for transformer in (JasperTransformer, KNeighborsTransformer):
        options = {"beam_width": BEAM} if transformer is JasperTransformer else {}
        graph = transformer(n_neighbors=30, **options).fit_transform(digits[0])
        found.append(HDBSCAN(metric="precomputed", min_cluster_size=20, copy=True).fit_predict(graph.maximum(graph.T)))
    # The last bits of distances decide in which order clusters merge.
    assert adjusted_rand_score(*found) > 0.95 and len(set(found[1])) > 5


def test_embeddings_are_as_good(digits):
    images = digits[0][:600]
    ours, theirs = (
        trustworthiness(images, pipeline.fit_transform(images), n_neighbors=10)
        for pipeline in both(Isomap(n_neighbors=10, metric="precomputed"), 40)
    )
    assert ours > 0.85 and ours > theirs - 0.01


def test_a_classifier_is_tuned_over_the_transformer(digits):
    images, labels = digits
    pipeline, _ = both(KNeighborsClassifier(metric="precomputed"), 12)
    grid = {"jaspertransformer__n_neighbors": [12], "kneighborsclassifier__n_neighbors": [1, 5, 9]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(images[:1200], labels[:1200])
    exact = KNeighborsClassifier(**{"n_neighbors": search.best_params_["kneighborsclassifier__n_neighbors"]})
    exact.fit(images[:1200], labels[:1200])
    assert search.score(images[1200:], labels[1200:]) == exact.score(images[1200:], labels[1200:]) > 0.9
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert (again.predict(images[1200:]) == search.predict(images[1200:])).all()


def test_the_graph_of_a_set_is_that_of_the_transformer(digits):
    keys, distances = jasper.knn_graph(digits[0], k=10, include_self=True, beam_width=BEAM)
    graph = KNeighborsTransformer(n_neighbors=10).fit_transform(digits[0])
    assert (keys.ravel() == graph.indices).all()
    assert np.allclose(np.sqrt(distances).ravel(), graph.data, rtol=1e-4, atol=1e-3)


def utm(metres=200):
    """Points in metres, far from the origin: float32 rounds them to half a metre."""
    return np.array([5e5, 4.5e6]) + np.random.default_rng(0).random((2000, 2)) * metres


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine"])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e100])
def test_float64_keeps_its_precision(metric, scale):
    rows = utm() * scale if metric != "cosine" else np.random.default_rng(0).normal(size=(2000, 4)) * scale
    transformer = JasperTransformer(n_neighbors=5, metric=metric)
    found = transformer.fit_transform(rows).data.reshape(2000, 6)
    expected = np.sort(cdist(rows, rows, metric), axis=1)[:, :6]
    assert found.dtype == np.float64
    assert np.allclose(found, expected, rtol=1e-6, atol=1e-14 if metric == "cosine" else 0)
    assert np.allclose(transformer.transform(rows).data.reshape(2000, 6), found)


def test_float64_beyond_float32_is_not_silent():
    rows = np.vstack([utm(1), utm(1) + 1e6])
    with pytest.warns(UserWarning, match="4000 of 4000 rows are so near that float32"):
        JasperTransformer(n_neighbors=5).fit_transform(rows)


def test_repeated_rows_are_no_reason_to_warn():
    rows = np.repeat(utm(), 8, axis=0)
    assert (JasperTransformer(n_neighbors=5).fit_transform(rows).data == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_narrow_types_stay_float32(dtype):
    rows = (np.random.default_rng(0).random((200, 8)) * 99).astype(dtype)
    assert JasperTransformer(n_neighbors=5, n_jobs=-2).fit_transform(rows).dtype == np.float32
