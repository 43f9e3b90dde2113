"""Beside other libraries of CUDA in one process, in every order of imports, each calls its own functions.

Needs a device. Those of PyTorch, CuPy and cuVS that are installed take part.
"""

import importlib.util
import itertools
import subprocess
import sys

import pytest

import jasper

LIBRARIES = ["jasper", *(name for name in ("torch", "cupy", "cuvs") if importlib.util.find_spec(name))]

SCRIPT = """
import importlib, sys
import numpy as np

vectors = np.random.default_rng(0).random((1000, 16), dtype=np.float32)

def use_jasper():
    import jasper
    index = jasper.Index.build(vectors, device="cuda:0")
    assert (index.search(vectors, 1).keys[:, 0] == np.arange(1000)).all()

def use_torch():
    import torch
    tensor = torch.from_numpy(vectors).cuda()
    assert torch.allclose((tensor @ tensor.T).cpu(), torch.from_numpy(vectors @ vectors.T), rtol=1e-2)

def use_cupy():
    import cupy
    array = cupy.asarray(vectors)
    assert np.allclose(cupy.linalg.norm(array, axis=1).get(), np.linalg.norm(vectors, axis=1), rtol=1e-4)

def use_cuvs():
    from cuvs.neighbors import cagra
    from pylibraft.common import device_ndarray
    index = cagra.build(cagra.IndexParams(), device_ndarray(vectors))
    found = cagra.search(cagra.SearchParams(), index, device_ndarray(vectors), 1)[1].copy_to_host()
    assert (found[:, 0] == np.arange(1000)).mean() > 0.95

names = sys.argv[1:]
for name in names:
    importlib.import_module("cuvs.neighbors.cagra" if name == "cuvs" else name)
for name in [*names, *reversed(names)]:
    globals()["use_" + name]()
"""


@pytest.mark.skipif(not jasper.devices() or len(LIBRARIES) == 1, reason="needs a device, and another library")
@pytest.mark.parametrize("order", list(itertools.permutations(LIBRARIES)), ids="-".join)
def test_each_library_works(order):
    run = subprocess.run([sys.executable, "-c", SCRIPT, *order], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
