"""The files for other libraries, searched by the real ones."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

import jasper

faiss = pytest.importorskip("faiss")

JASPER = pathlib.Path(sys.executable).with_name("jasper")
K, BEAM_WIDTH = 10, 40


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize("element", [np.float32, np.float16, np.uint8, np.int8])
def test_faiss_searches_the_graph(metric, element, tmp_path):
    rng = np.random.default_rng(5)
    low, high = (0, 100) if element == np.uint8 else (-50, 50)
    vectors = rng.integers(low, high, (2200, 24)).astype(element)
    vectors, queries = vectors[:2000], vectors[2000:]
    keys = np.arange(2000) * 3 + 7
    index = jasper.Index.build(vectors, keys=keys, metric=metric, device="cpu")
    index.save(tmp_path / "index.jasper")
    command = [JASPER, "convert", tmp_path / "index.jasper", tmp_path / "index.faiss", "--to", "faiss"]
    subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)

    theirs = faiss.read_index(str(tmp_path / "index.faiss"))
    assert (theirs.ntotal, theirs.d) == (2000, 24)
    graph = faiss.downcast_index(theirs.index)
    graph.hnsw.efSearch = BEAM_WIDTH
    wanted = queries.astype(np.float32)
    if metric == "cosine":
        wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    scores, found = theirs.search(wanted, K)
    exact = keys[jasper.exact_search(vectors, queries, K, metric=metric).keys]
    ours = index.search(queries, K, beam_width=BEAM_WIDTH)
    # The same graph and beam width; ties and entry points may differ.
    assert jasper.recall(found, exact) >= jasper.recall(ours, exact) - 0.02
    # The keys are those of the vectors: their scores are right.
    rows = vectors.astype(np.float32)[(found - 7) // 3]
    if metric == "l2":
        right = ((rows - wanted[:, None]) ** 2).sum(2)
    else:
        lengths = np.linalg.norm(rows, axis=2) if metric == "cosine" else 1
        right = np.einsum("qkd,qd->qk", rows, wanted) / lengths
    np.testing.assert_allclose(scores, right, rtol=1e-4, atol=1e-3)
    # faiss can add to it.
    theirs.add_with_ids(wanted[:5], np.arange(5) + 10_000)
    assert theirs.ntotal == 2005
