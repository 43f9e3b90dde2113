"""Graphs of other libraries: made by faiss here, and by hnswlib in a file."""

import pathlib

import numpy as np
import pytest

import jasper

GOLDEN = pathlib.Path(__file__).parents[2] / "jasper-interop/tests/golden"
K, BEAM_WIDTH = 10, 24


def clusters(count, rng):
    centers = np.random.default_rng(3).normal(size=(60, 16))
    return centers[rng.integers(0, 60, count)] + 0.05 * rng.normal(size=(count, 16))


@pytest.mark.parametrize("kind", ["l2", "ip", "cosine", "fp16", "8bit_direct", "8bit_direct_signed"])
def test_an_index_of_faiss_is_searched_as_it_is(kind, tmp_path):
    faiss = pytest.importorskip("faiss")
    rng = np.random.default_rng(5)
    vectors, queries = clusters(2000, rng).astype(np.float32), clusters(100, rng).astype(np.float32)
    metric = kind if kind in ("ip", "cosine") else "l2"
    if metric == "cosine":
        vectors, queries = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (vectors, queries))
    if kind == "fp16":
        # faiss rounds vectors only, and queries are rounded here, too.
        vectors, queries = (rows.astype(np.float16).astype(np.float32) for rows in (vectors, queries))
    if kind.startswith("8bit"):
        offset = 0 if kind.endswith("signed") else 128
        vectors, queries = (np.clip(np.round(30 * rows), -128, 127) + offset for rows in (vectors, queries))
    number = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    if metric == kind:
        made = faiss.IndexHNSWFlat(16, 8, number)
    else:
        made = faiss.IndexHNSWSQ(16, getattr(faiss.ScalarQuantizer, f"QT_{kind}"), 8, number)
        made.train(vectors)
    keys = np.arange(2000) * 3 + (1 << 40)
    theirs = faiss.IndexIDMap(made)
    theirs.add_with_ids(vectors, keys)
    faiss.write_index(theirs, str(tmp_path / "old.faiss"))

    given = {"metric": "cosine"} if metric == "cosine" else {}
    index = jasper.Index.import_graph(tmp_path / "old.faiss", **given)
    assert (len(index), index.dim, index.metric) == (2000, 16, metric)
    assert index.dtype == {"fp16": "float16", "8bit_direct": "uint8", "8bit_direct_signed": "int8"}.get(kind, "float32")
    assert index.stats.max_degree == 16 and not index.check().unreachable
    made.hnsw.efSearch = BEAM_WIDTH
    exact = keys[jasper.exact_search(vectors, queries, K, metric=metric).keys]
    ours = jasper.recall(index.search(queries, K, beam_width=BEAM_WIDTH), exact)
    assert ours >= jasper.recall(theirs.search(queries, K)[1], exact) - 0.002
    np.testing.assert_allclose(index[int(keys[7])], vectors[7], rtol=1e-3)
    # It is an index like any other.
    before = jasper.recall(index.search(queries, K, beam_width=64), exact)
    index.delete(keys[:500])
    index.consolidate()
    index.insert(vectors[:500], keys[:500])
    assert jasper.recall(index.search(queries, K, beam_width=64), exact) >= before - 0.01
    index.save(tmp_path / "new.jasper")
    assert len(jasper.Index.open(tmp_path / "new.jasper")) == 2000


def test_negative_ids_of_faiss_are_refused(tmp_path):
    faiss = pytest.importorskip("faiss")
    theirs = faiss.IndexIDMap(faiss.IndexHNSWFlat(4, 8))
    theirs.add_with_ids(np.eye(3, 4, dtype=np.float32), np.array([7, -5, 9]))
    faiss.write_index(theirs, str(tmp_path / "old.faiss"))
    with pytest.raises(jasper.FormatError, match=r"id_map \(-5\) must be 0 or more"):
        jasper.Index.import_graph(tmp_path / "old.faiss")


