"""Columns of data sets of the package `datasets`."""

import numpy as np
import pytest

import jasper

datasets = pytest.importorskip("datasets", reason="datasets is in requirements-frameworks.txt")


@pytest.mark.parametrize("length", [8, -1])
def test_a_column_keeps_the_order_of_the_set(tmp_path, length):
    rows = np.random.default_rng(0).random((500, 8), dtype=np.float32)
    kind = datasets.Sequence(datasets.Value("float32"), length=length)
    made = datasets.Dataset.from_dict({"embedding": rows.tolist()}, datasets.Features({"embedding": kind}))
    made.save_to_disk(tmp_path / "set")
    order = np.random.default_rng(1).permutation(500)[:300]
    column = jasper.column(datasets.load_from_disk(tmp_path / "set").select(order), "embedding")
    assert column.shape == (300, 8) and np.array_equal(column[10:200], rows[order][10:200])
    index = jasper.Index.build(column, keys=order, device="cpu")
    assert (index.search(rows[order], k=1).keys[:, 0] == order).all()
