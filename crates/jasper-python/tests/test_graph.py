"""Neighbors within a set, and the transformer for scikit-learn."""

import numpy as np
import pytest
from sklearn.cluster import DBSCAN
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import jasper
import jasper.sklearn
from jasper.sklearn import JasperTransformer


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_the_graph_is_that_of_an_exact_search(vectors, metric):
    exact = jasper.exact_search(vectors, vectors, k=11, metric=metric)
    found = jasper.knn_graph(vectors, k=10, metric=metric)
    own = np.arange(1000)[:, None]
    assert found.keys.shape == (1000, 10) and not (found.keys == own).any()
    same = [len(set(row) & set(true)) for row, true in zip(found.keys, exact.keys)]
    assert np.mean(same) > 9.7
    with_self = jasper.knn_graph(vectors, k=10, metric=metric, include_self=True)
    assert (with_self.keys[:, :1] == own).all() and (with_self.keys[:, 1:] == found.keys).all()
    expected = -(vectors**2).sum(axis=1) if metric == "ip" else 0
    assert np.allclose(with_self.distances[:, 0], expected, rtol=1e-5)


def test_equal_vectors_are_neighbors_and_not_themselves():
    found = jasper.knn_graph(np.ones((20, 4), np.float32), k=3, include_self=True)
    assert (found.keys[:, 0] == np.arange(20)).all() and (found.distances == 0).all()
    assert all(len(set(row)) == 4 for row in found.keys)


def test_as_many_neighbors_as_vectors_are_refused(vectors):
    for k in (0, 5):
        with pytest.raises(jasper.ParameterError, match="number of other vectors"):
            jasper.knn_graph(vectors[:5], k=k)


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_accepts_the_transformer(mode):
    check_estimator(JasperTransformer(n_neighbors=2, mode=mode))


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_the_transformer_replaces_that_of_scikit_learn(vectors, mode, metric):
    ours, theirs = (
        transformer(n_neighbors=8, mode=mode, metric=metric) for transformer in (JasperTransformer, KNeighborsTransformer)
    )
    for matrix, expected in [
        (ours.fit_transform(vectors), theirs.fit_transform(vectors)),
        (ours.transform(vectors + np.float32(0.1)), theirs.transform(vectors + np.float32(0.1))),
    ]:
        assert matrix.shape == expected.shape and matrix.nnz == expected.nnz
        found = matrix.indices.reshape(1000, -1), expected.indices.reshape(1000, -1)
        assert np.mean([len(set(row) & set(true)) / len(true) for row, true in zip(*found)]) > 0.98
        assert np.allclose(matrix.sum(axis=1), expected.sum(axis=1), rtol=0.05, atol=1e-3)


def test_the_transformer_serves_other_estimators(vectors):
    ours, theirs = (
        make_pipeline(transformer(n_neighbors=30), DBSCAN(metric="precomputed", eps=1.5)).fit_predict(vectors)
        for transformer in (JasperTransformer, KNeighborsTransformer)
    )
    assert adjusted_rand_score(ours, theirs) > 0.98


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (dict(metric="manhattan"), "metric ('manhattan') must be one of euclidean, sqeuclidean, cosine"),
        (dict(mode="angle"), "mode ('angle') must be one of distance, connectivity"),
        (dict(n_neighbors=1000), "n_neighbors (1000) must be"),
        (dict(n_neighbors=0), "n_neighbors (0) must be"),
    ],
)
def test_wrong_parameters_are_refused(vectors, parameters, message):
    with pytest.raises(ValueError) as raised:
        JasperTransformer(**parameters).fit_transform(vectors)
    assert message in str(raised.value)