def test_an_empty_index_of_faiss_takes_inserts(tmp_path):
    faiss = pytest.importorskip("faiss")
    faiss.write_index(faiss.IndexHNSWFlat(4, 8), str(tmp_path / "old.faiss"))
    index = jasper.Index.import_graph(tmp_path / "old.faiss")
    assert (len(index), index.dim) == (0, 4)
    index.insert(np.eye(3, 4), keys=[5, 6, 7])
    assert index.search(np.eye(3, 4)[1], 1).keys == [6]


def test_an_index_of_hnswlib_keeps_its_deletions():
    index = jasper.Index.import_graph(GOLDEN / "hnswlib.bin", metric="l2", max_degree=12)
    assert (len(index), index.stats.tombstones, index.stats.max_degree) == (480 - 53, 53, 12)
    whole = jasper.Index.import_graph(GOLDEN / "flat.faiss", "faiss")
    gone = np.setdiff1d(whole.keys(), index.keys())
    index.undelete(gone)
    assert (np.sort(index.keys()) == np.sort(whole.keys())).all()
    assert (index[int(gone[0])] == whole[int(gone[0])]).all()


def test_a_graph_without_vectors_gets_them(tmp_path):
    vectors = np.eye(3, 4, dtype=np.uint8)
    np.array([3, 1, 1, 1, 1, 1, 2, 0], np.uint32).tofile(tmp_path / "ring")
    index = jasper.Index.import_graph(tmp_path / "ring", "parlayann", base=vectors, metric="l2")
    assert index.search(vectors[2], 1).keys == [2] and index.dtype == np.uint8
    with pytest.raises(jasper.ParameterError, match="a graph of parlayann needs the argument base"):
        jasper.Index.import_graph(tmp_path / "ring", "parlayann", metric="l2")
    with pytest.raises(jasper.ParameterError, match="needs the argument metric"):
        jasper.Index.import_graph(tmp_path / "ring", "parlayann", base=vectors)
    with pytest.raises(jasper.ParameterError, match="base is in one dimension"):
        jasper.Index.import_graph(tmp_path / "ring", "parlayann", base=vectors[0], metric="l2")
    with pytest.raises(jasper.ParameterError, match="holds 3 vertices, but 2 vectors are given"):
        jasper.Index.import_graph(tmp_path / "ring", "parlayann", base=vectors[:2], metric="l2")


def test_what_cannot_be_imported_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        jasper.Index.import_graph(tmp_path / "none")
    (tmp_path / "text").write_text("not a graph")
    with pytest.raises(jasper.FormatError, match="is not a graph of hnswlib, faiss or DiskANN"):
        jasper.Index.import_graph(tmp_path / "text")
    with pytest.raises(jasper.FormatError, match=r"IndexHNSWFlat \(IHNf\)"):
        jasper.Index.import_graph(tmp_path / "text", "faiss")
    with pytest.raises(jasper.ParameterError, match="unknown graph format `nmslib`"):
        jasper.Index.import_graph(tmp_path / "text", "nmslib")
    old = (GOLDEN / "flat.faiss").read_bytes()
    (tmp_path / "cut").write_bytes(old[:-100])
    with pytest.raises(jasper.FormatError, match="bytes, but its header and degrees need"):
        jasper.Index.import_graph(tmp_path / "cut")
    with pytest.raises(jasper.ParameterError, match="is of the metric l2, not cosine"):
        jasper.Index.import_graph(GOLDEN / "flat.faiss", metric="cosine")
    with pytest.raises(jasper.ParameterError, match="needs the argument metric"):
        jasper.Index.import_graph(GOLDEN / "hnswlib.bin")
    with pytest.raises(jasper.ParameterError, match="leave out base"):
        jasper.Index.import_graph(GOLDEN / "hnswlib.bin", metric="l2", base=np.zeros((2, 2)))
    with pytest.raises(jasper.ParameterError, match=r"max_degree \(2\); raise max_degree"):
        jasper.Index.import_graph(GOLDEN / "hnswlib.bin", metric="l2", max_degree=2)
    with pytest.raises(jasper.Cancelled):
        jasper.Index.import_graph(GOLDEN / "hnswlib.bin", metric="l2", progress=lambda *_: False)
